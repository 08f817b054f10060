"""Options of ``scripts/train_dynamics.py``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.training.mixture import check_shares


def option(default: Any, text: str) -> Any:
    """A field with the help text that ``--help`` shows."""
    return field(default=default, metadata={"help": text})


@dataclass
class TrainOptions:
    """How to train."""

    recipe: str = option("flashnerd", "flashnerd | nerd (AdamW, equal weights, uniform draws, no closed-form parts)")
    updates: int = option(0, "optimiser steps; 0 takes as many as fit into train.minutes")
    minutes: float = option(10.0, "budget [min]; turned into a number of updates after a short calibration")
    batch: int = option(512, "windows a step, over all processes")
    window: int = option(5, "frames in a window")
    emphasis: float = option(1.0, "how much more often windows of unusual frames are drawn; 0 is uniform")
    mirror: bool = option(
        True, "learn each window with left and right exchanged too, if the robot has a mirror (flashnerd recipe)"
    )
    optimiser: str = option("", "soap | muon | adamw; empty is the recipe's own (soap, or adamw for nerd)")
    lr: float = option(1e-2, "peak rate (nerd recipe: try 1e-3)")
    muon_lr: float = option(3e-3, "peak rate of Muon on the block matrices (optimiser muon)")
    sensed_weight: float = option(0.02, "weight of the errors of forces and torques beside that of the state")
    power: float = option(1.0, "each frame's squared error to this power: 1 least squares; 0.5 for calm frames too")
    clip: float = option(1.0, "largest gradient norm")
    multistep: int = option(0, "steps unrolled in the last phase; 0 or 1 turns it off")
    multistep_share: float = option(0.15, "share of the updates that the last phase takes")
    readout: bool = option(True, "solve the readout in closed form at the end (flashnerd recipe)")
    newton: int = option(0, "Gauss-Newton iterations after the updates, for small models; 0 turns them off")
    newton_frames: int = option(100_000, "frames behind the loss and gradient of the Gauss-Newton iterations")
    validate_every: int = option(0, "updates between validations; 0 is a 40th of the run")
    checkpoint_seconds: float = option(60.0, "seconds between checkpoints")
    compiled: bool = option(True, "compile the loss with torch.compile")


@dataclass
class TrainDynamicsConfig:
    """Everything that decides a run; it is stored with the checkpoint."""

    robot: str = option("cartpole", "robot of the registry")
    model: str = option("flashnerd", "flashnerd | nerd | nerd_optimized")
    data: str = option("data/cartpole", "folder that scripts/dataset.py made")
    more: dict[str, float] = field(
        default_factory=dict,
        metadata={"help": "further data set -> its share of the windows, as more='{data/recorded: 0.3}'"},
    )
    out: str = option(
        "", "bundle folder; default runs/dynamics/ROBOT-MODEL-sSEED, with fixed contacts ROBOT-MODEL-fixed-sSEED"
    )
    init: str = option("", "bundle to start from (name or folder) instead of fresh weights: fine-tuning")
    seed: int = option(0, "seed of weights and batches")
    rollouts: int = option(2000, "test rollouts measured at the end, for the card; 0 measures none")
    resume: bool = option(False, "go on from the checkpoint in out")
    deterministic: bool = option(True, "ask for deterministic kernels")
    device: str = option("auto", "auto | cpu | cuda")
    threads: int = option(0, "threads; 0 takes OMP_NUM_THREADS or the cores of this process")
    options: dict[str, Any] = field(default_factory=dict, metadata={"help": "model options, e.g. options.width=96"})
    train: TrainOptions = field(default_factory=TrainOptions)

    def check(self) -> None:
        """Refuse values that cannot work.

        Raises:
            FlashNerdError: Names the option, its value and what is needed.
        """
        train = self.train
        check_shares(self.more, self.data)
        if train.recipe not in ("flashnerd", "nerd"):
            raise FlashNerdError(f"train.recipe is '{train.recipe}', but flashnerd or nerd is needed.")
        if train.optimiser not in ("", "soap", "muon", "adamw"):
            raise FlashNerdError(f"train.optimiser is '{train.optimiser}', but soap, muon or adamw is needed.")
        if train.emphasis < 0:
            raise FlashNerdError(f"train.emphasis is {train.emphasis}, but 0 or more is needed.")
        for name in ("batch", "window"):
            if getattr(train, name) < 1:
                raise FlashNerdError(f"train.{name} is {getattr(train, name)}, but at least 1 is needed.")
        for name in ("lr", "muon_lr", "clip", "checkpoint_seconds"):
            if not getattr(train, name) > 0:
                raise FlashNerdError(f"train.{name} is {getattr(train, name)}, but a number above 0 is needed.")
        if train.updates < 0 or (train.updates == 0 and not train.minutes > 0):
            raise FlashNerdError(
                f"train.updates is {train.updates} and train.minutes is {train.minutes}, "
                "but one of them must be above 0: type train.minutes=10."
            )
        if not 0.0 < train.power <= 1.0:
            raise FlashNerdError(f"train.power is {train.power}, but a number above 0 and at most 1 is needed.")
        if train.newton and train.power != 1.0:
            raise FlashNerdError(
                f"train.power is {train.power}, but Gauss-Newton iterations are of least squares: type train.power=1 "
                "or train.newton=0."
            )
        if train.newton < 0:
            raise FlashNerdError(f"train.newton is {train.newton}, but 0 or more is needed.")
        if train.newton_frames < train.window:
            raise FlashNerdError(
                f"train.newton_frames is {train.newton_frames}, but at least train.window={train.window} is needed."
            )
        if not 0.0 <= train.multistep_share < 1.0:
            raise FlashNerdError(f"train.multistep_share is {train.multistep_share}, but it must lie in [0, 1).")
