"""URDF to USD: flat bodies below an articulation root, as stock Isaac Lab configs and sensors expect them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.assets import inertia, mesh, urdf
from flashnerd_ext.robots.assets import stage as tools
from flashnerd_ext.robots.assets.description import Color, Drive, UrdfRobot
from flashnerd_ext.robots.assets.inertia import Array
from flashnerd_ext.robots.assets.pxr_api import Gf, Prim, Sdf, Stage, UsdGeom, UsdPhysics, Vt
from flashnerd_ext.robots.assets.urdf import Link, Shape, Tree, UrdfJoint, pick

_GREY: Color = (0.55, 0.57, 0.60)
_VISUAL_CORNERS = 64
"""Corners of a hull that is only looked at."""
_DEGREES = 180.0 / np.pi


def convert(robot: UrdfRobot, path: Path) -> Path:
    """Write the robot's asset to ``path``.

    Raises:
        FlashNerdError: When the URDF or a mesh cannot be used as the description says.
    """
    return write_tree(robot, urdf.load(robot), path)


def write_tree(robot: UrdfRobot, tree: Tree, path: Path) -> Path:
    """Write an edited tree, wherever it comes from, as the robot's asset.

    Raises:
        FlashNerdError: When an inertia or a mesh cannot be used as the description says.
    """
    stage = tools.new_stage(
        robot.root,
        f"{robot.name}: made by FlashNeRD from {Path(robot.source.file).name} of {robot.source.distribution}"
        f" ({robot.source.licence}).",
    )
    root = stage.GetDefaultPrim()
    tools.set_pose(root)
    UsdPhysics.ArticulationRootAPI.Apply(root)
    _schema(root, "PhysxArticulationAPI", "physxArticulation:enabledSelfCollisions", robot.self_collision)
    _schema(root, "NewtonArticulationRootAPI", "newton:selfCollisionEnabled", robot.self_collision)
    bodies = _body_paths(robot, tree)
    if robot.nested:
        tools.set_pose(UsdGeom.Xform.Define(stage, f"/{robot.root}/{robot.nested}").GetPrim())
    for name, pose in _body_poses(robot, tree).items():
        _write_body(stage, robot, tree.links[name], bodies[name], pose)
    UsdGeom.Scope.Define(stage, f"/{robot.root}/joints")
    if robot.fixed_base:
        anchor = UsdPhysics.FixedJoint.Define(stage, f"/{robot.root}/root_joint")
        anchor.CreateBody1Rel().SetTargets([Sdf.Path(bodies[tree.root])])
    for joint in tree.joints:
        _write_joint(stage, robot, joint, bodies)
    _write_variants(root, robot)
    _write_collider_variants(root, robot, bodies)
    return tools.save_layer(stage.GetRootLayer(), path)


def _body_paths(robot: UrdfRobot, tree: Tree) -> dict[str, str]:
    """Body -> path of its prim, parents first."""
    if not robot.nested:
        return {name: f"/{robot.root}/{name}" for name in tree.links}
    paths = {tree.root: f"/{robot.root}/{robot.nested}/{tree.root}"}
    for joint in tree.joints:
        paths[joint.child] = f"{paths[joint.parent]}/{joint.child}"
    return paths


def _body_poses(robot: UrdfRobot, tree: Tree) -> dict[str, Array]:
    """Body -> pose [4, 4] in the prim above it at joint positions zero, parents first."""
    if not robot.nested:
        return tree.world_poses()
    return {tree.root: np.eye(4)} | {joint.child: joint.pose for joint in tree.joints}


def _schema(prim: Prim, schema: str, attribute: str, value: bool | float) -> None:
    """Apply a schema by name (it need not be registered here) and author one of its attributes."""
    prim.AddAppliedSchema(schema)
    kind = Sdf.ValueTypeNames.Bool if isinstance(value, bool) else Sdf.ValueTypeNames.Float
    prim.CreateAttribute(attribute, kind, custom=False).Set(value)


def _write_body(stage: Stage, robot: UrdfRobot, link: Link, path: str, pose: Array) -> None:
    prim = UsdGeom.Xform.Define(stage, path).GetPrim()
    tools.set_pose(prim, pose)
    UsdPhysics.RigidBodyAPI.Apply(prim)
    try:
        tensor, _ = inertia.lifted(link.inertia.tensor, robot.inertia_lift)
    except ValueError as error:
        raise FlashNerdError(
            f"body '{link.name}' of robot '{robot.name}': {error}, but inertia_lift={robot.inertia_lift:g}."
        ) from None
    tools.set_mass(prim, inertia.Inertia(link.inertia.mass, link.inertia.com, tensor))
    shown = link.collisions if robot.visual == "collision" else link.visuals
    for index, shape in enumerate(shown):
        geometry = _write_shape(stage, f"{path}/visuals", index, shape, robot.visual != "mesh", _VISUAL_CORNERS)
        tools.set_color(geometry, pick(robot.colors, shape.link) or shape.color or _GREY)
    for index, shape in enumerate(_collisions(robot, link)):
        geometry = _write_shape(stage, f"{path}/collisions", index, shape, True, robot.hull_corners)
        UsdGeom.Imageable(geometry).CreatePurposeAttr(UsdGeom.Tokens.guide)
        UsdPhysics.CollisionAPI.Apply(geometry)
        if geometry.IsA(UsdGeom.Mesh):
            UsdPhysics.MeshCollisionAPI.Apply(geometry).CreateApproximationAttr(UsdPhysics.Tokens.convexHull)


def points_of(shape: Shape) -> Array:
    """Points [V, 3] of a shape in its body's frame."""
    if shape.kind == "mesh":
        assert shape.file is not None
        return mesh.moved(mesh.load_mesh(shape.file)[0] * np.array(shape.size), shape.pose)
    if shape.kind == "points":
        return mesh.moved(np.array(shape.size).reshape(-1, 3), shape.pose)
    return mesh.moved(mesh.outline(shape.kind, shape.size), shape.pose)


def _collisions(robot: UrdfRobot, link: Link) -> list[Shape]:
    policy = pick(robot.collision, link.name) or "shape"
    if policy == "none" or not link.collisions:
        return []
    if policy == "shape":
        return link.collisions
    points = np.concatenate([points_of(shape) for shape in link.collisions])
    if policy == "hull":
        return [Shape("points", tuple(points.ravel().tolist()), np.eye(4), link=link.name)]
    pose = np.eye(4)
    if policy == "sphere":
        pose[:3, 3], radius = mesh.sphere_of(points)
        return [Shape("sphere", (radius,), pose, link=link.name)]
    if policy == "capsule":
        pose, radius, length = mesh.capsule_of(points)
        return [Shape("capsule", (radius, length), pose, link=link.name)]
    low, high = points.min(axis=0), points.max(axis=0)
    pose[:3, 3] = (low + high) / 2.0
    return [Shape("box", tuple((high - low).tolist()), pose, link=link.name)]


def _write_shape(stage: Stage, scope: str, index: int, shape: Shape, hull: bool, corners: int | None) -> Prim:
    if not stage.GetPrimAtPath(scope):
        tools.set_pose(UsdGeom.Xform.Define(stage, scope).GetPrim())
    path, size, scale = f"{scope}/{shape.kind}_{index}", shape.size, None
    pose = shape.pose
    if shape.kind == "box":
        cube = UsdGeom.Cube.Define(stage, path)
        cube.CreateSizeAttr(1.0)
        scale, prim = np.array(size), cube.GetPrim()
    elif shape.kind == "sphere":
        sphere = UsdGeom.Sphere.Define(stage, path)
        sphere.CreateRadiusAttr(size[0])
        prim = sphere.GetPrim()
    elif shape.kind in ("cylinder", "capsule"):
        make = UsdGeom.Cylinder if shape.kind == "cylinder" else UsdGeom.Capsule
        rod = make.Define(stage, path)
        rod.CreateRadiusAttr(size[0])
        rod.CreateHeightAttr(size[1])
        rod.CreateAxisAttr(UsdGeom.Tokens.z)
        prim = rod.GetPrim()
    else:
        if shape.kind == "points":
            points, faces = mesh.hull_of(np.array(size).reshape(-1, 3), corners)
        else:
            assert shape.file is not None
            points, faces = mesh.load_mesh(shape.file)
            points = points * np.array(size)
            if hull:
                points, faces = mesh.hull_of(points, corners)
            elif np.prod(size) < 0.0:
                faces = faces[:, ::-1]
        prim = _write_mesh(stage, path, points, faces)
    tools.set_pose(prim, pose, scale)
    tools.fix_extent(prim)
    return prim


def _write_mesh(stage: Stage, path: str, points: Array, faces: mesh.Faces) -> Prim:
    geometry = UsdGeom.Mesh.Define(stage, path)
    geometry.CreatePointsAttr(Vt.Vec3fArray.FromNumpy(points.astype(np.float32)))
    geometry.CreateFaceVertexCountsAttr(Vt.IntArray.FromNumpy(np.full(len(faces), 3, dtype=np.int32)))
    geometry.CreateFaceVertexIndicesAttr(Vt.IntArray.FromNumpy(faces.astype(np.int32).ravel()))
    geometry.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
    return geometry.GetPrim()


def _write_joint(stage: Stage, robot: UrdfRobot, joint: UrdfJoint, bodies: dict[str, str]) -> None:
    path = f"/{robot.root}/joints/{joint.name}"
    make = {"fixed": UsdPhysics.FixedJoint, "prismatic": UsdPhysics.PrismaticJoint}
    written = make.get(joint.kind, UsdPhysics.RevoluteJoint).Define(stage, path)
    # USD joints turn about x, y or z; another direction becomes x of a joint frame that is turned towards it.
    axis, turn = _axis(joint.axis)
    written.CreateBody0Rel().SetTargets([Sdf.Path(bodies[joint.parent])])
    written.CreateBody1Rel().SetTargets([Sdf.Path(bodies[joint.child])])
    written.CreateLocalPos0Attr(Gf.Vec3f(*(float(value) for value in joint.pose[:3, 3])))
    written.CreateLocalRot0Attr(tools.quatf(joint.pose[:3, :3] @ turn))
    written.CreateLocalPos1Attr(Gf.Vec3f(0.0))
    written.CreateLocalRot1Attr(tools.quatf(turn))
    if joint.kind == "fixed":
        return
    angular = joint.kind != "prismatic"
    unit = _DEGREES if angular else 1.0
    written.CreateAxisAttr(axis)
    written.CreateLowerLimitAttr(float(joint.limits[0] * unit))
    written.CreateUpperLimitAttr(float(joint.limits[1] * unit))
    gains = pick(robot.drives, joint.name) or Drive()
    prim = written.GetPrim()
    drive = UsdPhysics.DriveAPI.Apply(prim, "angular" if angular else "linear")
    drive.CreateTypeAttr(UsdPhysics.Tokens.force)
    drive.CreateStiffnessAttr(gains.stiffness / unit)
    drive.CreateDampingAttr(gains.damping / unit)
    if np.isfinite(joint.effort):
        drive.CreateMaxForceAttr(float(joint.effort))
    _schema(prim, "PhysxJointAPI", "physxJoint:armature", gains.armature)
    _schema(prim, "NewtonJointAPI", "newton:armature", gains.armature)
    if np.isfinite(joint.velocity):
        _schema(prim, "PhysxJointAPI", "physxJoint:maxJointVelocity", joint.velocity * unit)
        _schema(prim, "NewtonJointAPI", "newton:velocityLimit", joint.velocity * unit)
    if joint.mimic is not None:
        leader, ratio, offset = joint.mimic
        _schema(prim, "NewtonMimicAPI", "newton:mimicCoef0", offset * unit)
        _schema(prim, "NewtonMimicAPI", "newton:mimicCoef1", ratio)
        prim.CreateRelationship("newton:mimicJoint", custom=False).SetTargets(
            [Sdf.Path(f"/{robot.root}/joints/{leader}")]
        )


def _axis(axis: Array) -> tuple[str, Array]:
    """USD axis token and the rotation [3, 3] of the joint frame, so that rotation @ token = axis."""
    for index, token in enumerate("XYZ"):
        if axis[index] > 1.0 - 1e-12:
            return token, np.eye(3)
    if axis[0] < -1.0 + 1e-9:  # no shortest turn exists from x to -x
        return "X", np.diag([-1.0, -1.0, 1.0])
    half = np.array([1.0, 0.0, 0.0]) + axis
    half /= np.linalg.norm(half)
    # Turning by pi about the half-way vector and then by pi about x is the shortest turn, without trigonometry.
    turn = (2.0 * np.outer(half, half) - np.eye(3)) @ np.diag([1.0, -1.0, -1.0])
    return "X", turn


def _write_variants(root: Prim, robot: UrdfRobot) -> None:
    for name, choices in robot.variants.items():
        variants = root.GetVariantSets().AddVariantSet(name)
        for choice in choices:
            variants.AddVariant(choice)
        variants.SetVariantSelection(choices[0])


def _write_collider_variants(root: Prim, robot: UrdfRobot, bodies: dict[str, str]) -> None:
    if not robot.colliders:
        return
    stage = root.GetStage()
    variants = root.GetVariantSets().AddVariantSet("Colliders")
    for choice, patterns in robot.colliders.items():
        variants.AddVariant(choice)
        variants.SetVariantSelection(choice)
        colliding = dict.fromkeys(patterns, True)
        with variants.GetVariantEditContext():
            for name, path in bodies.items():
                scope = stage.GetPrimAtPath(f"{path}/collisions")
                for shape in scope.GetChildren() if scope else ():
                    UsdPhysics.CollisionAPI(shape).CreateCollisionEnabledAttr(bool(pick(colliding, name)))
    variants.SetVariantSelection(next(iter(robot.colliders)))
