"""Walking at a commanded velocity in learned physics; the MDP is that of the stock velocity tasks."""

from __future__ import annotations

import gymnasium as gym

from . import agents

_TASKS = {
    "FlashNeRD-Velocity-Flat-AnymalC": (
        "anymal_c_env_cfg:FlashNerdAnymalCFlatEnvCfg",
        "FlashNerdAnymalCFlatPPORunnerCfg",
    ),
    "FlashNeRD-Velocity-Rough-AnymalC": (
        "anymal_c_rough_env_cfg:FlashNerdAnymalCRoughEnvCfg",
        "FlashNerdAnymalCRoughPPORunnerCfg",
    ),
    "FlashNeRD-Velocity-Flat-Go2": ("go2_env_cfg:FlashNerdGo2FlatEnvCfg", "FlashNerdGo2FlatPPORunnerCfg"),
    "FlashNeRD-Velocity-Flat-G1": ("g1_env_cfg:FlashNerdG1FlatEnvCfg", "FlashNerdG1FlatPPORunnerCfg"),
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
