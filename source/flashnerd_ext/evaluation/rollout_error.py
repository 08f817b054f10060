"""Rollout error of a dynamics model against recorded trajectories (no simulator needed).

The metric is

    E_H = sqrt(mean over rollouts, over steps 1..H and over state dimensions of (error / std)^2)

A rollout starts from one recorded frame with an empty cache and feeds on its own predictions; only the actuation
comes from the record. ``std`` is the standard deviation of each state dimension over all frames of the test data;
angles of revolute and continuous joints are wrapped to (-pi, pi] before the deviation is taken, and differences of
angles are wrapped too. The model runs in float32, the reference and all sums are float64.

A rollout **diverged** when, at any of its steps, its state is not finite or its normalised error (root mean square
over the state dimensions) exceeds ``DIVERGED_AT`` = 1: from there on the mean of the data would predict better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.metric import state_difference

Array = NDArray[Any]
Predictor = Callable[..., tuple[Array, Array]]
"""(joint_q [N, nq], joint_qd [N, nv], actuation [T, N, nu]) -> (joint_q [T + 1, N, nq], joint_qd [T + 1, N, nv]);
a fourth argument, where the data have it, is a mapping with ``condition`` [N, C] and ``friction`` [N] of the worlds."""

HORIZONS = (1, 15, 100, 200)
"""Horizons of the published tables [model steps]."""
DIVERGED_AT = 1.0
"""Normalised error of one frame beyond which its rollout counts as diverged [standard deviations]."""


@dataclass(frozen=True)
class Windows:
    """Rollouts to make: each starts at one recorded frame and follows the recorded actuation."""

    trajectory: NDArray[np.int64]
    """Index of the trajectory, shape [W]."""
    start: NDArray[np.int64]
    """Frame that the rollout starts from, shape [W]."""
    length: NDArray[np.int64]
    """Steps that are recorded and valid from there, at most the longest horizon, shape [W]."""


@dataclass(frozen=True)
class HorizonError:
    """Error at one horizon."""

    mean: float
    """E_H [standard deviations]; inf when a rollout was not finite."""
    low: float
    """Lower end of the 95 % interval (bootstrap over trajectories)."""
    high: float
    """Upper end of the 95 % interval (bootstrap over trajectories)."""
    median: float
    """Median over rollouts of the rollout's own E_H."""
    diverged: float
    """Share of the rollouts that diverged within the horizon, 0..1."""
    rollouts: int
    """Rollouts with at least this many valid steps."""


@dataclass(frozen=True)
class RolloutErrors:
    """Squared normalised errors of a set of rollouts, from which every figure is taken."""

    squared: NDArray[np.float64]
    """Mean over state dimensions of (error / std)^2 after each step, shape [W, H]; nan beyond a window's length."""
    windows: Windows
    sampler: NDArray[np.int64]
    """Sampler that each rollout's trajectory came from, shape [W]."""
    cumulative: NDArray[np.float64] = field(init=False, repr=False)
    """Each rollout's own E_h for h = 1..H, shape [W, H]; nan beyond a window's length."""

    def __post_init__(self) -> None:
        steps = np.arange(1, self.squared.shape[1] + 1)
        with np.errstate(over="ignore", invalid="ignore"):
            object.__setattr__(self, "cumulative", np.sqrt(np.cumsum(self.squared, axis=1) / steps))

    def at(self, horizon: int, rows: NDArray[np.bool_] | None = None, resamples: int = 1000, seed: int = 0):
        """E_H and what stands beside it, over ``rows`` [W] (all when None)."""
        keep = self.windows.length >= horizon
        if rows is not None:
            keep &= rows
        return summarise(self.squared[keep, :horizon], self.windows.trajectory[keep], resamples, seed)

    def curve(self, quantiles: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)) -> tuple[Array, Array]:
        """E_h for h = 1..H, shape [H], and quantiles over rollouts of their own E_h, shape [len(quantiles), H]."""
        horizon = self.squared.shape[1]
        mean, bands = np.full(horizon, np.nan), np.full((len(quantiles), horizon), np.nan)
        for h in range(1, horizon + 1):
            own = self.cumulative[self.windows.length >= h, h - 1]
            if len(own) == 0:
                break
            with np.errstate(over="ignore"):
                mean[h - 1] = np.sqrt(np.mean(own**2))
            bands[:, h - 1] = np.quantile(own, quantiles, method="nearest")  # no inf - inf between neighbours
        return mean, bands


def make_windows(
    valid: Array, horizon: int, starts: int | None = 1, limit: int | None = None, seed: int = 0, least: int = 1
) -> Windows:
    """Choose the frames that rollouts start from.

    Args:
        valid: Which transitions count, shape [n, T].
        horizon: Longest horizon [steps].
        starts: Starts per trajectory, spread evenly over it; 1 means the initial state, None means every frame.
        limit: Most rollouts; more are thinned at random (with ``seed``), never cut off at the end.
        least: Fewest valid steps of a rollout.
    """
    valid = np.asarray(valid, dtype=bool)
    count, steps = valid.shape
    run = np.zeros((count, steps + 1), dtype=np.int64)  # valid transitions in a row from each frame on
    for t in range(steps - 1, -1, -1):
        run[:, t] = np.where(valid[:, t], run[:, t + 1] + 1, 0)
    if starts is None:
        frames = np.arange(steps)
    else:
        frames = np.unique(np.floor(np.arange(starts) * steps / starts).astype(np.int64))
    trajectory, start = (x.reshape(-1) for x in np.meshgrid(np.arange(count), frames, indexing="ij"))
    length = np.minimum(run[trajectory, start], horizon)
    keep = np.flatnonzero(length >= least)
    if limit is not None and len(keep) > limit:
        keep = np.sort(np.random.default_rng(seed).choice(keep, size=limit, replace=False))
    return Windows(trajectory[keep], start[keep], length[keep])


def rollout_errors(
    predict: Predictor,
    layout: StateLayout,
    joint_q: Array,
    joint_qd: Array,
    actuation: Array,
    windows: Windows,
    std: Array,
    sampler: Array | None = None,
    batch: int = 1024,
    progress: Callable[[int], object] | None = None,
    worlds: Mapping[str, Array] | None = None,
) -> RolloutErrors:
    """Roll a model out from every window and compare with the record.

    Args:
        predict: The model, see ``Predictor``; called once for each batch, with an empty cache.
        layout: Joints of the robot.
        joint_q: Recorded positions, shape [n, T + 1, nq].
        joint_qd: Recorded velocities, shape [n, T + 1, nv].
        actuation: Recorded actuation, shape [n, T, nu].
        windows: Rollouts to make.
        std: Standard deviation of each state dimension, shape [D].
        sampler: Sampler of each trajectory, shape [n].
        batch: Rollouts stepped together.
        progress: Called with the number of rollouts finished.
        worlds: What differs between trajectories (``condition`` [n, C], ``friction`` [n]), handed to the model.
    """
    total = len(windows.start)
    if total == 0:
        raise FlashNerdError("no rollout can start: the test data holds no valid transition")
    horizon = int(windows.length.max())
    squared = np.full((total, horizon), np.nan)
    order = np.argsort(-windows.length, kind="stable")  # windows of like length share a batch
    for rows in np.array_split(order, max(1, -(-total // batch))):
        steps = int(windows.length[rows].max())
        tr, frame = windows.trajectory[rows], windows.start[rows, None] + np.arange(steps + 1)
        frame = np.minimum(frame, joint_q.shape[1] - 1)
        q_ref, qd_ref = joint_q[tr[:, None], frame], joint_qd[tr[:, None], frame]
        u = actuation[tr[:, None], np.minimum(frame[:, :-1], actuation.shape[1] - 1)]
        given = () if not worlds else ({name: values[tr] for name, values in worlds.items()},)
        q, qd = predict(q_ref[:, 0], qd_ref[:, 0], np.swapaxes(u, 0, 1), *given)
        diff = state_difference(layout, np.swapaxes(q, 0, 1)[:, 1:], np.swapaxes(qd, 0, 1)[:, 1:],
                                q_ref[:, 1:], qd_ref[:, 1:])  # fmt: skip
        with np.errstate(over="ignore", invalid="ignore"):
            error = np.mean((diff / std) ** 2, axis=-1)
        error = np.where(np.isfinite(error), error, np.inf)
        error[np.arange(steps) >= windows.length[rows, None]] = np.nan
        squared[rows, :steps] = error
        if progress is not None:
            progress(len(rows))
    kinds = np.zeros(total, np.int64) if sampler is None else np.asarray(sampler)[windows.trajectory].astype(np.int64)
    return RolloutErrors(squared, windows, kinds)


def summarise(squared: Array, trajectory: Array, resamples: int = 1000, seed: int = 0) -> HorizonError:
    """Figures of one horizon from squared errors [W, H] of rollouts that belong to ``trajectory`` [W]."""
    if len(squared) == 0:
        nan = float("nan")
        return HorizonError(nan, nan, nan, nan, nan, 0)
    with np.errstate(over="ignore", invalid="ignore"):
        own = np.mean(squared, axis=1)
        # Rollouts of one trajectory are not independent, so whole trajectories are drawn, not rollouts.
        _, group = np.unique(trajectory, return_inverse=True)
        weight = np.bincount(group).astype(np.float64)
        sums = np.bincount(group, weights=own)
        draw = np.random.default_rng(seed).integers(0, len(weight), size=(resamples, len(weight)))
        means = np.sqrt(sums[draw].sum(1) / weight[draw].sum(1)) if resamples else np.full(2, np.nan)
        low, high = np.quantile(means, (0.025, 0.975), method="nearest")
        return HorizonError(
            mean=float(np.sqrt(np.mean(own))),
            low=float(low),
            high=float(high),
            median=float(np.sqrt(np.median(own))),
            diverged=float(np.mean(np.any(squared > DIVERGED_AT**2, axis=1))),
            rollouts=len(own),
        )
