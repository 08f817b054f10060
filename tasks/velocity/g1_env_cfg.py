"""Unitree G1 (37 joints) on flat ground: the stock task in learned physics, or in MuJoCo Warp with its own detector."""

from __future__ import annotations

from isaaclab.envs import mdp
from isaaclab.managers import RewardTermCfg
from isaaclab.utils import configclass
from isaaclab_tasks.core.velocity.config.g1.flat_env_cfg import G1FlatEnvCfg

from ..physics_preset import physics_preset
from .physics import analytical

_ANALYTICAL = analytical(G1FlatEnvCfg(), contacts=60, constraints=260)


@configclass
class FlashNerdG1FlatEnvCfg(G1FlatEnvCfg):
    """``FlashNeRD-Velocity-Flat-G1``: the stock task's MDP."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scene.num_envs = 1024
        # The local robot is a newer revision whose soles are 3.8 cm lower: at the stock height it starts in the ground.
        self.scene.robot.init_state.pos = (0.0, 0.0, 0.78)
        # Off (the stock rewards) unless a training's schedule turns it on.
        self.rewards.alive = RewardTermCfg(func=mdp.is_alive, weight=0.0)  # pyright: ignore[reportAttributeAccessIssue]
        # A preset stands in for the configuration until it is resolved.
        self.sim.physics = physics_preset(_ANALYTICAL, mujoco_c=True)  # pyright: ignore[reportAttributeAccessIssue]
