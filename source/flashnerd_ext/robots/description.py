"""What has to be known of a robot to make data for it, train on it and check a simulation against it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.model.layout import StateLayout

CONDITIONS = {
    "mass:LINK": "mass and inertia of the named link, as a factor less one",
    "com_x:LINK": "shift of the named link's centre of mass along its x axis [m]; com_y and com_z likewise",
    "base_mass": "mass and inertia of the base link, as a factor less one",
    "base_com_x": "shift of the base link's centre of mass along x [m]",
    "base_com_y": "shift of the base link's centre of mass along y [m]",
    "base_com_z": "shift of the base link's centre of mass along z [m]",
    "stiffness": "stiffness of all drives, as a factor less one",
    "damping": "damping of all drives, as a factor less one",
}
"""What may differ from world to world; each is a deviation from nominal, 0 at the nominal robot.

``base`` is the root link. A task that changes another link names it: G1's stock event scales ``mass:torso_link``."""

_INERTIAL = ("mass", "com_x", "com_y", "com_z")


def inertial_condition(name: str) -> tuple[str, str] | None:
    """What of a link a condition changes: (``mass``, ``com_x``, ``com_y`` or ``com_z``; the link, empty for the base).

    ``None`` for a condition that is not of a link, such as ``stiffness``.
    """
    prefix, colon, link = name.partition(":")
    if not colon and name.startswith("base_"):
        prefix, link = name.removeprefix("base_"), ""
    elif not link:
        return None
    return (prefix, link) if prefix in _INERTIAL else None


def per_joint[Value](joints: Iterable[str], patterns: dict[str, Value]) -> dict[str, Value]:
    """Joint -> value, from regular expressions as Isaac Lab's actuator configurations have them.

    Raises:
        FlashNerdError: When a joint matches no expression, or two.
    """
    found: dict[str, Value] = {}
    for joint in joints:
        fitting = [value for pattern, value in patterns.items() if re.fullmatch(pattern, joint)]
        if len(fitting) != 1:
            raise FlashNerdError(
                f"joint {joint} matches {len(fitting)} of {', '.join(patterns)}, but exactly one is needed."
            )
        found[joint] = fitting[0]
    return found


@dataclass(frozen=True)
class Mirror:
    """A symmetry of a robot: whatever it can do, its mirror image can do too.

    Frames follow x forward, y left, z up; the plane of the mirror is that of x and z (left and right), or that of y and
    z (front and back).

    Attributes:
        sides: What says left and what says right in a name, or front and back; the first that occurs in a name is
            exchanged, and a name with neither is its own image.
        turned: Regular expressions of the joints whose angle changes its sign in the mirror: for left and right those
            about x or z, for front and back those about y or z.
    """

    sides: tuple[str, str]
    turned: tuple[str, ...]

    def image(self, name: str) -> str:
        """Name of the mirror image of a joint or link."""
        places = [(name.find(side), side, other) for side, other in zip(self.sides, self.sides[::-1], strict=True)]
        found = sorted(place for place in places if place[0] >= 0)
        return name.replace(found[0][1], found[0][2], 1) if found else name

    def images(self, names: Sequence[str], what: str, instead: str) -> list[int]:
        """Index into ``names`` of the image of each of them.

        Args:
            names: Of joints or links.
            what: What they are called in a refusal.
            instead: What to type where no mirror is wanted.

        Raises:
            FlashNerdError: Where an image is not among them.
        """
        for name in names:
            if self.image(name) not in names:
                raise FlashNerdError(
                    f"the mirror image of {what} {name} is {self.image(name)}, which the robot does not have: check "
                    f"the mirror's sides, or type {instead}."
                )
        return [names.index(self.image(name)) for name in names]

    def signs(self, joints: Iterable[str]) -> list[float]:
        """-1 for each joint whose angle changes its sign, 1 for the others."""
        return [-1.0 if any(re.fullmatch(pattern, joint) for pattern in self.turned) else 1.0 for joint in joints]


@dataclass(frozen=True, kw_only=True)
class ContactDescription:
    """How a robot meets the ground, in the data and in deployment.

    Attributes:
        capacity: Contact rows K that a robot may have; the deepest are kept.
        gap: Distance at which a contact is seen before it touches [m].
        feet: Links that are meant to touch.
        friction: Range of the sliding friction coefficient in the data.
        ke, kd: Contact stiffness [N/m] and damping [N s/m] of every shape, those of the task's ``default_shape_cfg``.
        self_collision: Whether links of the robot collide with each other.
        fixed: Links of the fixed-contact encoding, one row each and in this order: see :data:`KINDS`. Empty for a robot
            that has variable contacts only.
    """

    capacity: int
    gap: float = 0.02
    feet: tuple[str, ...] = ()
    friction: tuple[float, float] = (1.0, 1.0)
    ke: float = 2.5e3
    kd: float = 100.0
    self_collision: bool = False
    fixed: tuple[str, ...] = ()

    KINDS = ("variable", "fixed")
    """How contacts become rows: ``variable`` has a row for each contact within the gap, deepest first; ``fixed`` has
    always one row for each of the ``fixed`` links, for its point nearest to the ground, however far that is."""

    DETECTOR = "mujoco"
    """Only MuJoCo's own detector makes rows: another one finds other contacts at the same pose."""


@dataclass(frozen=True, kw_only=True)
class RobotDescription:
    """One robot as its stock Isaac Lab task simulates it. Adding a robot is adding one of these."""

    name: str
    """Name that commands take (``robot=...``); also the name of its bundle."""
    layout: StateLayout
    """Coordinates, in Newton's joint order."""
    asset_path: str
    """USD below the asset root."""
    sim_dt: float
    """Simulation step [s], ``sim.dt`` of the task."""
    decimation: int
    """Simulation steps in one control step; the model steps once for all of them."""
    substeps: int = 1
    """Solver steps in a simulation step, ``num_substeps`` of the task's physics."""
    actuation: str = "effort"
    """What ``actuation`` holds: ``effort`` [N or N m] (feed-forward effort) or ``target`` (position target)."""
    effort_limit: dict[str, float] = field(default_factory=dict)
    """Limit of the commanded effort, a joint [N or N m]."""
    joint_stiffness: dict[str, float] = field(default_factory=dict)
    """Drive stiffness in force during training, a joint [N/m or N m/rad]."""
    joint_damping: dict[str, float] = field(default_factory=dict)
    """Drive damping in force during training, a joint [N s/m or N m s/rad]."""
    position_limit: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Joint limits that the asset has [m or rad]."""
    valid_range: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Joint positions outside of which the task ends an episode, so that data stop there [m or rad]."""
    base_link: str = "base"
    """Root link of a free base, whose mass and centre of mass the conditions change."""
    default_joint_q: dict[str, float] = field(default_factory=dict)
    """Pose that the task resets to, a joint [m or rad]; 0 where it is not named."""
    base_height: float = 0.0
    """Height of a free base that the task resets to [m]."""
    stand_height: float = 0.0
    """Height of a free base at which the soles touch the ground in the default pose [m]; measured on the asset."""
    action_scale: float = 1.0
    """The task's action times this is added to the default pose to give the target [rad], or is the effort."""
    armature: dict[str, float] = field(default_factory=dict)
    """Armature that the task sets, a joint [kg m^2]; what the asset has where it is not named."""
    links: tuple[str, ...] = ()
    """Links in Newton's order: a contact row names its link by the index in it."""
    contacts: ContactDescription | None = None
    """``None`` for a robot that touches nothing."""
    condition_range: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Range of each condition of the layout in the data."""
    mirror: Mirror | None = None
    """Its left-right symmetry, if it has one: training data count twice."""
    fore_aft: Mirror | None = None
    """Its front-back symmetry, if it nearly has one: samples of a policy count four times, training data do not."""
    coupling: str = ""
    """Label of a robot of coupled mode (:data:`flashnerd_ext.bundle.coupling.LABELS`): its data are free motion at the
    solver's step, without contacts, joint limits, joint friction and drives. Empty for learned mode."""
    base_quat: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    """Orientation of a fixed base in the world (x, y, z, w), which is where gravity points in it."""
    cone: str = "pyramidal"
    """Friction cone of the task's solver."""
    impratio: float = 1.0
    """Ratio of frictional to normal constraint impedance of the task's solver."""
    tasks: tuple[str, ...] = ()
    """Gym ids that simulate this robot with these settings."""

    @property
    def default_q(self) -> tuple[float, ...]:
        """Default positions of the joints in the layout's order [m or rad]."""
        return tuple(self.default_joint_q.get(name, 0.0) for name in self.layout.joint_names)

    @property
    def inner_steps(self) -> int:
        """Solver steps in one model step."""
        return 1 if self.coupling else self.decimation * self.substeps

    @property
    def dt(self) -> float:
        """Model time step [s]: one control step, or one solver step in coupled mode."""
        return self.sim_dt / self.substeps if self.coupling else self.sim_dt * self.decimation


def fixed_links(robot: RobotDescription, contacts: str) -> tuple[str, ...]:
    """Links of fixed contact rows under the kind ``contacts``; empty for ``variable``.

    Raises:
        FlashNerdError: For an unknown kind, or ``fixed`` with a robot that has no such links.
    """
    if contacts not in ContactDescription.KINDS:
        hint = nearest(contacts, ContactDescription.KINDS)
        raise FlashNerdError(f"contacts is '{contacts}', which is unknown: {hint}")
    if contacts == "variable":
        return ()
    found = robot.contacts.fixed if robot.contacts is not None else ()
    if not found:
        what = "touches nothing" if robot.contacts is None else "names no links for fixed contacts"
        raise FlashNerdError(
            f"contacts is 'fixed', but robot={robot.name} {what}: type contacts=variable, or add "
            "ContactDescription.fixed to its description."
        )
    return found
