"""The card: what the weights of a bundle mean, typed, and read strictly."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flashnerd_ext.bundle.coupling import CouplingCard, validate_coupling
from flashnerd_ext.bundle.schema import REMEDY, Refusal, dumps, loads, parse, plain, rule, show
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.description import ContactDescription

if TYPE_CHECKING:
    from flashnerd_ext.model.layout import StateLayout

SCHEMA_VERSION = 2
"""Version of the card's fields; a card of another version is refused, since its fields mean something else."""
JOINT_KINDS = ("revolute", "continuous", "prismatic")
QUANTILES = ("0.001", "0.01", "0.5", "0.99", "0.999")
"""Quantiles of the training data that the envelope keeps."""


@dataclass(frozen=True, kw_only=True)
class RobotCard:
    """Which robot, and in which order its joints stand in ``joint_q`` and ``joint_qd``."""

    name: str = field(metadata=rule(word=True))
    """Name in the robot registry."""
    asset_key: str = field(metadata=rule(word=True))
    """Where the asset came from, e.g. ``cartpole@local``."""
    joint_names: tuple[str, ...] = field(metadata=rule(word=True, min_size=1))
    """Names in Newton's order, shape [num_joints]."""
    joint_kinds: tuple[str, ...] = field(metadata=rule(choices=JOINT_KINDS))
    """Kind of each joint, shape [num_joints]."""
    floating_base: bool
    """True where a free joint precedes the named ones."""
    actuated: tuple[str, ...]
    """Joints with an actuation input, in the order of ``actuation``, shape [nu]."""
    position_free: tuple[str, ...]
    """Joints whose position the dynamics do not depend on."""
    conditions: tuple[str, ...] = ()
    """What may differ from world to world, as deviations from nominal that go into the frame."""
    stop_joints: tuple[str, ...] = field(default=(), metadata=rule(word=True, optional=True))
    """Joints whose limits go into the frame."""
    stop_lower: tuple[float, ...] = field(default=(), metadata=rule(optional=True))
    """Their lower limits [m or rad]."""
    stop_upper: tuple[float, ...] = field(default=(), metadata=rule(optional=True))
    """Their upper limits [m or rad]."""


@dataclass(frozen=True, kw_only=True)
class DriveCard:
    """What made joint torques of position targets in the training simulation; each list has one entry an actuated
    joint, in the order of ``robot.actuated``."""

    stiffness: tuple[float, ...] = field(metadata=rule(ge=0))
    """[N·m/rad or N/m]."""
    damping: tuple[float, ...] = field(metadata=rule(ge=0))
    """[N·m·s/rad or N·s/m]."""
    effort_limit: tuple[float, ...] = field(metadata=rule(gt=0))
    """[N·m or N]."""
    saturation: tuple[float, ...] = field(metadata=rule(gt=0))
    """Torque of a DC motor at stall [N·m]; empty for a plain clamp."""
    velocity_limit: tuple[float, ...] = field(metadata=rule(gt=0))
    """Speed at which a DC motor gives nothing [rad/s]; empty for a plain clamp."""


@dataclass(frozen=True, kw_only=True)
class ActuationCard:
    """What the actuation input is, and the drives that the training simulation ran."""

    kind: str = field(metadata=rule(choices=("effort", "target")))
    """``effort``: joint efforts [N or N·m]; ``target``: position targets [m or rad]."""
    effort_limit: dict[str, float | None] = field(metadata=rule(gt=0))
    """Largest effort of each actuated joint [N or N·m]; null is unlimited."""
    stiffness: dict[str, float] = field(metadata=rule(ge=0))
    """Drive stiffness of each joint [N/m or N·m/rad]."""
    damping: dict[str, float] = field(metadata=rule(ge=0))
    """Drive damping of each joint [N·s/m or N·m·s/rad]."""
    drive: DriveCard | None = None
    """For ``target``: the drive, whether the solver integrates it or an actuator model outside of it."""


@dataclass(frozen=True, kw_only=True)
class SimulationCard:
    """Time and conventions of the simulation that made the training data."""

    engine: str = field(metadata=rule(word=True))
    """Engine that made the data, e.g. ``mujoco``."""
    sim_dt: float = field(metadata=rule(gt=0, le=1))
    """Simulation step [s]; the solver's own is ``sim_dt / substeps``."""
    decimation: int = field(metadata=rule(ge=1, le=10_000))
    """Simulation steps in a control step."""
    dt: float = field(metadata=rule(gt=0, le=10))
    """Step of the model [s]: decimation x sim_dt, or sim_dt for a model at the simulation's own step; in coupled mode
    the solver's, sim_dt / substeps."""
    inner_steps: int = field(metadata=rule(ge=1, le=10_000))
    """Solver steps in a model step."""
    substeps: int = field(default=1, metadata=rule(ge=1, le=1_000))
    """Solver steps in a simulation step."""
    quaternion_order: str = field(metadata=rule(choices=("xyzw", "wxyz")))
    """Order of quaternions in the training data; this version's encoder reads xyzw only."""
    gravity: tuple[float, ...] = field(metadata=rule(size=3))
    """Gravity in the world frame [m/s²], shape [3]."""


@dataclass(frozen=True, kw_only=True)
class ContactCard:
    """Contacts that the model takes as inputs."""

    detector: str = field(metadata=rule(word=True))
    """Contact detector of the training data, ``none`` where the model takes no contacts."""
    capacity: int = field(metadata=rule(ge=0, le=4096))
    """Contact rows a robot may have."""
    gap: float = field(default=0.0, metadata=rule(ge=0, le=10))
    """Distance at which a contact makes a row [m]."""
    links: tuple[str, ...] = ()
    """Links that a row can name, by its index."""
    kind: str = field(default="variable", metadata=rule(choices=ContactDescription.KINDS, optional=True))
    """``variable``: a row for each contact within the gap; ``fixed``: always one for each link of ``fixed``."""
    fixed: tuple[str, ...] = field(default=(), metadata=rule(word=True, optional=True))
    """Links of fixed rows, in the order of rows; empty for variable ones."""


@dataclass(frozen=True, kw_only=True)
class PhysicalCard:
    """The body that was simulated; empty objects mean that a property was not recorded."""

    masses: dict[str, float] = field(metadata=rule(gt=0))
    """Mass of each body [kg]."""
    inertias: dict[str, tuple[float, ...]] = field(metadata=rule(size=9))
    """Inertia of each body about its centre of mass in the body frame, row-major [kg·m²], shape [9]."""
    limit_lower: dict[str, float | None] = field(metadata=rule())
    """Lower limit of each joint [m or rad]; null is unlimited."""
    limit_upper: dict[str, float | None] = field(metadata=rule())
    """Upper limit of each joint [m or rad]; null is unlimited."""
    mass_tolerance: float = field(default=0.01, metadata=rule(ge=0, le=1))
    """Relative difference of a mass that is accepted."""
    inertia_tolerance: float = field(default=0.02, metadata=rule(ge=0, le=1))
    """Difference of an inertia that is accepted, relative to the tensor's norm."""
    limit_tolerance: float = field(default=1e-3, metadata=rule(ge=0, le=1))
    """Difference of a joint limit that is accepted [m or rad]."""
    gain_tolerance: float = field(default=1e-3, metadata=rule(ge=0, le=1))
    """Relative difference of a drive gain or effort limit that is accepted."""


@dataclass(frozen=True, kw_only=True)
class ModelCard:
    """How to build the network."""

    name: str = field(metadata=rule(word=True))
    """Name in the model registry."""
    config: dict[str, Any]
    """Arguments of the model."""


@dataclass(frozen=True, kw_only=True)
class WeightsCard:
    """The weights file that belongs to this card."""

    sha256: str = field(metadata=rule(word=True))
    """SHA-256 of weights.safetensors, hexadecimal."""
    bytes: int = field(metadata=rule(ge=1))
    """Size of weights.safetensors [bytes]."""
    tensors: int = field(metadata=rule(ge=1))
    """Tensors in the file."""
    parameters: int = field(metadata=rule(ge=0))
    """Trainable numbers of the model."""


@dataclass(frozen=True, kw_only=True)
class DataCard:
    """One training data set."""

    path: str
    """Folder as it was given to the training command."""
    sha256: str
    """SHA-256 of its ``dataset.json``, hexadecimal; empty where there was none."""
    seeds: tuple[int, ...]
    """Seeds of the sampler."""
    trajectories: int = field(metadata=rule(ge=0))
    """Trajectories used."""
    transitions: int = field(metadata=rule(ge=0))
    """Transitions used."""


@dataclass(frozen=True, kw_only=True)
class TrainingCard:
    """How the weights came about."""

    command: str
    """Command line that trained the model."""
    git_revision: str
    """Revision of the source tree."""
    seed: int
    """Seed of the training run."""
    data: tuple[DataCard, ...]
    """Data sets."""


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """Range of each feature over the training data; every list has the length of ``names``."""

    names: tuple[str, ...]
    min: tuple[float, ...]
    max: tuple[float, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...] = field(metadata=rule(ge=0))
    quantiles: dict[str, tuple[float, ...]]
    """Quantile (``"0.01"``) to its value per feature."""


@dataclass(frozen=True, kw_only=True)
class EnvelopeCard:
    """Where the training data was: beyond it the model guesses."""

    frame: Ranges
    """Per feature of the frame, in the root frame."""
    state: Ranges
    """Per dimension of joint_q and joint_qd, in that order, shape [nq + nv]; in coupled mode also of states that
    labels lead to."""


@dataclass(frozen=True, kw_only=True)
class Card:
    """Everything needed to use the weights of a bundle, and to refuse to use them wrongly."""

    schema_version: int = SCHEMA_VERSION
    name: str = field(metadata=rule(word=True))
    """Name of the bundle."""
    robot: RobotCard
    actuation: ActuationCard
    simulation: SimulationCard
    contacts: ContactCard
    physical: PhysicalCard
    model: ModelCard
    training: TrainingCard
    envelope: EnvelopeCard
    versions: dict[str, str]
    """Versions of the stack that made data and weights."""
    measured: dict[str, float] = field(default_factory=dict)
    """Measured errors, e.g. ``E1``, ``E100``, with ``evaluated_trajectories``."""
    lineage: tuple[str, ...] = ()
    """Hashes of the bundles that this one was fine-tuned from, oldest first."""
    coupling: CouplingCard | None = field(default=None, metadata=rule(optional=True))
    """Of a bundle of coupled mode; one of learned mode has none."""
    weights: WeightsCard | None = None
    """Filled in when the bundle is saved."""
    digest: str = ""
    """SHA-256 of the canonical card without this field; filled in when the bundle is saved."""

    @property
    def layout(self) -> StateLayout:
        """Joint order and state dimensions."""
        from flashnerd_ext.model.layout import Drive, StateLayout, Stops

        robot, drive = self.robot, self.actuation.drive
        return StateLayout(
            robot.joint_names,
            robot.joint_kinds,
            robot.floating_base,
            robot.actuated,
            robot.position_free,
            None
            if drive is None
            else Drive(drive.stiffness, drive.damping, drive.effort_limit, drive.saturation, drive.velocity_limit),
            robot.conditions,
            Stops(robot.stop_joints, robot.stop_lower, robot.stop_upper, self.simulation.dt)
            if robot.stop_joints
            else None,
        )

    @property
    def dt(self) -> float:
        """Step of the model [s]."""
        return self.simulation.dt

    @property
    def num_joints(self) -> int:
        """Named joints, one degree of freedom each."""
        return len(self.robot.joint_names)

    @property
    def nq(self) -> int:
        """Length of ``joint_q``."""
        return self.num_joints + (7 if self.robot.floating_base else 0)

    @property
    def nv(self) -> int:
        """Length of ``joint_qd``."""
        return self.num_joints + (6 if self.robot.floating_base else 0)

    @property
    def nu(self) -> int:
        """Length of ``actuation``."""
        return len(self.robot.actuated)

    def canonical(self) -> bytes:
        """The canonical JSON text of the card without its digest."""
        content = plain(self)
        content.pop("digest")
        return dumps(content)

    def sealed(self, weights: WeightsCard) -> Card:
        """A copy that belongs to these weights, with its digest."""
        card = dataclasses.replace(self, weights=weights, digest="")
        return dataclasses.replace(card, digest=hashlib.sha256(card.canonical()).hexdigest())

    def replace(self, **changes: Any) -> Card:
        """A copy with top-level fields changed; the digest no longer fits until it is saved again."""
        return dataclasses.replace(self, **changes)


def parse_card(raw: bytes, sealed: bool = True) -> Card:
    """Read a card from the text of ``card.json``.

    Args:
        raw: Bytes of the file.
        sealed: Also demand that the digest fits, i.e. that the card is the one that was saved.

    Raises:
        FlashNerdError: One sentence with the field, the stored value, the needed value and what to type.
    """
    content = loads(raw, "card.json")
    version = content.get("schema_version")
    if type(version) is not int or version != SCHEMA_VERSION:
        found = "is missing" if "schema_version" not in content else f"is {show(version)}"
        newer = type(version) is int and version > SCHEMA_VERSION
        remedy = "update flashnerd-ext with pip install -U" if newer else REMEDY
        raise Refusal("schema_version", found, f"this version of flashnerd-ext reads {SCHEMA_VERSION}", remedy)
    card = parse(Card, content)
    validate(card)
    if sealed:
        expected = hashlib.sha256(card.canonical()).hexdigest()
        if card.digest != expected:
            raise Refusal(
                "digest",
                f"is {show(card.digest[:12])}",
                f"the content of the card gives {expected[:12]}, so it was changed after it was saved",
                "fetch the bundle again, or accept your own edit with python scripts/bundle.py seal PATH",
            )
    return card


def validate(card: Card) -> None:
    """Check what one field alone cannot show: lengths, names and times that belong together.

    Raises:
        FlashNerdError: One sentence for the first contradiction.
    """

    def need(ok: bool, path: str, value: object, needed: str) -> None:
        if not ok:
            raise Refusal(path, f"is {show(value)}", f"{needed} is needed", REMEDY)

    robot, simulation, physical = card.robot, card.simulation, card.physical
    joints = robot.joint_names
    need(len(set(joints)) == len(joints), "robot.joint_names", list(joints), "a list without repetition")
    need(
        len(robot.joint_kinds) == len(joints), "robot.joint_kinds", list(robot.joint_kinds), f"a list of {len(joints)}"
    )
    for path, names in (("actuated", robot.actuated), ("position_free", robot.position_free)):
        need(len(set(names)) == len(names), f"robot.{path}", list(names), "a list without repetition")
        for name in names:
            need(name in joints, f"robot.{path}", name, f"one of the joints {', '.join(joints)}")
    kinds = dict(zip(joints, robot.joint_kinds, strict=True))
    for path, table in (
        ("actuation.effort_limit", card.actuation.effort_limit),
        ("actuation.stiffness", card.actuation.stiffness),
        ("actuation.damping", card.actuation.damping),
        ("physical.limit_lower", physical.limit_lower),
        ("physical.limit_upper", physical.limit_upper),
    ):
        for name in table:
            need(name in kinds, path, name, f"one of the joints {', '.join(joints)}")
    need(
        set(physical.limit_lower) == set(physical.limit_upper),
        "physical.limit_upper",
        sorted(physical.limit_upper),
        f"the same joints as in limit_lower ({show(sorted(physical.limit_lower), 80)})",
    )
    for name, lower in physical.limit_lower.items():
        upper = physical.limit_upper[name]
        need(
            lower is None or upper is None or lower <= upper, f"physical.limit_upper.{name}", upper, f"at least {lower}"
        )
    for name, inertia in physical.inertias.items():
        need(name in physical.masses, "physical.inertias", name, "a body that has a mass")
        need(all(inertia[i] > 0 for i in (0, 4, 8)), f"physical.inertias.{name}", list(inertia), "a positive diagonal")
    expected = simulation.sim_dt * simulation.inner_steps / simulation.substeps
    need(
        math.isclose(simulation.dt, expected, rel_tol=1e-6),
        "simulation.dt",
        simulation.dt,
        f"inner_steps x sim_dt / substeps = {expected:.9g}",
    )
    need(
        card.coupling is not None
        or simulation.inner_steps in (simulation.substeps, simulation.decimation * simulation.substeps),
        "simulation.inner_steps",
        simulation.inner_steps,
        f"decimation x substeps = {simulation.decimation * simulation.substeps}, or {simulation.substeps} for a model "
        "at the simulation's own step",
    )
    need(
        (card.actuation.drive is None) == (card.actuation.kind == "effort"),
        "actuation.drive",
        None if card.actuation.drive is None else "an object",
        "a drive for the kind 'target', and null for 'effort',",
    )
    if card.actuation.drive is not None:
        for name, values in plain(card.actuation.drive).items():
            optional = name in ("saturation", "velocity_limit") and not values
            need(
                optional or len(values) == len(robot.actuated),
                f"actuation.drive.{name}",
                values,
                f"a list of {len(robot.actuated)} values, one an actuated joint,",
            )
        need(
            bool(card.actuation.drive.saturation) == bool(card.actuation.drive.velocity_limit),
            "actuation.drive.velocity_limit",
            list(card.actuation.drive.velocity_limit),
            "a list as long as saturation",
        )
    need(
        len(set(robot.conditions)) == len(robot.conditions),
        "robot.conditions",
        list(robot.conditions),
        "a list without repetition",
    )
    need(
        (card.contacts.detector == "none") == (card.contacts.capacity == 0),
        "contacts.capacity",
        card.contacts.capacity,
        f"{'0' if card.contacts.detector == 'none' else 'at least 1'} with the detector '{card.contacts.detector}'",
    )
    for name in ("stop_lower", "stop_upper"):
        found = getattr(card.robot, name)
        need(
            len(found) == len(card.robot.stop_joints),
            f"robot.{name}",
            list(found),
            f"a list of {len(card.robot.stop_joints)} limits, one a joint of robot.stop_joints,",
        )
    for name in card.robot.stop_joints:
        need(name in card.robot.joint_names, "robot.stop_joints", name, "one of robot.joint_names")
    _validate_fixed(card.contacts, need)
    if card.coupling is not None:
        validate_coupling(card, need)
    for part, ranges in (("frame", card.envelope.frame), ("state", card.envelope.state)):
        _validate_ranges(f"envelope.{part}", ranges, need)
    need(
        len(card.envelope.state.names) == card.nq + card.nv,
        "envelope.state.names",
        list(card.envelope.state.names),
        f"a list of nq + nv = {card.nq + card.nv} names",
    )


def _validate_fixed(contacts: ContactCard, need: Any) -> None:
    kind, fixed = contacts.kind, contacts.fixed
    need(
        (kind == "fixed") == bool(fixed),
        "contacts.fixed",
        list(fixed),
        f"{'a list of links' if kind == 'fixed' else 'an empty list'} with the kind '{kind}'",
    )
    need(len(set(fixed)) == len(fixed), "contacts.fixed", list(fixed), "a list without repetition")
    for name in fixed:
        need(name in contacts.links, "contacts.fixed", name, "one of contacts.links")
    need(
        not fixed or contacts.capacity == len(fixed),
        "contacts.capacity",
        contacts.capacity,
        f"{len(fixed)}, one row a link of contacts.fixed,",
    )


def _validate_ranges(path: str, ranges: Ranges, need: Any) -> None:
    size = len(ranges.names)
    need(size >= 1 and len(set(ranges.names)) == size, f"{path}.names", list(ranges.names), "a list without repetition")
    lists = {"min": ranges.min, "max": ranges.max, "mean": ranges.mean, "std": ranges.std}
    lists |= {f"quantiles.{key}": values for key, values in ranges.quantiles.items()}
    for key, values in lists.items():
        need(len(values) == size, f"{path}.{key}", f"{len(values)} values", f"{size} values, one a name,")
    for key in ranges.quantiles:
        try:
            good = 0 <= float(key) <= 1
        except ValueError:
            good = False
        need(good, f"{path}.quantiles", key, "a key from 0 to 1")
    for i, name in enumerate(ranges.names):
        need(
            ranges.min[i] <= ranges.max[i],
            f"{path}.max",
            ranges.max[i],
            f"at least the min {ranges.min[i]} of '{name}'",
        )


def format_card(card: Card) -> str:
    """The text of ``card.json``: readable, one line a leaf, ends with a newline."""
    import json

    if card.weights is None or not card.digest:
        raise FlashNerdError(
            "the card is not sealed: save it with flashnerd_ext.bundle.store.save_bundle(folder, model, card)."
        )
    return json.dumps(plain(card), indent=2, allow_nan=False) + "\n"
