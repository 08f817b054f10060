"""Fixed statistics: kept in float64, applied in the dtype of the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn


class ExactBuffers(nn.Module):
    """A module whose buffers move with it and keep their digits: ``model.to(bfloat16)`` rounds parameters only."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        exact = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, value in exact.items():
            moved = self._buffers[name]
            if value is not None and moved is not None:
                self._buffers[name] = value.to(moved.device)
        return self


class Normalizer(ExactBuffers):
    """Shift and scale of one vector; statistics are buffers that never train.

    A feature with a tiny spread keeps its own scale: a large epsilon would silence it. A constant one gets scale 1.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("std", torch.ones(size, dtype=torch.float64))

    def fit(self, mean: Tensor, std: Tensor) -> None:
        """Take float64 statistics; zero spread becomes 1."""
        self.mean.copy_(mean)
        self.std.copy_(torch.where(std > 0, std, torch.ones_like(std)))

    def forward(self, value: Tensor) -> Tensor:
        """Normalised value, same shape and dtype."""
        return (value - self.mean.to(value.dtype)) * (1.0 / self.std).to(value.dtype)

    def undo(self, value: Tensor) -> Tensor:
        """Inverse of :meth:`forward`."""
        return value * self.std.to(value.dtype) + self.mean.to(value.dtype)
