"""What has to be known of a robot to make data for it, train on it and check a simulation against it."""

from __future__ import annotations

from dataclasses import dataclass, field

from flashnerd_ext.model.layout import StateLayout


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
    """Simulator time step [s]."""
    decimation: int
    """Simulator steps in one control step; the model steps once for all of them."""
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
    tasks: tuple[str, ...] = ()
    """Gym ids that simulate this robot with these settings."""

    @property
    def dt(self) -> float:
        """Model time step [s], one control step."""
        return self.sim_dt * self.decimation
