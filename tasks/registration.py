"""Registers tasks of one family with gymnasium."""

from __future__ import annotations

from collections.abc import Mapping

import gymnasium as gym


def register(package: str, tasks: Mapping[str, tuple[str, str]]) -> None:
    """Make tasks known under their ids.

    Args:
        package: Name of the family's package; PPO configurations lie in its ``agents.rsl_rl_ppo_cfg``.
        tasks: Gym id -> environment configuration (``module:Class`` in the package) and class of the PPO configuration.
    """
    for name, (env, agent) in tasks.items():
        gym.register(
            id=name,
            entry_point="isaaclab.envs:ManagerBasedRLEnv",
            disable_env_checker=True,
            kwargs={
                "env_cfg_entry_point": f"{package}.{env}",
                "rsl_rl_cfg_entry_point": f"{package}.agents.rsl_rl_ppo_cfg:{agent}",
                "default_agent": "rsl_rl",
            },
        )
