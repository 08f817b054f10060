"""Meshes for assets: load, hull and box, in plain arrays."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.assets.inertia import Array

Faces = NDArray[np.int64]


@lru_cache(maxsize=256)
def load_mesh(path: Path) -> tuple[Array, Faces]:
    """Vertices [V, 3] and triangles [F, 3] of a mesh file in the file's own units.

    Raises:
        FlashNerdError: When the file is missing or cannot be read.
    """
    import trimesh

    try:
        scene = trimesh.load_scene(str(path), skip_materials=True)
        mesh = cast(Any, scene.to_geometry())
        points, faces = np.asarray(mesh.vertices, dtype=np.float64), np.asarray(mesh.faces, dtype=np.int64)
    except Exception as error:  # trimesh's readers raise whatever their parser does
        raise FlashNerdError(f"mesh {path} cannot be read: {error}.") from None
    if len(faces) == 0:
        raise FlashNerdError(f"mesh {path} has no triangles.")
    return points, faces


def hull_of(points: Array, corners: int | None = None) -> tuple[Array, Faces]:
    """Convex hull: its corners [V, 3], sorted, and its triangles [F, 3], outward and sorted.

    Sorting makes the bytes of a file independent of the order in which the hull was found.

    Args:
        points: Points [P, 3], not all in one plane.
        corners: Largest number of corners; ``None`` keeps all.
    """
    from scipy.spatial import ConvexHull, QhullError

    try:
        if corners is not None:
            points = _extremes(points, corners)
        hull = ConvexHull(points)
    except QhullError:
        raise FlashNerdError("a mesh lies in one plane, so it has no hull: use 'box' for its link.") from None
    return _sorted(points, hull)


def _extremes(points: Array, count: int) -> Array:
    """At most ``count`` of the points: the outermost ones along evenly spread directions."""
    index = np.arange(count) + 0.5
    up, turn = 1.0 - 2.0 * index / count, np.pi * (1.0 + 5.0**0.5) * index
    flat = np.sqrt(1.0 - up**2)
    directions = np.stack([flat * np.cos(turn), flat * np.sin(turn), up], axis=1)
    return points[np.unique((points @ directions.T).argmax(axis=0))]


def _sorted(points: Array, hull: Any) -> tuple[Array, Faces]:
    corners = points[hull.vertices].round(7)
    order = np.lexsort(corners.T[::-1])
    place = np.empty(len(points), dtype=np.int64)
    place[hull.vertices[order]] = np.arange(len(order))
    faces, corners = place[hull.simplices], corners[order]
    normals = np.cross(corners[faces[:, 1]] - corners[faces[:, 0]], corners[faces[:, 2]] - corners[faces[:, 0]])
    inward = (normals * hull.equations[:, :3]).sum(axis=1) < 0.0
    faces[inward] = faces[inward][:, ::-1]
    first = faces.argmin(axis=1)
    faces = np.stack([np.take_along_axis(faces, ((first + k) % 3)[:, None], axis=1)[:, 0] for k in range(3)], axis=1)
    return corners, faces[np.lexsort(faces.T[::-1])]


def sphere_of(points: Array) -> tuple[Array, float]:
    """Centre [3] and radius of the sphere that lies nearest to the points [P, 3] (algebraic least squares)."""
    return _round(points, np.ones(len(points)))


def capsule_of(points: Array) -> tuple[Array, float, float]:
    """A capsule along the longest direction of the points' hull, of its mean radius there and of its full length.

    Args:
        points: Points [P, 3], not all in one plane.

    Returns:
        Pose [4, 4] of the capsule, whose axis is z; its radius; the length between the centres of its caps.
    """
    corners, faces = hull_of(points)
    triangle = corners[faces]
    across = np.cross(triangle[:, 1] - triangle[:, 0], triangle[:, 2] - triangle[:, 0])
    area, middle = np.linalg.norm(across, axis=1), triangle.mean(axis=1)
    mean = np.average(middle, axis=0, weights=area)
    # The surface decides, not the corners: exporters put most corners where a mesh is most curved.
    axis = np.linalg.eigh(np.cov(middle.T, aweights=area))[1][:, 2]
    axis *= np.sign(axis[np.abs(axis).argmax()])
    side = np.cross(axis, np.eye(3)[np.abs(axis).argmin()])
    side /= np.linalg.norm(side)
    pose = np.eye(4)
    pose[:3, :3] = np.stack([side, np.cross(axis, side), axis], axis=1)
    # Only faces that look sideways say how thick it is; those at the ends lie nearer to the axis.
    sideways = ((across @ pose[:3, :2]) ** 2).sum(axis=1) / np.maximum(area, 1e-12)
    centre, radius = _round((middle - mean) @ pose[:3, :2], sideways)
    along = (corners - mean) @ axis
    length = max(float(np.ptp(along)) - 2.0 * radius, 0.0)
    pose[:3, 3] = mean + pose[:3, :3] @ np.array([*centre, (along.max() + along.min()) / 2.0])
    return pose, radius, length


def _round(points: Array, weights: Array) -> tuple[Array, float]:
    """Centre and radius of the circle or sphere nearest to weighted points [P, 2 or 3]."""
    # |p - c|^2 = r^2 is linear in c and r^2 - |c|^2.
    rows = np.concatenate([2.0 * points, np.ones((len(points), 1))], axis=1) * np.sqrt(weights)[:, None]
    found = np.linalg.lstsq(rows, (points**2).sum(axis=1) * np.sqrt(weights), rcond=None)[0]
    centre = found[:-1]
    return centre, float(np.sqrt(found[-1] + centre @ centre))


def moved(points: Array, pose: Array) -> Array:
    """Points [V, 3] in the frame that ``pose`` [4, 4] leads to."""
    return points @ pose[:3, :3].T + pose[:3, 3]


def outline(kind: str, size: tuple[float, ...]) -> Array:
    """Points [V, 3] whose hull stands for a primitive (32 sides for round ones)."""
    if kind == "box":
        signs = np.array(np.meshgrid(*[(-0.5, 0.5)] * 3, indexing="ij")).reshape(3, -1).T
        return signs * np.array(size)
    angle = np.arange(32) * np.pi / 16.0
    ring = np.stack([np.cos(angle), np.sin(angle), np.zeros(32)], axis=1)
    radius = size[0]
    half = size[1] / 2.0 if kind in ("cylinder", "capsule") else 0.0
    if kind == "cylinder":
        return np.concatenate([ring * radius + [0.0, 0.0, side * half] for side in (-1.0, 1.0)])
    layers = []
    for step in range(9):
        tilt = step * np.pi / 16.0
        layer = ring * radius * np.cos(tilt)
        for side in (-1.0, 1.0):
            layers.append(layer + [0.0, 0.0, side * (half + radius * np.sin(tilt))])
    return np.concatenate(layers)
