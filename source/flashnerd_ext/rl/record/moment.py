"""What is recorded of one control step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Moment:
    """One control step of all worlds; Newton's conventions, the robot's joint order, float32.

    Attributes:
        q0, qd0: State that the step began with, [N, nq] and [N, nv]. q1, qd1: State that it ended with.
        action: What the environment commanded, targets [rad or m] or efforts [N or N m], [N, nu].
        torque: Mean torque of each actuated joint over the step [N m], [N, nu].
        force: Mean contact force on each link over the step, world frame [N], [N, L, 3].
        condition: Deviations of each world from the nominal robot, [N, C].
        friction: Sliding friction of the robot on the ground, [N].
        pushed: Worlds with an external force or torque, which no data set can tell of, boolean [N].
    """

    q0: np.ndarray
    qd0: np.ndarray
    q1: np.ndarray
    qd1: np.ndarray
    action: np.ndarray
    torque: np.ndarray
    force: np.ndarray
    condition: np.ndarray
    friction: np.ndarray
    pushed: np.ndarray
