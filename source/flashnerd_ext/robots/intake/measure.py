"""From a written asset to everything that ``robot.toml`` says: what is measured, and what is guessed."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.layout import Drive, StateLayout
from flashnerd_ext.robots.assets.readback import Asset, read_asset
from flashnerd_ext.robots.assets.stage import quaternion
from flashnerd_ext.robots.description import ContactDescription, Mirror, RobotDescription
from flashnerd_ext.robots.intake.check import check_efforts
from flashnerd_ext.robots.intake.choices import Choices
from flashnerd_ext.robots.intake.findings import Finding, error, note, warning
from flashnerd_ext.robots.intake.mirror import find_mirror
from flashnerd_ext.robots.intake.options import Options, check_patterns, pick
from flashnerd_ext.robots.intake.pose import legs_of, standing_pose
from flashnerd_ext.robots.intake.probe import GRAVITY, Probe, newton_order, turn_of
from flashnerd_ext.robots.intake.source import Intake

TURN = np.pi
"""Data have joints without limits within so much to both sides [rad]."""
KE, KD = 160_000.0, 1_100.0
"""Contact stiffness [N/m] and damping [N s/m] of the stock velocity tasks."""
CLEARANCE = 0.03
"""A velocity task resets so high above standing [m]."""
ROWS = 12
"""Contact rows at least."""
WRIST = 0.1
"""Least share of the largest load that a joint of an arm is taken to carry."""
STEP = 1.0 / 240.0
"""Solver step of a reach task [s]."""
JERK = 10.0
"""A motor that changes its joint's speed by more in one solver step has lost its rotor's inertia [rad/s or m/s]."""


@dataclass
class JointFacts:
    """One joint, and which of its numbers are guesses."""

    kind: str
    limits: tuple[float, float]
    effort: float
    stiffness: float
    damping: float
    armature: float
    default: float = 0.0
    guessed: list[str] = field(default_factory=list)


@dataclass
class Measured:
    """Everything that is written.

    Attributes:
        joints: In Newton's order. links: In Newton's order.
        base: Root link.
        quat: How the world holds a fixed base (x, y, z, w).
        height: Of a floating base where the soles touch in the default pose [m].
        feet, legs, fore, left: Of a robot that walks.
        inertia: Smallest inertia of each joint [kg m^2 or kg], of an arm.
        tip, reach, turn: What a reach task commands.
        turntable: Joint about the vertical that carries everything: its angle changes nothing.
        fixed_rows: Links of fixed contact rows.
        mirror: Its left-right symmetry, where it has one.
    """

    joints: dict[str, JointFacts]
    links: tuple[str, ...]
    base: str
    mass: float
    quat: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    height: float = 0.0
    feet: tuple[str, ...] = ()
    legs: tuple[tuple[str, ...], ...] = ()
    fore: tuple[bool, ...] = ()
    left: tuple[bool, ...] = ()
    inertia: dict[str, float] = field(default_factory=dict)
    tip: str = ""
    reach: tuple[tuple[float, float], ...] = ()
    turn: tuple[float, ...] = ()
    turntable: str = ""
    fixed_rows: tuple[str, ...] = ()
    mirror: Mirror | None = None
    findings: list[Finding] = field(default_factory=list)


def measure(usd: Path, intake: Intake, choices: Choices, options: Options) -> Measured:
    """Measure and guess.

    Raises:
        FlashNerdError: When an option names a joint or link that is not there, or a pose that cannot be taken.
    """
    asset = read_asset(usd)
    joints, links = newton_order(usd)
    check_patterns(options, joints)
    findings: list[Finding] = []
    file_order = [joint.name for joint in asset.joints if joint.kind != "fixed"]
    if list(joints) != file_order:
        text = f"the file has them as {', '.join(file_order[:4])}, ..., the simulator as {', '.join(joints[:4])}, ..."
        findings.append(note("joint order", text, "go by names where you bring policies or data along"))
    facts = _facts(asset, joints, intake, options)
    roots = [name for name in asset.bodies if name not in {j.child for j in asset.joints if j.parent is not None}]
    measured = Measured(facts, links, roots[0], asset.mass, findings=findings)
    if choices.fixed_base:
        x, y, z, w = quaternion(intake.mount[:3, :3])
        measured.quat = (x, y, z, w)
    probe = Probe(_provisional(usd, measured, choices))
    loads = _walker(measured, probe, choices, options) if choices.feet else _arm(measured, probe, options)
    _efforts(measured, loads, choices, options)
    measured.findings += rotorless(measured)
    _gains(measured, probe, choices, options)
    return measured


def _facts(asset: Asset, joints: tuple[str, ...], intake: Intake, options: Options) -> dict[str, JointFacts]:
    written, facts = {joint.name: joint for joint in asset.movable}, {}
    for name in joints:
        joint = written[name]
        free = joint.kind == "revolute" and not np.isfinite(joint.limits).all()
        given = next((span for pattern, span in options.range.items() if _matches(pattern, name)), None)
        low, high = given or ((-TURN, TURN) if free else joint.limits)
        kind = "continuous" if free else joint.kind
        armature = pick(options.armature, name)
        facts[name] = JointFacts(
            kind=kind,
            limits=(float(low), float(high)),
            effort=joint.effort_limit,
            stiffness=joint.stiffness,
            damping=joint.damping,
            armature=joint.armature if armature is None else armature,
        )
        if free and given is None:
            facts[name].guessed.append("limits")
    return facts


def _matches(pattern: str, name: str) -> bool:
    return pick({pattern: 1.0}, name) is not None


def _provisional(usd: Path, measured: Measured, choices: Choices) -> RobotDescription:
    """A description that is good enough to build the model of: gains are 0."""
    names = tuple(measured.joints)
    zeros = (0.0,) * len(names)
    walks = bool(choices.feet)
    return RobotDescription(
        name=choices.robot.name,
        layout=StateLayout(
            joint_names=names,
            joint_kinds=tuple(joint.kind for joint in measured.joints.values()),
            floating_base=not choices.fixed_base,
            actuated=names,
            drive=Drive(zeros, zeros, (1.0,) * len(names)) if walks else None,
        ),
        asset_path=str(usd.absolute()),
        sim_dt=0.005,
        decimation=1,
        actuation="target" if walks else "effort",
        position_limit={name: joint.limits for name, joint in measured.joints.items()},
        armature={name: joint.armature for name, joint in measured.joints.items()},
        base_link=measured.base,
        base_quat=measured.quat,
        links=measured.links,
        contacts=ContactDescription(capacity=ROWS, feet=choices.feet) if walks else None,
    )


def _set_default(measured: Measured, pose: dict[str, float], options: Options) -> np.ndarray:
    """Write the default pose, the user's numbers first; returns it [J].

    Raises:
        FlashNerdError: For a number outside of a joint's limits.
    """
    for name, joint in measured.joints.items():
        given = pick(options.default, name)
        joint.default = pose[name] if given is None else given
        low, high = joint.limits
        if not low - 1e-9 <= joint.default <= high + 1e-9:
            raise FlashNerdError(
                f"--default gives {name} the position {joint.default:g}, but its limits are {low:g} to {high:g}."
            )
        joint.default = float(np.clip(joint.default, low, high))
        if given is None:
            joint.guessed.append("default")
    return np.array([joint.default for joint in measured.joints.values()])


def _walker(measured: Measured, probe: Probe, choices: Choices, options: Options) -> dict[str, float]:
    """Feet, legs, default pose and height; returns what carries the robot, a joint [N m or N]."""
    found = measured.findings
    measured.feet = choices.feet
    pose = _set_default(measured, standing_pose(probe, choices.feet), options)
    legs = legs_of(probe, choices.feet)
    probe.place(pose)
    feet = np.array([probe.centre(leg.foot) for leg in legs])
    low, lowest = probe.lowest()
    measured.height = round(-low, 4)
    measured.legs = tuple(leg.joints for leg in legs)
    middle = feet.mean(0)
    measured.fore = tuple(bool(foot[0] > middle[0] + 1e-3) for foot in feet)
    measured.left = tuple(bool(foot[1] > middle[1] + 1e-3) for foot in feet)
    heights = [probe.lowest(leg.foot)[0] for leg in legs]
    if lowest not in choices.feet:
        text = f"in the default pose the lowest point of the robot is {lowest}'s, not a foot's"
        found.append(warning("default pose", text, "give --default JOINT=ANGLE ..., or other --feet"))
    elif max(heights) - min(heights) > 0.03:
        text = f"in the default pose feet differ by {max(heights) - min(heights):.2g} m in height"
        found.append(warning("default pose", text, "give --default JOINT=ANGLE ..."))
    com = probe.data.subtree_com[0]
    away = float(np.linalg.norm((com - middle)[:2]))
    if away > 0.25 * max(measured.height, 1e-3):
        text = f"in the default pose the centre of mass is {away:.2g} m beside the middle of the feet"
        found.append(warning("default pose", text, "give --default JOINT=ANGLE ..."))
    shown = ", ".join(f"{joint}={measured.joints[joint].default:g}" for joint in legs[0].joints)
    found.append(note("default pose", f"{shown}, ... was searched for", "give --default JOINT=ANGLE ... for another"))
    measured.fixed_rows = _rows(measured, probe)
    measured.mirror = find_mirror(probe)
    if measured.mirror is None:
        found.append(note("mirror", "left and right are no images of each other", "data count once"))
    probe.place(pose)
    # Two feet carry the robot at half a leg's length to the side: what a step asks for.
    length = float(np.median([leg.length for leg in legs]))
    load = measured.mass * GRAVITY * length / 4.0
    in_legs = {joint for leg in legs for joint in leg.joints}
    weight = probe.weight_at(pose)
    return {name: load if name in in_legs else float(weight[index]) for index, name in enumerate(measured.joints)}


def _rows(measured: Measured, probe: Probe) -> tuple[str, ...]:
    """Links of fixed contact rows: feet, then what else has a shape, from the ends of the legs up; then the base."""
    shaped = {probe.names.get(int(body)) for body in probe.model.geom_bodyid}
    above = [link for link in reversed(measured.links) if link in shaped and link != measured.base]
    chosen = [*measured.feet, *(link for link in above if link not in measured.feet)]
    return (*chosen[:16], *([measured.base] if measured.base in shaped else []))


def _arm(measured: Measured, probe: Probe, options: Options) -> dict[str, float]:
    """Default pose, tip, reach and inertias; returns the largest load of gravity, a joint [N m or N]."""
    found = measured.findings
    low, high = probe.low, probe.high
    pose = _set_default(measured, dict(zip(measured.joints, np.clip(0.0, low, high), strict=True)), options)
    zero = not options.default
    tip = options.tip or max(measured.links, key=lambda link: len(probe.chain(link)))
    if tip not in measured.links:
        raise FlashNerdError(f"--tip is '{tip}', but the links are {', '.join(measured.links)}.")
    measured.tip = tip
    measured.turntable = _turntable(measured, probe)
    if zero and probe.chain(tip):
        pose = _bent(measured, probe, tip)
    probe.place(pose)
    measured.turn = tuple(round(angle, 3) for angle in turn_of(probe.rotation(tip)))
    rng, places = np.random.default_rng(0), []
    spread = np.minimum(0.6, 0.25 * (high - low))
    for _ in range(200):
        probe.place(np.clip(pose + rng.uniform(-spread, spread), low, high))
        places.append(probe.position(tip))
    inner = np.quantile(places, [0.15, 0.85], axis=0)
    measured.reach = tuple((round(float(a), 3), round(float(b), 3)) for a, b in inner.T)
    found.append(note("default pose", "an elbow bent by a guess", "give --default JOINT=ANGLE ... for another"))
    found.append(
        note("tip", f"{tip} is taken for what reaches, within {measured.reach}", "give --tip LINK for another")
    )
    smallest, _ = probe.inertia()
    measured.inertia = {
        name: float(f"{max(value, 1e-7):.3g}") for name, value in zip(measured.joints, smallest, strict=True)
    }
    weight = probe.weight()
    loads = {}
    for index, (name, joint) in enumerate(measured.joints.items()):
        # Gravity asks nothing of a wrist that turns about its own length, which does not make its motor absurd.
        alike = [
            w for w, other in zip(weight, measured.joints.values(), strict=True) if _slides(other) == _slides(joint)
        ]
        loads[name] = float(max(weight[index], WRIST * max(alike)))
    return loads


def _turntable(measured: Measured, probe: Probe) -> str:
    """The first joint of every chain, if it turns about the vertical of the world; else nothing."""
    firsts = {chain[0] for link in measured.links if (chain := probe.chain(link))}
    probe.place(np.clip(0.0, probe.low, probe.high))
    for joint in firsts if len(firsts) == 1 else ():
        if not _slides(measured.joints[joint]) and abs(probe.upward(joint)) > 1.0 - 1e-9:
            return joint
    return ""


def _slides(joint: JointFacts) -> bool:
    return joint.kind == "prismatic"


def _bent(measured: Measured, probe: Probe, tip: str) -> np.ndarray:
    """A pose away from full stretch: of many, one with the tip in front at two thirds of the reach, near the middle."""
    rng = np.random.default_rng(0)
    low, high = np.maximum(probe.low, -1.6), np.minimum(probe.high, 1.6)
    low, high = np.where(low < high, low, probe.low), np.where(low < high, high, probe.high)
    probe.place(np.clip(0.0, probe.low, probe.high))
    points = [*(probe.anchor(joint) for joint in probe.chain(tip)), probe.position(tip)]
    reach = float(sum(np.linalg.norm(b - a) for a, b in pairwise(points)))
    wanted = points[0] + reach * np.array([0.55, 0.0, 0.25])
    best, least = np.clip(0.0, probe.low, probe.high), np.inf
    for _ in range(2000):
        q = rng.uniform(low, high)
        probe.place(q)
        cost = float(np.linalg.norm(probe.position(tip) - wanted)) / max(reach, 1e-6) + 0.05 * float(np.mean(q**2))
        cost += max(0.0, -probe.lowest()[0] - 0.02) / max(reach, 1e-6)
        if cost < least:
            best, least = q, cost
    best = np.clip(best.round(2), probe.low, probe.high)
    for joint, value in zip(measured.joints.values(), best, strict=True):
        joint.default = float(value)
    return best


def _efforts(measured: Measured, loads: dict[str, float], choices: Choices, options: Options) -> None:
    """Effort limits, guessed where the file's say nothing."""
    given = [name for name in measured.joints if pick(options.effort, name) is not None]
    guess = {name: _round(max(2.0 * load, 1e-2 * measured.mass, 1e-3)) for name, load in loads.items()}
    table = {name: (joint.effort, loads[name]) for name, joint in measured.joints.items()}
    limits, found = check_efforts(table, given, guess)
    for name, joint in measured.joints.items():
        if name not in given and limits[name] != joint.effort:
            joint.guessed.append("effort")
        joint.effort = pick(options.effort, name) or limits[name]
    measured.findings += found


def rotorless(measured: Measured) -> list[Finding]:
    """Joints of an arm whose motors would throw them about: their files leave out what turns inside of the motors."""
    found = []
    for name, inertia in measured.inertia.items():
        change = measured.joints[name].effort * STEP / inertia
        if change > JERK:
            text = f"its motor can change its speed by {change:.2g} rad/s in a solver step: it has no rotor's inertia"
            found.append(
                warning(name, text, "give --armature JOINT=VALUE: the rotor's inertia times gear ratio squared")
            )
    return found


def _gains(measured: Measured, probe: Probe, choices: Choices, options: Options) -> None:
    """Gains: the user's, the file's, or guesses from effort limits and inertias."""
    _, median = probe.inertia()
    missing = []
    for index, (name, joint) in enumerate(measured.joints.items()):
        if not joint.stiffness:
            # Legs give their limit at an error of 1 rad, arms at 0.2 rad, as stock configurations do.
            joint.stiffness = _round(joint.effort / (1.0 if choices.feet else 0.2))
            joint.guessed.append("stiffness")
            missing.append(name)
        joint.stiffness = _chosen(options.stiffness, name, joint.stiffness, joint, "stiffness")
        critical = 2.0 * float(np.sqrt(joint.stiffness * median[index]))
        rule = _round(joint.stiffness / 40.0 if choices.feet else critical)
        # The file's damping may be that of the joint alone, too little beside a guessed stiffness.
        if not joint.damping or (name in missing and joint.damping < rule):
            joint.damping = rule
            joint.guessed.append("damping")
        joint.damping = _chosen(options.damping, name, joint.damping, joint, "damping")
    guessed = [name for name in missing if pick(options.stiffness, name) is None]
    if guessed:
        rule = "stiffness so that an error of {} rad asks for the effort limit".format("1" if choices.feet else "0.2")
        measured.findings.append(
            note("drives", f"no gains for {', '.join(guessed)}: {rule}", "give --stiffness and --damping")
        )


def _chosen(values: dict[str, float], name: str, value: float, joint: JointFacts, what: str) -> float:
    given = pick(values, name)
    if given is None:
        return value
    if what in joint.guessed:
        joint.guessed.remove(what)
    return given


def _round(value: float) -> float:
    """Two significant digits, since it is a guess."""
    return float(f"{value:.2g}")


def refuse_unstable(measured: Measured) -> list[Finding]:
    """A height that no robot stands at."""
    if measured.feet and measured.height <= 0.0:
        return [error("default pose", f"the base stands {measured.height:g} m high", "give --default, or other --feet")]
    return []
