"""The frame: what the model sees of one robot at one time, in the robot's own root frame.

Nothing in a frame depends on a later one, so that a cached frame stays right when the next one arrives.
Position and yaw of a floating base never enter.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flashnerd_ext.model.layout import StateLayout
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
    names += [f"{name}.act" for name in layout.actuated]
    return names


def encode_frame(layout: StateLayout, joint_q: Tensor, joint_qd: Tensor, actuation: Tensor) -> Tensor:
    """Features of a frame.

    Args:
        joint_q: Coordinates in Newton's convention, shape [..., nq] (m, rad; base quaternion x, y, z, w).
        joint_qd: Velocities, shape [..., nv]; a free base's are COM linear and angular in the world frame.
        actuation: Efforts [N or N m] or position targets, as the card says, shape [..., nu].

    Returns:
        Features [..., F], named by :func:`frame_names`, in the dtype of ``joint_q``.
    """
    parts: list[Tensor] = []
    if layout.floating_base:
        quat = joint_q[..., 3:7]
        down = torch.zeros_like(joint_q[..., :3])
        down[..., 2] = -1.0
        parts += [rotate_inverse(quat, vector) for vector in (down, joint_qd[..., :3], joint_qd[..., 3:6])]
    joints = joint_q[..., layout.q0 :]
    if layout.linear_joints:
        parts.append(_pick(joints, layout.linear_joints))
    if layout.angle_joints:
        angles = _pick(joints, layout.angle_joints)
        parts += [torch.sin(angles), torch.cos(angles)]
    parts.append(joint_qd[..., layout.v0 :])
    if layout.nu:
        parts.append(actuation.to(joint_q.dtype))
    return torch.cat(parts, -1)


def _pick(values: Tensor, indices: tuple[int, ...]) -> Tensor:
    # Slices keep compiled code free of index tensors (and of their device).
    if len(indices) == values.shape[-1]:
        return values
    return torch.cat([values[..., i : i + 1] for i in indices], -1)
