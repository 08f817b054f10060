"""The coordinates in which errors are measured, for training and evaluation alike (numpy only).

A fixed base: joint positions, then joint velocities. A floating base: gravity in the root frame (3), height (1), root
linear and angular velocity in the root frame (6), joint positions, joint velocities: the state without position and
yaw, on which the dynamics do not depend.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.layout import StateLayout

Array = NDArray[Any]


def wrap_angle(angle: Array) -> Array:
    """Angle [rad] in (-pi, pi]."""
    return np.pi - np.mod(np.pi - np.asarray(angle, dtype=np.float64), 2.0 * np.pi)


def metric_names(layout: StateLayout) -> list[str]:
    """Name of each dimension of :func:`metric_state`."""
    base: list[str] = []
    if layout.floating_base:
        base = [f"gravity.{axis}" for axis in "xyz"] + ["height"]
        base += [f"{label}.{axis}" for label in ("root_lin_vel", "root_ang_vel") for axis in "xyz"]
    return base + [f"{name}.pos" for name in layout.joint_names] + [f"{name}.vel" for name in layout.joint_names]


def angle_dimensions(layout: StateLayout) -> NDArray[np.bool_]:
    """Which dimensions of :func:`metric_state` are angles that wrap, shape [D]."""
    joints = [kind in ("revolute", "continuous") for kind in layout.joint_kinds]
    return np.array([False] * (10 if layout.floating_base else 0) + joints + [False] * layout.num_joints, dtype=bool)


def metric_state(layout: StateLayout, joint_q: Array, joint_qd: Array) -> NDArray[np.float64]:
    """The state in the metric's coordinates, shape [..., D]; angles are not wrapped yet.

    Args:
        joint_q: Newton's convention, shape [..., nq]. joint_qd: shape [..., nv].
    """
    q, qd = np.asarray(joint_q, dtype=np.float64), np.asarray(joint_qd, dtype=np.float64)
    joints = [q[..., layout.q0 :], qd[..., layout.v0 :]]
    if not layout.floating_base:
        return np.concatenate(joints, -1)
    quat = q[..., 3:7]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        quat = quat / np.linalg.norm(quat, axis=-1, keepdims=True)
        down = np.zeros_like(q[..., :3])
        down[..., 2] = -1.0
        base = [rotate_inverse(quat, vector) for vector in (down, qd[..., :3], qd[..., 3:6])]
    return np.concatenate([base[0], q[..., 2:3], base[1], base[2], *joints], -1)


def rotate_inverse(quat: Array, vector: Array) -> Array:
    """``vector`` [..., 3] rotated by the inverse of the unit quaternion [..., 4] (x, y, z, w)."""
    axis, w = -quat[..., :3], quat[..., 3:]
    cross = 2.0 * np.cross(axis, vector)
    return vector + w * cross + np.cross(axis, cross)


def state_difference(layout: StateLayout, q: Array, qd: Array, q_ref: Array, qd_ref: Array) -> NDArray[np.float64]:
    """State minus reference in the metric's coordinates, angles wrapped, shape [..., D]."""
    with np.errstate(invalid="ignore", over="ignore"):
        difference = metric_state(layout, q, qd) - metric_state(layout, q_ref, qd_ref)
        angles = angle_dimensions(layout)
        difference[..., angles] = wrap_angle(difference[..., angles])
    return difference


def state_std(layout: StateLayout, joint_q: Array, joint_qd: Array, valid: Array | None = None) -> NDArray[np.float64]:
    """Standard deviation of each dimension over all valid frames, shape [D]; angles are wrapped first.

    Args:
        joint_q: Positions, shape [n, T + 1, nq].
        joint_qd: Velocities, shape [n, T + 1, nv].
        valid: Which transitions count, shape [n, T]; a frame counts when the transition into or out of it does.

    Raises:
        FlashNerdError: A dimension never changes, so that no error in it can be normalised.
    """
    if valid is not None:
        pad = np.zeros((valid.shape[0], 1), dtype=bool)
        frames = np.concatenate([valid.astype(bool), pad], 1) | np.concatenate([pad, valid.astype(bool)], 1)
        joint_q, joint_qd = joint_q[frames], joint_qd[frames]
    values = metric_state(layout, joint_q.reshape(-1, layout.nq), joint_qd.reshape(-1, layout.nv))
    if len(values) == 0:
        raise FlashNerdError("the data holds no valid frame, so there is nothing to measure an error against")
    angles = angle_dimensions(layout)
    values[:, angles] = wrap_angle(values[:, angles])
    std = np.std(values, axis=0)
    if not np.all(np.isfinite(std) & (std > 1e-12)):
        bad = int(np.argmin(np.where(np.isfinite(std), std, -1.0)))
        raise FlashNerdError(
            f"{metric_names(layout)[bad]} has standard deviation {std[bad]:.3g} over the data, so its error cannot be "
            "normalised; record data in which every joint moves"
        )
    return std


def increment_std(layout: StateLayout, std: Array) -> tuple[Array, Array]:
    """What :func:`state_std` means for the increments of positions [nv] and velocities [nv].

    A free base's position is measured by the spread of its height, its rotation by that of gravity's direction.
    """
    base = 10 if layout.floating_base else 0
    joints = layout.num_joints
    position, velocity = std[base : base + joints], std[base + joints :]
    if layout.floating_base:
        tilt = np.sqrt(np.mean(np.square(std[:3])))
        position = np.concatenate([np.full(3, std[3]), np.full(3, tilt), position])
        velocity = np.concatenate([std[4:10], velocity])
    return position, velocity
