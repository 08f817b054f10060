"""What a finalised Newton model says of itself, in the terms of a bundle's card."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

import numpy as np

from flashnerd_ext.bundle.check import SimulationFacts
from flashnerd_ext.solver.mapping import joint_name

if TYPE_CHECKING:
    from newton import Model

_UNLIMITED = 1e6
_VERSIONS = ("torch", "newton", "warp-lang", "mujoco", "mujoco-warp", "isaaclab")


def running_facts(model: Model, physics_dt: float, decimation: int) -> SimulationFacts:
    """Facts of a simulation with one robot a world; of properties that differ between worlds, the farthest off.

    Args:
        model: Finalised model whose worlds all hold the same robot.
        physics_dt: Step of the simulation [s].
        decimation: Simulation steps in one control step.
    """
    from newton import JointType

    worlds = max(int(model.world_count), 1)
    joints = model.joint_count // worlds
    types = model.joint_type.numpy()[:joints]
    start = model.joint_qd_start.numpy()[: joints + 1]
    moving = [i for i in range(joints) if start[i + 1] > start[i] and types[i] != int(JointType.FREE)]
    names = [joint_name(model.joint_label[i]) for i in moving]
    dofs = [int(start[i]) for i in moving]
    lower, upper = (_extreme(array, worlds)[dofs] for array in (model.joint_limit_lower, model.joint_limit_upper))
    kinds = {
        name: "prismatic"
        if types[i] == int(JointType.PRISMATIC)
        else ("continuous" if abs(low) >= _UNLIMITED and abs(high) >= _UNLIMITED else "revolute")
        for name, i, low, high in zip(names, moving, lower, upper, strict=True)
    }
    bodies = [joint_name(label) for label in model.body_label[: model.body_count // worlds]]
    mass, inertia = _extreme(model.body_mass, worlds), _extreme(model.body_inertia, worlds)
    return SimulationFacts(
        joint_names=names,
        dt=physics_dt,
        decimation=decimation,
        floating_base=bool((types == int(JointType.FREE)).any()),
        joint_kinds=kinds,
        masses={name: float(value) for name, value in zip(bodies, mass, strict=True)},
        inertias={name: [float(v) for v in value.flatten()] for name, value in zip(bodies, inertia, strict=True)},
        limits={n: (_limit(low), _limit(high)) for n, low, high in zip(names, lower, upper, strict=True)},
        stiffness=_by_joint(model.joint_target_ke, worlds, names, dofs),
        damping=_by_joint(model.joint_target_kd, worlds, names, dofs),
        effort_limits=_by_joint(model.joint_effort_limit, worlds, names, dofs),
        gravity=[float(value) for value in np.reshape(model.gravity.numpy(), (-1, 3))[0]],
        versions={name: metadata.version(name) for name in _VERSIONS},
    )


def _extreme(array: object, worlds: int) -> np.ndarray:
    """Per entry of one world, the value that lies farthest from world 0's."""
    values = array.numpy()  # type: ignore[attr-defined]
    values = values[: len(values) // worlds * worlds].reshape(worlds, len(values) // worlds, *values.shape[1:])
    distance = np.abs(values - values[:1])
    # NaN never wins argmax by being large, so that it is let through on purpose: the card's check refuses it.
    place = np.where(np.isnan(distance), np.inf, distance).argmax(0)
    return np.take_along_axis(values, place[None], 0)[0]


def _by_joint(array: object, worlds: int, names: list[str], dofs: list[int]) -> dict[str, float]:
    values = _extreme(array, worlds)[dofs]
    return {name: float(value) for name, value in zip(names, values, strict=True)}


def _limit(value: float) -> float | None:
    return None if abs(value) >= _UNLIMITED else float(value)
