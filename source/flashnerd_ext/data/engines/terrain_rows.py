"""Contact rows of recorded states on terrain, by the detector that the simulation uses there.

MuJoCo C gives the poses. The detector is that of :mod:`flashnerd_ext.solver.terrain_detector` on the CPU: it says why
MuJoCo's own is not asked on terrain.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from flashnerd_ext.data.terrain import Terrain

if TYPE_CHECKING:
    from flashnerd_ext.solver.terrain_detector import TerrainDetector

CHUNK = 1024
"""States that go through the detector at once."""


class TerrainRows:
    """Detects contacts of states on the terrain of an exported model.

    Args:
        nominal: The compiled ``MjModel``.
        links: MuJoCo's name of each link, in order.
        base: Index of the link that is the root.
        terrain: What was added to the model.
        gap: Distance at which a contact makes a row [m].
    """

    def __init__(self, nominal: Any, links: list[str], base: int, terrain: dict[str, Any], gap: float) -> None:
        self._model, self._base, self._gap = nominal, base, gap
        self._terrain = Terrain.from_dict(terrain)
        self._bodies = np.array([nominal.body(name).id for name in links])
        self._root = int(nominal.body_rootid[self._bodies[base]])
        self._detector: TerrainDetector | None = None
        self._capacity = 0

    def friction(self) -> float:
        """The robot's or the ground's sliding friction, whichever is greater."""
        geoms = np.isin(self._model.geom_bodyid, [0, *self._bodies])
        return float(self._model.geom_friction[geoms, 0].max())

    def poses(self, data: Any, qpos: np.ndarray, qvel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pose (position, quaternion x, y, z, w) and velocity (linear at its origin, angular) of each link.

        Both in the world frame; shapes [N, L, 7] and [N, L, 6]; not a number where the state is not.
        """
        mujoco: Any = import_module("mujoco")
        model, bodies = self._model, self._bodies
        pose, speed = np.full((len(qpos), len(bodies), 7), np.nan), np.zeros((len(qpos), len(bodies), 6))
        for i in np.flatnonzero(np.isfinite(qpos).all(1) & np.isfinite(qvel).all(1)):
            data.qpos[:], data.qvel[:] = qpos[i], qvel[i]
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)
            mujoco.mj_comVel(model, data)
            pose[i, :, :3], pose[i, :, 3:] = data.xpos[bodies], data.xquat[bodies][:, [1, 2, 3, 0]]
            spin = data.cvel[bodies]
            across = data.xpos[bodies] - data.subtree_com[self._root]
            speed[i, :, :3], speed[i, :, 3:] = spin[:, 3:] + np.cross(spin[:, :3], across), spin[:, :3]
        return pose, speed

    def find(
        self, pose: np.ndarray, speed: np.ndarray, friction: np.ndarray, capacity: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features [N, K, 12], link [N, K] and count [N] of poses and velocities as :meth:`poses` gives them."""
        import warp as wp

        if self._detector is None or capacity != self._capacity:
            self._detector, self._capacity = self._make(capacity), capacity
        links = len(self._bodies)
        com = wp.zeros(CHUNK * links, dtype=wp.vec3, device="cpu")
        parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for start in range(0, len(pose), CHUNK):
            size = min(CHUNK, len(pose) - start)
            place, velocity = np.full((CHUNK, links, 7), np.nan, np.float32), np.zeros((CHUNK, links, 6), np.float32)
            place[:size], velocity[:size] = pose[start : start + size], speed[start : start + size]
            # The last is the ground's: of the two surfaces the rougher one counts, and that is the world's own.
            mu = np.zeros(CHUNK + 1, np.float32)
            mu[:size] = friction[start : start + size]
            rows = self._detector.detect(
                wp.array(np.arange(CHUNK) < size, dtype=wp.bool, device="cpu"),
                wp.array(place.reshape(-1, 7), dtype=wp.transform, device="cpu"),
                wp.array(velocity.reshape(-1, 6), dtype=wp.spatial_vector, device="cpu"),
                com,
                wp.array(mu, dtype=float, device="cpu"),
            )
            used = rows.used[:size].numpy()
            features = np.where(used[..., None], rows.features[:size].numpy(), np.float32(0))
            link = np.where(used, rows.link[:size].numpy(), -1).astype(np.int16)
            parts.append((features, link, self._detector.found[:size].numpy().astype(np.int16)))
        return tuple(np.concatenate(x) for x in zip(*parts, strict=True))  # type: ignore[return-value]

    def _make(self, capacity: int) -> TerrainDetector:
        from flashnerd_ext.solver.terrain_detector import TerrainDetector

        shapes, links = self._shapes(), len(self._bodies)
        world = np.arange(CHUNK)[:, None]
        return TerrainDetector(
            shapes,
            world * links + shapes.link,
            np.broadcast_to(world, (CHUNK, len(shapes.kind))),
            world[:, 0] * links + self._base,
            self._pieces(),
            links,
            capacity,
            self._gap,
        )

    def _shapes(self) -> Any:
        from flashnerd_ext.solver.terrain_detector import RobotShapes, centred

        mujoco: Any = import_module("mujoco")
        model, geom = self._model, mujoco.mjtGeom
        names = {
            geom.mjGEOM_SPHERE: "sphere", geom.mjGEOM_CAPSULE: "capsule", geom.mjGEOM_BOX: "box",
            geom.mjGEOM_CYLINDER: "cylinder", geom.mjGEOM_MESH: "mesh",
        }  # fmt: skip
        kinds, size, places, links, corners = [], [], [], [], []
        collides = (model.geom_contype != 0) | (model.geom_conaffinity != 0)
        for index in np.flatnonzero(np.isin(model.geom_bodyid, self._bodies) & collides):
            kind = names[geom(int(model.geom_type[index]))]
            place, hull = np.append(model.geom_pos[index], model.geom_quat[index][[1, 2, 3, 0]]), None
            if kind == "mesh":
                mesh = int(model.geom_dataid[index])
                first = int(model.mesh_vertadr[mesh])
                vertices = model.mesh_vert[first : first + int(model.mesh_vertnum[mesh])]
                place, hull = centred(place, np.asarray(vertices, np.float64))
            kinds.append(kind)
            size.append(model.geom_size[index].copy())
            places.append(place)
            links.append(int(np.flatnonzero(self._bodies == model.geom_bodyid[index])[0]))
            corners.append(hull)
        return RobotShapes(kinds, np.array(size), np.array(places), np.array(links), corners)

    def _pieces(self) -> Any:
        from flashnerd_ext.solver.terrain_detector import Terrain as Pieces
        from flashnerd_ext.solver.terrain_detector import grid_faces, grid_points, rotated

        model, terrain = self._model, self._terrain
        points, faces = [np.zeros((0, 3))], [np.zeros((0, 3), np.int64)]
        for middle, half, height in terrain.fields:
            faces.append(grid_faces(*height.shape) + sum(len(x) for x in points))
            points.append(grid_points(half, half, height) + np.append(middle, 0.0))
        # Only planes hang on the world itself.
        planes = []
        for index in np.flatnonzero(model.geom_bodyid == 0):
            place = np.append(model.geom_pos[index], model.geom_quat[index][[1, 2, 3, 0]])
            normal = rotated(place, np.array([[0.0, 0.0, 1.0]]))[0] - place[:3]
            planes.append(np.append(normal, normal @ place[:3]))

        def ground(count: int) -> np.ndarray:
            return np.full(count, CHUNK)

        boxes = len(terrain.boxes)
        return Pieces(
            plane=np.array(planes).reshape(-1, 4),
            plane_id=ground(len(planes)),
            box=terrain.boxes,
            box_id=ground(boxes),
            box_body=np.full(boxes, -1),
            box_world=np.full(boxes, -1),
            points=np.concatenate(points),
            faces=np.concatenate(faces),
            face_id=ground(sum(len(x) for x in faces)),
        )
