"""PPO for walking with rsl_rl: the stock networks and rewards, sized for a CPU's thousand worlds.

Each sample counts twice, left and right exchanged: ANYmal stood after 60 iterations in place of 250, and had after 140
the return that it had after 460 without. Three epochs in place of five keep the learner's time what it was. Experiment
names of their own keep checkpoints apart from those of the stock tasks.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from isaaclab.utils import configclass
from isaaclab_rl.rsl_rl import RslRlPpoAlgorithmCfg, RslRlSymmetryCfg
from isaaclab_tasks.contrib.velocity.config.anymal_c.agents.rsl_rl_ppo_cfg import (
    AnymalCFlatPPORunnerCfg,
    AnymalCRoughPPORunnerCfg,
)
from isaaclab_tasks.core.velocity.config.g1.agents.rsl_rl_ppo_cfg import G1FlatPPORunnerCfg
from isaaclab_tasks.core.velocity.config.go2.agents.rsl_rl_ppo_cfg import UnitreeGo2FlatPPORunnerCfg

from flashnerd_ext.rl.symmetry import four_ways, left_right


def walk(easy: dict[str, float]) -> list[dict[str, Any]]:
    """Forward first, then most directions, then the task itself, see :mod:`flashnerd_ext.rl.schedule`.

    Args:
        easy: Weights while a robot learns to stand and to walk at all.
    """
    steady = {"alive": 0.5, "feet_air_time": 0.0}
    return [
        {
            "until": 60,
            "commands": {"lin_vel_x": [0.2, 0.6], "lin_vel_y": [0.0, 0.0], "rel_standing_envs": 0.0},
            "rewards": {"alive": 1.0, "feet_air_time": 0.0, **easy},
            "algorithm": {"entropy_coef": 0.01},
        },
        {"until": 110, "commands": {"lin_vel_x": [-0.6, 0.8], "lin_vel_y": [-0.4, 0.4]}, "rewards": steady},
        {"until": 160, "commands": {"lin_vel_x": [-0.8, 1.0], "lin_vel_y": [-0.7, 0.7]}, "rewards": steady},
    ]


def step() -> list[dict[str, Any]]:
    """A biped's: standing and slow steps forward, then all speeds forward, then the task itself."""
    forward = {"lin_vel_y": [0.0, 0.0], "ang_vel_z": [-0.5, 0.5]}
    return [
        {"until": 100, "commands": {"lin_vel_x": [0.0, 0.5], **forward}, "rewards": {"alive": 1.0}},
        {"until": 200, "commands": {"lin_vel_x": [0.0, 0.8], **forward}, "rewards": {"alive": 0.5}},
    ]


@configclass
class ScheduledPpoCfg(RslRlPpoAlgorithmCfg):
    """PPO with a schedule."""

    class_name: str = "flashnerd_ext.rl.scheduled_ppo:ScheduledPPO"
    stages: list[Any] = field(default_factory=list)


def scheduled(algorithm: Any, stages: list[dict[str, Any]]) -> ScheduledPpoCfg:
    """The same settings, followed by a schedule."""
    own = {name: value for name, value in vars(algorithm).items() if name != "class_name"}
    return ScheduledPpoCfg(**own, stages=stages)


def mirrored(algorithm: Any, images: Any = left_right) -> None:
    """Each sample counts with its mirror images, and is gone over less often."""
    algorithm.symmetry_cfg = RslRlSymmetryCfg(use_data_augmentation=True, data_augmentation_func=images)
    algorithm.num_learning_epochs = 3


@configclass
class FlashNerdAnymalCFlatPPORunnerCfg(AnymalCFlatPPORunnerCfg):
    """ANYmal-C on flat ground, sized for a CPU: a thousand worlds in place of the stock four.

    With so few samples an iteration the stock task alone is learned badly, in either physics: with the stock noise all
    rewards are negative at first and the policy learns to fall, and white noise on joint targets hardly moves the
    base, so that a policy that may be told to go anywhere finds out nothing. Hence the schedule: first one must live
    (``alive``) and walk forward, then in most directions, and then the task as it is.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.algorithm = scheduled(self.algorithm, walk({"dof_torques_l2": -1.0e-5}))
        self.algorithm.num_mini_batches = 6
        mirrored(self.algorithm, four_ways)
        self.experiment_name = "flashnerd_anymal_c_flat"


@configclass
class FlashNerdGo2FlatPPORunnerCfg(UnitreeGo2FlatPPORunnerCfg):
    """Go2 on flat ground, with the schedule of ANYmal-C."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.algorithm = scheduled(self.algorithm, walk({"dof_torques_l2": -5.0e-5, "base_height_l2": -3.0}))
        self.algorithm.num_mini_batches = 6
        mirrored(self.algorithm)
        self.experiment_name = "flashnerd_go2_flat"


@configclass
class FlashNerdG1FlatPPORunnerCfg(G1FlatPPORunnerCfg):
    """G1 on flat ground: it stands first, and with half the noise, since with all of it a humanoid falls at once."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.algorithm = scheduled(self.algorithm, step())
        self.algorithm.num_mini_batches = 6
        self.actor.distribution_cfg.init_std = 0.5  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
        mirrored(self.algorithm)
        self.experiment_name = "flashnerd_g1_flat"


@configclass
class FlashNerdAnymalCRoughPPORunnerCfg(AnymalCRoughPPORunnerCfg):
    """The stock recipe and networks under its own experiment name."""

    def __post_init__(self) -> None:
        super().__post_init__()  # pyright: ignore[reportAttributeAccessIssue]
        mirrored(self.algorithm)
        self.experiment_name = "flashnerd_anymal_c_rough"
