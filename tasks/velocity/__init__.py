"""Walking at a commanded velocity in learned physics; the MDP is that of the stock velocity tasks."""

from __future__ import annotations

import gymnasium as gym

from . import agents

gym.register(
    id="FlashNeRD-Velocity-Flat-AnymalC",
    entry_point="isaaclab.envs:ManagerBasedRLEnv",
    disable_env_checker=True,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.anymal_c_env_cfg:FlashNerdAnymalCFlatEnvCfg",
        "rsl_rl_cfg_entry_point": f"{agents.__name__}.rsl_rl_ppo_cfg:FlashNerdAnymalCFlatPPORunnerCfg",
        "default_agent": "rsl_rl",
    },
)

gym.register(
    id="FlashNeRD-Velocity-Rough-AnymalC",
    entry_point="isaaclab.envs:ManagerBasedRLEnv",
    disable_env_checker=True,
    kwargs={
        "env_cfg_entry_point": f"{__name__}.anymal_c_rough_env_cfg:FlashNerdAnymalCRoughEnvCfg",
        "rsl_rl_cfg_entry_point": f"{agents.__name__}.rsl_rl_ppo_cfg:FlashNerdAnymalCRoughPPORunnerCfg",
        "default_agent": "rsl_rl",
    },
)
