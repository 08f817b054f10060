"""Torques at the last simulation step of a model step, from the state at its ends and the predicted mean torque.

Isaac Lab's rewards read applied torque as it was computed last: at the start of the last simulation step in a control
step. The mean over the step is something else: its square is smaller where torques change within the step, and larger
where a new target makes them large at first.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flashnerd_ext.model.frame import drive_torque
from flashnerd_ext.model.layout import StateLayout


def last_torque(
    layout: StateLayout,
    before: tuple[Tensor, Tensor],
    after: tuple[Tensor, Tensor],
    target: Tensor,
    condition: Tensor,
    mean: Tensor,
    dt: float,
    sim_steps: int,
) -> Tensor:
    """Torque of each actuated joint at the start of the last simulation step [N m], shape [N, nu].

    The joints' way through the step is the cubic that has their positions and velocities at both ends. Drives say the
    torque on it at the start of each simulation step; the predicted mean then moves all of them by what it differs from
    theirs, which is how much the joints left that cubic.

    Args:
        before, after: joint_q [N, nq] and joint_qd [N, nv] at both ends of the model step.
        target: Position targets [N, nu].
        condition: Deviations of each world, [N, C].
        mean: Predicted mean torque over the step [N, nu].
        dt: Model step [s]. sim_steps: Simulation steps in it.
    """
    if layout.drive is None or sim_steps == 1:
        return mean
    joints = list(layout.actuated_joints)
    q0, q1 = (state[0][:, layout.q0 :][:, joints] for state in (before, after))
    v0, v1 = (state[1][:, layout.v0 :][:, joints] * dt for state in (before, after))
    # Share of the step that has passed, [S, 1, 1].
    s = torch.arange(sim_steps, device=q0.device, dtype=q0.dtype)[:, None, None] / sim_steps
    moved = q1 - q0
    bend, twist = 3.0 * moved - 2.0 * v0 - v1, v0 + v1 - 2.0 * moved
    position = q0 + s * (v0 + s * (bend + s * twist))
    velocity = (v0 + s * (2.0 * bend + s * 3.0 * twist)) / dt
    torque = drive_torque(layout, target - position, velocity, condition.expand(sim_steps, *condition.shape))
    return torque[-1] + (mean - torque.mean(0))
