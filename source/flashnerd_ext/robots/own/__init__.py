"""Robots of the user's own: folders outside of the package that say in data what the package says in code.

``scripts/new_robot.py`` writes such a folder: ``robot.toml`` (all that is known of the robot), its USD and ``task.py``.
They are looked for in ``./robots``, or in the folders that the environment variable ``FLASHNERD_ROBOTS`` lists. Looking
for robots reads ``robot.toml`` only, which is data; ``task.py`` is code and is imported when its task is asked for.
"""

from flashnerd_ext.robots.own.folder import find_own, own_bundles, own_folders, own_robots
from flashnerd_ext.robots.own.schema import OwnRobot, load_own

__all__ = ["OwnRobot", "find_own", "load_own", "own_bundles", "own_folders", "own_robots"]
