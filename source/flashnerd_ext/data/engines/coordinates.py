"""Newton's coordinates and MuJoCo's: joint order, quaternion order, and what a free base's velocity is the velocity of.

Newton: base position, quaternion (x, y, z, w); linear velocity of the centre of mass and angular velocity, both in the
world frame. MuJoCo: quaternion (w, x, y, z); linear velocity of the body's origin in the world frame, angular velocity
in the body frame.
"""

from __future__ import annotations

import numpy as np

from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.model.metric import rotate_inverse

_WXYZ = [3, 0, 1, 2]
_XYZW = [1, 2, 3, 0]


def to_mujoco(
    model: ExportedModel, joint_q: np.ndarray, joint_qd: np.ndarray, com: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """qpos [N, nq] and qvel [N, nv] of Newton's joint_q [N, nq] and joint_qd [N, nv].

    Args:
        com: Centre of mass of the base in its own frame [m], shape [N or 1, 3]; unused for a fixed base.
    """
    joints_q, joints_v = (7, 6) if model.floating_base else (0, 0)
    qpos, qvel = np.zeros(joint_q.shape), np.zeros(joint_qd.shape)
    qpos[:, np.asarray(model.qpos_index)] = joint_q[:, joints_q:]
    qvel[:, np.asarray(model.dof_index)] = joint_qd[:, joints_v:]
    if model.floating_base:
        quat, spin = joint_q[:, 3:7], joint_qd[:, 3:6]
        qpos[:, :3], qpos[:, 3:7] = joint_q[:, :3], quat[:, _WXYZ]
        qvel[:, :3] = joint_qd[:, :3] - np.cross(spin, _rotate(quat, com))
        qvel[:, 3:6] = rotate_inverse(quat, spin)
    return qpos, qvel


def from_mujoco(
    model: ExportedModel, qpos: np.ndarray, qvel: np.ndarray, com: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The inverse of :func:`to_mujoco`."""
    q, qd = qpos[:, np.asarray(model.qpos_index)], qvel[:, np.asarray(model.dof_index)]
    if not model.floating_base:
        return q, qd
    quat = qpos[:, 3:7][:, _XYZW]
    spin = _rotate(quat, qvel[:, 3:6])
    linear = qvel[:, :3] + np.cross(spin, _rotate(quat, com))
    return np.concatenate([qpos[:, :3], quat, q], 1), np.concatenate([linear, spin, qd], 1)


def _rotate(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return rotate_inverse(quat * np.array([-1.0, -1.0, -1.0, 1.0]), np.broadcast_to(vector, (len(quat), 3)))
