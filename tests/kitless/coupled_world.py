"""Robots, objects and known models for tests of coupled mode; nothing here needs an asset server."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import newton
import numpy as np
import torch
import warp as wp
from newton.solvers import SolverMuJoCo

from flashnerd_ext.bundle.coupling import CouplingCard
from flashnerd_ext.bundle.make import envelope, make_card
from flashnerd_ext.bundle.store import Bundle, save_bundle
from flashnerd_ext.model.frame import frame_names
from flashnerd_ext.model.free import FreeStepper, free_motion_layout
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.registry import build_model
from flashnerd_ext.robots.description import RobotDescription
from flashnerd_ext.solver.solver_coupled import SolverCoupled

wp.config.quiet = True

ARM = ("shoulder", "elbow", "wrist")
DAMPING, ARMATURE, KP, KD, EFFORT = 0.2, 0.01, 60.0, 3.0, 30.0
DT = 0.004
SOLVER = {"njmax": 96, "nconmax": 32}
Build = Callable[[Any], None]


def add_arm(builder: Any, label: str = "arm", place: Sequence[float] = (0.0, 0.0, 0.5), gains: bool = True) -> None:
    """Three hinges on a post, with PD drives, limits, joint friction, passive damping and armature."""
    inertia = wp.mat33(0.01, 0.0, 0.0, 0.0, 0.02, 0.0, 0.0, 0.0, 0.02)
    sideways = wp.quat(0.0, 0.5**0.5, 0.0, 0.5**0.5)
    parent, joints, at = -1, [], wp.transform(wp.vec3(*place), wp.quat(0.0, 0.0, 0.0, 1.0))
    for i, name in enumerate(ARM):
        link = builder.add_link(mass=1.0 - 0.2 * i, inertia=inertia, com=wp.vec3(0.15, 0.0, 0.0), label=f"{name}_link")
        builder.add_shape_capsule(
            link, xform=wp.transform(wp.vec3(0.15, 0.0, 0.0), sideways),
            radius=0.03, half_height=0.12, cfg=newton.ModelBuilder.ShapeConfig(density=0.0, mu=0.8),
        )  # fmt: skip
        axis = wp.vec3(0.0, 0.0, 1.0) if name == "wrist" else wp.vec3(0.0, 1.0, 0.0)
        joints.append(
            builder.add_joint_revolute(
                parent, link, parent_xform=at, axis=axis, label=f"{label}/{name}",
                target_ke=KP if gains else 0.0, target_kd=KD if gains else 0.0, limit_lower=-1.5, limit_upper=1.5,
                armature=ARMATURE, effort_limit=EFFORT, damping=DAMPING, friction=0.3,
            )
        )  # fmt: skip
        parent, at = link, wp.transform(wp.vec3(0.3, 0.0, 0.0), wp.quat(0.0, 0.0, 0.0, 1.0))
    builder.add_articulation(joints, label=label)


def add_cube(builder: Any, place: Sequence[float] = (0.45, 0.0, 0.12)) -> None:
    body = builder.add_body(xform=wp.transform(wp.vec3(*place), wp.quat(0.0, 0.0, 0.0, 1.0)), label="cube")
    cfg = newton.ModelBuilder.ShapeConfig(density=400.0, mu=0.6)
    builder.add_shape_box(body, hx=0.06, hy=0.06, hz=0.06, cfg=cfg)


def arm_and_cube(builder: Any) -> None:
    add_arm(builder)
    add_cube(builder)


def only_arm(builder: Any) -> None:
    """The arm alone: nothing to touch, no drives, so that what moves it is commanded effort."""
    add_arm(builder, gains=False)


def finalize(build: Build, count: int, ground: bool = True, gravity: float = -9.81) -> Any:
    """A Newton model of ``count`` worlds of what ``build`` adds."""
    single, scene = newton.ModelBuilder(gravity=gravity), newton.ModelBuilder(gravity=gravity)
    SolverMuJoCo.register_custom_attributes(single)
    SolverMuJoCo.register_custom_attributes(scene)
    build(single)
    scene.replicate(single, count)
    if ground:
        scene.add_ground_plane()
    return scene.finalize(device="cpu")


def arm_robot(
    substeps: int = 1, joints: Sequence[str] = ARM, kinds: Sequence[str] = ("revolute",) * 3
) -> RobotDescription:
    return RobotDescription(
        name="arm",
        layout=StateLayout(tuple(joints), tuple(kinds), actuated=tuple(joints)),
        asset_path="x.usd",
        sim_dt=DT * substeps,
        decimation=2,
        substeps=substeps,
        effort_limit=dict.fromkeys(joints, EFFORT),
        joint_stiffness=dict.fromkeys(joints, KP),
        joint_damping=dict.fromkeys(joints, KD),
    )


def coupling_of(joints: Sequence[str] = ARM, label: str = "qacc_smooth", **changes: Any) -> CouplingCard:
    card = CouplingCard(
        label=label,
        integrator="implicitfast" if label == "dv_implicitfast" else "euler",
        damping=dict.fromkeys(joints, DAMPING),
        armature=dict.fromkeys(joints, ARMATURE),
    )
    return dataclasses.replace(card, **changes)


def coupled_bundle(
    folder: Path, robot: RobotDescription | None = None, coupling: CouplingCard | None = None, reach: float = 200.0,
    seed: int = 0, layout: StateLayout | None = None,
) -> Bundle:  # fmt: skip
    """A saved bundle of coupled mode with an untrained model whose accelerations are of the order of 1."""
    robot = robot or arm_robot()
    layout = layout or free_motion_layout(robot.layout)
    torch.manual_seed(seed)
    config = {"width": 16, "blocks": 2, "span": 3, "heads": 2, "hidden": 16}
    model = build_model("flashnerd", layout, config)
    spread = [20.0 if name.endswith(".act") else 1.0 for name in frame_names(layout)]
    model.frame_norm.fit(torch.zeros(model.frame_size), torch.tensor(spread))
    model.out_norm.fit(torch.zeros(model.out_size), torch.full((model.out_size,), 0.02))
    rng = np.random.default_rng(0)
    q, qd, torque = (rng.uniform(-1, 1, (256, size)) * reach for size in (layout.nq, layout.nv, layout.nu))
    card = make_card(
        robot=robot,
        model=model,
        envelope=envelope(layout, q, qd, torque, rng.uniform(-1, 1, (256, len(layout.conditions)))),
        engine="mujoco_warp",
        seed=0,
        coupling=coupling or coupling_of(layout.joint_names),
    )
    return save_bundle(folder, model, card)


class Known(FreeStepper):
    """A stepper whose accelerations come from a function of (joint_q, joint_qd, actuation) instead of the weights."""

    def __init__(self, bundle: Bundle, rows: int, function: Callable[..., torch.Tensor]) -> None:
        super().__init__(bundle.model, bundle.card.dt, 1, rows)
        self.function = function

    def accelerate(self, joint_q: Any, joint_qd: Any, actuation: Any) -> torch.Tensor:
        return self.function(joint_q, joint_qd, actuation)


class Analytic:
    """Free motion of the arm alone, by a solver of its own that knows only what a model is given.

    Args:
        rows: Robots.
        integrator: Of the label; for ``qacc_smooth`` none matters.
        build: Scene with one robot a world and nothing else.
    """

    def __init__(self, rows: int, build: Build = only_arm) -> None:
        self.model = finalize(build, rows, ground=False)
        self.state, self.control = self.model.state(), self.model.control()
        # What is free has no constraints; MuJoCo Warp's own stages up to the acceleration are all that runs.
        self.solver = SolverMuJoCo(self.model, njmax=16, nconmax=4, disable_contacts=True)
        self.solver._mujoco_warp_step = self._until_acceleration

    def _until_acceleration(self) -> None:
        import mujoco_warp as mjw

        m, d = self.solver.mjw_model, self.solver.mjw_data
        mjw.fwd_position(m, d, factorize=False)
        mjw.fwd_velocity(m, d)
        mjw.fwd_actuation(m, d)
        mjw.fwd_acceleration(m, d, factorize=True)

    def __call__(self, joint_q: torch.Tensor, joint_qd: torch.Tensor, actuation: torch.Tensor) -> torch.Tensor:
        for array, value in (
            (self.state.joint_q, joint_q), (self.state.joint_qd, joint_qd), (self.control.joint_f, actuation)
        ):  # fmt: skip
            wp.to_torch(array).view(value.shape).copy_(value)
        self.solver.step(self.state, self.state, self.control, None, DT)
        return wp.to_torch(self.solver.mjw_data.qacc_smooth).clone()


class Run:
    """A simulation that is stepped by a plain or a coupled solver.

    Args:
        build: Scene of one world.
        count: Worlds.
        solver: Makes the solver of a finalised model.
    """

    effort = 0.0

    def __init__(self, build: Build, count: int, solver: Callable[[Any], Any], **scene: Any) -> None:
        self.model = finalize(build, count, **scene)
        self.state, self.control = self.model.state(), self.model.control()
        self.solver = solver(self.model)
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)

    def view(self, name: str) -> torch.Tensor:
        """Writable [W, ...] view of an array of the state or the control."""
        owner = self.control if hasattr(self.control, name) else self.state
        return wp.to_torch(getattr(owner, name)).view(self.model.world_count, -1)

    def start(self, joints: int = 3, seed: int = 1) -> Run:
        """Different states and targets in each world for the first ``joints`` degrees of freedom."""
        torch.manual_seed(seed)
        n = self.model.world_count
        self.view("joint_q")[:, :joints] = 0.6 * (torch.rand(n, joints) - 0.5)
        self.view("joint_qd")[:, :joints] = torch.rand(n, joints) - 0.5
        self.command(0, joints)
        newton.eval_fk(self.model, self.state.joint_q, self.state.joint_qd, self.state)
        return self

    def command(self, step: int, joints: int = 3) -> None:
        """Targets that swing through the cube and beyond the limits, and efforts of the size ``effort``."""
        n = self.model.world_count
        phase = torch.arange(n)[:, None] * 0.7 + torch.arange(joints)[None] * 1.3 + 0.08 * step
        self.view("joint_target_q")[:, :joints] = 0.9 + 1.1 * torch.sin(phase)
        self.view("joint_f")[:, :joints] = self.effort * torch.cos(phase)

    def steps(self, times: int, dt: float = DT, substeps: int = 1) -> None:
        for i in range(times):
            self.command(i)
            for _ in range(substeps):
                self.solver.step(self.state, self.state, self.control, None, dt)

    def states(self) -> torch.Tensor:
        return torch.cat((self.view("joint_q"), self.view("joint_qd")), 1).clone()


def coupled(bundle: Bundle, function: Callable[..., torch.Tensor] | None = None, rows: int = 0, **options: Any) -> Any:
    """Maker of a coupled solver for :class:`Run`; without a function the bundle's own model predicts."""

    def make(model: Any) -> SolverCoupled:
        count = rows or model.world_count
        stepper = (
            FreeStepper(bundle.model, bundle.card.dt, 1, count) if function is None else Known(bundle, count, function)
        )
        return SolverCoupled(model, bundle, stepper, **{"integrator": "euler", **SOLVER, **options})

    return make


def plain(**options: Any) -> Any:
    """Maker of a stock solver for :class:`Run`."""
    return lambda model: SolverMuJoCo(model, **{"integrator": "euler", **SOLVER, **options})


PUSHER = ("slide",)
PUSHED, PUSHING = 0.5, 2.0


def pusher_and_cube(builder: Any) -> None:
    """A box of 2 kg on a rail along x and a free cube of 0.5 kg 2 cm in front of it; meant for no gravity."""
    cfg = newton.ModelBuilder.ShapeConfig(density=0.0, mu=0.1)
    inertia = wp.mat33(0.02, 0.0, 0.0, 0.0, 0.02, 0.0, 0.0, 0.0, 0.02)
    slider = builder.add_link(mass=PUSHING, inertia=inertia, label="slider")
    builder.add_shape_box(slider, hx=0.1, hy=0.1, hz=0.1, cfg=cfg)
    joint = builder.add_joint_prismatic(-1, slider, axis=wp.vec3(1.0, 0.0, 0.0), label="pusher/slide", target_ke=0.0)
    builder.add_articulation([joint], label="pusher")
    cube = builder.add_body(
        mass=PUSHED, inertia=wp.mat33(0.002, 0.0, 0.0, 0.0, 0.002, 0.0, 0.0, 0.0, 0.002), label="cube",
        xform=wp.transform(wp.vec3(0.17, 0.0, 0.0), wp.quat(0.0, 0.0, 0.0, 1.0)),
    )  # fmt: skip
    builder.add_shape_box(cube, hx=0.05, hy=0.05, hz=0.05, cfg=cfg)


def pusher_robot() -> RobotDescription:
    return arm_robot(joints=PUSHER, kinds=("prismatic",))


def pusher_coupling() -> CouplingCard:
    return dataclasses.replace(coupling_of(PUSHER), damping={"slide": 0.0}, armature={"slide": 0.0})
