"""Walking at a commanded velocity in learned physics; the MDP is that of the stock velocity tasks."""

from __future__ import annotations

from ..registration import register

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

register(__name__, _TASKS)
