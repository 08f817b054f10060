"""The last layers in closed form: given what flows into them, the best linear readout is a least-squares fit.

Gradient descent leaves the readout near its optimum; solving it in float64 takes seconds and removes what is left.
Without a final norm the prediction is linear in the last block's branches too, so its second projection is solved
together with the head: head [A, B] and projection P give A (x + P h) + B e, and any pair of maps from x and from h can
be written that way, as A has full row rank.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flashnerd_ext.model.contacts import ContactRows
from flashnerd_ext.model.flashnerd import FlashNerd
from flashnerd_ext.training.windows import Windows


@torch.no_grad()
def solve_readout(
    model: FlashNerd, windows: Windows, count: int, generator: torch.Generator, ridge: float = 1e-9
) -> None:
    """Refit readout and direct path together on ``count`` windows; all frames of a window count, as in training.

    The solution replaces the weights in place; the caller validates and keeps the better.
    """
    base = _present(model)
    gram = torch.zeros((len(base), len(base)), dtype=torch.float64)
    moment = torch.zeros_like(base)
    for starts in windows.draw(count, generator).split(4096):
        frames, targets, rows = windows.batch(starts)
        explained = model.explained(frames)
        if explained is not None:
            targets = targets - explained
        features = _features(model, frames.to(model.head.weight.dtype), rows)
        # Fit what the present readout leaves over: the correction is small, so the ridge pulls towards the network.
        left = model.out_norm(targets.double()).flatten(0, -2) - features @ base
        gram += features.T @ features
        moment += features.T @ left
    gram.diagonal().mul_(1.0 + ridge)
    # A feature that is 0 in all of the data, such as the distance beyond a stop that nothing reaches, keeps its weight.
    gram.diagonal()[gram.diagonal() == 0.0] = 1.0
    _replace(model, base + torch.linalg.solve(gram, moment))


def _features(model: FlashNerd, frames: Tensor, rows: ContactRows | None) -> Tensor:
    """Inputs of the readout, float64 [rows, .]: last block's input and branches (or its normed output), embedding,
    normalised frame, one."""
    z, entered = model._enter(frames, rows)
    *first, last = model._stream_blocks()
    x = entered
    for block in first:
        x = block.sequence(x)
    hidden = (x, last.branches(x)) if model.options.norm == "none" else (model.norm(last.sequence(x)),)
    return torch.cat((*hidden, entered, z, torch.ones_like(z[..., :1])), -1).flatten(0, -2).double()


def _present(model: FlashNerd) -> Tensor:
    """The present readout as one matrix on :func:`_features`, float64 [., O]."""
    scale, width = model.residual_norm.std, model.options.width
    output, embedding = model.head.weight.double().split(width, 1)
    last = model._stream_blocks()[-1]
    bias = model.affine.bias.double() + scale * model.head.bias.double()
    parts = [output]
    if model.options.norm == "none":
        parts.append(output @ last.pack_out.weight.double())
        bias = bias + scale * (output @ last.pack_out.bias.double())
    rows = [scale[:, None] * torch.cat((*parts, embedding), 1), model.affine.weight.double(), bias[:, None]]
    return torch.cat(rows, 1).T


def _replace(model: FlashNerd, weight: Tensor) -> None:
    """Write a matrix on :func:`_features` back into the layers."""
    scale, width = model.residual_norm.std, model.options.width
    last = model._stream_blocks()[-1]
    sizes = [width, *([width + last.hidden] if model.options.norm == "none" else []), width, model.frame_size, 1]
    parts = [part.T for part in weight.split(sizes)]
    output, embedding = parts[0] / scale[:, None], parts[-3] / scale[:, None]
    model.head.weight.copy_(torch.cat((output, embedding), 1))
    model.head.bias.zero_()
    model.affine.weight.copy_(parts[-2])
    model.affine.bias.copy_(parts[-1].squeeze(1))
    if model.options.norm == "none":
        wanted = parts[1] / scale[:, None]
        present = last.pack_out.weight.double()
        # The least change of the projection that gives the wanted map.
        last.pack_out.weight.copy_(present + torch.linalg.pinv(output) @ (wanted - output @ present))
        last.pack_out.bias.zero_()
