"""The stock CartPole MDP with learned physics as the default."""

from __future__ import annotations

from isaaclab.utils import configclass
from isaaclab_newton.physics import NewtonCfg
from isaaclab_tasks.core.cartpole.cartpole_common import CartpolePhysicsCfg
from isaaclab_tasks.core.cartpole.cartpole_manager_env_cfg import CartpoleEnvCfg
from isaaclab_tasks.utils import PresetCfg

from flashnerd_ext.physics.flashnerd_manager_cfg import flashnerd_physics

_ANALYTICAL: NewtonCfg = CartpolePhysicsCfg().newton_mjwarp


@configclass
class FlashNerdCartpolePhysicsCfg(PresetCfg):
    """Learned physics, with the stock task's analytical physics beside it for comparison."""

    flashnerd: NewtonCfg = flashnerd_physics(_ANALYTICAL, bundle="cartpole")
    newton_mjwarp: NewtonCfg = _ANALYTICAL
    default: NewtonCfg = flashnerd_physics(_ANALYTICAL, bundle="cartpole")


@configclass
class FlashNerdCartpoleEnvCfg(CartpoleEnvCfg):
    """``FlashNeRD-Cartpole``: observations, actions, rewards, terminations and resets of ``Isaac-Cartpole``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scene.num_envs = 1024
        # A preset stands in for the configuration until it is resolved.
        self.sim.physics = FlashNerdCartpolePhysicsCfg()  # pyright: ignore[reportAttributeAccessIssue]
