"""Contact rows of robots on terrain: one detector for the simulation and for the training data.

It knows neither Newton nor MuJoCo: shapes, terrain and poses come as arrays, from a Newton model
(:mod:`flashnerd_ext.solver.terrain_contacts`) or from a data engine (:mod:`flashnerd_ext.data.engines.terrain_rows`).
The rule of rows is that of :mod:`flashnerd_ext.solver.terrain_kernels`.

MuJoCo's own detectors are not asked, since what they say near a contact depends on how a terrain is made: two boxes are
measured along the axes of a separation test, a height field is lifted by the gap before it is measured, and a triangle
mesh is replaced by its convex hull. A row must be the same for the same ground, however it is described.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import warp as wp

from flashnerd_ext.model.contacts import ROW_SIZE, ContactRows
from flashnerd_ext.solver import gjk
from flashnerd_ext.solver.gjk import FAR
from flashnerd_ext.solver.terrain_kernels import find_terrain_contacts, pack_terrain_rows

KINDS = {
    "sphere": gjk.SPHERE,
    "capsule": gjk.CAPSULE,
    "box": gjk.BOX,
    "cylinder": gjk.CYLINDER,
    "mesh": gjk.HULL,
}
"""Kinds of robot shapes; a mesh counts as its convex hull."""


@dataclass
class RobotShapes:
    """Collision shapes of one robot, S in all.

    Attributes:
        kind: Key of :data:`KINDS`, each.
        size: Radius and half length along z (sphere, capsule, cylinder) or half sizes (box) [m], shape [S, 3].
        place: Pose on its body: position [m] and quaternion (x, y, z, w), shape [S, 7].
        link: Index of the link, shape [S].
        corners: Of meshes, vertices [V, 3] in the shape's frame [m], around its origin; ``None`` for others.
    """

    kind: list[str]
    size: np.ndarray
    place: np.ndarray
    link: np.ndarray
    corners: list[np.ndarray | None]

    def inner(self) -> np.ndarray:
        """Radius of a ball around a mesh's origin inside of its hull [m], shape [S]; 1 for others."""
        from scipy.spatial import ConvexHull

        return np.array([1.0 if x is None else -ConvexHull(x).equations[:, 3].max() for x in self.corners])

    def reach(self) -> np.ndarray:
        """Radius of a ball around each shape's origin that holds it [m], shape [S]."""
        found = []
        for kind, size, corners in zip(self.kind, self.size, self.corners, strict=True):
            if kind == "sphere":
                found.append(size[0])
            elif kind == "capsule":
                found.append(size[0] + size[1])
            elif kind == "cylinder":
                found.append(np.hypot(size[0], size[1]))
            else:
                found.append(np.linalg.norm(size if corners is None else corners, axis=-1).max())
        return np.array(found)


def _no_rows(columns: int) -> Any:
    return lambda: np.zeros((0, columns))


def _no_ids() -> np.ndarray:
    return np.zeros(0, np.int64)


@dataclass
class Terrain:
    """What robots may touch. Every piece has the index of its friction; planes and meshes stand still.

    Attributes:
        plane: Normal and offset of ``normal . x = offset``, shape [P, 4].
        plane_id: Index into the friction coefficients, shape [P]; likewise ``box_id`` and ``face_id``.
        box: Pose (position, quaternion x, y, z, w) in the world or on its body, and half sizes [m], shape [B, 10].
        box_body: Index of the body that a box moves with, -1 for one that stands still, shape [B].
        box_world: The one world that has it, -1 for all, shape [B].
        points: Vertices of one triangle mesh in the world frame [m], shape [V, 3].
        faces: Its triangles, counter-clockwise from outside, shape [F, 3].
    """

    plane: np.ndarray = field(default_factory=_no_rows(4))
    plane_id: np.ndarray = field(default_factory=_no_ids)
    box: np.ndarray = field(default_factory=_no_rows(10))
    box_id: np.ndarray = field(default_factory=_no_ids)
    box_body: np.ndarray = field(default_factory=_no_ids)
    box_world: np.ndarray = field(default_factory=_no_ids)
    points: np.ndarray = field(default_factory=_no_rows(3))
    faces: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    face_id: np.ndarray = field(default_factory=_no_ids)

    def still(self) -> np.ndarray:
        """Which boxes stand still in all worlds, boolean [B]."""
        return (self.box_world < 0) & (self.box_body < 0)

    def boxes_of(self, worlds: int) -> np.ndarray:
        """The other boxes of each world, -1 where there are no more, shape [worlds, at least 1]."""
        own: list[list[int]] = [[] for _ in range(worlds)]
        for box in np.flatnonzero(~self.still()):
            for row in own if self.box_world[box] < 0 else [own[int(self.box_world[box])]]:
                row.append(int(box))
        table = np.full((worlds, max(1, *(len(row) for row in own))), -1, np.int32)
        for row, mine in zip(table, own, strict=True):
            row[: len(mine)] = mine
        return table


def grid_points(half_x: float, half_y: float, height: np.ndarray) -> np.ndarray:
    """Vertices of a height field about its middle, numbered along x first; ``height`` [rows, columns] [m]."""
    rows, columns = height.shape
    x, y = np.meshgrid(np.linspace(-half_x, half_x, columns), np.linspace(-half_y, half_y, rows))
    return np.stack([x, y, height], -1).reshape(-1, 3)


def grid_faces(rows: int, columns: int) -> np.ndarray:
    """Triangles of a height field whose vertices are numbered along x first, with MuJoCo's diagonals, shape [F, 3]."""
    corner = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).reshape(-1, 1)
    lower = corner + np.array([0, 1, columns])
    upper = corner + np.array([1, columns + 1, columns])
    return np.concatenate([lower, upper])


def rotated(place: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points [V, 3] in the frame of a pose (position, quaternion x, y, z, w), in the frame around it."""
    axis, w = place[3:6], place[6]
    across = 2.0 * np.cross(axis, points)
    return points + w * across + np.cross(axis, across) + place[:3]


def centred(place: np.ndarray, vertices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A mesh's hull around its own middle: the pose that it then has [7], and its corners [V, 3]."""
    from scipy.spatial import ConvexHull

    corners = vertices[np.unique(ConvexHull(vertices).vertices)]
    middle = corners.mean(0)
    return np.concatenate([rotated(place, middle[None])[0], place[3:]]), corners - middle


class TerrainDetector:
    """Finds and packs contacts on the device; buffers are made once, and the host never waits.

    Args:
        shapes: The robot's shapes, the same in all worlds.
        bodies: Index of each shape's body in ``body_q``, shape [N, S].
        shape_id: Index of each shape's friction, shape [N, S].
        base: Index of each robot's root body, shape [N].
        terrain: What it may touch.
        links: Number of links.
        capacity: Rows K.
        gap: Distance at which a contact makes a row [m].
        device: Warp's device.

    Attributes:
        found: Contacts within the gap at the last call, int32 [N].
        touching: Distance of each link's nearest point [m], float32 [N, L].
    """

    def __init__(
        self,
        shapes: RobotShapes,
        bodies: np.ndarray,
        shape_id: np.ndarray,
        base: np.ndarray,
        terrain: Terrain,
        links: int,
        capacity: int,
        gap: float,
        device: Any = "cpu",
    ) -> None:
        worlds, slots = bodies.shape
        self.device, self.gap, self._size = wp.get_device(device), gap, (worlds, slots)
        place = torch.device(wp.device_to_torch(self.device))
        self.found = torch.zeros(worlds, dtype=torch.int32, device=place)
        self.touching = torch.full((worlds, max(links, 1)), FAR, device=place)
        rows = torch.zeros((worlds, capacity, ROW_SIZE), device=place)
        link = torch.zeros((worlds, capacity), dtype=torch.int64, device=place)
        used = torch.zeros((worlds, capacity), dtype=torch.bool, device=place)
        self.rows = ContactRows(rows, link, used)
        self._out = [wp.from_torch(x) for x in (rows, link, used, self.found, self.touching)]
        self._bodies, self._shape_id, self._base = (self._array(x, int) for x in (bodies, shape_id, base))
        self._links = self._array(shapes.link, int)
        counts = [0 if corners is None else len(corners) for corners in shapes.corners]
        corners = [x for x in shapes.corners if x is not None] or [np.zeros((1, 3))]
        self._shapes = [
            self._array(np.array([int(KINDS[kind]) for kind in shapes.kind]), int),
            self._array(shapes.size, wp.vec3),
            self._array(shapes.place, wp.transform),
            self._array(shapes.reach(), float),
            self._array(shapes.inner(), float),
            self._array(np.cumsum([0, *counts])[:-1], int),
            self._array(np.array(counts), int),
            self._array(np.concatenate(corners), wp.vec3),
        ]
        self._terrain = self._describe(terrain, worlds)
        self._near = wp.zeros((worlds, slots * 3), dtype=wp.vec4, device=self.device)
        self._normal = wp.zeros((worlds, slots * 3), dtype=wp.vec3, device=self.device)
        self._other, self._moving = (wp.zeros((worlds, slots * 3), dtype=int, device=self.device) for _ in range(2))

    def _array(self, values: np.ndarray, dtype: Any) -> wp.array:
        kind = np.int32 if dtype is int else np.float32
        return wp.array(np.ascontiguousarray(values, kind), dtype=dtype, device=self.device)

    def _describe(self, terrain: Terrain, worlds: int) -> list[Any]:
        # A mesh is always there, so that the kernel need not ask: one triangle that is nowhere near.
        points, faces, ids = terrain.points, terrain.faces, terrain.face_id
        if not len(faces):
            points = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]) - FAR
            faces, ids = np.array([[0, 1, 2]]), np.array([0])
        # Held here: the kernel has its number only.
        self._mesh = wp.Mesh(points=self._array(points, wp.vec3), indices=self._array(faces.ravel(), int))
        self._tree = self._box_tree(terrain)
        return [
            self._array(terrain.plane[:, :3], wp.vec3),
            self._array(terrain.plane[:, 3], float),
            self._array(terrain.plane_id, int),
            self._array(terrain.boxes_of(worlds), int),
            self._tree.id,
            self._array(terrain.box_body, int),
            self._array(terrain.box[:, :7], wp.transform),
            self._array(terrain.box[:, 7:], wp.vec3),
            self._array(terrain.box_id, int),
            self._mesh.id,
            self._array(ids, int),
        ]

    def _box_tree(self, terrain: Terrain) -> wp.Bvh:
        """A tree of the boxes that stand still in all worlds; the others are nowhere in it."""
        low, high = np.full((max(1, len(terrain.box)), 3), -FAR), np.full((max(1, len(terrain.box)), 3), -FAR)
        for box in np.flatnonzero(terrain.still()):
            signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, -1).T
            corners = rotated(terrain.box[box, :7], signs * terrain.box[box, 7:])
            low[box], high[box] = corners.min(0), corners.max(0)
        return wp.Bvh(self._array(low, wp.vec3), self._array(high, wp.vec3))

    def detect(
        self, dirty: wp.array, body_q: wp.array, body_qd: wp.array, body_com: wp.array, friction: wp.array
    ) -> ContactRows:
        """Rows of the given poses; the buffers are the same each time.

        Args:
            dirty: Worlds to look at, boolean [N]; the others keep their rows.
            body_q, body_qd: Pose of each body, and its velocity: linear at its centre of mass, angular, both in the
                world frame.
            body_com: Centre of mass of each body, in its frame [m].
            friction: Coefficients that shapes and terrain have their index into.
        """
        between = [self._near, self._normal, self._other, self._moving]
        wp.launch(
            find_terrain_contacts,
            dim=self._size,
            inputs=[dirty, self.gap, self._bodies, *self._shapes, body_q, *self._terrain],
            outputs=between,
            device=self.device,
        )
        wp.launch(
            pack_terrain_rows,
            dim=self._size[0],
            inputs=[
                dirty, *between, self.gap, self._bodies, self._shape_id, self._links, self._base, body_q, body_qd,
                body_com, friction,
            ],
            outputs=self._out,
            device=self.device,
        )  # fmt: skip
        return self.rows
