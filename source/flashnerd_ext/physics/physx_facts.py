"""The bundle against the robots of a PhysX simulation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from flashnerd_ext.bundle.check import check_against
from flashnerd_ext.bundle.joint_map import JointMap
from flashnerd_ext.bundle.make import stack
from flashnerd_ext.bundle.simulation import SimulationFacts
from flashnerd_ext.errors import FlashNerdError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashnerd_ext.bundle.card import Card
    from flashnerd_ext.solver.coupled_physx import CoupledPhysx


def check_physx(card: Card, coupled: CoupledPhysx, dt: float, decimation: int, gravity: Sequence[float]) -> JointMap:
    """Compare the first learned robot with the card, and of the others those that lie farthest from it.

    Args:
        card: The bundle's card.
        coupled: The learned robots.
        dt: Step of the simulation [s].
        decimation: Simulation steps in one control step.
        gravity: Of the scene [m/s²], length 3.

    Raises:
        FlashNerdError: One sentence with what differs and what to type.
    """
    if not math.isclose(dt, card.dt, rel_tol=1e-5):
        steps = max(1, round(dt * decimation / card.dt))
        raise FlashNerdError(
            f"PhysX steps {dt:.6g} s, but the bundle '{card.name}' predicts free motion over {card.dt:.6g} s, and both "
            f"step together: type env.sim.dt={card.dt:.9g} env.decimation={steps}."
        )
    mass = coupled.dynamics.mass.cpu().numpy()
    inertia = coupled.robots.read("body_inertia").cpu().numpy().reshape(len(mass), -1)
    rows = {0, *(int(np.abs(values - values[:1]).max(1).argmax()) for values in (mass, inertia))}
    found = [check_against(card, _facts(coupled, row, dt, decimation, gravity)) for row in sorted(rows)]
    return found[0]


def _facts(coupled: CoupledPhysx, row: int, dt: float, decimation: int, gravity: Sequence[float]) -> SimulationFacts:
    robots, dynamics = coupled.robots, coupled.dynamics
    names = robots.dof_names
    # The fixed base is welded to the world: it cannot move, and other importers leave it out.
    bodies = list(enumerate(robots.body_names))[1 if robots.fixed_base else 0 :]
    inertia = robots.read("body_inertia")[row].reshape(-1, 9).cpu().numpy()
    limits = robots.read("dof_limit")[row].tolist()

    def joint(values: list[float]) -> dict[str, float]:
        return dict(zip(names, values, strict=True))

    return SimulationFacts(
        joint_names=names,
        dt=dt,
        decimation=decimation,
        quaternion_order="xyzw",
        floating_base=not robots.fixed_base,
        masses={name: float(dynamics.mass[row, i]) for i, name in bodies},
        inertias={name: tuple(map(float, inertia[i])) for i, name in bodies},
        limits={name: (low, high) for name, (low, high) in zip(names, limits, strict=True)},
        stiffness=joint(dynamics.stiffness[row].tolist()),
        damping=joint(dynamics.damping[row].tolist()),
        effort_limits=dict(joint(dynamics.max_force[row].tolist())),
        gravity=tuple(gravity),
        versions=stack(),
    )
