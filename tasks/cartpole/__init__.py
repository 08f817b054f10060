"""Balancing a pole on a cart in learned physics; the MDP is that of the stock task ``Isaac-Cartpole``."""

from __future__ import annotations

import gymnasium as gym

from . import agents

gym.register(
    id="FlashNeRD-Cartpole",
    entry_point="isaaclab.envs:ManagerBasedRLEnv",
    disable_env_checker=True,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.cartpole_env_cfg:FlashNerdCartpoleEnvCfg",
        "rsl_rl_cfg_entry_point": f"{agents.__name__}.rsl_rl_ppo_cfg:FlashNerdCartpolePPORunnerCfg",
        "default_agent": "rsl_rl",
    },
)
