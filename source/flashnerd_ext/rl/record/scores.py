"""Scores of episodes: return, falls, tracking error and drift, by group of worlds and by bin of commands.

Every world gives the same number of episodes, its first ones, so that short episodes are not counted more often. Where
the recording is shorter than an episode, its end cuts all of them at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from flashnerd_ext.model.metric import rotate_inverse
from flashnerd_ext.rl.record.commands import BINS, OTHER, bins_of
from flashnerd_ext.rl.returns import interval, resampled

ENDS = ("fell", "time", "cut")
BOOTSTRAP = 4000


@dataclass(frozen=True)
class Episode:
    """One episode.

    Attributes:
        group: Group of worlds: which policy, which noise.
        bin: Bin of the command that it began with.
        score: Return.
        steps: Control steps.
        end: ``fell`` (a termination), ``time`` (its limit), or ``cut`` (the recording ended).
        pushed: Whether the recorder pushed this world.
        commands: Commands that it had one after the other.
        tracking_error: Mean distance of the horizontal velocity from the command [m/s]; ``None`` without a command.
        turn_error: Mean distance of the yaw rate from the command [rad/s].
        drift: Distance between start and end over the time [m/s], for standing commands alone.
    """

    world: int
    group: int
    bin: str
    score: float
    steps: int
    end: str
    pushed: bool
    commands: int = 1
    tracking_error: float | None = None
    turn_error: float | None = None
    drift: float | None = None


class EpisodeBook:
    """Adds control steps up to episodes.

    Args:
        groups: Group of each world, [N]. pushed: Whether each world is pushed, [N].
        count: Episodes of each world that count.
        dt: Control step [s].
    """

    def __init__(self, groups: np.ndarray, pushed: np.ndarray, count: int, dt: float) -> None:
        self._groups, self._pushed, self._count, self._dt = groups, pushed, count, dt
        worlds = len(groups)
        self.episodes: list[Episode] = []
        self._seen = np.zeros(worlds, int)
        self._sums = np.zeros((worlds, 4))  # return, steps, tracking error, turn error
        self._start = np.full((worlds, 2), np.nan)
        self._place = np.zeros((worlds, 2))
        self._bin = np.full(worlds, -1)
        self._number = np.zeros(worlds, int)

    @property
    def full(self) -> bool:
        """Whether every world has its episodes."""
        return bool((self._seen >= self._count).all())

    def add(
        self,
        reward: np.ndarray,
        terminated: np.ndarray,
        timed_out: np.ndarray,
        state: tuple[np.ndarray, np.ndarray] | None = None,
        command: np.ndarray | None = None,
        number: np.ndarray | None = None,
    ) -> None:
        """Take one control step.

        Args:
            reward: [N]. terminated, timed_out: Which episodes it ended, boolean [N].
            state: joint_q and joint_qd of free bases at the end of the physics, before resets; for commands.
            command: Velocity command that the step was under, [N, 3].
            number: How many commands the episode has had, [N].
        """
        self._sums[:, 0] += reward
        self._sums[:, 1] += 1
        if command is not None and state is not None:
            q, qd = state
            fresh = self._bin < 0
            self._bin[fresh] = bins_of(command)[fresh]
            self._place = q[:, :2].astype(float)
            self._start[fresh] = self._place[fresh]
            speed = rotate_inverse(q[:, 3:7], qd[:, :3])
            turn = rotate_inverse(q[:, 3:7], qd[:, 3:6])
            self._sums[:, 2] += np.hypot(*(speed[:, :2] - command[:, :2]).T)
            self._sums[:, 3] += np.abs(turn[:, 2] - command[:, 2])
            self._number = np.maximum(number, 1) if number is not None else np.ones(len(reward), int)
        for world in np.flatnonzero(terminated | timed_out):
            self._end(int(world), "fell" if terminated[world] else "time")

    def finish(self) -> list[Episode]:
        """Cut what is still going on; returns all episodes in the order of their worlds."""
        for world in np.flatnonzero((self._seen < self._count) & (self._sums[:, 1] > 0)):
            self._end(int(world), "cut")
        return sorted(self.episodes, key=lambda episode: episode.world)

    def _end(self, world: int, end: str) -> None:
        total, steps, tracking, turning = self._sums[world]
        known = self._bin[world] >= 0
        name = BINS[self._bin[world]] if known else OTHER
        if self._seen[world] < self._count:
            travelled = float(np.hypot(*(self._place[world] - self._start[world])))
            self.episodes.append(
                Episode(
                    world,
                    int(self._groups[world]),
                    name,
                    float(total),
                    int(steps),
                    end,
                    bool(self._pushed[world]),
                    int(self._number[world]) if known else 1,
                    float(tracking / steps) if known else None,
                    float(turning / steps) if known else None,
                    travelled / max(steps - 1, 1) / self._dt if name == "stand" else None,
                )
            )
        self._seen[world] += 1
        self._sums[world] = 0.0
        self._bin[world] = -1


def summarise(episodes: Iterable[Episode], seed: int = 0) -> dict[str, Any]:
    """Mean return with its interval, falls, errors and drift, of all episodes and of each bin.

    Returns:
        ``episodes``, ``return``, ``interval`` (95 %), ``falls`` (share), ``steps`` (mean), ``ends`` (counts), and
        ``bins``: bin -> the same without ``bins``, with ``tracking_error``, ``turn_error``, ``drift`` where known.
    """
    chosen = list(episodes)
    bins = sorted({episode.bin for episode in chosen}, key=[*BINS, OTHER].index)
    return _facts(chosen, seed) | {"bins": {name: _facts([e for e in chosen if e.bin == name], seed) for name in bins}}


def _facts(episodes: Sequence[Episode], seed: int) -> dict[str, Any]:
    if not episodes:
        return {"episodes": 0, "return": None, "interval": None, "falls": None, "steps": None, "ends": {}}
    scores = np.array([episode.score for episode in episodes])
    facts: dict[str, Any] = {
        "episodes": len(episodes),
        "return": float(scores.mean()),
        "interval": list(interval(resampled([scores], BOOTSTRAP, np.random.default_rng(seed)))),
        "falls": float(np.mean([episode.end == "fell" for episode in episodes])),
        "steps": float(np.mean([episode.steps for episode in episodes])),
        "ends": dict(Counter(episode.end for episode in episodes)),
    }
    for name in ("tracking_error", "turn_error", "drift"):
        known = [value for episode in episodes if (value := getattr(episode, name)) is not None]
        if known:
            facts[name] = float(np.mean(known))
    return facts


def to_json(episodes: Iterable[Episode]) -> list[dict[str, Any]]:
    """JSON-able rows."""
    return [asdict(episode) for episode in episodes]


def from_json(rows: Iterable[dict[str, Any]]) -> list[Episode]:
    """The inverse of :func:`to_json`."""
    return [Episode(**row) for row in rows]
