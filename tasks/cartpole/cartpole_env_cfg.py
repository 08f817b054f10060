"""The stock CartPole MDP with learned physics as the default."""

from __future__ import annotations

from isaaclab.utils import configclass
from isaaclab_newton.physics import NewtonCfg
from isaaclab_tasks.core.cartpole.cartpole_common import CartpolePhysicsCfg
from isaaclab_tasks.core.cartpole.cartpole_manager_env_cfg import CartpoleEnvCfg

from ..physics_preset import physics_preset

_ANALYTICAL: NewtonCfg = CartpolePhysicsCfg().newton_mjwarp


@configclass
class FlashNerdCartpoleEnvCfg(CartpoleEnvCfg):
    """``FlashNeRD-Cartpole``: observations, actions, rewards, terminations and resets of ``Isaac-Cartpole``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scene.num_envs = 1024
        # A preset stands in for the configuration until it is resolved.
        self.sim.physics = physics_preset(_ANALYTICAL, "cartpole", learned_first=True)  # pyright: ignore[reportAttributeAccessIssue]
