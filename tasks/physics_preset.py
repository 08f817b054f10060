"""The physics that a task offers: analytical, and learned beside it."""

from __future__ import annotations

from isaaclab_newton.physics import NewtonCfg
from isaaclab_tasks.utils import PresetCfg, preset

from flashnerd_ext.physics.flashnerd_manager_cfg import flashnerd_physics


def physics_preset(
    analytical: NewtonCfg, bundle: str = "auto", *, learned_first: bool = False, mujoco_c: bool = False
) -> PresetCfg:
    """Fresh alternatives ``newton_mjwarp`` and ``flashnerd``.

    Args:
        analytical: MuJoCo Warp's settings; learned physics keeps all but the solver.
        bundle: A shipped bundle's name, or ``auto`` for one that fits the robot's joints.
        learned_first: Whether learned physics is the default; it needs a shipped bundle.
        mujoco_c: Whether the learned backend that steps MuJoCo C is offered as well.
    """
    learned = flashnerd_physics(analytical, bundle=bundle)
    others = {"mujoco_c": flashnerd_physics(analytical, bundle=bundle, model="mujoco_c")} if mujoco_c else {}
    default = learned if learned_first else analytical
    return preset(flashnerd=learned, newton_mjwarp=analytical, default=default, **others)
