"""Quaternion arithmetic (x, y, z, w) for frames and the integrator."""

from __future__ import annotations

import torch
from torch import Tensor


def rotate(quat: Tensor, vector: Tensor) -> Tensor:
    """Rotate ``vector`` [..., 3] by the unit quaternion ``quat`` [..., 4] (x, y, z, w)."""
    axis, w = quat[..., :3], quat[..., 3:]
    cross = 2.0 * torch.linalg.cross(axis, vector)
    return vector + w * cross + torch.linalg.cross(axis, cross)


def rotate_inverse(quat: Tensor, vector: Tensor) -> Tensor:
    """Rotate ``vector`` [..., 3] by the inverse of ``quat`` [..., 4]."""
    return rotate(torch.cat((-quat[..., :3], quat[..., 3:]), -1), vector)


def multiply(left: Tensor, right: Tensor) -> Tensor:
    """Hamilton product of two quaternions [..., 4] (x, y, z, w)."""
    a, aw = left[..., :3], left[..., 3:]
    b, bw = right[..., :3], right[..., 3:]
    vector = aw * b + bw * a + torch.linalg.cross(a, b)
    return torch.cat((vector, aw * bw - (a * b).sum(-1, keepdim=True)), -1)


def exponential(rotation: Tensor) -> Tensor:
    """Quaternion [..., 4] of a rotation vector [..., 3] (rad); smooth at zero."""
    half = 0.5 * rotation
    squared = (half * half).sum(-1, keepdim=True)
    small = squared < 1e-8
    angle = torch.where(small, torch.ones_like(squared), squared).sqrt()
    factor = torch.where(small, 1.0 - squared / 6.0, torch.sin(angle) / angle)
    scalar = torch.where(small, 1.0 - squared / 2.0, torch.cos(angle))
    return torch.cat((half * factor, scalar), -1)


def logarithm(quat: Tensor) -> Tensor:
    """Rotation vector [..., 3] (rad, at most pi) of a unit quaternion [..., 4]."""
    quat = torch.where(quat[..., 3:] < 0.0, -quat, quat)
    vector, w = quat[..., :3], quat[..., 3:]
    length = vector.norm(dim=-1, keepdim=True)
    small = length < 1e-6
    safe = torch.where(small, torch.ones_like(length), length)
    return vector * torch.where(small, 2.0 / w.clamp_min(0.5), 2.0 * torch.atan2(safe, w) / safe)
