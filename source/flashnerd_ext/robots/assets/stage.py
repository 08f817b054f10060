"""Small pxr helpers that the converters share; the only job of this module is to keep pxr details in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from flashnerd_ext.robots.assets.description import Color
from flashnerd_ext.robots.assets.inertia import Array, Inertia, principal
from flashnerd_ext.robots.assets.pxr_api import Gf, Layer, Prim, Stage, Usd, UsdGeom, UsdPhysics


def new_stage(root: str, note: str) -> Stage:
    """An in-memory stage in metres, kilograms and z-up, with ``root`` (a name) as its default prim."""
    stage = Usd.Stage.CreateInMemory(f"{root}.usda")
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdPhysics.SetStageKilogramsPerUnit(stage, 1.0)
    stage.SetDefaultPrim(UsdGeom.Xform.Define(stage, f"/{root}").GetPrim())
    stage.GetRootLayer().documentation = note
    return stage


def save_layer(layer: Layer, path: Path) -> Path:
    """Write a layer as text whatever the suffix: the same content always gives the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not layer.Export(str(path), args={"format": "usda"}):
        raise OSError(f"pxr could not write {path}")
    return path


def set_pose(prim: Prim, transform: Array | None = None, scale: Array | None = None) -> None:
    """Author translate, orient and scale ops in that order, always all three (Isaac Lab's spawners expect them).

    Args:
        transform: Pose in the parent [4, 4], m; identity by default.
        scale: Scale [3]; ones by default.
    """
    matrix = np.eye(4) if transform is None else transform
    x, y, z, w = quaternion(matrix[:3, :3])
    xform = UsdGeom.Xformable(prim)
    xform.ClearXformOpOrder()
    double = UsdGeom.XformOp.PrecisionDouble
    xform.AddTranslateOp(double).Set(Gf.Vec3d(*_clean(matrix[:3, 3])))
    xform.AddOrientOp(double).Set(Gf.Quatd(w, x, y, z))
    xform.AddScaleOp(double).Set(Gf.Vec3d(*(_clean(scale) if scale is not None else (1.0, 1.0, 1.0))))


def _clean(values: Array) -> list[float]:
    """Twelve decimals and no minus zero: rounding noise of a platform's maths library does not reach the file."""
    return [float(round(value, 12)) + 0.0 for value in np.asarray(values, dtype=np.float64)]


def quaternion(rotation: Array) -> list[float]:
    """Quaternion x, y, z, w with w >= 0 of a rotation matrix [3, 3]."""
    return _clean(Rotation.from_matrix(rotation).as_quat(canonical=True))


def quatf(rotation: Array) -> Any:
    """A USD quaternion of a rotation matrix [3, 3]."""
    x, y, z, w = quaternion(rotation)
    return Gf.Quatf(w, x, y, z)


def set_mass(prim: Prim, inertia: Inertia) -> None:
    """Author mass, centre, principal moments and axes, so that no importer has to guess any of them."""
    moments, axes = principal(inertia.tensor)
    api = UsdPhysics.MassAPI.Apply(prim)
    api.CreateMassAttr(float(inertia.mass))
    api.CreateCenterOfMassAttr(Gf.Vec3f(*_clean(inertia.com)))
    api.CreateDiagonalInertiaAttr(Gf.Vec3f(*(float(value) for value in moments)))
    api.CreatePrincipalAxesAttr(quatf(axes))


def set_color(geometry: Prim, color: Color) -> None:
    """One colour for the whole shape (linear RGB, 0 to 1)."""
    primvar = UsdGeom.Gprim(geometry).CreateDisplayColorPrimvar(UsdGeom.Tokens.constant)
    primvar.Set([Gf.Vec3f(*color)])


def fix_extent(geometry: Prim) -> None:
    """Author the true extent of a shape in its own coordinates."""
    boundable = UsdGeom.Boundable(geometry)
    extent = UsdGeom.Boundable.ComputeExtentFromPlugins(boundable, Usd.TimeCode.Default())
    if extent:
        boundable.CreateExtentAttr(extent)


def matrix_of(prim: Prim, ancestor: Prim) -> Array:
    """Affine transform [4, 4] (column vectors) from ``prim``'s coordinates to ``ancestor``'s."""
    cache = UsdGeom.XformCache()
    matrix = cache.GetLocalToWorldTransform(prim) * cache.GetLocalToWorldTransform(ancestor).GetInverse()
    return np.array(matrix, dtype=np.float64).T


def rigid_and_scale(matrix: Array) -> tuple[Array, Array]:
    """Split an affine transform without shear into a rigid one [4, 4] and a scale [3]."""
    scale = np.linalg.norm(matrix[:3, :3], axis=0)
    rigid = matrix.copy()
    rigid[:3, :3] = matrix[:3, :3] / scale
    return rigid, scale


def axis_turn(axis: str) -> Array:
    """Transform [4, 4] that brings z onto ``axis``."""
    turn = np.eye(4)
    columns = {"X": [[0, 0, 1], [0, 1, 0], [-1, 0, 0]], "Y": [[1, 0, 0], [0, 0, 1], [0, -1, 0]]}
    if axis in columns:
        turn[:3, :3] = columns[axis]
    return turn
