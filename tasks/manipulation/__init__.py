"""Hands and arms among objects; the MDPs are those of the stock tasks, and learned physics is coupled mode."""

from __future__ import annotations

import gymnasium as gym

from . import agents

_TASKS = {
    "FlashNeRD-Reorient-Cube-Allegro": (
        "reorient_env_cfg:FlashNerdReorientEnvCfg",
        "FlashNerdReorientPPORunnerCfg",
    ),
    "FlashNeRD-Reorient-Cube-Allegro-Reduced": (
        "reorient_reduced_env_cfg:FlashNerdReorientReducedEnvCfg",
        "FlashNerdReorientReducedPPORunnerCfg",
    ),
    "FlashNeRD-Lift-Cube-Franka": ("lift_env_cfg:FlashNerdLiftEnvCfg", "FlashNerdLiftPPORunnerCfg"),
}
"""Gym id -> environment configuration and PPO configuration."""

for _id, (_env, _agent) in _TASKS.items():
    gym.register(
        id=_id,
        entry_point="isaaclab.envs:ManagerBasedRLEnv",
        disable_env_checker=True,
        kwargs={
            "env_cfg_entry_point": f"{__name__}.{_env}",
            "rsl_rl_cfg_entry_point": f"{agents.__name__}.rsl_rl_ppo_cfg:{_agent}",
            "default_agent": "rsl_rl",
        },
    )
