"""PPO for walking with rsl_rl: the stock networks and recipes, sized for two CPU cores."""

from __future__ import annotations

from isaaclab.utils import configclass
from isaaclab_tasks.contrib.velocity.config.anymal_c.agents.rsl_rl_ppo_cfg import (
    AnymalCFlatPPORunnerCfg,
    AnymalCRoughPPORunnerCfg,
)


@configclass
class FlashNerdAnymalCFlatPPORunnerCfg(AnymalCFlatPPORunnerCfg):
    """The stock recipe under its own experiment name, so that checkpoints of both physics lie apart."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.experiment_name = "flashnerd_anymal_c_flat"


@configclass
class FlashNerdAnymalCRoughPPORunnerCfg(AnymalCRoughPPORunnerCfg):
    """The stock recipe and networks under its own experiment name."""

    experiment_name = "flashnerd_anymal_c_rough"
