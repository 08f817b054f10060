"""A model that is never wrong: it answers each step with the state, forces and torques that were recorded for it.

What a learned backend then supplies to rewards differs from the simulator's only by what it makes of them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.sensed import Sensed
from flashnerd_ext.rl.rewards.motion import Motion

SAME = 1e-4
"""Difference of a state that is rounding on the way through Isaac Lab's frames [m, rad, m/s or rad/s]."""


class Oracle:
    """Stands in for a stepper's ``step``.

    Args:
        stepper: Whose ``sensed`` buffer it fills; its model says how many links are sensed.
        motion: What it answers with.
        links: Links whose forces the model predicts; 0 for none.

    Attributes:
        step_number: Control step of the motion that the next call answers.
        furthest: Largest difference so far between a state that it was asked about and the recorded one.
    """

    def __init__(self, stepper: Any, motion: Motion, links: int) -> None:
        self._stepper, self._motion = stepper, motion
        self._sensed = Sensed(stepper.model.layout, links) if stepper.model.sensed else None
        self.step_number, self.furthest = 0, 0.0

    def step(self, joint_q: Tensor, joint_qd: Tensor, actuation: Tensor, rows: Any = None) -> tuple[Tensor, Tensor]:
        """Next state [N, nq] and [N, nv], as recorded.

        Raises:
            FlashNerdError: Where the state it is asked about is not the one of the motion, or the motion is over.
        """
        t, motion = self.step_number, self._motion
        if t >= motion.steps:
            raise FlashNerdError(f"the motion has {motion.steps} steps, but step {t} is asked for: give steps={t + 1}.")
        for name, found, recorded in (("joint_q", joint_q, motion.q0[t]), ("joint_qd", joint_qd, motion.qd0[t])):
            self._compare(name, found, torch.from_numpy(recorded).to(found))
        if self._sensed is not None:
            force, torque = (torch.from_numpy(part[t]).to(joint_q) for part in (motion.force, motion.torque))
            self._stepper.sensed.copy_(self._sensed.pack(joint_q, force, torque))
        self.step_number += 1
        return tuple(torch.from_numpy(part[t]).to(joint_q) for part in (motion.q1, motion.qd1))  # type: ignore[return-value]

    def _compare(self, name: str, found: Tensor, recorded: Tensor) -> None:
        # Resets put worlds at places of their own; distances are what floats of that size can tell.
        away = (found - recorded).abs() / recorded.abs().clamp(min=1.0)
        worst = float(away.max())
        self.furthest = max(self.furthest, worst)
        if not worst < SAME:  # NaN is not either
            world, column = divmod(int(away.argmax()), away.shape[1])
            raise FlashNerdError(
                f"at step {self.step_number} world {world} has {name}[{column}] {float(found[world, column]):.6g}, but "
                f"{float(recorded[world, column]):.6g} was recorded: the task draws its resets or pushes otherwise in "
                "learned physics; leave such events out with overrides=[...]."
            )
