"""A robot's geometry from the MuJoCo model that steps it."""

from __future__ import annotations

import numpy as np

from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.chain import Chain

_HINGE, _SLIDE = 3, 2


def chain_of(exported: ExportedModel) -> Chain:
    """The tree of links of a robot on a fixed base, joints in the order of ``exported.joint_names``.

    Raises:
        FlashNerdError: For a joint that is neither hinge nor slide, or does not stand at zero in the file's pose.
    """
    model = exported.compile()
    order = [int(model.dof_jntid[dof]) for dof in exported.dof_index]
    place = {joint: i for i, joint in enumerate(order)}
    # Of each body: the joint that moves it (-1: none), and the body's pose in that joint's frame (world without one).
    carrier: list[int] = [-1]
    pose: list[np.ndarray] = [np.eye(4)]
    count = len(order)
    parents, hinge = [-1] * count, [1.0] * count
    offset, axis = [np.eye(4)] * count, [np.zeros(3)] * count
    for body in range(1, model.nbody):
        before = int(model.body_parentid[body])
        mine, here = carrier[before], pose[before] @ _pose(model.body_pos[body], model.body_quat[body])
        first = int(model.body_jntadr[body])
        for joint in range(first, first + int(model.body_jntnum[body])):
            i = place[joint]
            kind = int(model.jnt_type[joint])
            if kind not in (_HINGE, _SLIDE) or model.qpos0[model.jnt_qposadr[joint]] != 0.0:
                raise FlashNerdError(
                    f"joint {exported.joint_names[i]} of robot={exported.robot} has type {kind} and reference "
                    f"{model.qpos0[model.jnt_qposadr[joint]]:.3g}, but hinges (3) and slides (2) with reference 0 are "
                    "needed for a rigid prior: type options.prior=none."
                )
            anchor = _pose(model.jnt_pos[joint], np.array([1.0, 0.0, 0.0, 0.0]))
            parents[i], offset[i] = mine, here @ anchor
            axis[i], hinge[i] = model.jnt_axis[joint].copy(), float(kind == _HINGE)
            mine, here = i, np.linalg.inv(anchor)
        carrier.append(mine)
        pose.append(here)
    # About the first joint at the base, wherever the robot stands: far from the origin float32 would lose light links.
    roots = [i for i, parent in enumerate(parents) if parent < 0]
    origin = offset[roots[0]][:3, 3].copy()
    for i in roots:
        offset[i][:3, 3] -= origin
    return Chain(
        parents=tuple(parents),
        offset=tuple(tuple(map(tuple, one.tolist())) for one in offset),
        axis=tuple(tuple(one.tolist()) for one in axis),
        hinge=tuple(hinge),
        gravity=tuple(model.opt.gravity.tolist()),
    )


def _pose(position: np.ndarray, quaternion: np.ndarray) -> np.ndarray:
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    pose = np.eye(4)
    pose[:3, :3] = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    pose[:3, 3] = position
    return pose
