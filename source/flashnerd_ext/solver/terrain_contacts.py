"""Stage 0 on terrain: the contact stage for scenes with more than ground planes.

Planes, boxes, height fields and triangle meshes that stand still, for all worlds or for one, and boxes that move as
bodies of their own (platforms, objects). Scenes with planes only keep the plain stage, which is faster.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.solver.contacts import ContactStage
from flashnerd_ext.solver.terrain_detector import (
    RobotShapes,
    Terrain,
    TerrainDetector,
    centred,
    grid_faces,
    grid_points,
    rotated,
)

if TYPE_CHECKING:
    from flashnerd_ext.bundle.card import Card
    from flashnerd_ext.model.contacts import ContactRows

logger = logging.getLogger(__name__)


def contact_stage(card: Card, model: Any, device: torch.device | str) -> ContactStage:
    """The contact stage that a scene needs: the plain one for ground planes, else the one for terrain.

    Raises:
        FlashNerdError: For terrain under a bundle of fixed contacts.
    """
    if card.contacts.capacity and _Scene(model, card.contacts.links).rough:
        if card.contacts.fixed:
            raise FlashNerdError(
                f"the scene has terrain, but the bundle '{card.name}' takes fixed contacts, which know ground planes "
                "only: give a bundle of variable contacts, or use terrain_type='plane'."
            )
        return TerrainContactStage(card, model, device)
    return ContactStage(card, model, device)


class _Scene:
    """Which shapes of a Newton model are the robots', which the ground's, and which are boxes that move."""

    def __init__(self, model: Any, links: tuple[str, ...]) -> None:
        from newton import GeoType, ShapeFlags

        self.kinds, self.bodies = model.shape_type.numpy(), model.shape_body.numpy()
        self.of_world = model.shape_world.numpy()
        collide = (model.shape_flags.numpy() & int(ShapeFlags.COLLIDE_SHAPES)) != 0
        self.names = [label.rsplit("/", 1)[-1] for label in model.body_label]
        robot = np.array([body >= 0 and self.names[body] in links for body in self.bodies], bool)
        self.static = np.flatnonzero(collide & (self.bodies < 0))
        self.robot = np.flatnonzero(collide & robot)
        loose = np.flatnonzero(collide & (self.bodies >= 0) & ~robot)
        box = self.kinds[loose] == int(GeoType.BOX)
        self.moving, self.unseen = loose[box], loose[~box]
        self.rough = bool(len(self.moving)) or bool((self.kinds[self.static] != int(GeoType.PLANE)).any())


class TerrainContactStage(ContactStage):
    """Contact rows on terrain; see :class:`flashnerd_ext.solver.contacts.ContactStage` for what it offers.

    A robot shape makes up to three rows: the nearest point of what stands still, a second one where it sits in a
    corner, and the nearest point of what moves.

    Raises:
        FlashNerdError: For terrain of a kind that is not known, or a scene without any.
    """

    def _describe(self, worlds: int) -> None:
        model, scene = self._model, _Scene(self._model, self.links)
        body_world = model.body_world.numpy()
        self._base_body(worlds, scene.names, body_world)
        table: list[list[int]] = [[] for _ in range(worlds)]
        for shape in scene.robot:
            table[max(int(body_world[scene.bodies[shape]]), 0)].append(int(shape))
        if not table[0] or any(len(row) != len(table[0]) for row in table):
            raise FlashNerdError(
                f"the robot has {len(table[0])} collision shapes in world 0 on the links that the bundle "
                f"'{self._name}' knows ({', '.join(self.links[:4])}, ...), but every world needs the same, at least 1."
            )
        if len(scene.unseen):
            logger.warning(
                "The learned robot does not feel %s: of what moves it has contacts with boxes only.",
                model.shape_label[scene.unseen[0]],
            )
        shapes = np.array(table)
        slots = table[0]
        links = [self.links.index(scene.names[scene.bodies[s]]) for s in slots]
        first = {link: i for i, link in reversed(list(enumerate(links)))}
        self.link_shape = np.array(
            [[row[first[j]] if j in first else -1 for j in range(len(self.links))] for row in table]
        )
        self.ground = int((scene.static if len(scene.static) else scene.moving)[0])
        self._detector = TerrainDetector(
            robot_shapes(model, slots, links),
            scene.bodies[shapes],
            shapes,
            self.base,
            terrain_of(model, scene),
            len(self.links),
            self.capacity,
            self.gap,
            model.device,
        )

    def friction(self) -> torch.Tensor:
        """There is none to tell: only MuJoCo C asks, and its engine model stands on flat ground.

        Raises:
            FlashNerdError: Always.
        """
        raise FlashNerdError(
            "solver_cfg.model is 'mujoco_c', but the scene has terrain, which its engine model does not: type "
            "physics=newton_mjwarp, or use terrain_type='plane'."
        )

    def rows(self, state: Any, dirty: torch.Tensor | None = None, count: bool = True) -> ContactRows | None:
        """See :meth:`flashnerd_ext.solver.contacts.ContactStage.rows`."""
        if dirty is None:
            self._dirty.fill_(True)
        else:
            self._dirty.copy_(dirty)
        model = self._model
        rows = self._detector.detect(
            self._dirty_out, state.body_q, state.body_qd, model.body_com, model.shape_material_mu
        )
        self.found.copy_(self._detector.found)
        self.touching.copy_(self._detector.touching)
        if count:
            self._count()
        return rows


def robot_shapes(model: Any, slots: list[int], links: list[int]) -> RobotShapes:
    """The shapes of world 0's robot."""
    from newton import GeoType

    known = {
        int(GeoType.SPHERE): "sphere", int(GeoType.CAPSULE): "capsule", int(GeoType.BOX): "box",
        int(GeoType.CYLINDER): "cylinder", int(GeoType.MESH): "mesh", int(GeoType.CONVEX_MESH): "mesh",
    }  # fmt: skip
    kinds = model.shape_type.numpy()
    unknown = [model.shape_label[s] for s in slots if int(kinds[s]) not in known]
    if unknown:
        raise FlashNerdError(
            f"the collision shape {unknown[0]} is of a kind that contact rows are not made for: use a sphere, "
            "capsule, box, cylinder or mesh."
        )
    size = model.shape_scale.numpy()[slots].astype(np.float64)
    place = model.shape_transform.numpy()[slots].astype(np.float64)
    corners: list[np.ndarray | None] = []
    for i, shape in enumerate(slots):
        if known[int(kinds[shape])] != "mesh":
            corners.append(None)
            continue
        place[i], hull = centred(place[i], np.asarray(model.shape_source[shape].vertices, np.float64) * size[i])
        corners.append(hull)
    return RobotShapes([known[int(kinds[s])] for s in slots], size, place, np.array(links), corners)


def terrain_of(model: Any, scene: _Scene) -> Terrain:
    """What the robots of a Newton model may touch; friction indices are those of its shapes."""
    from newton import GeoType

    place, size = model.shape_transform.numpy().astype(np.float64), model.shape_scale.numpy().astype(np.float64)
    planes: list[np.ndarray] = []
    plane_id: list[int] = []
    boxes = [*scene.static[scene.kinds[scene.static] == int(GeoType.BOX)], *scene.moving]
    points: list[np.ndarray] = []
    faces: list[np.ndarray] = []
    face_id: list[int] = []
    for shape in scene.static:
        kind, label = int(scene.kinds[shape]), model.shape_label[shape]
        if kind == int(GeoType.BOX):
            continue
        if scene.of_world[shape] >= 0:
            raise FlashNerdError(
                f"the terrain {label} belongs to world {scene.of_world[shape]} alone, but planes, height fields and "
                "meshes must be common to all worlds: add it outside of the worlds, or make it of boxes."
            )
        if kind == int(GeoType.PLANE):
            normal = rotated(place[shape], np.array([[0.0, 0.0, 1.0]]))[0] - place[shape, :3]
            planes.append(np.append(normal, normal @ place[shape, :3]))
            plane_id.append(int(shape))
            continue
        if kind in (int(GeoType.MESH), int(GeoType.CONVEX_MESH)):
            source = model.shape_source[shape]
            corners = np.asarray(source.vertices, np.float64) * size[shape]
            sides = np.asarray(source.indices, np.int64).reshape(-1, 3)
        elif kind == int(GeoType.HFIELD):
            field = model.shape_source[shape]
            height = field.min_z + np.asarray(field.data, np.float64) * (field.max_z - field.min_z)
            corners = grid_points(field.hx, field.hy, height.reshape(field.nrow, field.ncol))
            sides = grid_faces(field.nrow, field.ncol)
        else:
            raise FlashNerdError(
                f"the terrain {label} is of a kind that the learned backend has no contacts with: make it of planes, "
                "boxes, height fields or triangle meshes, or use physics=newton_mjwarp."
            )
        faces.append(sides + sum(len(x) for x in points))
        points.append(rotated(place[shape], corners))
        face_id.extend([int(shape)] * len(sides))
    if not (planes or boxes or points):
        raise FlashNerdError("the scene has nothing to stand on: add a ground plane or terrain.")
    return Terrain(
        plane=np.array(planes).reshape(-1, 4),
        plane_id=np.array(plane_id, np.int64),
        box=np.concatenate([place[boxes], size[boxes]], 1) if boxes else np.zeros((0, 10)),
        box_id=np.array(boxes, np.int64),
        box_body=scene.bodies[boxes] if boxes else np.zeros(0, np.int64),
        box_world=scene.of_world[boxes] if boxes else np.zeros(0, np.int64),
        points=np.concatenate(points) if points else np.zeros((0, 3)),
        faces=np.concatenate(faces) if faces else np.zeros((0, 3), np.int64),
        face_id=np.array(face_id, np.int64),
    )
