"""Robots by name: every command takes ``robot=...``."""

from __future__ import annotations

from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.robots.allegro import ALLEGRO
from flashnerd_ext.robots.ant import ANT
from flashnerd_ext.robots.anymal_c import ANYMAL_C
from flashnerd_ext.robots.cartpole import CARTPOLE
from flashnerd_ext.robots.description import RobotDescription
from flashnerd_ext.robots.franka import FRANKA, FRANKA_REACH
from flashnerd_ext.robots.g1 import G1
from flashnerd_ext.robots.g1_29 import G1_29
from flashnerd_ext.robots.go2 import GO2
from flashnerd_ext.robots.own.folder import find_own, own_robots

ROBOTS: dict[str, RobotDescription] = {
    robot.name: robot for robot in (CARTPOLE, ANYMAL_C, GO2, G1, G1_29, ANT, FRANKA, FRANKA_REACH, ALLEGRO)
}
"""The robots of the package."""


def get_robot(name: str) -> RobotDescription:
    """The description of ``name``: a robot of the package, or one of the user's own (:mod:`flashnerd_ext.robots.own`).

    Raises:
        FlashNerdError: For a name that is not known; the nearest is named. For a robot of the user's own whose folder
            cannot be used.
    """
    if name in ROBOTS:
        return ROBOTS[name]
    own = find_own(name)
    if own is None:
        raise FlashNerdError(f"robot is '{name}', which is not known: {nearest(name, all_robots())}")
    return own.description


def all_robots() -> dict[str, RobotDescription]:
    """Every known robot by name: those of the package, then the user's own."""
    return ROBOTS | {name: own.description for name, own in own_robots().items()}
