"""Which number of a state vector is what: the one description that frame, integrator and card share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from flashnerd_ext.errors import FlashNerdError

JOINT_KINDS = ("revolute", "continuous", "prismatic")


@dataclass(frozen=True)
class Drive:
    """What turns position targets into joint torques; every tuple has one entry an actuated joint.

    With ``saturation`` and ``velocity_limit`` it is a DC motor: the torque that it can give falls linearly with speed,
    from the saturation torque at rest to none at the velocity limit (Isaac Lab's ``DCMotorCfg``).

    Attributes:
        stiffness: [N m/rad or N/m]. damping: [N m s/rad or N s/m]. effort_limit: [N m or N].
        saturation: Torque at stall [N m]; empty for a plain clamp.
        velocity_limit: Speed at which the motor gives nothing [rad/s]; empty for a plain clamp.
    """

    stiffness: tuple[float, ...]
    damping: tuple[float, ...]
    effort_limit: tuple[float, ...]
    saturation: tuple[float, ...] = ()
    velocity_limit: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        size = len(self.stiffness)
        for name in ("damping", "effort_limit", "saturation", "velocity_limit"):
            count = len(getattr(self, name))
            if count != size and (count or name in ("damping", "effort_limit")):
                raise FlashNerdError(
                    f"drive.{name} has {count} entries, but drive.stiffness has {size}: give one an actuated joint."
                )
        if bool(self.saturation) != bool(self.velocity_limit):
            raise FlashNerdError(
                "a drive has only one of saturation and velocity_limit, but a DC motor needs both: give both or none."
            )

    @property
    def kind(self) -> str:
        """``dc_motor`` or ``pd``."""
        return "dc_motor" if self.saturation else "pd"

    def to_dict(self) -> dict[str, list[float]]:
        """JSON-able form, arguments of the constructor."""
        names = ("stiffness", "damping", "effort_limit", "saturation", "velocity_limit")
        return {name: list(getattr(self, name)) for name in names}


@dataclass(frozen=True)
class Stops:
    """Hard limits that the robot runs into, so that the model had better see them coming.

    A robot whose targets lie beyond a limit spends much of its time at it: on ANYmal-C a quarter of the frames, with
    nearly half of the squared error of a model that had to find the limits by itself.

    Attributes:
        joints: Names. lower, upper: Limits of each [m or rad].
        reach: How far ahead a frame looks [s], one model step.
    """

    joints: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    reach: float

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            if len(getattr(self, name)) != len(self.joints):
                raise FlashNerdError(
                    f"stops.{name} has {len(getattr(self, name))} entries, but stops.joints has {len(self.joints)}: "
                    "give one a joint."
                )

    def to_dict(self) -> dict[str, Any]:
        """JSON-able form, arguments of the constructor."""
        return {
            "joints": list(self.joints), "lower": list(self.lower), "upper": list(self.upper), "reach": self.reach
        }  # fmt: skip


@dataclass(frozen=True)
class StateLayout:
    """Coordinates of one robot in Newton's order and conventions.

    ``joint_q`` is the free base's position [m] and quaternion (x, y, z, w), if any, then one coordinate a joint
    [m or rad]; ``joint_qd`` is the base's COM linear and angular velocity in the world frame [m/s, rad/s], then
    one velocity a joint.

    Raises:
        FlashNerdError: When a kind is unknown or ``actuated`` / ``position_free`` name a joint that is not there.
    """

    joint_names: tuple[str, ...]
    joint_kinds: tuple[str, ...]
    floating_base: bool = False
    actuated: tuple[str, ...] = ()
    """Joints with an actuation input, in the order of ``actuation``."""
    position_free: tuple[str, ...] = field(default=())
    """Joints whose position the dynamics do not depend on; it stays out of the frame."""
    drive: Drive | None = None
    """With a drive the actuation is position targets [m or rad], without one efforts [N or N m]."""
    conditions: tuple[str, ...] = ()
    """What may differ from world to world and goes into the frame, as a deviation from nominal: see
    :data:`flashnerd_ext.robots.description.CONDITIONS`."""
    stops: Stops | None = None
    """Joint limits that go into the frame."""

    def __post_init__(self) -> None:
        if len(self.joint_names) != len(self.joint_kinds):
            raise FlashNerdError(
                f"joint_kinds has {len(self.joint_kinds)} entries, but joint_names has {len(self.joint_names)}: "
                "give one kind a joint."
            )
        if len(set(self.joint_names)) != len(self.joint_names):
            raise FlashNerdError(f"joint_names has a name twice: {', '.join(self.joint_names)}.")
        for kind in self.joint_kinds:
            if kind not in JOINT_KINDS:
                raise FlashNerdError(f"joint kind is '{kind}', but one of {', '.join(JOINT_KINDS)} is needed.")
        if self.drive is not None and len(self.drive.stiffness) != len(self.actuated):
            raise FlashNerdError(
                f"the drive has {len(self.drive.stiffness)} entries, but {len(self.actuated)} joints are actuated: "
                "give one each."
            )
        named = {"actuated": self.actuated, "position_free": self.position_free}
        if self.stops is not None:
            named["stops.joints"] = self.stops.joints
        for label, names in named.items():
            for name in names:
                if name not in self.joint_names:
                    raise FlashNerdError(
                        f"{label} names the joint '{name}', which is not among {', '.join(self.joint_names)}."
                    )

    @property
    def num_joints(self) -> int:
        return len(self.joint_names)

    @property
    def nq(self) -> int:
        """Length of ``joint_q``."""
        return self.num_joints + (7 if self.floating_base else 0)

    @property
    def nv(self) -> int:
        """Length of ``joint_qd``."""
        return self.num_joints + (6 if self.floating_base else 0)

    @property
    def nu(self) -> int:
        """Length of ``actuation``."""
        return len(self.actuated)

    @property
    def q0(self) -> int:
        """Index of the first joint in ``joint_q``."""
        return 7 if self.floating_base else 0

    @property
    def v0(self) -> int:
        """Index of the first joint in ``joint_qd``."""
        return 6 if self.floating_base else 0

    @cached_property
    def actuated_joints(self) -> tuple[int, ...]:
        """Index among the joints of each actuation input."""
        return tuple(self.joint_names.index(name) for name in self.actuated)

    @cached_property
    def stop_joints(self) -> tuple[int, ...]:
        """Index of each joint whose limits enter the frame."""
        return () if self.stops is None else tuple(self.joint_names.index(name) for name in self.stops.joints)

    @cached_property
    def angle_joints(self) -> tuple[int, ...]:
        """Indices of revolute and continuous joints: they enter the frame as sine and cosine."""
        return tuple(i for i, kind in enumerate(self.joint_kinds) if kind != "prismatic" and self._visible(i))

    @cached_property
    def linear_joints(self) -> tuple[int, ...]:
        """Indices of prismatic joints whose position enters the frame."""
        return tuple(i for i, kind in enumerate(self.joint_kinds) if kind == "prismatic" and self._visible(i))

    def _visible(self, joint: int) -> bool:
        return self.joint_names[joint] not in self.position_free

    def to_dict(self) -> dict[str, object]:
        """JSON-able form; :meth:`from_dict` reads it back."""
        content: dict[str, object] = {
            "joint_names": list(self.joint_names),
            "joint_kinds": list(self.joint_kinds),
            "floating_base": self.floating_base,
            "actuated": list(self.actuated),
            "position_free": list(self.position_free),
            "drive": None if self.drive is None else self.drive.to_dict(),
            "conditions": list(self.conditions),
        }
        # Left out where there are none, so that what was written before them keeps its text and hash.
        return content if self.stops is None else {**content, "stops": self.stops.to_dict()}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> StateLayout:
        """The inverse of :meth:`to_dict`."""
        known = set(cls.__dataclass_fields__)
        if set(content) | {"stops"} != known:
            raise FlashNerdError(
                f"a state layout has the fields {sorted(content)}, but exactly {sorted(known)} are needed."
            )
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in content.items()
        }
        if values.get("stops") is not None:
            stops = values["stops"]
            sides = (tuple(stops[name]) for name in ("joints", "lower", "upper"))
            values["stops"] = Stops(*sides, reach=float(stops["reach"]))
        if values["drive"] is not None:
            values["drive"] = Drive(**{key: tuple(value) for key, value in values["drive"].items()})
        return cls(**values)
