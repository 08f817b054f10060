"""USD to USD: flatten a packaged robot, re-root it, and write down what importers would otherwise have to guess."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.assets import inertia
from flashnerd_ext.robots.assets import stage as tools
from flashnerd_ext.robots.assets.description import Color, UsdRobot
from flashnerd_ext.robots.assets.inertia import Inertia
from flashnerd_ext.robots.assets.pxr_api import Layer, Prim, Sdf, Stage, Usd, UsdGeom, UsdPhysics

_DEFAULT_DENSITY = 1000.0
"""kg/m^3 that UsdPhysics assumes where neither mass nor density is written."""
_GREY: Color = (0.5, 0.5, 0.5)


def convert(robot: UsdRobot, path: Path) -> Path:
    """Write the robot's asset to ``path``.

    Raises:
        FlashNerdError: When the source is missing or does not hold what the description says.
    """
    opened = Usd.Stage.Open(str(robot.source.path()))
    source = opened.GetPrimAtPath(robot.root) if opened else None
    if not source:
        raise FlashNerdError(f"{robot.source.file} has no prim '{robot.root}', which '{robot.name}' is made from.")
    expand_instances(opened)
    layer = opened.Flatten(addSourceFileComment=False)
    _keep_only(layer, robot)
    flat = Usd.Stage.Open(layer)
    for prim in flat.Traverse():
        prim.ClearInstanceable()
    for body in _bodies(flat):
        write_mass(body)
        _write_visuals(body, robot.colors)
    return tools.save_layer(layer, path)


def expand_instances(opened: Stage) -> None:
    # Flatten() turns instances into hidden prototype roots; plain prims survive the removal of other roots.
    while found := [prim for prim in opened.Traverse() if prim.IsInstance()]:
        for prim in found:
            prim.SetInstanceable(False)


def _keep_only(layer: Layer, robot: UsdRobot) -> None:
    root = Sdf.Path(robot.root)
    if root.GetParentPath() != Sdf.Path.absoluteRootPath:
        raise FlashNerdError(f"root '{robot.root}' of robot '{robot.name}' must be a top prim, such as '/{root.name}'.")
    for name in [spec.name for spec in layer.rootPrims]:
        if name != root.name:
            del layer.rootPrims[name]
    layer.defaultPrim = root.name
    layer.comment = ""
    layer.documentation = (
        f"{robot.name}: made by FlashNeRD from {robot.source.file} of {robot.source.distribution}"
        f" ({robot.source.licence})."
    )


def _bodies(stage: Stage) -> list[Prim]:
    return [prim for prim in stage.Traverse() if prim.HasAPI(UsdPhysics.RigidBodyAPI)]


def _colliders(body: Prim) -> list[Prim]:
    return [
        prim
        for prim in Usd.PrimRange(body)
        if prim.HasAPI(UsdPhysics.CollisionAPI) and (prim == body or not prim.HasAPI(UsdPhysics.RigidBodyAPI))
    ]


def _shape_inertia(shape: Prim, body: Prim) -> Inertia:
    """Inertia of one collision shape at the default density, in the body's frame."""
    rigid, scale = tools.rigid_and_scale(tools.matrix_of(shape, body))
    if shape.IsA(UsdGeom.Cube):
        solid = inertia.box(scale * float(UsdGeom.Cube(shape).GetSizeAttr().Get()), _DEFAULT_DENSITY)
    elif shape.IsA(UsdGeom.Sphere) and np.allclose(scale, scale[0]):
        solid = inertia.sphere(float(UsdGeom.Sphere(shape).GetRadiusAttr().Get()) * scale[0], _DEFAULT_DENSITY)
    elif shape.IsA(UsdGeom.Capsule) and np.allclose(scale, scale[0]):
        capsule = UsdGeom.Capsule(shape)
        radius, length = float(capsule.GetRadiusAttr().Get()), float(capsule.GetHeightAttr().Get())
        solid = inertia.capsule(radius * scale[0], length * scale[0], _DEFAULT_DENSITY)
        solid = solid.moved(tools.axis_turn(str(capsule.GetAxisAttr().Get())))
    else:
        raise FlashNerdError(
            f"collision shape {shape.GetPath()} is a {shape.GetTypeName()} with scale {scale.round(4).tolist()}, whose "
            "mass is not derived here: give its body mass and diagonalInertia in the source."
        )
    return solid.moved(rigid)


def write_mass(body: Prim) -> None:
    """Author what is missing by the rules of UsdPhysics: mass over density, shapes for the rest."""
    api = UsdPhysics.MassAPI(body) if body.HasAPI(UsdPhysics.MassAPI) else UsdPhysics.MassAPI.Apply(body)
    mass = float(api.GetMassAttr().Get() or 0.0)
    density = float(api.GetDensityAttr().Get() or 0.0)
    diagonal = np.array(api.GetDiagonalInertiaAttr().Get() or (0.0, 0.0, 0.0), dtype=np.float64)
    if mass > 0.0 and diagonal.min() > 0.0:
        return
    solid = inertia.combine([_shape_inertia(shape, body) for shape in _colliders(body)])
    if solid.mass <= 0.0:
        raise FlashNerdError(f"body {body.GetPath()} has neither a mass nor a collision shape to derive one from.")
    solid = solid.scaled(mass if mass > 0.0 else solid.mass * (density / _DEFAULT_DENSITY if density > 0.0 else 1.0))
    centre = api.GetCenterOfMassAttr().Get()
    if centre is not None and np.isfinite(np.array(centre)).all():
        solid = Inertia(solid.mass, np.array(centre, dtype=np.float64), solid.tensor)
    tools.set_mass(body, solid)


def _write_visuals(body: Prim, colors: dict[str, Color]) -> None:
    """Turn collision shapes into guides and show a coloured copy of each, unless the body has visuals already."""
    colliders = [prim for prim in _colliders(body) if prim.IsA(UsdGeom.Gprim)]
    shown = [prim for prim in Usd.PrimRange(body) if prim.IsA(UsdGeom.Gprim) and prim not in colliders]
    color = colors.get(body.GetName(), colors.get("default", _GREY))
    stage = body.GetStage()
    visuals = body.GetPath().AppendChild("visuals")
    for index, prim in enumerate(colliders):
        tools.fix_extent(prim)
        if not shown:
            if not stage.GetPrimAtPath(visuals):
                tools.set_pose(UsdGeom.Xform.Define(stage, visuals).GetPrim())
            copy = visuals.AppendChild(f"{body.GetName()}_{index}")
            Sdf.CopySpec(stage.GetRootLayer(), prim.GetPath(), stage.GetRootLayer(), copy)
            twin = stage.GetPrimAtPath(copy)
            twin.ClearMetadata("apiSchemas")
            for name in [item.GetName() for item in twin.GetAuthoredProperties() if item.GetNamespace() == "physics"]:
                twin.RemoveProperty(name)
            tools.set_pose(twin, *tools.rigid_and_scale(tools.matrix_of(prim, body)))
            tools.set_color(twin, color)
        UsdGeom.Imageable(prim).CreatePurposeAttr(UsdGeom.Tokens.guide)
    for prim in shown:
        if not UsdGeom.Gprim(prim).GetDisplayColorPrimvar().HasValue():
            tools.set_color(prim, color)
