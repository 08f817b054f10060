"""The things besides robots that stock configs load: ground plane, arrow, frame, cube and table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from flashnerd_ext.robots.assets import inertia
from flashnerd_ext.robots.assets import stage as tools
from flashnerd_ext.robots.assets.description import Color
from flashnerd_ext.robots.assets.pxr_api import Gf, Prim, Sdf, Stage, UsdGeom, UsdPhysics, UsdShade, Vt

PLANE = "Isaac/IsaacLab/Environments/Grid/default_ground_plane_checker_v1/default_ground_plane.usda"
ARROW = "Isaac/Props/UIElements/arrow_x.usd"
FRAME = "Isaac/Props/UIElements/frame_prim.usd"
CUBE = "Isaac/Props/Blocks/DexCube/dex_cube_instanceable.usd"
TABLE = "Isaac/Props/Mounts/SeattleLabTable/table_instanceable.usd"

_CUBE_EDGE = 0.065
"""m; assumed: the published asset cannot be read here."""
_CUBE_DENSITY = 400.0
"""kg/m^3; the stock reorientation tasks overwrite it."""
_TABLE = (1.3, 0.9, 1.05)
"""m; plain and ours: as wide and deep as the box that Isaac Lab's Reach task has for a table, and as high as stock
tasks put the floor below it. The origin is in the middle of its top."""
_RED, _GREEN, _BLUE = (0.8, 0.1, 0.1), (0.1, 0.7, 0.1), (0.1, 0.2, 0.8)


def ground_plane(path: Path) -> Path:
    """An infinite collision plane and a 100 m x 100 m textured-by-UV mesh, as Isaac Lab's spawner expects them."""
    stage = tools.new_stage("GroundPlane", "Ground plane made by FlashNeRD; prims named as Isaac Lab's spawner asks.")
    collision = UsdGeom.Plane.Define(stage, "/GroundPlane/CollisionPlane")
    collision.CreateAxisAttr(UsdGeom.Tokens.z)
    collision.CreatePurposeAttr(UsdGeom.Tokens.guide)
    UsdPhysics.CollisionAPI.Apply(collision.GetPrim())
    tools.set_pose(collision.GetPrim())
    tools.set_pose(UsdGeom.Xform.Define(stage, "/GroundPlane/Environment").GetPrim())
    mesh = UsdGeom.Mesh.Define(stage, "/GroundPlane/Environment/Geometry")
    corners = [(-50.0, -50.0), (50.0, -50.0), (50.0, 50.0), (-50.0, 50.0)]
    mesh.CreatePointsAttr([Gf.Vec3f(x, y, 0.0) for x, y in corners])
    mesh.CreateFaceVertexCountsAttr([4])
    mesh.CreateFaceVertexIndicesAttr([0, 1, 2, 3])
    mesh.CreateNormalsAttr([Gf.Vec3f(0.0, 0.0, 1.0)] * 4)
    mesh.CreateSubdivisionSchemeAttr(UsdGeom.Tokens.none)
    st = UsdGeom.PrimvarsAPI(mesh).CreatePrimvar("st", Sdf.ValueTypeNames.TexCoord2fArray, UsdGeom.Tokens.varying)
    st.Set(Vt.Vec2fArray([Gf.Vec2f(x / 2.0, y / 2.0) for x, y in corners]))
    tools.fix_extent(mesh.GetPrim())
    tools.set_color(mesh.GetPrim(), (0.32, 0.34, 0.36))
    _grid_material(stage, mesh.GetPrim())
    return tools.save_layer(stage.GetRootLayer(), path)


def _grid_material(stage: Stage, mesh: Prim) -> None:
    # The spawner tints /Looks/theGrid/Shader; a plain surface is enough without a texture file.
    UsdGeom.Scope.Define(stage, "/GroundPlane/Looks")
    material = UsdShade.Material.Define(stage, "/GroundPlane/Looks/theGrid")
    shader = UsdShade.Shader.Define(stage, "/GroundPlane/Looks/theGrid/Shader")
    shader.CreateIdAttr("UsdPreviewSurface")
    shader.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f).Set(Gf.Vec3f(0.32, 0.34, 0.36))
    shader.CreateInput("roughness", Sdf.ValueTypeNames.Float).Set(0.9)
    material.CreateSurfaceOutput().ConnectToSource(shader.ConnectableAPI(), "surface")
    UsdShade.MaterialBindingAPI.Apply(mesh).Bind(material)


def _rod(stage: Stage, path: str, axis: str, length: float, radius: float, color: Color) -> None:
    """A cylinder from the origin along ``axis``."""
    rod = UsdGeom.Cylinder.Define(stage, path)
    rod.CreateAxisAttr(axis)
    rod.CreateHeightAttr(length)
    rod.CreateRadiusAttr(radius)
    pose = np.eye(4)
    pose["XYZ".index(axis), 3] = length / 2.0
    tools.set_pose(rod.GetPrim(), pose)
    tools.fix_extent(rod.GetPrim())
    tools.set_color(rod.GetPrim(), color)


def arrow(path: Path) -> Path:
    """An arrow of 1 m along +x from the origin; markers scale it."""
    stage = tools.new_stage("arrow", "Arrow along +x made by FlashNeRD.")
    _rod(stage, "/arrow/shaft", "X", 0.75, 0.04, _BLUE)
    tip = UsdGeom.Cone.Define(stage, "/arrow/tip")
    tip.CreateAxisAttr("X")
    tip.CreateHeightAttr(0.25)
    tip.CreateRadiusAttr(0.1)
    pose = np.eye(4)
    pose[0, 3] = 0.875
    tools.set_pose(tip.GetPrim(), pose)
    tools.fix_extent(tip.GetPrim())
    tools.set_color(tip.GetPrim(), _BLUE)
    return tools.save_layer(stage.GetRootLayer(), path)


def frame(path: Path) -> Path:
    """Three axes of 1 m: x red, y green, z blue."""
    stage = tools.new_stage("frame", "Coordinate frame made by FlashNeRD.")
    for axis, color in zip("XYZ", (_RED, _GREEN, _BLUE), strict=True):
        _rod(stage, f"/frame/{axis.lower()}_axis", axis, 1.0, 0.03, color)
    return tools.save_layer(stage.GetRootLayer(), path)


def dex_cube(path: Path) -> Path:
    """A free cube of 65 mm with a coloured plate on each face, so that its orientation can be seen."""
    stage = tools.new_stage("DexCube", f"Cube of {_CUBE_EDGE} m made by FlashNeRD; its edge is assumed.")
    root = stage.GetDefaultPrim()
    tools.set_pose(root)
    UsdPhysics.RigidBodyAPI.Apply(root)
    tools.set_mass(root, inertia.box(np.full(3, _CUBE_EDGE), _CUBE_DENSITY))
    body = UsdGeom.Cube.Define(stage, "/DexCube/collisions")
    body.CreateSizeAttr(_CUBE_EDGE)
    body.CreatePurposeAttr(UsdGeom.Tokens.guide)
    UsdPhysics.CollisionAPI.Apply(body.GetPrim())
    tools.set_pose(body.GetPrim())
    tools.fix_extent(body.GetPrim())
    colors = {
        "X_pos": _RED, "X_neg": (0.9, 0.5, 0.1), "Y_pos": _GREEN, "Y_neg": (0.9, 0.8, 0.1),
        "Z_pos": _BLUE, "Z_neg": (0.6, 0.2, 0.7),
    }  # fmt: skip
    tools.set_pose(UsdGeom.Xform.Define(stage, "/DexCube/visuals").GetPrim())
    for name, color in colors.items():
        axis, side = "XYZ".index(name[0]), 1.0 if name.endswith("pos") else -1.0
        plate = UsdGeom.Cube.Define(stage, f"/DexCube/visuals/{name}")
        plate.CreateSizeAttr(1.0)
        thickness = 0.05 * _CUBE_EDGE
        scale = np.full(3, _CUBE_EDGE)
        scale[axis] = thickness
        pose = np.eye(4)
        pose[axis, 3] = side * (_CUBE_EDGE - thickness) / 2.0
        tools.set_pose(plate.GetPrim(), pose, scale)
        tools.fix_extent(plate.GetPrim())
        tools.set_color(plate.GetPrim(), color)
    return tools.save_layer(stage.GetRootLayer(), path)


def table(path: Path) -> Path:
    """A plate of 40 mm on four legs, static."""
    stage = tools.new_stage("Table", "Plain table made by FlashNeRD; not the published asset's shape.")
    tools.set_pose(stage.GetDefaultPrim())
    width, depth, height = _TABLE
    plate, leg = 0.04, 0.06
    boxes = {"top": ((0.0, 0.0, -plate / 2.0), (width, depth, plate))}
    for name, x, y in (("leg_0", -1, -1), ("leg_1", -1, 1), ("leg_2", 1, -1), ("leg_3", 1, 1)):
        place = (x * (width - leg) / 2.0, y * (depth - leg) / 2.0, -(height + plate) / 2.0)
        boxes[name] = (place, (leg, leg, height - plate))
    for name, (place, size) in boxes.items():
        box = UsdGeom.Cube.Define(stage, f"/Table/{name}")
        box.CreateSizeAttr(1.0)
        UsdPhysics.CollisionAPI.Apply(box.GetPrim())
        pose = np.eye(4)
        pose[:3, 3] = place
        tools.set_pose(box.GetPrim(), pose, np.array(size))
        tools.fix_extent(box.GetPrim())
        tools.set_color(box.GetPrim(), (0.45, 0.36, 0.28) if name == "top" else (0.25, 0.25, 0.26))
    return tools.save_layer(stage.GetRootLayer(), path)


PROPS: dict[str, Callable[[Path], Path]] = {
    PLANE: ground_plane,
    ARROW: arrow,
    FRAME: frame,
    CUBE: dex_cube,
    TABLE: table,
}
"""Path below the asset root -> writer."""
