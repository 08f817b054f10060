"""The bundle against every world of the running simulation."""

from __future__ import annotations

from typing import Any

import numpy as np

from flashnerd_ext.bundle.card import Card
from flashnerd_ext.bundle.check import check_against
from flashnerd_ext.bundle.facts import facts_from_newton
from flashnerd_ext.bundle.joint_map import JointMap
from flashnerd_ext.solver.coupled_map import CoupledMap

_PROPERTIES = (
    "body_mass",
    "body_inertia",
    "joint_limit_lower",
    "joint_limit_upper",
    "joint_target_ke",
    "joint_target_kd",
    "joint_effort_limit",
    "gravity",
)
"""Arrays of a Newton model that :func:`check_against` reads, each with the same entries in every world."""


def check_simulation(card: Card, model: Any, physics_dt: float, decimation: int) -> JointMap:
    """Compare world 0 with the card, and of the other worlds those that lie farthest from it.

    Args:
        card: The bundle's card.
        model: Finalised Newton model with the same robot in every world.
        physics_dt: Step of the simulation [s].
        decimation: Simulation steps in one control step.

    Raises:
        FlashNerdError: One sentence with what differs and what to type.
    """
    findings = check_against(card, facts_from_newton(model, dt=physics_dt, decimation=decimation))
    for world in unlike_worlds(model):
        check_against(card, facts_from_newton(model, dt=physics_dt, decimation=decimation, world=world))
    return findings


def check_coupled(card: Card, model: Any, where: CoupledMap, solver_dt: float, decimation: int) -> JointMap:
    """Compare the learned robots of world 0 with the card, and of the other worlds those that lie farthest from it.

    Args:
        card: The bundle's card, of coupled mode.
        model: Finalised Newton model.
        where: Its learned robots.
        solver_dt: Step of the solver [s].
        decimation: Solver steps in one control step.

    Raises:
        FlashNerdError: One sentence with what differs and what to type.
    """
    findings = None
    for world in (0, *unlike_worlds(model)):
        for row in range(world * where.copies, (world + 1) * where.copies):
            members = where.joints[row].tolist(), where.bodies[row].tolist()
            facts = facts_from_newton(model, dt=solver_dt, decimation=decimation, world=world, members=members)
            found = check_against(card, facts)
            findings = findings or found
    assert findings is not None
    return findings


def unlike_worlds(model: Any) -> list[int]:
    """For each physical property, the world that differs most from world 0; none where all are alike."""
    worlds = max(int(model.world_count), 1)
    found: set[int] = set()
    for name in _PROPERTIES:
        values = getattr(model, name).numpy()
        # Gravity has one entry more, for entities outside of the worlds.
        each = len(values) // worlds
        if not each:
            continue
        table = values[: worlds * each].reshape(worlds, -1).astype(np.float64)
        distance = np.abs(table - table[:1])
        # NaN equals nothing: a world that has one where world 0 has none must be looked at.
        distance[np.isnan(distance)] = np.inf
        distance[np.isnan(table) & np.isnan(table[:1])] = 0.0
        if distance.max(initial=0.0) > 0.0:
            found.add(int(distance.max(1).argmax()))
    return sorted(found - {0})
