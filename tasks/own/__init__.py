"""Tasks of the user's own robots: registered from ``robot.toml``; ``task.py`` is imported when it is asked for.

See :mod:`flashnerd_ext.robots.own`; ``scripts/new_robot.py`` writes both files.
"""

from __future__ import annotations

import gymnasium as gym

from flashnerd_ext.robots.own import own_robots


def register_own() -> list[str]:
    """Make the tasks of the user's own robots known; returns their gym ids. Safe to call again."""
    found = []
    for robot in own_robots().values():
        if robot.task.name not in gym.registry and (robot.folder / "task.py").is_file():
            module = f"{__name__}.robots.{robot.folder.name}.task"
            gym.register(
                id=robot.task.name,
                entry_point="isaaclab.envs:ManagerBasedRLEnv",
                disable_env_checker=True,
                kwargs={
                    "env_cfg_entry_point": f"{module}:EnvCfg",
                    "rsl_rl_cfg_entry_point": f"{module}:PPORunnerCfg",
                    "default_agent": "rsl_rl",
                },
            )
        if robot.task.name in gym.registry:
            found.append(robot.task.name)
    return found


register_own()
