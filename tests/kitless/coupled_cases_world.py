"""Franka with its shipped bundle and a cube at its fingers on a bare Newton model, without Isaac Lab."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import newton
import torch
import warp as wp
from coupled_world import Run, coupled, plain
from newton import JointTargetMode

from flashnerd_ext.bundle.store import Bundle, load_bundle
from flashnerd_ext.data.engines.export import robot_usd
from flashnerd_ext.robots.registry import get_robot

ROBOT = get_robot("franka")
LAYOUT = ROBOT.layout
OPTIONS = {"integrator": "implicitfast", "cone": "elliptic", "impratio": 10.0, "njmax": 100, "nconmax": 40}
CUBE = 0.05
"""Half an edge of the cube [m]."""
POSE = [ROBOT.default_joint_q.get(name, 0.0) for name in LAYOUT.joint_names]
FINGERS = ("panda_leftfinger", "panda_rightfinger")


@functools.cache
def shipped() -> Bundle:
    """The shipped bundle, read once; nothing here changes its weights."""
    return load_bundle("franka")


@functools.cache
def arm() -> Any:
    """The arm as its asset has it, read once; it does not touch itself."""
    builder = newton.ModelBuilder()
    newton.solvers.SolverMuJoCo.register_custom_attributes(builder)
    builder.add_usd(robot_usd(ROBOT))
    shapes = builder.shape_count
    builder.shape_collision_filter_pairs.extend((a, b) for a in range(shapes) for b in range(a + 1, shapes))
    return builder


def scene(builder: Any) -> None:
    """The arm with its drives, as the description has them, and a cube of 0.4 kg."""
    builder.add_builder(arm())
    for joint, label in enumerate(builder.joint_label):
        name, dof = label.rsplit("/", 1)[-1], builder.joint_qd_start[joint]
        if name not in LAYOUT.joint_names:
            continue
        builder.joint_armature[dof] = ROBOT.armature[name]
        builder.joint_target_ke[dof], builder.joint_target_kd[dof] = (
            ROBOT.joint_stiffness[name],
            ROBOT.joint_damping[name],
        )
        builder.joint_target_mode[dof] = int(JointTargetMode.POSITION_VELOCITY)
        builder.joint_effort_limit[dof] = ROBOT.effort_limit[name]
    body = builder.add_body(xform=wp.transform(wp.vec3(1.5, 0.0, 2.0), wp.quat(0.0, 0.0, 0.0, 1.0)), label="cube")
    cfg = newton.ModelBuilder.ShapeConfig(density=400.0, mu=0.6)
    builder.add_shape_box(body, hx=CUBE, hy=CUBE, hz=CUBE, cfg=cfg)


class Bench(Run):
    """W worlds with an arm that holds its pose, each a little differently; see :class:`coupled_world.Run`.

    Args:
        count: Worlds.
        stock: Step by MuJoCo Warp alone.
        known: Let the scene's own acceleration be the prediction, in place of the bundle's.
        options: Of the solver.
    """

    def __init__(self, count: int, stock: bool = False, known: bool = False, **options: Any) -> None:
        maker = plain(**OPTIONS | options) if stock else coupled(shipped(), **OPTIONS | options)
        super().__init__(scene, count, maker, ground=True)
        self.dt = shipped().card.dt
        if known:
            stepper = self.solver.stream.stepper
            columns = torch.from_numpy(self.solver.where.dofs).long().reshape(-1)
            stepper.accelerate = lambda q, qd, u: (
                wp.to_torch(self.solver.mjw_data.qacc_smooth)[:, columns].reshape(qd.shape).clone()
            )
        spread = torch.linspace(-0.05, 0.05, count)[:, None] * torch.tensor([1.0] * 7 + [0.0] * 2)
        self.put(torch.tensor(POSE) + spread)
        self.view("joint_target_q")[:, :9] = torch.tensor(POSE)

    def put(self, joint_q: torch.Tensor, worlds: Sequence[int] | slice = slice(None)) -> None:
        """Write the arm's positions at rest, as a reset of these worlds does, and bring the bodies along."""
        self.view("joint_q")[worlds, :9] = joint_q
        self.view("joint_qd")[worlds] = 0.0
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)

    def body(self, name: str) -> list[int]:
        """Place of a body in the whole model, one a world."""
        return [i for i, label in enumerate(self.model.body_label) if label.rsplit("/", 1)[-1] == name]

    def touch(self, worlds: Sequence[int]) -> None:
        """Put the cube 2 mm deep into the tips of the fingers in these worlds, turned as they are."""
        poses = torch.from_numpy(self.state.body_q.numpy())
        for world in worlds:
            middle = poses[[self.body(name)[world] for name in FINGERS]].mean(0)
            along: Any = wp.quat_rotate(
                wp.quat(*poses[self.body(FINGERS[0])[world], 3:].tolist()), wp.vec3(0.0, 0.0, 1.0)
            )
            reach = self.tip + CUBE - 0.002
            place = middle[:3] + reach * torch.tensor([along[0], along[1], along[2]])
            self.view("joint_q")[world, 9:] = torch.cat((place, poses[self.body(FINGERS[0])[world], 3:]))
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)

    @functools.cached_property
    def tip(self) -> float:
        """How far a finger reaches along its own axis [m]."""
        shapes = [s for s, body in enumerate(self.model.shape_body.numpy()) if body == self.body(FINGERS[0])[0]]
        local, scale = self.model.shape_transform.numpy(), self.model.shape_scale.numpy()
        move: Any = wp.transform_point
        reach = []
        for shape in shapes:
            source = self.model.shape_source[shape]
            corners = (
                source.vertices
                if source is not None
                else [[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
            )
            turn = wp.transform(wp.vec3(*local[shape, :3].tolist()), wp.quat(*local[shape, 3:].tolist()))
            size = scale[shape]
            reach += [
                move(turn, wp.vec3(*(float(a) * float(b) for a, b in zip(c, size, strict=True))))[2] for c in corners
            ]
        return max(reach)

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.solver.step(self.state, self.state, self.control, None, self.dt)
