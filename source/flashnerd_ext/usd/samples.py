"""Time samples on the bodies' prims, in their parents' frames."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.assets.pxr_api import Gf, Prim, Sdf, Stage, Usd, UsdGeom
from flashnerd_ext.usd.track import Track

_SHEAR = 1e-6


def animate(stage: Stage, track: Track) -> None:
    """Give every body of the track a sample a frame; its own and its parents' scale stay as they are.

    Raises:
        FlashNerdError: Where a prim is missing, or its parents' scale would shear a body that turns.
    """
    poses = track.array()
    animated = {path: column for column, path in enumerate(track.paths)}
    cache = UsdGeom.XformCache(Usd.TimeCode.Default())
    moves = []
    for path, column in animated.items():
        prim = stage.GetPrimAtPath(path)
        if not prim or not prim.IsA(UsdGeom.Xformable):
            raise FlashNerdError(f"the exported stage has no prim that can move at {path}.")
        moves.append((prim, *_local(prim, poses, animated, column, cache)))
    # Only now: a body may lie below another one, whose pose at rest it is measured from.
    for prim, scale, local in moves:
        _write(prim, scale, local)


def _local(
    prim: Prim, poses: np.ndarray, animated: dict[str, int], column: int, cache: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Scale [3] of a body, and its pose in its parent [T, 4, 4] (column vectors)."""
    rest = _matrix(cache.GetLocalToWorldTransform(prim))
    parent = _matrix(cache.GetParentToWorldTransform(prim))
    above = _animated_above(prim, animated)
    world = matrices(poses[:, column])
    if above is None:
        inverse = np.linalg.inv(parent)[None]
    else:
        # The parent moves with the body above it: what lies between the two does not move.
        ancestor = stage_matrix(prim, above, cache)
        fixed = np.linalg.inv(_rigid(ancestor)) @ parent
        inverse = np.linalg.inv(matrices(poses[:, animated[above]]) @ fixed)
    scale = np.linalg.norm(rest[:3, :3], axis=0)
    scaled = world.copy()
    scaled[:, :3, :3] = world[:, :3, :3] * scale
    local = inverse @ scaled
    own = np.linalg.norm(local[0, :3, :3], axis=0)
    local[:, :3, :3] /= own
    gram = np.swapaxes(local[:, :3, :3], 1, 2) @ local[:, :3, :3]
    if np.abs(gram - np.eye(3)).max() > _SHEAR:
        raise FlashNerdError(
            f"the prims above {prim.GetPath()} are scaled unevenly, so that a body that turns would be sheared: scale "
            "the geometry below the body in their place."
        )
    return own, local


def _animated_above(prim: Prim, animated: dict[str, int]) -> str | None:
    above = prim.GetParent()
    while above and not above.IsPseudoRoot():
        if str(above.GetPath()) in animated:
            return str(above.GetPath())
        above = above.GetParent()
    return None


def stage_matrix(prim: Prim, path: str, cache: Any) -> np.ndarray:
    """World matrix [4, 4] (column vectors) of another prim of the same stage."""
    return _matrix(cache.GetLocalToWorldTransform(prim.GetStage().GetPrimAtPath(path)))


def _matrix(value: Any) -> np.ndarray:
    return np.array(value, dtype=np.float64).T


def _rigid(matrix: np.ndarray) -> np.ndarray:
    rigid = matrix.copy()
    rigid[:3, :3] /= np.linalg.norm(matrix[:3, :3], axis=0)
    return rigid


def matrices(poses: np.ndarray) -> np.ndarray:
    """Homogeneous matrices [T, 4, 4] of poses [T, 7]."""
    found = np.tile(np.eye(4), (len(poses), 1, 1))
    found[:, :3, 3] = poses[:, :3]
    found[:, :3, :3] = Rotation.from_quat(poses[:, 3:]).as_matrix()
    return found


def _write(prim: Prim, scale: np.ndarray, local: np.ndarray) -> None:
    quaternions = Rotation.from_matrix(local[:, :3, :3]).as_quat()
    flip = (quaternions[1:] * quaternions[:-1]).sum(-1) < 0
    quaternions[1:] *= np.where(np.cumsum(flip) % 2, -1.0, 1.0)[:, None]
    xform = UsdGeom.Xformable(prim)
    xform.ClearXformOpOrder()
    # Ops of another precision would be reused under the same name, and others would be left behind unused.
    for name in [str(item.GetName()) for item in prim.GetAuthoredProperties()]:
        if name.startswith("xformOp:"):
            prim.RemoveProperty(name)
    double = UsdGeom.XformOp.PrecisionDouble
    translate, orient = xform.AddTranslateOp(double), xform.AddOrientOp(double)
    size = xform.AddScaleOp(double)
    size.Set(Gf.Vec3d(*map(float, scale)))
    positions = [Gf.Vec3d(*map(float, value)) for value in local[:, :3, 3]]
    turns = [Gf.Quatd(float(w), float(x), float(y), float(z)) for x, y, z, w in quaternions]
    layer = prim.GetStage().GetRootLayer()
    for op, values in ((translate, positions), (orient, turns)):
        op.Set(values[0])
        path = op.GetAttr().GetPath()
        with Sdf.ChangeBlock():
            for frame, value in enumerate(values):
                layer.SetTimeSample(path, float(frame), value)


def read_back(stage: Stage, paths: tuple[str, ...], frame: float) -> np.ndarray:
    """World poses that a viewer shows at a time code, [B, 4, 4] (column vectors), scale taken out."""
    cache = UsdGeom.XformCache(Usd.TimeCode(frame))
    found = []
    for path in paths:
        prim = stage.GetPrimAtPath(path)
        if not prim:
            raise FlashNerdError(f"the exported stage has no prim at {path}.")
        found.append(_rigid(_matrix(cache.GetLocalToWorldTransform(prim))))
    return np.array(found).reshape(-1, 4, 4)
