"""Exact mean, spread and range of a data set that several processes wrote (Welford's update, Chan's merge)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Statistics:
    """Per-feature moments in float64 of ``count`` rows."""

    count: int
    mean: np.ndarray
    m2: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray) -> Statistics:
        """Of rows [n, F]; n may be 0."""
        rows = np.asarray(rows, np.float64)
        size = rows.shape[1]
        if len(rows) == 0:
            return cls(0, np.zeros(size), np.zeros(size), np.full(size, np.inf), np.full(size, -np.inf))
        mean = rows.mean(0)
        return cls(len(rows), mean, ((rows - mean) ** 2).sum(0), rows.min(0), rows.max(0))

    def merged(self, other: Statistics) -> Statistics:
        """Of both row sets together; the order of merging matters only to rounding."""
        count = self.count + other.count
        if count == 0:
            return self
        delta = other.mean - self.mean
        return Statistics(
            count,
            self.mean + delta * (other.count / count),
            self.m2 + other.m2 + delta**2 * (self.count * other.count / count),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def std(self) -> np.ndarray:
        """Population standard deviation."""
        return np.sqrt(self.m2 / max(self.count, 1))

    def packed(self) -> np.ndarray:
        """[5, F] float64 for an HDF5 attribute: count, mean, m2, low, high."""
        return np.stack([np.full_like(self.mean, self.count), self.mean, self.m2, self.low, self.high])

    @classmethod
    def unpacked(cls, rows: np.ndarray) -> Statistics:
        """The inverse of :meth:`packed`."""
        return cls(int(rows[0, 0]), rows[1].copy(), rows[2].copy(), rows[3].copy(), rows[4].copy())

    def to_dict(self, names: list[str]) -> dict[str, object]:
        """JSON-able: a feature's name -> mean, std, min, max; nulls where there are no rows."""
        empty = self.count == 0

        def value(x: np.floating) -> float | None:
            return None if empty else float(x)

        content: dict[str, object] = {"count": self.count}
        for i, name in enumerate(names):
            moments = {"mean": self.mean[i], "std": self.std[i], "min": self.low[i], "max": self.high[i]}
            content[name] = {key: value(number) for key, number in moments.items()}
        return content
