"""The late phase: the model feeds on its own predictions for a few steps, and all of them count."""

from __future__ import annotations

import torch
from torch import Tensor

from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.frame import encode_frame
from flashnerd_ext.training.loss import StateLoss, state_error
from flashnerd_ext.training.windows import Windows


def unrolled_loss(
    model: DynamicsModel, loss: StateLoss, windows: Windows, starts: Tensor, steps: int, device: torch.device
) -> Tensor:
    """Mean state error over ``steps`` recursive steps from the recorded states at ``starts``.

    The past is recomputed with :meth:`sequence` over the predicted frames: it is short, and gradients flow through it.
    """
    starts = starts % len(windows.frames)  # Mirrored windows are unrolled as they were recorded.
    trajectory = starts // windows.per_trajectory
    time = starts % windows.per_trajectory
    offsets = torch.arange(steps + 1)
    true_q = windows.joint_q[trajectory[:, None], time[:, None] + offsets].to(device)
    true_qd = windows.joint_qd[trajectory[:, None], time[:, None] + offsets].to(device)
    act = windows.actuation[trajectory[:, None], time[:, None] + offsets[:-1]].to(device)
    condition = None if windows.condition is None else windows.condition[trajectory].to(device)
    q, qd = true_q[:, 0], true_qd[:, 0]
    frames: list[Tensor] = []
    total = torch.zeros((), device=device)
    for k in range(steps):
        frames = [*frames, encode_frame(model.layout, q, qd, act[:, k], condition)][-model.history :]
        out = model.sequence(torch.stack(frames, 1))[:, -1]
        q, qd = loss.integrator.apply(q, qd, out)
        total = total + state_error(loss, q, qd, true_q[:, k + 1], true_qd[:, k + 1])
    return total / steps
