"""What labels of coupled mode contain, against what runs: the same for every simulator that resolves the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flashnerd_ext.errors import FlashNerdError

if TYPE_CHECKING:
    from flashnerd_ext.bundle.card import Card

UNLIMITED = 1e6
"""Limits from here on are none, as :mod:`flashnerd_ext.bundle.facts` has it."""


@dataclass(frozen=True, kw_only=True)
class RunningFacts:
    """What the running simulation says of the learned robots; tables have one entry a joint or body.

    Attributes:
        integrator: MuJoCo Warp's, ``euler`` or ``implicitfast`` where it can be coupled; empty under PhysX.
        damping, armature, spring: Passive, shape [N, nv], in the card's order of joints.
        stiffness, gain: Of drives in the solver, shape [N, nv].
        gravity_compensation: Body to share of its weight, one table a row.
        effort_limit: Limit of drives in the solver, shape [N, nv].
    """

    integrator: str
    damping: np.ndarray
    armature: np.ndarray
    spring: np.ndarray
    stiffness: np.ndarray
    gain: np.ndarray
    effort_limit: np.ndarray
    gravity_compensation: tuple[dict[str, float], ...]


def contained(card: Card, facts: RunningFacts) -> list[str]:
    """What of the running simulation is not what the card's labels were made of; a clause each, with what to type."""
    coupling = card.coupling
    assert coupling is not None
    found: list[str] = []
    joints, tolerance = card.robot.joint_names, card.physical.gain_tolerance
    pairs = [
        ("passive damping", facts.damping, coupling.damping, "set the joint's damping as in training"),
        ("armature", facts.armature, coupling.armature, "set the actuator's armature to the card's"),
        ("passive spring", facts.spring, dict.fromkeys(joints, 0.0), "remove it, since the card knows none"),
    ]
    if coupling.knows_gains:
        limits = {name: card.actuation.effort_limit.get(name) for name in joints}
        pairs += [
            ("stiffness", facts.stiffness, card.actuation.stiffness, "set the actuator's stiffness to the card's"),
            ("damping", facts.gain, card.actuation.damping, "set the actuator's damping to the card's"),
            (
                "effort limit",
                np.where(facts.effort_limit >= UNLIMITED, UNLIMITED, facts.effort_limit),
                {name: UNLIMITED if value is None else value for name, value in limits.items()},
                "set the actuator's effort_limit_sim to the card's",
            ),
        ]
    for what, values, table, remedy in pairs:
        wanted = np.array([table[name] for name in joints])
        off = np.abs(values - wanted) - tolerance * np.maximum(np.abs(wanted), 1e-6)
        if off.max(initial=-1.0) > 0 or not np.isfinite(values).all():
            row, joint = np.unravel_index(int(np.nan_to_num(off, nan=np.inf).argmax()), off.shape)
            found.append(
                f"the {what} of {joints[joint]} is {values[row, joint]:.6g}, but the labels contain "
                f"{wanted[joint]:.6g}: {remedy}"
            )
    for table in facts.gravity_compensation:
        names = {*table, *coupling.gravity_compensation}
        wrong = [n for n in sorted(names) if abs(table.get(n, 0.0) - coupling.gravity_compensation.get(n, 0.0)) > 1e-3]
        if wrong:
            found.append(
                f"the gravity compensation of {wrong[0]} is {table.get(wrong[0], 0.0):.4g}, but the labels contain "
                f"{coupling.gravity_compensation.get(wrong[0], 0.0):.4g}: set the bodies' gravcomp as in training"
            )
            break
    return found


def refuse(card: Card, found: list[str]) -> None:
    """Raise for the first contradiction.

    Raises:
        FlashNerdError: One sentence.
    """
    if found:
        more = f" (and {len(found) - 1} more contradictions)" if len(found) > 1 else ""
        raise FlashNerdError(f"the bundle '{card.name}' cannot be coupled here{more}: {found[0]}.")
