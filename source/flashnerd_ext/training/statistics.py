"""What is computed once from the data: normalisation and the closed-form affine path.

All sums run in float64.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.flashnerd import FlashNerd


def moments(values: Tensor, index: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of rows, float64 [F] each."""
    rows = (values if index is None else values[index]).double()
    return rows.mean(0), rows.std(0, correction=0)


def fit_normalisation(model: DynamicsModel, frames: Tensor, targets: Tensor) -> None:
    """Set the statistics of frames and outputs from rows [n, F] and [n, O]."""
    model.frame_norm.fit(*moments(frames))
    model.out_norm.fit(*moments(targets))


@torch.no_grad()
def fit_affine(model: FlashNerd, frames: Tensor, targets: Tensor, ridge: float = 1e-10) -> Tensor:
    """Closed-form least squares of the affine path; the residual's spread becomes the network's output scale.

    Returns:
        Share of each output's variance that the affine path leaves over, float64 [O].
    """
    z = model.frame_norm(frames.double())
    y = model.out_norm(targets.double())
    weight = least_squares(torch.cat((z, torch.ones_like(z[:, :1])), -1), y, ridge)
    model.affine.weight.copy_(weight[:-1].T)
    model.affine.bias.copy_(weight[-1])
    left = y - z @ weight[:-1] - weight[-1]
    spread = left.std(0, correction=0)
    model.residual_norm.fit(torch.zeros_like(spread), spread.clamp_min(1e-9))
    return spread**2


def least_squares(x: Tensor, y: Tensor, ridge: float = 1e-10) -> Tensor:
    """Ridge regression by the normal equations in float64: x [n, F], y [n, O] -> [F, O]."""
    gram = x.T @ x
    gram.diagonal().add_(ridge * gram.diagonal().mean())
    return torch.linalg.solve(gram, x.T @ y)
