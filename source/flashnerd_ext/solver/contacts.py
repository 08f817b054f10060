"""Stage 0: contacts that the model takes as inputs.

The robot's own shapes are tested against the ground planes of the scene, from the body poses of the present state, by
the rule that made the training data (:mod:`flashnerd_ext.data.engines.rows`): of each pair of shapes the deepest point,
where it is nearer than the gap; the deepest K of a robot in order of depth. Everything stays on the device, buffers are
made once, and the order does not depend on how threads are scheduled. For a bundle of fixed contacts the model gets the
rows of :mod:`flashnerd_ext.solver.fixed_contacts` instead; what is near the ground is found all the same, for sensors.

Terrain other than planes is refused: its contacts would be missing without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.contacts import ROW_SIZE, ContactRows
from flashnerd_ext.solver.contact_kernels import BOX, CAPSULE, CYLINDER, FAR, MESH, SPHERE, find_contacts, pack_rows
from flashnerd_ext.solver.fixed_contacts import FixedRows, GroundPlanes, RobotShapes
from flashnerd_ext.solver.notices import Notices

if TYPE_CHECKING:
    from flashnerd_ext.bundle.card import Card


class ContactStage:
    """Contact rows of every robot; nothing for a model that takes none.

    Args:
        card: Says capacity, gap and links.
        model: Finalised Newton model with one robot a world.
        device: Torch device of the simulation.

    Attributes:
        found: Contacts within the gap of each world at the last step, int32 [N]; more than K means that some were
            dropped, the least deep.
        overflow: Model steps in which that happened, int64 [N]; none with fixed contacts.
        needed: Most contacts within the gap that each world had at once, int32 [N].
        up: Normal of the ground, world frame; on terrain, where each contact has its own, the vertical.
        touching: Distance of each link's nearest point at the last step [m], float32 [N, L].

    Raises:
        FlashNerdError: For links that the scene does not have, for terrain other than planes, or without a plane.
    """

    def __init__(self, card: Card, model: Any, device: torch.device | str) -> None:
        self.capacity, self.gap, self.links = card.contacts.capacity, card.contacts.gap, card.contacts.links
        self._model, self._name = model, card.name
        self._fixed: FixedRows | None = None
        worlds = max(int(model.world_count), 1)
        self.found = torch.zeros(worlds, dtype=torch.int32, device=device)
        self.overflow = torch.zeros(worlds, dtype=torch.int64, device=device)
        self.needed = torch.zeros_like(self.found)
        self.up = np.array([0.0, 0.0, 1.0])
        self.touching = torch.full((worlds, max(len(self.links), 1)), FAR, device=device)
        if not self.capacity:
            return
        if card.contacts.detector != "mujoco":
            raise FlashNerdError(
                f"the bundle '{card.name}' takes contacts of the detector '{card.contacts.detector}', but this version "
                "of the backend has 'mujoco' only: use a bundle that was trained on those."
            )
        self._describe(worlds)
        if card.contacts.fixed:
            robot = RobotShapes(self._shapes, self._kinds, self._reach, self._links, self._base)
            ground = GroundPlanes(self._normal, self._offset, self._plane_shape)
            self._fixed = FixedRows(card.contacts.fixed, self.links, model, robot, ground, device)
        # With fixed contacts what counts here is what is near; of its rows none is read.
        size = self.capacity if self._fixed is None else 1
        rows = torch.zeros((worlds, size, ROW_SIZE), device=device)
        link = torch.zeros((worlds, size), dtype=torch.int64, device=device)
        used = torch.zeros((worlds, size), dtype=torch.bool, device=device)
        self._rows = ContactRows(rows, link, used)
        self._dirty = torch.ones(worlds, dtype=torch.bool, device=device)
        self._dirty_out = wp.from_torch(self._dirty)
        # Warp's views of the same memory.
        self._out = [wp.from_torch(x) for x in (rows, link, used, self.found, self.touching)]

    def _describe(self, worlds: int) -> None:
        """Tables of the robot's shapes and the ground's planes."""
        from newton import GeoType, ShapeFlags

        model = self._model
        kinds, bodies = model.shape_type.numpy(), model.shape_body.numpy()
        flags, of_world = model.shape_flags.numpy(), model.shape_world.numpy()
        collide = (flags & int(ShapeFlags.COLLIDE_SHAPES)) != 0
        names = [label.rsplit("/", 1)[-1] for label in model.body_label]
        body_world = model.body_world.numpy()
        self._base_body(worlds, names, body_world)
        known = {
            int(GeoType.SPHERE): SPHERE, int(GeoType.CAPSULE): CAPSULE, int(GeoType.BOX): BOX,
            int(GeoType.CYLINDER): CYLINDER, int(GeoType.MESH): MESH, int(GeoType.CONVEX_MESH): MESH,
        }  # fmt: skip
        table: list[list[int]] = [[] for _ in range(worlds)]
        for shape in np.flatnonzero(collide & (bodies >= 0)):
            world = max(int(body_world[bodies[shape]]), 0)
            if names[bodies[shape]] in self.links:
                table[world].append(int(shape))
        if not table[0] or any(len(row) != len(table[0]) for row in table):
            raise FlashNerdError(
                f"the robot has {len(table[0])} collision shapes in world 0 on the links that the bundle "
                f"'{self._name}' knows ({', '.join(self.links[:4])}, ...), but every world needs the same, at least 1."
            )
        slots = table[0]
        unknown = [model.shape_label[s] for s in slots if int(kinds[s]) not in known]
        if unknown:
            raise FlashNerdError(
                f"the collision shape {unknown[0]} is of a kind that contact rows are not made for: use a sphere, "
                "capsule, box, cylinder or mesh."
            )
        planes = [s for s in np.flatnonzero(collide & (bodies < 0)) if int(kinds[s]) == int(GeoType.PLANE)]
        other = [s for s in np.flatnonzero(collide & (bodies < 0)) if int(kinds[s]) != int(GeoType.PLANE)]
        if other or not planes or any(of_world[s] >= 0 for s in planes):
            what = f"the terrain {model.shape_label[other[0]]}" if other else "no ground plane common to all worlds"
            raise FlashNerdError(
                f"the scene has {what}, but the learned backend finds contacts with ground planes only so far: "
                "use terrain_type='plane', or physics=newton_mjwarp."
            )
        device = model.device
        place = model.shape_transform.numpy()
        normals, offsets = [], []
        for shape in planes:
            x, y, z, w = place[shape][3:]
            # The plane's own z axis.
            normal = np.array([2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)])
            normals.append(normal)
            offsets.append(float(normal @ place[shape][:3]))
        self._shapes = wp.array(np.array(table, np.int32), dtype=int, device=device)
        self._kinds = wp.array([known[int(kinds[s])] for s in slots], dtype=int, device=device)
        self._reach = wp.array([self._radius(int(s), known[int(kinds[s])]) for s in slots], dtype=float, device=device)
        self._links = wp.array([self.links.index(names[bodies[s]]) for s in slots], dtype=int, device=device)
        self._normal = wp.array(np.array(normals, np.float32), dtype=wp.vec3, device=device)
        self._offset = wp.array(np.array(offsets, np.float32), dtype=float, device=device)
        self._plane_shape = wp.array(np.array(planes, np.int32), dtype=int, device=device)
        self._near = wp.zeros((worlds, len(slots)), dtype=wp.vec4, device=device)
        self._which = wp.zeros((worlds, len(slots)), dtype=int, device=device)
        self.ground, self._planes, self.up = int(planes[0]), torch.tensor(planes), normals[0]
        self._table = torch.tensor(table)
        first = {self.links.index(names[bodies[s]]): i for i, s in reversed(list(enumerate(slots)))}
        self.link_shape = np.array(
            [[row[first[j]] if j in first else -1 for j in range(len(self.links))] for row in table]
        )

    def _radius(self, shape: int, kind: int) -> float:
        """Radius of a ball around the shape's origin that holds it [m]."""
        size = self._model.shape_scale.numpy()[shape].astype(np.float64)
        if kind == int(SPHERE):
            return float(size[0])
        if kind == int(CAPSULE):
            return float(size[0] + size[1])
        if kind == int(CYLINDER):
            return float(np.hypot(size[0], size[1]))
        if kind == int(BOX):
            return float(np.linalg.norm(size))
        vertices = np.asarray(self._model.shape_source[shape].vertices, np.float64) * size
        return float(np.linalg.norm(vertices, axis=1).max())

    def _base_body(self, worlds: int, names: list[str], body_world: np.ndarray) -> None:
        base = [i for i, name in enumerate(names) if name == self.links[0]]
        missing = [name for name in self.links if name not in names]
        if missing or len(base) != worlds:
            raise FlashNerdError(
                f"the robot in the scene lacks the link '{missing[0] if missing else self.links[0]}' of the bundle "
                f"'{self._name}': give a bundle that was trained on this robot."
            )
        order = sorted(base, key=lambda i: int(body_world[i]))
        self.base = np.array(order)
        self._base = wp.array(np.array(order, np.int32), dtype=int, device=self._model.device)

    def friction(self) -> torch.Tensor:
        """Sliding friction of each robot on the ground [N]: that of its first shape, as one number stands for all."""
        mu = wp.to_torch(self._model.shape_material_mu, requires_grad=False)
        return torch.maximum(mu[self._table[:, 0]], mu[self._planes].max())

    def rows(self, state: Any, dirty: torch.Tensor | None = None, count: bool = True) -> ContactRows | None:
        """Rows of the present state, ``None`` where the model takes none; the buffers are the same each time.

        Args:
            state: Newton state whose body_q and body_qd belong to its joint coordinates.
            dirty: Worlds to look at, boolean [N]; the others keep their rows. ``None`` is all of them.
            count: Whether dropped rows are counted.
        """
        if not self.capacity:
            return None
        model, shape = self._model, self._shapes.shape
        if dirty is None:
            self._dirty.fill_(True)
        else:
            self._dirty.copy_(dirty)
        wp.launch(
            find_contacts,
            dim=shape,
            inputs=[
                self._dirty_out, self.gap, self._shapes, self._kinds, self._reach, state.body_q, model.shape_body,
                model.shape_transform, model.shape_scale, model.shape_source_ptr, self._normal, self._offset,
            ],
            outputs=[self._near, self._which],
            device=model.device,
        )  # fmt: skip
        wp.launch(
            pack_rows,
            dim=shape[0],
            inputs=[
                self._dirty_out, self._near, self._which, self._shapes, self._links, self._base, state.body_q,
                state.body_qd, model.body_com, model.shape_body, model.shape_material_mu, self._normal,
                self._plane_shape, self.gap,
            ],
            outputs=self._out,
            device=model.device,
        )  # fmt: skip
        if self._fixed is not None:
            return self._fixed.rows(state, self._dirty_out)
        if count:
            self._count()
        return self._rows

    def _count(self) -> None:
        self.overflow += self.found > self.capacity
        torch.maximum(self.needed, self.found, out=self.needed)

    def report(self, notices: Notices) -> None:
        """Say once that contacts were dropped, on the host.

        Raises:
            FlashNerdError: Where that is refused.
        """
        if not self.capacity or notices.said("overflow") or not bool(self.overflow.any()):
            return
        world = int(self.needed.argmax())
        notices.say(
            "overflow",
            f"World {world} has {int(self.needed[world])} contacts within {self.gap:g} m, but the bundle "
            f"'{self._name}' takes the {self.capacity} deepest, as its training data did, and the others go unfelt: "
            "train one with more rows where that matters (contact_stage.overflow counts such steps of each world).",
        )
