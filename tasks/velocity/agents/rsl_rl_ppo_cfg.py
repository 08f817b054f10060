"""PPO for walking with rsl_rl: the stock networks and recipes under experiment names of their own.

With them checkpoints of both physics lie apart from those of the stock tasks.
"""

from __future__ import annotations

from isaaclab.utils import configclass
from isaaclab_tasks.contrib.velocity.config.anymal_c.agents.rsl_rl_ppo_cfg import AnymalCFlatPPORunnerCfg
from isaaclab_tasks.core.velocity.config.g1.agents.rsl_rl_ppo_cfg import G1FlatPPORunnerCfg
from isaaclab_tasks.core.velocity.config.go2.agents.rsl_rl_ppo_cfg import UnitreeGo2FlatPPORunnerCfg


@configclass
class FlashNerdAnymalCFlatPPORunnerCfg(AnymalCFlatPPORunnerCfg):
    """ANYmal-C on flat ground."""

    def __post_init__(self) -> None:
        super().__post_init__()
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
