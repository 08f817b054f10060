"""The last layer in closed form: given its inputs, the best linear readout of a trained network is a least-squares fit.

Gradient descent leaves the readout near its optimum; solving it in float64 takes seconds and removes what is left.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flashnerd_ext.model.flashnerd import FlashNerd
from flashnerd_ext.training.windows import Windows


@torch.no_grad()
def solve_readout(
    model: FlashNerd, windows: Windows, count: int, generator: torch.Generator, ridge: float = 1e-9
) -> None:
    """Refit head and affine path together on ``count`` windows; all frames of a window count, as in training.

    The solution replaces the weights in place; the caller validates and keeps the better.
    """
    dtype = model.head.weight.dtype
    gram: Tensor | None = None
    moment: Tensor | None = None
    base = _stack_weights(model)
    for starts in windows.draw(count, generator).split(4096):
        frames, targets = windows.batch(starts)
        z, entered = model._enter(frames.to(dtype), None)
        x = entered
        for block in model._stream_blocks():
            x = block.sequence(x)
        features = torch.cat((model.features(x, entered), z, torch.ones_like(z[..., :1])), -1).flatten(0, -2).double()
        # Fit what the present readout leaves over: the correction is small, so the ridge pulls towards the network.
        left = model.out_norm(targets.double()).flatten(0, -2) - features @ base
        gram = features.T @ features if gram is None else gram + features.T @ features
        moment = features.T @ left if moment is None else moment + features.T @ left
    assert gram is not None and moment is not None
    gram.diagonal().add_(ridge * gram.diagonal())
    weight = base + torch.linalg.solve(gram, moment)
    hidden, spread = model.head.in_features, model.residual_norm.std
    model.head.weight.copy_((weight[:hidden] / spread).T)
    model.head.bias.zero_()
    model.affine.weight.copy_(weight[hidden:-1].T)
    model.affine.bias.copy_(weight[-1])


def _stack_weights(model: FlashNerd) -> Tensor:
    spread = model.residual_norm.std
    head = model.head.weight.double().T * spread
    bias = model.affine.bias.double() + model.head.bias.double() * spread
    return torch.cat((head, model.affine.weight.double().T, bias[None]))

