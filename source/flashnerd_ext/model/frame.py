"""The frame: what the model sees of one robot at one time, in the robot's own root frame.

Nothing in a frame depends on a later one, so that a cached frame stays right when the next one arrives.
Position and yaw of a floating base never enter.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flashnerd_ext.model.layout import StateLayout, Stops
from flashnerd_ext.model.rotation import rotate_inverse


def frame_names(layout: StateLayout) -> list[str]:
    """Name of each feature of :func:`encode_frame`, for cards, envelopes and inspection."""
    names: list[str] = []
    if layout.floating_base:
        names += [f"{label}.{axis}" for label in ("gravity", "root_lin_vel", "root_ang_vel") for axis in "xyz"]
    names += [f"{layout.joint_names[i]}.pos" for i in layout.linear_joints]
    names += [f"{layout.joint_names[i]}.sin" for i in layout.angle_joints]
    names += [f"{layout.joint_names[i]}.cos" for i in layout.angle_joints]
    names += [f"{name}.vel" for name in layout.joint_names]
    if layout.drive is None:
        names += [f"{name}.act" for name in layout.actuated]
    else:
        names += [f"{name}.target_error" for name in layout.actuated]
        names += [f"{name}.torque" for name in layout.actuated]
    names += [f"{layout.joint_names[i]}.{when}" for when in ("stop", "stop_ahead") for i in layout.stop_joints]
    return names + [f"condition.{name}" for name in layout.conditions]


def encode_frame(
    layout: StateLayout, joint_q: Tensor, joint_qd: Tensor, actuation: Tensor, condition: Tensor | None = None
) -> Tensor:
    """Features of a frame.

    Args:
        joint_q: Coordinates in Newton's convention, shape [..., nq] (m, rad; base quaternion x, y, z, w).
        joint_qd: Velocities, shape [..., nv]; a free base's are COM linear and angular in the world frame.
        actuation: Efforts [N or N m], or position targets [m or rad] where the layout has a drive, shape [..., nu].
        condition: Deviations from nominal in the order of ``layout.conditions``, shape [..., C]; ``None`` is nominal.

    Returns:
        Features [..., F], named by :func:`frame_names`, in the dtype of ``joint_q``.
    """
    parts: list[Tensor] = []
    if layout.floating_base:
        quat = joint_q[..., 3:7]
        down = torch.zeros_like(joint_q[..., :3])
        down[..., 2] = -1.0
        parts += [rotate_inverse(quat, vector) for vector in (down, joint_qd[..., :3], joint_qd[..., 3:6])]
    joints, velocities = joint_q[..., layout.q0 :], joint_qd[..., layout.v0 :]
    if layout.linear_joints:
        parts.append(_pick(joints, layout.linear_joints))
    if layout.angle_joints:
        angles = _pick(joints, layout.angle_joints)
        parts += [torch.sin(angles), torch.cos(angles)]
    parts.append(velocities)
    actuation = actuation.to(joint_q.dtype)
    if layout.conditions and condition is None:
        condition = joint_q.new_zeros((*joint_q.shape[:-1], len(layout.conditions)))
    if layout.drive is not None:
        error = actuation - _pick(joints, layout.actuated_joints)
        parts += [error, drive_torque(layout, error, _pick(velocities, layout.actuated_joints), condition)]
    elif layout.nu:
        parts.append(actuation)
    if layout.stops is not None:
        places, speeds = _pick(joints, layout.stop_joints), _pick(velocities, layout.stop_joints)
        parts += [beyond(layout.stops, places), beyond(layout.stops, places + layout.stops.reach * speeds)]
    if layout.conditions and condition is not None:
        parts.append(condition.to(joint_q.dtype))
    return torch.cat(parts, -1)


def beyond(stops: Stops, position: Tensor) -> Tensor:
    """How far positions [..., S] of the joints of ``stops`` lie beyond their limits: above positive, below negative."""
    lower, upper = position.new_tensor(stops.lower), position.new_tensor(stops.upper)
    return (position - upper).clamp_min(0.0) - (lower - position).clamp_min(0.0)


def drive_torque(layout: StateLayout, error: Tensor, velocity: Tensor, condition: Tensor | None = None) -> Tensor:
    """Torque [N m or N] that the drive gives at this instant.

    Args:
        error: Target minus position of the actuated joints, shape [..., nu].
        velocity: Their velocities, shape [..., nu].
        condition: See :func:`encode_frame`; ``stiffness`` and ``damping`` among the conditions scale the gains.
    """
    drive = layout.drive
    assert drive is not None

    def constant(values: tuple[float, ...]) -> Tensor:
        return error.new_tensor(values)

    stiff, damp = constant(drive.stiffness) * error, constant(drive.damping) * velocity
    if condition is not None:
        if "stiffness" in layout.conditions:
            stiff = stiff * (1.0 + condition[..., layout.conditions.index("stiffness")].unsqueeze(-1).to(error.dtype))
        if "damping" in layout.conditions:
            damp = damp * (1.0 + condition[..., layout.conditions.index("damping")].unsqueeze(-1).to(error.dtype))
    limit = constant(drive.effort_limit)
    upper, lower = limit, -limit
    if drive.saturation:
        stall, speed = constant(drive.saturation), constant(drive.velocity_limit)
        # As Isaac Lab's DCMotor: beyond the corner speed the curve falls below the effort limit, and further on zero.
        slowed = velocity.clamp(-speed * (1 + limit / stall), speed * (1 + limit / stall))
        upper = torch.minimum(stall * (1.0 - slowed / speed), limit)
        lower = torch.maximum(stall * (-1.0 - slowed / speed), -limit)
    return torch.minimum(torch.maximum(stiff - damp, lower), upper)


def _pick(values: Tensor, indices: tuple[int, ...]) -> Tensor:
    # Slices keep compiled code free of index tensors (and of their device).
    if indices == tuple(range(values.shape[-1])):
        return values
    return torch.cat([values[..., i : i + 1] for i in indices], -1)
