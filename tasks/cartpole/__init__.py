"""Balancing a pole on a cart in learned physics; the MDP is that of the stock task ``Isaac-Cartpole``."""

from __future__ import annotations

from ..registration import register

register(
    __name__, {"FlashNeRD-Cartpole": ("cartpole_env_cfg:FlashNerdCartpoleEnvCfg", "FlashNerdCartpolePPORunnerCfg")}
)
