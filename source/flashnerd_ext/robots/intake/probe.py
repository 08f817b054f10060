"""Measure a written asset with MuJoCo: Newton's order, heights, what carries it, and the inertia of its joints."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from flashnerd_ext.robots.assets.inertia import Array
from flashnerd_ext.robots.description import RobotDescription

GRAVITY = 9.81
POSES = 200
"""Random poses behind the inertia of a joint and the load of an arm."""


def newton_order(usd: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Movable joints and links of an asset in the order in which Isaac Lab's Newton backend has them."""
    newton: Any = import_module("newton")
    import warp as wp

    from flashnerd_ext.data.engines.export import schema_resolvers

    wp.config.quiet = True
    builder = newton.ModelBuilder(up_axis=newton.Axis.Z)
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    builder.add_usd(str(usd), schema_resolvers=schema_resolvers())
    unmoved = (int(newton.JointType.FREE), int(newton.JointType.FIXED))
    joints = [
        str(label).rsplit("/", 1)[-1]
        for label, kind in zip(builder.joint_label, builder.joint_type, strict=True)
        if int(kind) not in unmoved
    ]
    return tuple(joints), tuple(str(label).rsplit("/", 1)[-1] for label in builder.body_label)


class Probe:
    """A robot's MuJoCo model; positions and orientations are those in the base's frame.

    Args:
        robot: A description with limits and links; gains and default pose may still be missing.
    """

    def __init__(self, robot: RobotDescription) -> None:
        from flashnerd_ext.data.engines.export import export_model

        self._mujoco: Any = import_module("mujoco")
        exported = export_model(robot)
        self.robot, self.joints = robot, robot.layout.joint_names
        self.model: Any = exported.compile()
        self.data: Any = self._mujoco.MjData(self.model)
        self.qpos, self.dof = np.array(exported.qpos_index), np.array(exported.dof_index)
        links = exported.links or {name: self._body(name) for name in robot.links}
        self.bodies = {link: int(self.model.body(name).id) for link, name in links.items()}
        self.names = {body: link for link, body in self.bodies.items()}
        self.low, self.high = (np.array([robot.position_limit[joint][i] for joint in self.joints]) for i in (0, 1))

    def _body(self, link: str) -> str:
        names = [self.model.body(i).name for i in range(self.model.nbody)]
        return next(name for name in names if name.endswith(f"_{link}") or name == link)

    def place(self, q: Array) -> None:
        """Bring the joints to ``q`` [J] with the base at the origin."""
        if self.robot.layout.floating_base:
            self.data.qpos[:7] = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
        self.data.qpos[self.qpos] = q
        self._mujoco.mj_kinematics(self.model, self.data)
        self._mujoco.mj_comPos(self.model, self.data)

    def _base(self) -> tuple[Array, Array]:
        """Origin [3] and orientation [3, 3] of the base in the world."""
        body = self.bodies[self.robot.base_link]
        return self.data.xpos[body], self.data.xmat[body].reshape(3, 3)

    def _local(self, point: Array) -> Array:
        origin, turn = self._base()
        return turn.T @ (point - origin)

    def position(self, link: str) -> Array:
        """Origin of a link [3]."""
        return self._local(self.data.xpos[self.bodies[link]])

    def rotation(self, link: str) -> Array:
        """Orientation of a link [3, 3]."""
        return self._base()[1].T @ self.data.xmat[self.bodies[link]].reshape(3, 3)

    def centre(self, link: str) -> Array:
        """Middle of a link's shapes, or its origin where it has none [3]."""
        geoms = [g for g in range(self.model.ngeom) if self.model.geom_bodyid[g] == self.bodies[link]]
        return self._local(np.mean([self.data.geom_xpos[g] for g in geoms], axis=0)) if geoms else self.position(link)

    def anchor(self, joint: str) -> Array:
        """Anchor of a joint [3]."""
        return self._local(self.data.xanchor[self._joint(joint)])

    def _joint(self, joint: str) -> int:
        return int(self.model.dof_jntid[self.dof[self.joints.index(joint)]])

    def axis(self, joint: str) -> Array:
        """Axis of a joint [3]."""
        return self._base()[1].T @ self.data.xaxis[self._joint(joint)]

    def upward(self, joint: str) -> float:
        """How much of a joint's axis points up in the world, -1 to 1."""
        return float(self.data.xaxis[self._joint(joint)][2])

    def chain(self, link: str) -> tuple[str, ...]:
        """Joints that move a link, from the base on."""
        found, body = [], self.bodies[link]
        while body:
            found += [joint for joint in self.joints if int(self.model.jnt_bodyid[self._joint(joint)]) == body]
            body = int(self.model.body_parentid[body])
        return tuple(found[::-1])

    def lowest(self, link: str | None = None) -> tuple[float, str]:
        """Height over the base's origin of the lowest point of a link's shapes, or of all [m], and whose it is."""
        kinds, found, origin = self._mujoco.mjtGeom, [], float(self._base()[0][2])
        for geom in range(self.model.ngeom):
            name = self.names.get(int(self.model.geom_bodyid[geom]))
            if name is None or (link is not None and name != link):
                continue
            down = self.data.geom_xmat[geom].reshape(3, 3)[2]
            size, kind = self.model.geom_size[geom], int(self.model.geom_type[geom])
            if kind == kinds.mjGEOM_SPHERE:
                reach = float(size[0])
            elif kind == kinds.mjGEOM_CAPSULE:
                reach = float(size[0] + abs(down[2]) * size[1])
            elif kind == kinds.mjGEOM_CYLINDER:
                reach = float(np.sqrt(max(1.0 - down[2] ** 2, 0.0)) * size[0] + abs(down[2]) * size[1])
            elif kind == kinds.mjGEOM_BOX:
                reach = float(np.abs(down) @ size)
            elif kind == kinds.mjGEOM_MESH:
                mesh = int(self.model.geom_dataid[geom])
                first = int(self.model.mesh_vertadr[mesh])
                reach = -float((self.model.mesh_vert[first : first + int(self.model.mesh_vertnum[mesh])] @ down).min())
            else:
                continue
            found.append((float(self.data.geom_xpos[geom][2]) - reach - origin, name))
        return min(found, default=(0.0, ""))

    def leg_length(self, foot: str) -> float:
        """Longest way from the base to a foot along its joints [m]."""
        self.place(np.clip(0.0, self.low, self.high))
        points = [*(self.anchor(joint) for joint in self.chain(foot)), self.centre(foot)]
        return float(sum(np.linalg.norm(b - a) for a, b in pairwise(points)))

    @property
    def mass(self) -> float:
        """All of it [kg]."""
        return float(self.model.body_mass.sum())

    def random(self) -> Array:
        """Poses anywhere within the limits, the same each time [POSES, J]."""
        return np.random.default_rng(0).uniform(self.low, self.high, (POSES, len(self.joints)))

    def inertia(self) -> tuple[Array, Array]:
        """Smallest and median inertia of each joint over random poses, the others held, armature included [J]."""
        rows = []
        for q in self.random():
            self.place(q)
            self._mujoco.mj_crb(self.model, self.data)
            full = np.zeros((self.model.nv, self.model.nv))
            self._mujoco.mj_fullM(self.model, self.data, full)
            rows.append(np.diag(full)[self.dof])
        table = np.array(rows, dtype=np.float64)
        return table.min(axis=0), np.quantile(table, 0.5, axis=0)

    def weight(self) -> Array:
        """Largest effort that gravity asks of each joint of an arm over random poses [J]."""
        return np.max([self.weight_at(q) for q in self.random()], axis=0)

    def weight_at(self, q: Array) -> Array:
        """Effort that gravity asks of each joint at a pose [J] with the base held [J]."""
        self.data.qvel[:] = 0.0
        self.place(q)
        self._mujoco.mj_forward(self.model, self.data)
        return np.abs(self.data.qfrc_bias[self.dof])


def turn_of(rotation: Array) -> tuple[float, float, float]:
    """Roll, pitch and yaw [rad] of a rotation matrix [3, 3]."""
    roll, pitch, yaw = (float(x) for x in Rotation.from_matrix(rotation).as_euler("xyz"))
    return roll, pitch, yaw
