"""The numbers of a robot in a simulation against those of a card: masses, inertias, limits and drives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flashnerd_ext.bundle.card import Card
from flashnerd_ext.bundle.simulation import SimulationFacts, leaf


@dataclass
class Findings:
    """Differences that refuse, and remarks that do not."""

    wrong: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    def refuse(self, difference: str, remedy: str) -> None:
        self.wrong.append((difference, remedy))


def check_physical(card: Card, facts: SimulationFacts, findings: Findings) -> None:
    """Masses, inertias and limits, each within the card's tolerance."""
    physical = card.physical
    remedy = "use the asset of the card, or train on this one"
    masses = _named(facts.masses)
    # A body without a mass moves in no engine as it does in the card (F18), whatever the tolerance.
    for name, mass in (masses or {}).items():
        if not mass > 0 or not math.isfinite(mass):
            findings.refuse(f"mass of {name} is {mass:g} kg, but a positive one is needed", "give the asset a mass")
    _compare(
        "mass",
        "kg",
        physical.masses,
        masses,
        findings,
        remedy,
        lambda a, b: abs(a - b) <= physical.mass_tolerance * abs(b),
    )
    inertias = _named(facts.inertias)
    if inertias is None or not physical.inertias:
        findings.unchecked.append("inertia")
    else:
        for name, wanted in physical.inertias.items():
            if name not in inertias:
                findings.refuse(f"the simulation does not give an inertia of body {name}", remedy)
                continue
            found = [float(value) for value in inertias[name]]
            norm = math.sqrt(sum(value * value for value in wanted))
            off = math.sqrt(sum((a - b) ** 2 for a, b in zip(found, wanted, strict=True)))
            if not off <= physical.inertia_tolerance * norm:
                findings.refuse(
                    f"inertia of {name} is {_diagonal(found)} kg·m², the card says {_diagonal(wanted)} "
                    f"({off / norm:.1%} off)",
                    remedy,
                )
    if card.coupling is not None:
        # The solver holds limits, whichever they are; free motion knows none.
        return
    if facts.limits is None or not physical.limit_lower:
        findings.unchecked.append("limits")
        return
    limits = {leaf(name): pair for name, pair in facts.limits.items()}
    for side, table, label in ((0, physical.limit_lower, "lower"), (1, physical.limit_upper, "upper")):
        for name, wanted in table.items():
            if name not in limits:
                continue
            found = _finite(limits[name][side])
            same = (found is None) == (wanted is None)
            if same and found is not None and wanted is not None:
                same = abs(found - wanted) <= physical.limit_tolerance
            if not same:
                findings.refuse(f"{label} limit of {name} is {_number(found)}, the card says {_number(wanted)}", remedy)


def check_drives(card: Card, facts: SimulationFacts, findings: Findings) -> None:
    """Gains and effort limits of the drives."""
    if card.coupling is not None and not card.coupling.knows_gains:
        # The model takes torques; what made them is not its business.
        return
    tolerance = card.physical.gain_tolerance

    def close(a: float, b: float) -> bool:
        return abs(a - b) <= tolerance * max(abs(b), 1e-6)

    for label, wanted, found in (
        ("stiffness", card.actuation.stiffness, facts.stiffness),
        ("damping", card.actuation.damping, facts.damping),
    ):
        _compare(label, "", wanted, _named(found), findings, f"set the actuator's {label} to the card's", close)
    if facts.effort_limits is None or not card.actuation.effort_limit:
        findings.unchecked.append("effort_limit")
        return
    limits = {leaf(name): value for name, value in facts.effort_limits.items()}
    for name, wanted in card.actuation.effort_limit.items():
        # A joint without an actuator has no limit that could matter.
        if name not in limits or name not in card.robot.actuated:
            continue
        found = _finite(limits[name])
        if (found is None) != (wanted is None) or (
            found is not None and wanted is not None and not close(found, wanted)
        ):
            findings.refuse(
                f"effort limit of {name} is {_number(found)}, the card says {_number(wanted)}",
                "set the actuator's effort_limit_sim to the card's",
            )


def _compare(
    label: str,
    unit: str,
    wanted: Mapping[str, float],
    found: Mapping[str, float] | None,
    findings: Findings,
    remedy: str,
    close: Any,
) -> None:
    if found is None or not wanted:
        findings.unchecked.append(label)
        return
    for name, value in wanted.items():
        if name not in found:
            findings.refuse(f"the simulation does not give a {label} of {name}", remedy)
        elif not close(found[name], value):
            findings.refuse(
                f"{label} of {name} is {found[name]:.6g}{' ' + unit if unit else ''}, the card says {value:.6g}", remedy
            )


def _named(table: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if table is None else {leaf(name): value for name, value in table.items()}


def _finite(value: float | None) -> float | None:
    """``None`` for what engines write to say unlimited."""
    return None if value is None or not math.isfinite(value) or abs(value) >= 1e6 else float(value)


def _number(value: float | None) -> str:
    return "unlimited" if value is None else f"{value:.6g}"


def vector(values: Sequence[float]) -> str:
    """Numbers for a sentence."""
    return "(" + ", ".join(f"{value:.4g}" for value in values) + ")"


def _diagonal(values: Sequence[float]) -> str:
    return "diag" + vector([values[0], values[4], values[8]])
