"""Options of a refreshed training: ``--refresh N`` and ``refresh.KEY=VALUE`` words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.training.mixture import check_shares

PREFIX = "refresh."


def option(default: Any, text: str) -> Any:
    """A field with the help text that ``--help`` shows."""
    return field(default=default, metadata={"help": text})


@dataclass
class RefreshOptions:
    """How a learned world is refreshed. ``every`` is ``--refresh N``; the others are typed as ``refresh.KEY=VALUE``."""

    every: int = option(0, "training iterations between refreshes; 0 turns them off")
    data: str = option("", "base data set of the bundle; data/ROBOT when empty")
    physics: str = option("newton_mjwarp", "preset of the simulator; mujoco_c is the fast one on a CPU")
    num_envs: int = option(64, "worlds in the simulator")
    score_steps: int = option(500, "control steps that score the policy; 0 is a whole episode")
    steps: int = option(500, "control steps that are recorded")
    seeds: list[int] = field(default_factory=lambda: [101], metadata={"help": "validation seeds of the scores"})
    noise: list[float] = field(
        default_factory=lambda: [0.0, 1.0, 2.0], metadata={"help": "exploration noise of the recorded worlds"}
    )
    older: int = option(2, "checkpoints of earlier refreshes that are recorded too")
    pushes: float = option(0.25, "share of the recorded worlds that are pushed")
    share: float = option(0.4, "share of the training windows from recorded data")
    more: dict[str, float] = field(
        default_factory=dict,
        metadata={"help": "further data set -> its share of the windows, as the bundle had them: {data/visited: 0.12}"},
    )
    rounds: int = option(4, "latest refreshes whose data are trained on")
    minutes: float = option(3.0, "fine-tuning [min]; unused with updates")
    updates: int = option(0, "optimiser steps of the fine-tuning; 0 takes as many as fit into minutes")
    lr: float = option(2e-3, "peak rate of the fine-tuning")
    window: int = option(5, "frames in a window of the fine-tuning")
    batch: int = option(512, "windows a step of the fine-tuning")
    power: float = option(0.5, "errors of frames (0.5) or their squares (1): train.power of the fine-tuning")
    compiled: bool = option(True, "compile the fine-tuning's loss")
    beside: str = option("auto", "auto | true | false: whether the learner goes on meanwhile; auto asks for two cores")
    final: bool = option(True, "score the last policy in both worlds when the training ends")

    def check(self, robot: str) -> None:
        """Fill in the base data set and refuse values that cannot work.

        Args:
            robot: Name of the bundle's robot.

        Raises:
            FlashNerdError: Names the option, its value and what is needed.
        """
        self.data = str(Path(self.data or f"data/{robot}").resolve())
        if not (Path(self.data) / "dataset.json").is_file():
            raise FlashNerdError(
                f"refresh.data is {self.data}, which is no data set: type refresh.data=FOLDER with the data that the "
                f"bundle was trained on, or make one with python scripts/dataset.py robot={robot}."
            )
        least = {
            "every": 1, "num_envs": 2, "score_steps": 0, "steps": 2, "older": 0, "rounds": 1, "updates": 0, "window": 1,
            "batch": 1,
        }  # fmt: skip
        for name, low in least.items():
            if getattr(self, name) < low:
                raise FlashNerdError(f"refresh.{name} is {getattr(self, name)}, but at least {low} is needed.")
        if not self.seeds:
            raise FlashNerdError("refresh.seeds is empty, but at least one is needed: type refresh.seeds=[101].")
        if not self.noise or min(self.noise) < 0:
            raise FlashNerdError(f"refresh.noise is {self.noise}, but numbers of 0 or more are needed.")
        if not 0.0 < self.share < 1.0:
            raise FlashNerdError(f"refresh.share is {self.share}, but a number between 0 and 1 is needed.")
        self.more = {str(Path(folder).resolve()): share for folder, share in self.more.items()}
        check_shares(self.more, self.data, self.share, PREFIX)
        for folder in self.more:
            if not (Path(folder) / "dataset.json").is_file():
                raise FlashNerdError(f"refresh.more names {folder}, which is no data set: give a folder of one.")
        if not 0.0 <= self.pushes <= 1.0:
            raise FlashNerdError(f"refresh.pushes is {self.pushes}, but a share from 0 to 1 is needed.")
        if self.updates == 0 and not self.minutes > 0:
            raise FlashNerdError(f"refresh.minutes is {self.minutes}, but a number above 0 is needed.")
        if not self.lr > 0:
            raise FlashNerdError(f"refresh.lr is {self.lr}, but a number above 0 is needed.")
        if not 0.0 < self.power <= 1.0:
            raise FlashNerdError(f"refresh.power is {self.power}, but a number above 0 and at most 1 is needed.")
        # Hydra reads true and false as booleans and spells them with capitals.
        self.beside = self.beside.lower()
        if self.beside not in ("auto", "true", "false"):
            raise FlashNerdError(f"refresh.beside is '{self.beside}', but auto, true or false is needed.")

    @property
    def goes_on(self) -> bool:
        """Whether the learner trains on while the simulator and the fine-tuning run."""
        return self.beside == "true" or (self.beside == "auto" and len(os.sched_getaffinity(0)) > 1)


def take_options(words: Sequence[str], every: str | None) -> tuple[list[str], RefreshOptions | None]:
    """Take the ``refresh.`` words out of a command line.

    Args:
        words: The command line without ``--refresh``.
        every: Value of ``--refresh``; ``None`` or 0 is off.

    Raises:
        FlashNerdError: For an unknown option, a wrong type, or options without ``--refresh``.
    """
    from flashnerd_ext.cli import parse

    mine = [word for word in words if word.startswith(PREFIX)]
    rest = [word for word in words if not word.startswith(PREFIX)]
    if every is not None and not every.isdigit():
        raise FlashNerdError(f"--refresh is '{every}', but a whole number of iterations is needed; 0 is off.")
    if not every or int(every) == 0:
        if mine:
            raise FlashNerdError(f"'{mine[0]}' has no effect without refreshes: type --refresh 100.")
        return rest, None
    options = parse(RefreshOptions, [word.removeprefix(PREFIX) for word in mine])
    options.every = int(every)
    return rest, options
