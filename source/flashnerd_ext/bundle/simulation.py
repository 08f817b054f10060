"""What a running simulation says of itself, to be held against a bundle's card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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


def leaf(name: str) -> str:
    """Last part of a path-like name."""
    return name.rstrip("/").rsplit("/", 1)[-1]
