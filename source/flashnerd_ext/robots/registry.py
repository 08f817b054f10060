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

ROBOTS: dict[str, RobotDescription] = {
    robot.name: robot for robot in (CARTPOLE, ANYMAL_C, GO2, G1, G1_29, ANT, FRANKA, FRANKA_REACH, ALLEGRO)
}


def get_robot(name: str) -> RobotDescription:
    """The description of ``name``.

    Raises:
        FlashNerdError: For a name that is not registered; the nearest is named.
    """
    if name not in ROBOTS:
        raise FlashNerdError(f"robot is '{name}', which is not known: {nearest(name, ROBOTS)}")
    return ROBOTS[name]
