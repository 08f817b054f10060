"""The card's section of coupled mode: what the model's acceleration is, so that nothing has to be guessed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flashnerd_ext.bundle.schema import rule

if TYPE_CHECKING:
    from flashnerd_ext.bundle.card import Card

LABELS = ("qacc_smooth", "dv_implicitfast", "dv_damped")
"""What the training label was: see :attr:`CouplingCard.label`."""
INTEGRATORS = ("euler", "implicitfast")
"""Integrators of MuJoCo Warp that a model at the solver's step can follow."""


@dataclass(frozen=True, kw_only=True)
class CouplingCard:
    """A bundle of coupled mode: the model predicts free motion, the simulator's solver resolves the rest."""

    label: str = field(metadata=rule(choices=LABELS))
    """``qacc_smooth``: the acceleration before constraints and before the integrator's damping;
    ``dv_implicitfast``: the change of velocity over a free step of implicitfast, by its length;
    ``dv_damped``: the same of ``integrator``, and contacts are to see it as it is."""
    integrator: str = field(metadata=rule(choices=INTEGRATORS))
    """Integrator of the simulation that made the labels."""
    damping: dict[str, float] = field(metadata=rule(ge=0))
    """Passive damping of each joint in it [N·s/m or N·m·s/rad]; drives are in ``actuation.damping``."""
    armature: dict[str, float] = field(metadata=rule(ge=0))
    """Armature of each joint in it [kg or kg·m²]."""
    gravity_compensation: dict[str, float] = field(default_factory=dict, metadata=rule(ge=0))
    """Share of its weight that is compensated, of each body that has some."""

    @property
    def knows_gains(self) -> bool:
        """Whether the label contains the drives' gains: implicitfast damps with their damping."""
        return self.label != "qacc_smooth" and self.integrator == "implicitfast"


def validate_coupling(card: Card, need: Callable[[bool, str, Any, str], None]) -> None:
    """What the section demands of the rest of the card.

    Args:
        card: A card with the section.
        need: ``(ok, field, value found, what is needed)``; raises where not ok.
    """
    coupling, simulation, joints = card.coupling, card.simulation, card.robot.joint_names
    assert coupling is not None
    need(
        coupling.label != "dv_implicitfast" or coupling.integrator == "implicitfast",
        "coupling.integrator",
        coupling.integrator,
        "implicitfast, which made labels of the kind 'dv_implicitfast',",
    )
    for name in ("damping", "armature"):
        table = getattr(coupling, name)
        need(set(table) == set(joints), f"coupling.{name}", sorted(table), f"a value for each of {', '.join(joints)}")
    need(
        not coupling.knows_gains
        or all(set(t) == set(joints) for t in (card.actuation.stiffness, card.actuation.damping)),
        "actuation.damping",
        sorted(card.actuation.damping),
        f"a gain for each joint, since labels of the kind '{coupling.label}' contain them,",
    )
    need(simulation.inner_steps == 1, "simulation.inner_steps", simulation.inner_steps, "1 in coupled mode")
    need(not card.robot.floating_base, "robot.floating_base", True, "false in coupled mode")
    need(card.actuation.kind == "effort", "actuation.kind", card.actuation.kind, "'effort' in coupled mode")
    need(card.contacts.detector == "none", "contacts.detector", card.contacts.detector, "'none' in coupled mode")
    need(not card.robot.stop_joints, "robot.stop_joints", list(card.robot.stop_joints), "an empty list in coupled mode")
    for name in ("stiffness", "damping"):
        need(name not in card.robot.conditions, "robot.conditions", name, "no gain of drives in coupled mode")
