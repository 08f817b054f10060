"""Free motion: what a robot does without contacts, joint limits and joint friction, as an acceleration.

In coupled mode the simulator's own solver adds those, for the robot and for what it touches together, and integrates.
So the model gives no state but joint accelerations over one solver step. The training machinery stays as it is: data
of free motion hold ``next_qd = qd + dt * label`` and ``next_q = q + dt * next_qd``, so that with one inner step the
position residual of :class:`flashnerd_ext.model.integrate.Integrator` is nothing but rounding.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.integrate import Integrator
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.stepper import Stepper

GAINS = ("stiffness", "damping")
"""Conditions that a model of torques does not need: drives act before it."""


def free_motion_layout(layout: StateLayout) -> StateLayout:
    """The layout of the same robot in coupled mode.

    Its actuation is the torque on every joint, whatever made it (drives after their clamps, commanded efforts, external
    wrenches): the model needs to know no gains, and a motor that is replaced changes nothing. Stops leave the frame,
    since the solver holds limits.

    Raises:
        FlashNerdError: For a free base, whose free motion this version does not couple.
    """
    if layout.floating_base:
        raise FlashNerdError(
            f"the robot with the joints {', '.join(layout.joint_names[:3])}, ... has a free base, but coupled mode "
            "takes robots with a fixed one: train a learned-mode bundle for it."
        )
    conditions = tuple(name for name in layout.conditions if name not in GAINS)
    return dataclasses.replace(layout, actuated=layout.joint_names, drive=None, stops=None, conditions=conditions)


class FreeIntegrator(Integrator):
    """An :class:`Integrator` of accelerations alone, as coupled mode reads them: the label times dt is added.

    Position outputs are left out; on data of free motion they are rounding, in a trained model its noise.
    """

    def apply(self, joint_q: Tensor, joint_qd: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
        """``joint_qd + dt * label`` [..., nv] and ``joint_q + dt`` times that, with ``out[..., :nv] = dt * label``."""
        next_qd = joint_qd + out[..., : self.layout.nv]
        return joint_q + self.dt * next_qd, next_qd


class FreeStepper(Stepper):
    """A :class:`Stepper` whose prediction is an acceleration instead of a state."""

    def _advance_eager(self, joint_q: Tensor, joint_qd: Tensor, actuation: Tensor, rows: object = None) -> Tensor:
        out = self._predict(joint_q, joint_qd, actuation, None)
        return out[..., : self.model.layout.nv] / self.integrator.dt

    @torch.no_grad()
    def accelerate(self, joint_q: Tensor, joint_qd: Tensor, actuation: Tensor) -> Tensor:
        """Joint accelerations of free motion.

        Args:
            joint_q: [m or rad], shape [N, nq]. joint_qd: [m/s or rad/s], shape [N, nv].
            actuation: Torques or forces in the order of ``layout.actuated`` [N m or N], shape [N, nu].

        Returns:
            Shape [N, nv], [m/s² or rad/s²]; what the label of the model's card says they are.
        """
        return self._run(joint_q, joint_qd, actuation, None)
