"""From a prediction to the next state, and from two states to what should have been predicted.

The model predicts the velocity increment ``dv`` and a position increment. With the kinematic prior the latter is
only what is left over q + dt (v + a dv): n inner steps of the simulator's semi-implicit rule under a constant
acceleration give a = (n + 1) / 2n, so the residual is small and the net need not learn kinematics.
A free base's increments are taken in the root frame at the start of the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.rotation import exponential, logarithm, multiply, rotate, rotate_inverse


@dataclass(frozen=True)
class Integrator:
    """Turns predictions into states.

    Attributes:
        layout: The robot's coordinates.
        dt: Model time step [s].
        inner_steps: Simulator steps in one model step.
        prior: Whether position increments are residuals of the kinematic prior (FlashNeRD) or whole (NeRD).
    """

    layout: StateLayout
    dt: float
    inner_steps: int = 1
    prior: bool = True

    @property
    def out_size(self) -> int:
        """Length of a prediction: velocity increments, then position increments, 2 nv in all."""
        return 2 * self.layout.nv

    @property
    def lead(self) -> float:
        """The factor ``a`` of the kinematic prior."""
        return (self.inner_steps + 1) / (2 * self.inner_steps)

    def prior_move(self, velocity: Tensor, dv: Tensor) -> Tensor:
        """Position increment that follows from velocities alone [..., nv]."""
        return self.dt * (velocity + self.lead * dv) if self.prior else torch.zeros_like(dv)

    def apply(self, joint_q: Tensor, joint_qd: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        """Next ``(joint_q [..., nq], joint_qd [..., nv])`` from a prediction ``out``, of which the first
        2 nv numbers are read."""
        nv, layout = self.layout.nv, self.layout
        dv, residual = out[..., :nv], out[..., nv : 2 * nv]
        velocity = self._local_velocity(joint_q, joint_qd)
        move = self.prior_move(velocity, dv) + residual
        if not layout.floating_base:
            return joint_q + move, joint_qd + dv
        quat = joint_q[..., 3:7]
        position = joint_q[..., :3] + rotate(quat, move[..., :3])
        turned = multiply(quat, exponential(move[..., 3:6]))
        turned = turned / turned.norm(dim=-1, keepdim=True)
        linear = joint_qd[..., :3] + rotate(quat, dv[..., :3])
        angular = joint_qd[..., 3:6] + rotate(quat, dv[..., 3:6])
        return (
            torch.cat((position, turned, joint_q[..., 7:] + move[..., 6:]), -1),
            torch.cat((linear, angular, joint_qd[..., 6:] + dv[..., 6:]), -1),
        )

    def target(self, joint_q: Tensor, joint_qd: Tensor, next_q: Tensor, next_qd: Tensor) -> Tensor:
        """The prediction [..., 2 nv] that :meth:`apply` would turn into the next state; inverse of it."""
        layout = self.layout
        velocity = self._local_velocity(joint_q, joint_qd)
        dv, move = next_qd - joint_qd, None
        if layout.floating_base:
            quat = joint_q[..., 3:7]
            dv = torch.cat((rotate_inverse(quat, dv[..., :3]), rotate_inverse(quat, dv[..., 3:6]), dv[..., 6:]), -1)
            inverse = torch.cat((-quat[..., :3], quat[..., 3:]), -1)
            move = torch.cat(
                (
                    rotate_inverse(quat, next_q[..., :3] - joint_q[..., :3]),
                    logarithm(multiply(inverse, next_q[..., 3:7])),
                    next_q[..., 7:] - joint_q[..., 7:],
                ),
                -1,
            )
        else:
            move = next_q - joint_q
        return torch.cat((dv, move - self.prior_move(velocity, dv)), -1)

    def _local_velocity(self, joint_q: Tensor, joint_qd: Tensor) -> Tensor:
        if not self.layout.floating_base:
            return joint_qd
        quat = joint_q[..., 3:7]
        return torch.cat(
            (rotate_inverse(quat, joint_qd[..., :3]), rotate_inverse(quat, joint_qd[..., 3:6]), joint_qd[..., 6:]), -1
        )
