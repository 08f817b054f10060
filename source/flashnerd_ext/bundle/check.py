"""A bundle against a running simulation: converted where names allow it, refused where they do not.

The model is used only where the simulation is the one that it was trained on. Everything that the simulation says of
itself is compared with the card; what it does not say is listed as unchecked, never assumed to be right silently.
"""

from __future__ import annotations

import math

from flashnerd_ext.bundle.card import Card
from flashnerd_ext.bundle.check_physical import Findings, check_drives, check_physical, vector
from flashnerd_ext.bundle.joint_map import JointMap
from flashnerd_ext.bundle.schema import show
from flashnerd_ext.bundle.simulation import SimulationFacts, leaf
from flashnerd_ext.errors import FlashNerdError, one_line

DT_TOLERANCE = 1e-5
"""Relative difference of a time step that is accepted; float32 steps are rounded by 1e-7."""


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
    findings = Findings()
    sim_joints = _check_joints(card, facts, findings)
    steps = _check_time(card, facts, findings)
    _check_conventions(card, facts, findings)
    check_physical(card, facts, findings)
    check_drives(card, facts, findings)
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
    findings = Findings()
    _check_joints(card, facts, findings)
    _check_time(card, facts, findings)
    _check_conventions(card, facts, findings)
    check_physical(card, facts, findings)
    check_drives(card, facts, findings)
    return [difference for difference, _ in findings.wrong]


def _check_joints(card: Card, facts: SimulationFacts, findings: Findings) -> list[str]:
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


def _check_time(card: Card, facts: SimulationFacts, findings: Findings) -> int:
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


def _check_conventions(card: Card, facts: SimulationFacts, findings: Findings) -> None:
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
            f"gravity is {vector(facts.gravity)} m/s², the card says {vector(card.simulation.gravity)}",
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


def _compare_versions(card: Card, facts: SimulationFacts, findings: Findings) -> None:
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
