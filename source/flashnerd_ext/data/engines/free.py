"""Free motion from a MuJoCo model: what it does before contacts, limits, joint friction and equalities act."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from flashnerd_ext.errors import FlashNerdError

LABELS = ("qacc_smooth",)
"""Labels that the engines make; the others of coupled mode are for data from elsewhere."""


def free_motion(model: Any, label: str) -> None:
    """Change an ``MjModel`` in place, so that one step of it is one step of free motion.

    No constraint is left, and the integrator is Euler's without its implicit damping: with ``a`` = ``qacc_smooth``,
    qvel grows by ``dt a`` and qpos then by ``dt qvel``.

    Args:
        model: The model; the joints of a robot of coupled mode are hinges and slides.
        label: Label of the robot's description.

    Raises:
        FlashNerdError: For a label that no engine makes.
    """
    if label not in LABELS:
        raise FlashNerdError(f"coupling is '{label}', but the data engines make {', '.join(LABELS)} only.")
    mujoco: Any = import_module("mujoco")
    off = mujoco.mjtDisableBit
    for bit in (
        off.mjDSBL_CONTACT,
        off.mjDSBL_LIMIT,
        off.mjDSBL_EQUALITY,
        off.mjDSBL_FRICTIONLOSS,
        off.mjDSBL_EULERDAMP,
    ):
        model.opt.disableflags |= int(bit)
    model.opt.integrator = int(mujoco.mjtIntegrator.mjINT_EULER)
