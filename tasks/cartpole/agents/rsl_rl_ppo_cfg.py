"""PPO for CartPole with rsl_rl: the stock task's network and recipe, sized for two CPU cores."""

from __future__ import annotations

from isaaclab.utils import configclass
from isaaclab_tasks.core.cartpole.agents.rsl_rl_ppo_cfg import CartpolePPORunnerCfg


@configclass
class FlashNerdCartpolePPORunnerCfg(CartpolePPORunnerCfg):
    """The stock recipe under its own experiment name, so that checkpoints of both physics lie apart."""

    experiment_name = "flashnerd_cartpole"
