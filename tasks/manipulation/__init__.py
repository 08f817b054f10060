"""Hands and arms among objects; the MDPs are those of the stock tasks, and learned physics is coupled mode."""

from __future__ import annotations

from ..registration import register

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

register(__name__, _TASKS)
