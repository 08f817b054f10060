"""PPO for manipulation with rsl_rl: the stock recipes; experiment names of their own keep checkpoints apart."""

from __future__ import annotations

from isaaclab.utils import configclass
from isaaclab_tasks.core.lift.config.franka.agents.rsl_rl_ppo_cfg import (
    ALGO_CFG,
    STATE_CRITIC_CFG,
    STATE_POLICY_CFG,
    FrankaPPOBaseRunnerCfg,
)
from isaaclab_tasks.core.reorient.config.allegro_hand.agents.rsl_rl_ppo_cfg import AllegroHandManagerPPORunnerCfg


@configclass
class FlashNerdReorientPPORunnerCfg(AllegroHandManagerPPORunnerCfg):
    """The stock recipe and networks."""

    experiment_name = "flashnerd_reorient_allegro"


@configclass
class FlashNerdReorientReducedPPORunnerCfg(AllegroHandManagerPPORunnerCfg):
    """For 128 worlds of short episodes: smaller networks, a nearer horizon, and half the noise, since with more of it
    the cube is thrown out of the hand. Not tuned."""

    experiment_name = "flashnerd_reorient_allegro_reduced"
    max_iterations = 300

    def __post_init__(self) -> None:
        super().__post_init__()  # pyright: ignore[reportAttributeAccessIssue]
        self.actor.hidden_dims, self.critic.hidden_dims = [256, 128, 64], [256, 128, 64]
        self.actor.distribution_cfg.init_std = 0.5  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
        self.algorithm.gamma = 0.99


@configclass
class FlashNerdLiftPPORunnerCfg(FrankaPPOBaseRunnerCfg):
    """The stock recipe and networks."""

    experiment_name = "flashnerd_lift_cube_franka"
    obs_groups = {  # noqa: RUF012
        "actor": ["policy", "proprio", "perception"],
        "critic": ["policy", "proprio", "perception"],
    }
    actor = STATE_POLICY_CFG
    critic = STATE_CRITIC_CFG
    algorithm = ALGO_CFG
