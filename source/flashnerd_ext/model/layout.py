"""Which number of a state vector is what: the one description that frame, integrator and card share."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from flashnerd_ext.errors import FlashNerdError

JOINT_KINDS = ("revolute", "continuous", "prismatic")


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
        for label in ("actuated", "position_free"):
            for name in getattr(self, label):
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
        return {
            "joint_names": list(self.joint_names),
            "joint_kinds": list(self.joint_kinds),
            "floating_base": self.floating_base,
            "actuated": list(self.actuated),
            "position_free": list(self.position_free),
        }

    @classmethod
    def from_dict(cls, content: dict[str, object]) -> StateLayout:
        known = {"joint_names", "joint_kinds", "floating_base", "actuated", "position_free"}
        if set(content) != known:
            raise FlashNerdError(
                f"a state layout has the fields {sorted(content)}, but exactly {sorted(known)} are needed."
            )
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
        return cls(**values)  # type: ignore[arg-type]
