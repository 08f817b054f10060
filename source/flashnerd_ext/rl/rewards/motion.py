"""A recorded motion, and what rewards read while it was replayed; both are files between processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import atomic_save
from flashnerd_ext.rl.record.moment import Moment


@dataclass(frozen=True)
class Motion:
    """T control steps of N worlds in the simulator; the robot's own order of joints, Newton's conventions, float32.

    Attributes:
        action: What the environment was given, [T, N, A].
        q0, qd0: State that each step began with, [T, N, nq] and [T, N, nv]. q1, qd1: State that it ended with.
        torque: Mean torque of each actuated joint over the step [N m], [T, N, nu].
        force: Mean contact force on each link over the step, world frame [N], [T, N, L, 3].
        terminated, timed_out: Episodes that ended after the step, boolean [T, N].
    """

    action: np.ndarray
    q0: np.ndarray
    qd0: np.ndarray
    q1: np.ndarray
    qd1: np.ndarray
    torque: np.ndarray
    force: np.ndarray
    terminated: np.ndarray
    timed_out: np.ndarray

    @property
    def steps(self) -> int:
        """Control steps T."""
        return len(self.action)

    @property
    def worlds(self) -> int:
        """Worlds N."""
        return self.action.shape[1]

    @classmethod
    def of(
        cls,
        actions: Sequence[np.ndarray],
        moments: Sequence[Moment],
        ends: Sequence[tuple[np.ndarray, np.ndarray]],
    ) -> Self:
        """Put recorded steps one after the other; ``ends`` holds (terminated, timed out) of each step."""
        names = ("q0", "qd0", "q1", "qd1", "torque", "force")
        table = {name: np.stack([getattr(moment, name) for moment in moments]) for name in names}
        terminated, timed_out = (np.stack(column) for column in zip(*ends, strict=True))
        return cls(action=np.stack(actions), terminated=terminated, timed_out=timed_out, **table)

    def save(self, path: Path) -> Path:
        """Write an ``npz``; it appears whole."""
        return _save(path, {item.name: getattr(self, item.name) for item in fields(self)})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read it back.

        Raises:
            FlashNerdError: Where the file is missing or is something else.
        """
        table = _load(path)
        return cls(**{item.name: _column(table, item.name, path) for item in fields(cls)})


@dataclass(frozen=True)
class Seen:
    """What was read in one physics while the motion ran.

    Attributes:
        terms: Reward terms. weights: Of each, [R].
        rewards: Weight times value of each term, not multiplied by the step, [T, N, R].
        ends: Termination terms. ended: Whether each fired, boolean [T, N, K].
        command: First command of the task, [T, N, C]; C is 0 without one.
        signals: What terms read beside the state, each [T, N, ...].
    """

    terms: tuple[str, ...]
    weights: np.ndarray
    rewards: np.ndarray
    ends: tuple[str, ...]
    ended: np.ndarray
    command: np.ndarray
    signals: dict[str, np.ndarray] = field(default_factory=dict)

    def save(self, path: Path) -> Path:
        """Write an ``npz``; it appears whole."""
        table = {f"signal.{name}": value for name, value in self.signals.items()}
        table |= {"terms": np.array(self.terms), "ends": np.array(self.ends)}
        return _save(path, table | {n: getattr(self, n) for n in ("weights", "rewards", "ended", "command")})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read it back.

        Raises:
            FlashNerdError: Where the file is missing or is something else.
        """
        table = _load(path)
        arrays = {name: _column(table, name, path) for name in ("weights", "rewards", "ended", "command")}
        names = {name: tuple(str(item) for item in _column(table, name, path)) for name in ("terms", "ends")}
        signals = {key.removeprefix("signal."): value for key, value in table.items() if key.startswith("signal.")}
        return cls(terms=names["terms"], ends=names["ends"], signals=signals, **arrays)


def _save(path: Path, table: dict[str, Any]) -> Path:
    return atomic_save(path, lambda temporary: np.savez(temporary, **table))


def _load(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as content:
            return {name: content[name] for name in content.files}
    except (OSError, ValueError, EOFError, KeyError, BadZipFile) as error:
        raise FlashNerdError(f"{path} is not a recorded motion ({type(error).__name__}): record it again.") from None


def _column(table: dict[str, np.ndarray], name: str, path: Path) -> np.ndarray:
    if name not in table:
        raise FlashNerdError(f"{path} has no '{name}', which this release needs: record the motion again.")
    return table[name]
