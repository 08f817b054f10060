"""A bundle against a running simulation: converted where names allow it, refused where they do not.

The model is used only where the simulation is the one that it was trained on. Everything that the simulation says of
itself is compared with the card; what it does not say is listed as unchecked, never assumed to be right silently.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flashnerd_ext.bundle.card import Card, ContactCard
from flashnerd_ext.bundle.schema import show
from flashnerd_ext.errors import FlashNerdError, one_line

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

DT_TOLERANCE = 1e-5
"""Relative difference of a time step that is accepted; float32 steps are rounded by 1e-7."""
_XYZW_FROM_WXYZ = (1, 2, 3, 0)
_WXYZ_FROM_XYZW = (3, 0, 1, 2)


@dataclass(frozen=True, kw_only=True)
class SimulationFacts:
    """What a simulation says of itself; ``None`` means that it does not say.

    Names may be paths (``/World/envs/env_0/Robot/cart``): their last part counts. Properties are given by name, so
    that no order has to agree.
    """

    joint_names: Sequence[str]
    """Joints in the simulation's order, one degree of freedom each, without the free joint."""
    dt: float
    """Step of the solver [s]."""
    decimation: int
    """Solver steps in a control step."""
    quaternion_order: str = "xyzw"
    """``xyzw`` or ``wxyz``."""
    floating_base: bool | None = None
    """Whether a free joint precedes the named ones."""
    joint_kinds: Mapping[str, str] | None = None
    """Joint to ``revolute``, ``continuous`` or ``prismatic``."""
    robot: str | None = None
    """Name in the robot registry."""
    asset_key: str | None = None
    actuated: Sequence[str] | None = None
    """Joints that get an actuation input, in any order."""
    actuation_kind: str | None = None
    """``effort`` or ``target``."""
    masses: Mapping[str, float] | None = None
    """Body to mass [kg]."""
    inertias: Mapping[str, Sequence[float]] | None = None
    """Body to inertia about its centre of mass, row-major [kg·m²], length 9."""
    limits: Mapping[str, tuple[float | None, float | None]] | None = None
    """Joint to lower and upper limit [m or rad]; ``None`` or beyond 1e6 is unlimited."""
    stiffness: Mapping[str, float] | None = None
    """Joint to drive stiffness [N/m or N·m/rad]."""
    damping: Mapping[str, float] | None = None
    """Joint to drive damping [N·s/m or N·m·s/rad]."""
    effort_limits: Mapping[str, float | None] | None = None
    """Joint to effort limit [N or N·m]; ``None`` or beyond 1e6 is unlimited."""
    gravity: Sequence[float] | None = None
    """Gravity in the world frame [m/s²], length 3."""
    contact_detector: str | None = None
    contact_capacity: int | None = None
    """Contact rows a robot that the simulation can deliver."""
    versions: Mapping[str, str] | None = None
    """Versions of the running stack."""


@dataclass(frozen=True, kw_only=True)
class JointMap:
    """How states of the simulation become states of the card, and back.

    Attributes:
        joint_names: The card's joints.
        to_card: Index into the simulation's joints for each of the card's, shape [num_joints].
        to_sim: The inverse.
        floating_base: Whether a free joint precedes the joints.
        quaternion_order: The simulation's order; the card's side is xyzw.
        steps_per_control: Model steps in a control step: 1, or the decimation for a model at the solver's own step.
        warnings: Sentences to show once.
        unchecked: Properties that the simulation, or the card, does not say.
    """

    joint_names: tuple[str, ...]
    to_card: tuple[int, ...]
    to_sim: tuple[int, ...]
    floating_base: bool
    quaternion_order: str
    steps_per_control: int
    warnings: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def is_identity(self) -> bool:
        """Whether states can be used as they are."""
        plain = self.quaternion_order == "xyzw" or not self.floating_base
        return plain and self.to_card == tuple(range(len(self.to_card)))

    @property
    def q_to_card(self) -> list[int]:
        """Index into the simulation's ``joint_q`` for each coordinate of the card's, length nq."""
        head = []
        if self.floating_base:
            quaternion = _XYZW_FROM_WXYZ if self.quaternion_order == "wxyz" else (0, 1, 2, 3)
            head = [0, 1, 2, *(3 + i for i in quaternion)]
        return head + [len(head) + i for i in self.to_card]

    @property
    def q_to_sim(self) -> list[int]:
        """Index into the card's ``joint_q`` for each coordinate of the simulation's, length nq."""
        head = []
        if self.floating_base:
            quaternion = _WXYZ_FROM_XYZW if self.quaternion_order == "wxyz" else (0, 1, 2, 3)
            head = [0, 1, 2, *(3 + i for i in quaternion)]
        return head + [len(head) + i for i in self.to_sim]

    @property
    def qd_to_card(self) -> list[int]:
        """Index into the simulation's ``joint_qd`` for each velocity of the card's, length nv."""
        head = list(range(6)) if self.floating_base else []
        return head + [len(head) + i for i in self.to_card]

    @property
    def qd_to_sim(self) -> list[int]:
        """Index into the card's ``joint_qd`` for each velocity of the simulation's, length nv."""
        head = list(range(6)) if self.floating_base else []
        return head + [len(head) + i for i in self.to_sim]

    def state_to_card[Array: (Tensor, np.ndarray)](self, joint_q: Array, joint_qd: Array) -> tuple[Array, Array]:
        """States [..., nq], [..., nv] in the card's order; a copy unless the orders agree."""
        if self.is_identity:
            return joint_q, joint_qd
        return joint_q[..., self.q_to_card], joint_qd[..., self.qd_to_card]

    def state_to_sim[Array: (Tensor, np.ndarray)](self, joint_q: Array, joint_qd: Array) -> tuple[Array, Array]:
        """States [..., nq], [..., nv] in the simulation's order; a copy unless the orders agree."""
        if self.is_identity:
            return joint_q, joint_qd
        return joint_q[..., self.q_to_sim], joint_qd[..., self.qd_to_sim]


def leaf(name: str) -> str:
    """Last part of a path-like name."""
    return name.rstrip("/").rsplit("/", 1)[-1]


@dataclass
class _Findings:
    """Differences that refuse, and remarks that do not."""

    wrong: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    def refuse(self, difference: str, remedy: str) -> None:
        self.wrong.append((difference, remedy))


def check_against(card: Card, facts: SimulationFacts) -> JointMap:
    """Compare the card with a simulation, field by field.

    Args:
        card: The bundle's card.
        facts: What the simulation says.

    Returns:
        The conversion of states, with warnings (other versions) and what could not be checked.

    Raises:
        FlashNerdError: One sentence with every difference found (the first few in full) and what to type.
    """
    findings = _Findings()
    sim_joints = _check_joints(card, facts, findings)
    steps = _check_time(card, facts, findings)
    _check_conventions(card, facts, findings)
    _check_physical(card, facts, findings)
    _check_drives(card, facts, findings)
    _compare_versions(card, facts, findings)
    if findings.wrong:
        shown = "; ".join(difference for difference, _ in findings.wrong[:3])
        rest = len(findings.wrong) - 3
        more = f"; and {rest} more difference{'s' if rest > 1 else ''}" if rest > 0 else ""
        head = f"bundle {show(card.name, 30)} does not fit this simulation: "
        raise FlashNerdError(f"{head}{one_line(shown, 290)}{more}; {findings.wrong[0][1]}.")
    index = {name: i for i, name in enumerate(sim_joints)}
    to_card = tuple(index[name] for name in card.robot.joint_names)
    return JointMap(
        joint_names=card.robot.joint_names,
        to_card=to_card,
        to_sim=tuple(to_card.index(i) for i in range(len(to_card))),
        floating_base=card.robot.floating_base,
        quaternion_order=facts.quaternion_order,
        steps_per_control=steps,
        warnings=tuple(findings.warnings),
        unchecked=tuple(findings.unchecked),
    )


def differences(card: Card, facts: SimulationFacts) -> list[str]:
    """Every difference as a short text, for a table; empty where the bundle fits."""
    findings = _Findings()
    _check_joints(card, facts, findings)
    _check_time(card, facts, findings)
    _check_conventions(card, facts, findings)
    _check_physical(card, facts, findings)
    _check_drives(card, facts, findings)
    return [difference for difference, _ in findings.wrong]


def _check_joints(card: Card, facts: SimulationFacts, findings: _Findings) -> list[str]:
    names = [leaf(name) for name in facts.joint_names]
    remedy = "give the bundle of this robot, or type python scripts/bundle.py list"
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        findings.refuse(f"joint {', '.join(twice)} stands twice in the simulation", "name each joint once")
    missing = [name for name in card.robot.joint_names if name not in names]
    extra = [name for name in names if name not in card.robot.joint_names]
    if missing:
        findings.refuse(f"the simulation lacks joint {', '.join(missing)} of the card", remedy)
    if extra:
        findings.refuse(f"the simulation has joint {', '.join(extra)}, which the card lacks", remedy)
    if facts.floating_base is None:
        findings.unchecked.append("floating_base")
    elif facts.floating_base != card.robot.floating_base:
        text = {True: "floating", False: "fixed"}
        findings.refuse(
            f"base is {text[facts.floating_base]}, the card says {text[card.robot.floating_base]}",
            "set fix_root_link as in training",
        )
    if facts.joint_kinds is None:
        findings.unchecked.append("joint_kinds")
    else:
        kinds = {leaf(name): kind for name, kind in facts.joint_kinds.items()}
        for name, kind in zip(card.robot.joint_names, card.robot.joint_kinds, strict=True):
            angle = {"revolute", "continuous"}
            same = kinds.get(name) == kind or {kinds.get(name), kind} <= angle  # a limit alone makes the difference
            if name in kinds and not same:
                findings.refuse(f"joint {name} is {kinds[name]}, the card says {kind}", remedy)
    for label, found, wanted in (
        ("robot", facts.robot, card.robot.name),
        ("asset_key", facts.asset_key, card.robot.asset_key),
    ):
        if found is None:
            findings.unchecked.append(label)
        elif found != wanted:
            if label == "robot":
                findings.refuse(f"robot is {show(found)}, the card says {show(wanted)}", remedy)
            else:
                # Where the file lies says little; masses, inertias and limits are compared below.
                findings.warnings.append(f"asset_key is {show(found)}, the card says {show(wanted)}.")
    return names


def _check_time(card: Card, facts: SimulationFacts, findings: _Findings) -> int:
    """Model steps in a control step."""
    simulation = card.simulation

    def close(a: float, b: float) -> bool:
        return math.isclose(a, b, rel_tol=DT_TOLERANCE)

    remedy = f"type env.sim.dt={simulation.sim_dt:.9g} env.decimation={simulation.decimation}"
    if not (facts.dt > 0 and math.isfinite(facts.dt)) or facts.decimation < 1:
        findings.refuse(
            f"dt is {facts.dt:g} s with decimation {facts.decimation}, but positive ones are needed", remedy
        )
        return 1
    if card.coupling is not None:
        if not close(facts.dt, simulation.dt):
            findings.refuse(
                f"the solver steps {facts.dt:.6g} s, the card's model {simulation.dt:.6g} s, and in coupled mode both "
                "step together",
                f"type env.sim.dt={simulation.sim_dt:.9g} env.sim.physics.num_substeps={simulation.substeps}",
            )
        return facts.decimation
    control = facts.dt * facts.decimation
    if close(control, simulation.dt):
        if not close(facts.dt, simulation.sim_dt):
            findings.warnings.append(
                f"dt is {facts.dt:.6g} s x decimation {facts.decimation}, the card's data had "
                f"{simulation.sim_dt:.6g} s x {simulation.decimation}: the control step is the same, and the model "
                "steps once for all of it."
            )
        return 1
    if simulation.inner_steps == simulation.substeps and close(facts.dt, simulation.dt):
        return facts.decimation
    findings.refuse(
        f"dt x decimation is {facts.dt:.6g} x {facts.decimation} = {control:.6g} s, "
        f"the card's model steps {simulation.dt:.6g} s",
        remedy,
    )
    return 1


def _check_conventions(card: Card, facts: SimulationFacts, findings: _Findings) -> None:
    if facts.quaternion_order not in ("xyzw", "wxyz"):
        findings.refuse(
            f"quaternion_order is {show(facts.quaternion_order)}, but xyzw or wxyz is needed", "say which one it is"
        )
    if card.simulation.quaternion_order != "xyzw":
        findings.refuse(
            f"the card's quaternion_order is {show(card.simulation.quaternion_order)}, but the model reads xyzw",
            "convert the data set's quaternions to xyzw and train again",
        )
    if facts.gravity is None:
        findings.unchecked.append("gravity")
    elif any(abs(a - b) > 1e-3 for a, b in zip(facts.gravity, card.simulation.gravity, strict=True)):
        findings.refuse(
            f"gravity is {_vector(facts.gravity)} m/s², the card says {_vector(card.simulation.gravity)}",
            "set the gravity of the training simulation",
        )
    if facts.actuation_kind is None:
        findings.unchecked.append("actuation_kind")
    elif facts.actuation_kind != card.actuation.kind:
        findings.refuse(
            f"actuation is {show(facts.actuation_kind)}, the card says {show(card.actuation.kind)}",
            f"use an action term that commands {card.actuation.kind}s",
        )
    if facts.actuated is None:
        findings.unchecked.append("actuated")
    else:
        found, wanted = {leaf(name) for name in facts.actuated}, set(card.robot.actuated)
        for text, names in (("actuates", found - wanted), ("does not actuate", wanted - found)):
            if names:
                findings.refuse(
                    f"the simulation {text} {', '.join(sorted(names))}, "
                    f"the card has {', '.join(card.robot.actuated) or 'none'}",
                    "actuate the joints of the card",
                )
    wants = card.contacts.detector
    if facts.contact_detector is None:
        findings.unchecked.append("contact_detector")
    elif wants != "none" and facts.contact_detector != wants:
        findings.refuse(
            f"contact detector is {show(facts.contact_detector)}, the card says {show(wants)}",
            f"choose the detector {show(wants)}",
        )
    if facts.contact_capacity is None:
        findings.unchecked.append("contact_capacity")
    elif facts.contact_capacity != card.contacts.capacity and wants != "none":
        findings.refuse(
            f"contact capacity is {facts.contact_capacity}, the card says {card.contacts.capacity}",
            f"set the capacity to {card.contacts.capacity}",
        )


def _check_physical(card: Card, facts: SimulationFacts, findings: _Findings) -> None:
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


def _check_drives(card: Card, facts: SimulationFacts, findings: _Findings) -> None:
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
    findings: _Findings,
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


def _compare_versions(card: Card, facts: SimulationFacts, findings: _Findings) -> None:
    if facts.versions is None:
        findings.unchecked.append("versions")
        return
    other = [
        f"{name} {show(facts.versions[name], 30)} (card {show(wanted, 30)})"
        for name, wanted in sorted(card.versions.items())
        if name in facts.versions and facts.versions[name] != wanted
    ]
    if other:
        findings.warnings.append(
            f"bundle {show(card.name, 30)} was made with other versions: {', '.join(other)}: compare its error here "
            "with python scripts/evaluate_dynamics.py before you trust it."
        )


def check_contact_rows(contacts: ContactCard, fixed: Sequence[str], bundle: str, data: str) -> None:
    """Refuse recorded contact rows that are not of the kind that a bundle takes.

    Args:
        contacts: The card's section; of a model that takes rows.
        fixed: Links of the data's fixed rows; empty for variable ones.
        bundle, data: What to call the two, as they were typed.

    Raises:
        FlashNerdError: Names both kinds.
    """
    if contacts.fixed == tuple(fixed):
        return
    kind = "fixed" if fixed else "variable"
    if kind == contacts.kind:
        raise FlashNerdError(
            f"{bundle} takes fixed contacts of the links {show(', '.join(contacts.fixed))}, but those of {data} are of "
            f"{show(', '.join(fixed))}: make the data anew with scripts/dataset.py contacts=fixed."
        )
    raise FlashNerdError(
        f"{bundle} takes contacts={contacts.kind} rows, but {data} has contacts={kind} ones: give data that "
        f"scripts/dataset.py made with contacts={contacts.kind}."
    )


def check_model_config(card: Card, name: str, config: Mapping[str, Any]) -> None:
    """Refuse a configuration that is not the stored one, e.g. when training goes on from a bundle.

    Args:
        name: Model that the command asks for.
        config: Its options.

    Raises:
        FlashNerdError: Lists field, stored value, current value and the overrides that would match.
    """
    wrong: list[tuple[str, Any, Any]] = [] if name == card.model.name else [("model", card.model.name, name)]
    if not wrong:
        for key in dict.fromkeys((*card.model.config, *config)):
            stored, current = card.model.config.get(key), config.get(key)
            if stored != current:
                wrong.append((f"options.{key}", stored, current))
    if wrong:
        listed = "; ".join(
            f"{key} is stored as {show(stored)}, current {show(current)}" for key, stored, current in wrong[:4]
        )
        more = f"; and {len(wrong) - 4} more" if len(wrong) > 4 else ""
        overrides = " ".join(f"{key}={show(stored).strip(chr(39))}" for key, stored, _ in wrong if stored is not None)
        raise FlashNerdError(
            one_line(
                f"bundle {show(card.name, 30)}: {listed}{more}; type {overrides or 'the stored model'} to match.", 390
            )
        )


def _named(table: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if table is None else {leaf(name): value for name, value in table.items()}


def _finite(value: float | None) -> float | None:
    """``None`` for what engines write to say unlimited."""
    return None if value is None or not math.isfinite(value) or abs(value) >= 1e6 else float(value)


def _number(value: float | None) -> str:
    return "unlimited" if value is None else f"{value:.6g}"


def _vector(values: Sequence[float]) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in values) + ")"


def _diagonal(values: Sequence[float]) -> str:
    return "diag" + _vector([values[0], values[4], values[8]])
