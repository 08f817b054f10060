"""Means and bootstrap intervals of episodic returns, over training seeds and episodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Returns = Sequence[np.ndarray]
"""Returns of the episodes of each policy: one array [E] a training seed."""


def mean(returns: Returns) -> float:
    """Mean over policies of the mean over their episodes, so that every training seed counts the same."""
    return float(np.mean([values.mean() for values in returns]))


def resampled(returns: Returns, rounds: int, generator: np.random.Generator) -> np.ndarray:
    """Bootstrap means [rounds]: policies are drawn with replacement, and episodes within each drawn policy.

    With one policy only the episodes vary, so that the interval says nothing about other training seeds.
    """
    count = len(returns)
    # Mean of a bootstrap draw of E episodes, through multinomial counts: exact and fast.
    means = np.stack(
        [generator.multinomial(len(v), np.full(len(v), 1.0 / len(v)), size=rounds) @ v / len(v) for v in returns]
    )
    picks = generator.integers(0, count, size=(rounds, count))
    fresh = means if count == 1 else np.stack([means[picks[:, i], np.arange(rounds)] for i in range(count)])
    return fresh.mean(axis=0)


def interval(samples: np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Central interval of bootstrap samples."""
    low, high = np.quantile(samples, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


def ratio(
    above: Returns, below: Returns, rounds: int, generator: np.random.Generator
) -> tuple[float, tuple[float, float]] | None:
    """Ratio of two means with its interval; None where the lower one's mean is not positive, since a share of a
    negative return means nothing."""
    if mean(below) <= 0.0:
        return None
    samples = resampled(above, rounds, generator) / resampled(below, rounds, generator)
    return mean(above) / mean(below), interval(samples)
