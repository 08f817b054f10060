"""A training as rsl_rl logged it to TensorBoard: reward and seconds of each iteration."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.errors import FlashNerdError, one_line

COLLECTION, LEARNING, REWARD = "Perf/collection_time", "Perf/learning_time", "Train/mean_reward"
"""Tags of rsl_rl; a reward is there from the first finished episode on."""


@dataclass(frozen=True)
class Curve:
    """One training.

    Attributes:
        iteration: Numbers of the iterations, [I].
        collection, learning: Seconds of each, [I].
        reward: Mean return of the last 100 episodes, NaN before the first one ended, [I].
        wall: From the first to the last entry of the log [s].
    """

    iteration: np.ndarray
    collection: np.ndarray
    learning: np.ndarray
    reward: np.ndarray
    wall: float

    @property
    def seconds(self) -> np.ndarray:
        """Collection and learning accumulated up to the end of each iteration [s], [I]."""
        return np.cumsum(self.collection + self.learning)

    @property
    def final(self) -> float:
        """The last reward; NaN where no episode ended."""
        known = self.reward[np.isfinite(self.reward)]
        return float(known[-1]) if len(known) else float("nan")

    def reached(self, level: float) -> float | None:
        """Seconds until the reward first was ``level`` or more; ``None`` where it never was."""
        above = np.flatnonzero(self.reward >= level)
        return float(self.seconds[above[0]]) if len(above) else None


def events(run: Path) -> list[Path]:
    """Event files of a run folder, oldest first."""
    return sorted(run.glob("events.out.tfevents.*"), key=lambda path: (path.stat().st_mtime, path.name))


def read_curve(run: Path) -> Curve:
    """The curve of a run folder.

    Raises:
        FlashNerdError: Where its log is missing, damaged or of something else.
    """
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found: dict[str, dict[int, tuple[float, float]]] = {COLLECTION: {}, LEARNING: {}, REWARD: {}}
    for path in events(run):
        try:
            for event in EventFileLoader(str(path)).Load():
                for value in event.summary.value:
                    if value.tag in found:
                        # What was logged last counts: a resumed training repeats iterations.
                        found[value.tag][event.step] = (event.wall_time, _number(value))
        except Exception as error:
            raise FlashNerdError(f"{path} cannot be read as a TensorBoard log: {one_line(error, 120)}") from None
    times = found[COLLECTION]
    if not times or set(times) != set(found[LEARNING]):
        raise FlashNerdError(
            f"{run} has {len(times)} entries of {COLLECTION} and {len(found[LEARNING])} of {LEARNING}, but one of each "
            "an iteration is needed: give the folder of a training with rsl_rl."
        )
    steps = sorted(times)

    def column(tag: str) -> np.ndarray:
        return np.array([found[tag].get(step, (0.0, float("nan")))[1] for step in steps])

    walls = [times[step][0] for step in steps]
    return Curve(np.array(steps), column(COLLECTION), column(LEARNING), column(REWARD), max(walls) - min(walls))


def _number(value: Any) -> float:
    """A scalar, in the old form or as a tensor, which TensorBoard's loader makes of it."""
    if value.HasField("simple_value"):
        return float(value.simple_value)
    from tensorboard.util.tensor_util import make_ndarray

    return float(make_ndarray(value.tensor))
