"""Robots and objects for tests of coupled mode under PhysX without Kit; nothing here needs an asset server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import warp as wp

ARM = ("shoulder", "elbow", "wrist")
AXES = ("Y", "Y", "Z")
MASSES, INERTIA, COM = (1.0, 0.8, 0.6), (0.01, 0.02, 0.02), 0.15
LENGTH = 0.3
DT = 0.004
DEGREE = 3.141592653589793 / 180.0
"""USD counts angles in degrees."""


def add_link(stage: Any, path: str, place: Sequence[float], mass: float, inertia: Sequence[float], com: float) -> Any:
    from pxr import Gf, Sdf, UsdGeom, UsdPhysics

    link = UsdGeom.Xform.Define(stage, path)
    link.AddTranslateOp().Set(Gf.Vec3d(*place))
    prim = link.GetPrim()
    UsdPhysics.RigidBodyAPI.Apply(prim)
    api = UsdPhysics.MassAPI.Apply(prim)
    api.CreateMassAttr(mass)
    api.CreateCenterOfMassAttr(Gf.Vec3f(com, 0.0, 0.0))
    api.CreateDiagonalInertiaAttr(Gf.Vec3f(*inertia))
    api.CreatePrincipalAxesAttr(Gf.Quatf(1.0))
    prim.AddAppliedSchema("PhysxRigidBodyAPI")
    # Sleeping would hide what a step does.
    for name, value in (("linearDamping", 0.0), ("angularDamping", 0.0), ("sleepThreshold", 0.0)):
        prim.CreateAttribute(f"physxRigidBody:{name}", Sdf.ValueTypeNames.Float).Set(value)
    return prim


def add_arm(
    stage: Any,
    path: str,
    place: Sequence[float] = (0.0, 0.0, 0.5),
    joints: Sequence[str] = ARM,
    *,
    fixed: bool = True,
    gains: tuple[float, float] = (0.0, 0.0),
    armature: float = 0.01,
    limit: float = 1.5,
    colliders: bool = True,
    damping: float = 0.0,
    weightless: Sequence[str] = (),
    drive: str = "force",
) -> None:
    """Three hinges on a post; the same arm as in ``coupled_world``, with PhysX's drives where gains are given."""
    from pxr import Gf, Sdf, UsdGeom, UsdPhysics

    root = UsdGeom.Xform.Define(stage, path)
    root.AddTranslateOp().Set(Gf.Vec3d(*place))
    base = add_link(stage, f"{path}/base", (0.0, 0.0, 0.0), 2.0, (0.02, 0.02, 0.02), 0.0)
    # A free robot's root is a link, a welded one's is not: PhysX would choose another link.
    top = root.GetPrim() if fixed else base
    UsdPhysics.ArticulationRootAPI.Apply(top)
    top.AddAppliedSchema("PhysxArticulationAPI")
    for name, value in (("sleepThreshold", 0.0), ("stabilizationThreshold", 0.0)):
        top.CreateAttribute(f"physxArticulation:{name}", Sdf.ValueTypeNames.Float).Set(value)
    top.CreateAttribute("physxArticulation:enabledSelfCollisions", Sdf.ValueTypeNames.Bool).Set(False)
    if fixed:
        weld = UsdPhysics.FixedJoint.Define(stage, f"{path}/weld")
        weld.CreateBody1Rel().SetTargets([base.GetPath()])
        weld.CreateLocalPos0Attr(Gf.Vec3f(*place))
    parent = f"{path}/base"
    for i, name in enumerate(joints):
        link = f"{path}/{name}_link"
        add_link(stage, link, (i * LENGTH, 0.0, 0.0), MASSES[i], INERTIA, COM)
        if colliders:
            shape = UsdGeom.Cube.Define(stage, f"{link}/box")
            shape.CreateSizeAttr(1.0)
            shape.AddTranslateOp().Set(Gf.Vec3d(0.15, 0.0, 0.0))
            shape.AddScaleOp().Set(Gf.Vec3f(0.22, 0.05, 0.05))
            UsdPhysics.CollisionAPI.Apply(shape.GetPrim())
        joint = UsdPhysics.RevoluteJoint.Define(stage, f"{path}/joints/{name}")
        joint.CreateBody0Rel().SetTargets([parent])
        joint.CreateBody1Rel().SetTargets([link])
        joint.CreateAxisAttr(AXES[i])
        joint.CreateLocalPos0Attr(Gf.Vec3f(LENGTH if i else 0.0, 0.0, 0.0))
        joint.CreateLocalPos1Attr(Gf.Vec3f(0.0, 0.0, 0.0))
        joint.CreateLowerLimitAttr(-limit / DEGREE)
        joint.CreateUpperLimitAttr(limit / DEGREE)
        prim = joint.GetPrim()
        prim.AddAppliedSchema("PhysxJointAPI")
        prim.CreateAttribute("physxJoint:armature", Sdf.ValueTypeNames.Float).Set(armature)
        prim.CreateAttribute("physxJoint:jointFriction", Sdf.ValueTypeNames.Float).Set(0.0)
        prim.CreateAttribute("physxJoint:maxJointVelocity", Sdf.ValueTypeNames.Float).Set(1e5)
        motor = UsdPhysics.DriveAPI.Apply(prim, "angular")
        motor.CreateTypeAttr(drive)
        motor.CreateStiffnessAttr(gains[0] * DEGREE)
        motor.CreateDampingAttr(gains[1] * DEGREE)
        motor.CreateMaxForceAttr(1e4)
        parent = link
        body = stage.GetPrimAtPath(link)
        body.GetAttribute("physxRigidBody:angularDamping").Set(damping)
        if name in weightless:
            body.CreateAttribute("physxRigidBody:disableGravity", Sdf.ValueTypeNames.Bool).Set(True)


def add_cube(stage: Any, path: str, place: Sequence[float], half: float = 0.06, mass: float = 0.5) -> None:
    from pxr import UsdGeom, UsdPhysics

    inertia = mass * (2 * half) ** 2 / 6
    add_link(stage, path, place, mass, (inertia,) * 3, 0.0)
    shape = UsdGeom.Cube.Define(stage, f"{path}/box")
    shape.CreateSizeAttr(2 * half)
    UsdPhysics.CollisionAPI.Apply(shape.GetPrim())


def add_ground(stage: Any) -> None:
    from pxr import Gf, UsdGeom, UsdPhysics

    shape = UsdGeom.Cube.Define(stage, "/World/ground")
    shape.CreateSizeAttr(1.0)
    shape.AddTranslateOp().Set(Gf.Vec3d(0.0, 0.0, -0.5))
    shape.AddScaleOp().Set(Gf.Vec3f(200.0, 200.0, 1.0))
    UsdPhysics.CollisionAPI.Apply(shape.GetPrim())


def simulation(build: Callable[[Any], None], physics: Any = None, solver: str = "TGS", gravity: float = -9.81) -> Any:
    """A running Isaac Lab simulation of what ``build`` adds to the stage; close it with :func:`close`."""
    wp.config.quiet = True
    from flashnerd_ext.physics.ovphysx_manager import without_pinned_memory

    # For the plain manager too.
    without_pinned_memory()
    from isaaclab.sim import SimulationCfg, SimulationContext
    from isaaclab_ov.physics import OvPhysxCfg
    from pxr import Sdf

    cfg = SimulationCfg(
        dt=DT, device="cpu", gravity=(0.0, 0.0, gravity), physics=OvPhysxCfg() if physics is None else physics
    )
    sim = SimulationContext(cfg)
    scene = sim.stage.GetPrimAtPath(cfg.physics_prim_path)
    scene.CreateAttribute("physxScene:solverType", Sdf.ValueTypeNames.Token).Set(solver)
    build(sim.stage)
    sim.reset()
    return sim


def close(sim: Any) -> None:
    type(sim).clear_instance()


def arm_model(place: Sequence[float] = (0.0, 0.0, 0.5), armature: float = 0.01, weightless: Sequence[str] = ()) -> Any:
    """The arm in MuJoCo, in double precision: nothing of PhysX is in it."""
    import mujoco

    tree, close_tags = "", ""
    for i, name in enumerate(ARM):
        axis = {"Y": "0 1 0", "Z": "0 0 1"}[AXES[i]]
        at = " ".join(map(str, place)) if i == 0 else f"{LENGTH} 0 0"
        tree += (
            f'<body name="{name}_link" pos="{at}" gravcomp="{float(name in weightless)}">'
            f'<inertial pos="{COM} 0 0" mass="{MASSES[i]}" diaginertia="{" ".join(map(str, INERTIA))}"/>'
            f'<joint name="{name}" type="hinge" axis="{axis}" armature="{armature}"/>'
        )
        close_tags += "</body>"
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><option gravity="0 0 -9.81"/><worldbody>{tree}{close_tags}</worldbody></mujoco>'
    )


class ArmAnalytic:
    """Free motion of the arm by MuJoCo's own algorithms: what a perfect model would give."""

    def __init__(self, **model: Any) -> None:
        import mujoco

        self._model = arm_model(**model)
        self._data = mujoco.MjData(self._model)

    def __call__(self, joint_q: torch.Tensor, joint_qd: torch.Tensor, actuation: torch.Tensor) -> torch.Tensor:
        import mujoco

        rows = []
        for q, qd, u in zip(joint_q.tolist(), joint_qd.tolist(), actuation.tolist(), strict=True):
            self._data.qpos[:], self._data.qvel[:], self._data.qfrc_applied[:] = q, qd, u
            mujoco.mj_forward(self._model, self._data)
            rows.append(self._data.qacc_smooth.tolist())
        return torch.tensor(rows, dtype=torch.float32)
