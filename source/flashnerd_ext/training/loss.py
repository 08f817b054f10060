"""The training loss: the metric's own error of the next state, so that training minimises what is reported."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from flashnerd_ext.model.integrate import Integrator

SMALLEST = 1e-6
"""Squared error below which frames of a loss with ``power`` below 1 count as least squares again."""


@dataclass(frozen=True)
class StateLoss:
    """Mean over state dimensions of (next-state error / spread)^2.

    Attributes:
        integrator: Says how a prediction becomes a state.
        position_std, velocity_std: Spread of each dimension, [nv].
        sensed_weight: Weight of the mean squared error of what sensors read, in units of ``out_std``.
        equal: Weigh all (normalised) outputs the same instead, as NeRD does; ``out_std`` [O] normalises them.
        power: Each frame's mean squared error to this power. 1 is least squares, which violent frames decide and which
            answers with the mean of what may happen; 0.5 counts errors and not their squares, so that calm frames are
            learned as closely as their size asks for, and a touch-down that comes or does not is not half of one.
    """

    integrator: Integrator
    position_std: Tensor
    velocity_std: Tensor
    equal: bool = False
    out_std: Tensor | None = None
    sensed_weight: float = 0.0
    power: float = 1.0

    def __call__(self, out: Tensor, target: Tensor) -> Tensor:
        """Loss of predictions [..., O] against targets [..., O]."""
        nv = self.integrator.layout.nv
        error = out - target
        if self.equal:
            assert self.out_std is not None
            return (error / self.out_std).square().mean()
        dv, dx = error[..., :nv], error[..., nv : 2 * nv]
        if self.integrator.prior:
            dx = dx + self.integrator.dt * self.integrator.lead * dv
        loss = 0.5 * ((dv / self.velocity_std).square().mean(-1) + (dx / self.position_std).square().mean(-1))
        if self.sensed_weight and error.shape[-1] > 2 * nv:
            assert self.out_std is not None
            rest = (error / self.out_std)[..., 2 * nv :]
            loss = loss + self.sensed_weight * rest.square().mean(-1)
        if self.power != 1.0:
            # The floor keeps the gradient finite where a frame is predicted exactly.
            loss = (loss + SMALLEST).pow(self.power)
        return loss.mean()

    def residuals(self, out: Tensor, target: Tensor) -> Tensor:
        """The vectors [..., O] whose squared length is, on average over the leading dimensions, the loss."""
        nv = self.integrator.layout.nv
        error = out - target
        if self.equal:
            assert self.out_std is not None
            return error / (self.out_std * error.shape[-1] ** 0.5)
        dv, dx = error[..., :nv], error[..., nv : 2 * nv]
        if self.integrator.prior:
            dx = dx + self.integrator.dt * self.integrator.lead * dv
        return torch.cat((dv / self.velocity_std, dx / self.position_std), -1) * (0.5 / nv) ** 0.5

    def nrmse(self, out: Tensor, target: Tensor) -> Tensor:
        """One-step error in the metric's unit (root of the loss under metric weights)."""
        plain = StateLoss(self.integrator, self.position_std, self.velocity_std)
        return plain(out, target).sqrt()


def state_error(loss: StateLoss, q: Tensor, qd: Tensor, true_q: Tensor, true_qd: Tensor) -> Tensor:
    """Mean squared normalised error between states (fixed and free base joints), for multi-step losses."""
    layout = loss.integrator.layout
    dq = q[..., layout.q0 :] - true_q[..., layout.q0 :]
    dv = qd - true_qd
    position_std = loss.position_std[layout.v0 :]
    return 0.5 * ((dv / loss.velocity_std).square().mean() + (dq / position_std).square().mean())
