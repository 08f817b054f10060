"""PPO for walking with rsl_rl: the stock networks and recipes under experiment names of their own.

With them checkpoints of both physics lie apart from those of the stock tasks.
"""

from __future__ import annotations

from isaaclab.utils import configclass
from isaaclab_rl.rsl_rl import RslRlMLPModelCfg
from isaaclab_tasks.contrib.velocity.config.anymal_c.agents.rsl_rl_ppo_cfg import (
    AnymalCFlatPPORunnerWithSymmetryCfg,
    AnymalCRoughPPORunnerCfg,
)
from isaaclab_tasks.core.velocity.config.g1.agents.rsl_rl_ppo_cfg import G1FlatPPORunnerCfg
from isaaclab_tasks.core.velocity.config.go2.agents.rsl_rl_ppo_cfg import UnitreeGo2FlatPPORunnerCfg


@configclass
class FlashNerdAnymalCFlatPPORunnerCfg(AnymalCFlatPPORunnerWithSymmetryCfg):
    """ANYmal-C on flat ground, sized for a CPU: a thousand worlds in place of the stock four.

    With the stock noise of 1.0 every reward is negative at first, and with so few samples an iteration the policy
    learned to fall at once (episodes of 75 steps for 100 iterations, in either physics); with half of it, to stand
    first.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.actor.distribution_cfg = RslRlMLPModelCfg.GaussianDistributionCfg(init_std=0.5)
        self.algorithm.num_mini_batches = 6
        self.algorithm.num_learning_epochs = 3
        self.experiment_name = "flashnerd_anymal_c_flat"


@configclass
class FlashNerdGo2FlatPPORunnerCfg(UnitreeGo2FlatPPORunnerCfg):
    """Go2 on flat ground."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.experiment_name = "flashnerd_go2_flat"


@configclass
class FlashNerdG1FlatPPORunnerCfg(G1FlatPPORunnerCfg):
    """G1 on flat ground."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.experiment_name = "flashnerd_g1_flat"


@configclass
class FlashNerdAnymalCRoughPPORunnerCfg(AnymalCRoughPPORunnerCfg):
    """The stock recipe and networks under its own experiment name."""

    def __post_init__(self) -> None:
        super().__post_init__()  # pyright: ignore[reportAttributeAccessIssue]
        self.experiment_name = "flashnerd_anymal_c_rough"
