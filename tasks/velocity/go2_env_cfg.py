"""Unitree Go2 on flat ground: the stock task in learned physics, or in MuJoCo Warp with MuJoCo's own detector."""

from __future__ import annotations

from isaaclab.envs import mdp
from isaaclab.managers import RewardTermCfg
from isaaclab.utils import configclass
from isaaclab_tasks.core.velocity.config.go2.flat_env_cfg import UnitreeGo2FlatEnvCfg

from ..physics_preset import physics_preset
from .physics import analytical

_ANALYTICAL = analytical(UnitreeGo2FlatEnvCfg(), contacts=60, constraints=160)


@configclass
class FlashNerdGo2FlatEnvCfg(UnitreeGo2FlatEnvCfg):
    """``FlashNeRD-Velocity-Flat-Go2``: the stock task's MDP."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scene.num_envs = 1024
        # Off (the stock rewards) unless a training's schedule turns it on.
        self.rewards.alive = RewardTermCfg(func=mdp.is_alive, weight=0.0)  # pyright: ignore[reportAttributeAccessIssue]
        # A preset stands in for the configuration until it is resolved.
        self.sim.physics = physics_preset(_ANALYTICAL, mujoco_c=True)  # pyright: ignore[reportAttributeAccessIssue]
