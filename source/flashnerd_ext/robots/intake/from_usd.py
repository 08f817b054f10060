"""Read a USD with rigid bodies and joints: whatever its nesting, it becomes a tree that is written anew."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.assets import stage as tools
from flashnerd_ext.robots.assets.description import Drive
from flashnerd_ext.robots.assets.inertia import Array
from flashnerd_ext.robots.assets.pxr_api import Prim, Usd, UsdGeom, UsdPhysics
from flashnerd_ext.robots.assets.readback import Joint, inertia_of, joint_of
from flashnerd_ext.robots.assets.urdf import Link, Shape, Tree, UrdfJoint
from flashnerd_ext.robots.assets.usd_robot import expand_instances, write_mass
from flashnerd_ext.robots.intake.findings import error, warning
from flashnerd_ext.robots.intake.source import Intake, reframed

KNOWN = ("PhysicsRevoluteJoint", "PhysicsPrismaticJoint", "PhysicsFixedJoint")
MENDS = {
    "PhysicsSphericalJoint": "write three revolute joints with two light bodies between them in its place",
    "PhysicsJoint": "write it as revolute, prismatic or fixed joints",
}


def read_usd(path: Path) -> Intake:
    """Read a USD file; see :func:`flashnerd_ext.robots.intake.source.read`.

    Raises:
        FlashNerdError: When it cannot be opened.
    """
    try:
        stage: Any = Usd.Stage.Open(str(path))
    except Exception as failed:  # pxr raises its own kind
        raise FlashNerdError(f"{path} cannot be opened as USD: {str(failed).strip().splitlines()[-1]}.") from None
    intake = Intake(path, "usd")
    found = intake.findings
    unit, up = UsdGeom.GetStageMetersPerUnit(stage), str(UsdGeom.GetStageUpAxis(stage))
    if abs(unit - 1.0) > 1e-9 or up != "Z":
        found.append(error("stage", f"it is in units of {unit:g} m with {up} up", "export it in metres with Z up"))
        return intake
    expand_instances(stage)
    bodies = [prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.RigidBodyAPI)]
    joints = [prim for prim in stage.Traverse() if prim.IsA(UsdPhysics.Joint)]
    for name, count in Counter(prim.GetName() for prim in bodies).items():
        if count > 1:
            found.append(error(name, f"{count} bodies have this name", "give each a name of its own"))
    for prim in joints:
        if prim.GetTypeName() not in KNOWN:
            kind = prim.GetTypeName()
            mend = MENDS.get(kind, "use revolute, prismatic and fixed joints")
            found.append(error(prim.GetName(), f"joint type '{kind}' is not supported", mend))
    if not bodies:
        found.append(error("stage", "no prim has RigidBodyAPI", "give a file with physics, or a URDF"))
    if not found:
        _build(intake, bodies, joints)
    return intake


def _build(intake: Intake, bodies: list[Prim], joints: list[Prim]) -> None:
    found, links = intake.findings, {}
    for prim in bodies:
        try:
            write_mass(prim)
        except FlashNerdError as failed:
            found.append(error(prim.GetName(), str(failed).rstrip("."), "write MassAPI"))
            return
        links[prim.GetName()] = _link(prim)
    read: list[Joint] = []
    for prim in joints:
        if UsdPhysics.Joint(prim).GetExcludeFromArticulationAttr().Get():
            found.append(
                warning(prim.GetName(), "it is left out of the articulation and closes a loop", "left out here")
            )
            continue
        read.append(joint_of(UsdPhysics.Joint(prim)))
    for joint in read:
        if joint.parent is None or joint.parent not in links:
            intake.mount = joint.parent_frame @ np.linalg.inv(joint.child_frame)
    intake.fixed_base = any(joint.parent is None or joint.parent not in links for joint in read)
    read = [joint for joint in read if joint.parent in links]
    for name, count in Counter(joint.child for joint in read).items():
        if count > 1:
            found.append(error(name, f"{count} joints hold this body", "open the loop: a tree of bodies is needed"))
    roots = [name for name in links if name not in {joint.child for joint in read}]
    if len(roots) != 1 and not found:
        found.append(error(", ".join(roots[:4]), f"{len(roots)} bodies hang on no joint", "one root body is needed"))
    if any(finding.severity == "error" for finding in found):
        return
    tree = Tree(roots[0], links, [_joint(joint, intake) for joint in read])
    for joint in read:
        if np.abs(joint.child_frame[:3, 3]).max() > 1e-9:
            offset = np.eye(4)
            offset[:3, 3] = joint.child_frame[:3, 3]
            reframed(tree, joint.child, offset)
    intake.tree = tree


def _joint(joint: Joint, intake: Intake) -> UrdfJoint:
    intake.drives[joint.name] = Drive(joint.stiffness, joint.damping, joint.armature)
    free = joint.kind == "revolute" and not np.isfinite(joint.limits).all()
    assert joint.parent is not None
    return UrdfJoint(
        joint.name, "continuous" if free else joint.kind, joint.parent, joint.child,
        joint.parent_frame @ np.linalg.inv(joint.child_frame), joint.child_frame[:3, :3] @ joint.axis, joint.limits,
        joint.effort_limit, joint.velocity_limit, joint.mimic,
    )  # fmt: skip


def _link(body: Prim) -> Link:
    link = Link(body.GetName(), inertia_of(body))
    inside = iter(Usd.PrimRange(body))
    for prim in inside:
        if prim != body and prim.HasAPI(UsdPhysics.RigidBodyAPI):
            inside.PruneChildren()
        elif prim.IsA(UsdGeom.Gprim) and (shape := _shape(prim, body)) is not None:
            (link.collisions if prim.HasAPI(UsdPhysics.CollisionAPI) else link.visuals).append(shape)
    if not link.visuals:
        link.visuals = list(link.collisions)
    return link


def _shape(prim: Prim, body: Prim) -> Shape | None:
    rigid, scale = tools.rigid_and_scale(tools.matrix_of(prim, body))
    color = UsdGeom.Gprim(prim).GetDisplayColorAttr().Get()
    paint = tuple(float(x) for x in color[0]) if color else None
    even = float(scale[0])

    def made(kind: str, size: tuple[float, ...], pose: Array = rigid) -> Shape:
        return Shape(kind, size, pose, color=paint, link=body.GetName())  # type: ignore[arg-type]

    if prim.IsA(UsdGeom.Cube):
        edge = float(UsdGeom.Cube(prim).GetSizeAttr().Get())
        return made("box", tuple(float(edge * x) for x in scale))
    if prim.IsA(UsdGeom.Sphere):
        return made("sphere", (float(UsdGeom.Sphere(prim).GetRadiusAttr().Get()) * even,))
    for kind, schema in (("capsule", UsdGeom.Capsule), ("cylinder", UsdGeom.Cylinder)):
        if prim.IsA(schema):
            rod = schema(prim)
            size = (float(rod.GetRadiusAttr().Get()) * even, float(rod.GetHeightAttr().Get()) * even)
            return made(kind, size, rigid @ tools.axis_turn(str(rod.GetAxisAttr().Get())))
    if prim.IsA(UsdGeom.Mesh):
        points = np.array(UsdGeom.Mesh(prim).GetPointsAttr().Get(), dtype=np.float64) * scale
        return made("points", tuple(points.ravel().tolist()))
    return None
