"""Stage 0: contacts that the model takes as inputs.

The robot's own shapes are tested against the ground planes of the scene, from the body poses of the present state, by
the rule that made the training data (:mod:`flashnerd_ext.data.engines.rows`): of each pair of shapes the deepest point,
where it is nearer than the gap; the deepest K of a robot in order of depth. Everything stays on the device, buffers are
made once, and the order does not depend on how threads are scheduled.

Terrain other than planes is refused: its contacts would be missing without a word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.contacts import ROW_SIZE, ContactRows

if TYPE_CHECKING:
    from flashnerd_ext.bundle.card import Card

FAR = 1.0e6
"""Distance of a shape that is not near anything [m]."""
_SPHERE, _CAPSULE, _BOX, _CYLINDER, _MESH = range(5)


@wp.func
def nearest_to_plane(
    kind: int, size: wp.vec3, mesh: wp.uint64, place: wp.transform, normal: wp.vec3, offset: float
) -> wp.vec4:
    """Deepest point of a shape with respect to a plane, half-way to it, and its signed distance."""
    centre = wp.transform_get_translation(place)
    turn = wp.transform_get_rotation(place)
    point = centre
    if kind == _SPHERE:
        point = centre - normal * size[0]
    elif kind == _CAPSULE:
        arm = wp.quat_rotate(turn, wp.vec3(0.0, 0.0, size[1]))
        point = centre + arm
        if wp.dot(normal, arm) > 0.0:
            point = centre - arm
        point = point - normal * size[0]
    elif kind == _BOX:
        for i in range(3):
            edge = wp.vec3(0.0, 0.0, 0.0)
            edge[i] = size[i]
            arm = wp.quat_rotate(turn, edge)
            if wp.dot(normal, arm) > 0.0:
                arm = -arm
            point = point + arm
    elif kind == _CYLINDER:
        axis = wp.quat_rotate(turn, wp.vec3(0.0, 0.0, 1.0))
        along = wp.dot(normal, axis)
        if along > 0.0:
            axis = -axis
            along = -along
        rim = axis * along - normal
        length = wp.length(rim)
        if length < 1.0e-6:
            # Flat on the plane: any point of the rim is as deep.
            rim = wp.quat_rotate(turn, wp.vec3(1.0, 0.0, 0.0)) * size[0]
        else:
            rim = rim * (size[0] / length)
        point = centre + rim + axis * size[1]
    elif kind == _MESH:
        shape = wp.mesh_get(mesh)
        best = float(FAR)
        for i in range(shape.points.shape[0]):
            corner = wp.transform_point(place, wp.cw_mul(shape.points[i], size))
            height = wp.dot(normal, corner)
            if height < best:
                best = height
                point = corner
    depth = wp.dot(normal, point) - offset
    half = point - normal * (0.5 * depth)
    return wp.vec4(half[0], half[1], half[2], depth)


@wp.kernel(enable_backward=False)
def find_contacts(
    shapes: wp.array2d[int],
    kinds: wp.array[int],
    body_q: wp.array[wp.transform],
    shape_body: wp.array[int],
    shape_transform: wp.array[wp.transform],
    shape_scale: wp.array[wp.vec3],
    shape_mesh: wp.array[wp.uint64],
    plane_normal: wp.array[wp.vec3],
    plane_offset: wp.array[float],
    # outputs
    near: wp.array2d[wp.vec4],
    plane: wp.array2d[int],
):
    world, slot = wp.tid()
    shape = shapes[world, slot]
    place = body_q[shape_body[shape]] * shape_transform[shape]
    best = wp.vec4(0.0, 0.0, 0.0, FAR)
    which = int(0)
    for i in range(plane_normal.shape[0]):
        found = nearest_to_plane(
            kinds[slot], shape_scale[shape], shape_mesh[shape], place, plane_normal[i], plane_offset[i]
        )
        if found[3] < best[3]:
            best = found
            which = i
    near[world, slot] = best
    plane[world, slot] = which


@wp.kernel(enable_backward=False)
def pack_rows(
    near: wp.array2d[wp.vec4],
    plane: wp.array2d[int],
    shapes: wp.array2d[int],
    links: wp.array[int],
    base: wp.array[int],
    body_q: wp.array[wp.transform],
    body_qd: wp.array[wp.spatial_vector],
    body_com: wp.array[wp.vec3],
    shape_body: wp.array[int],
    shape_mu: wp.array[float],
    plane_normal: wp.array[wp.vec3],
    plane_shape: wp.array[int],
    gap: float,
    # outputs
    rows: wp.array3d[float],
    link: wp.array2d[wp.int64],
    used: wp.array2d[wp.bool],
    found: wp.array[int],
    touching: wp.array2d[float],
):
    world = wp.tid()
    root = body_q[base[world]]
    home = wp.transform_get_translation(root)
    turn = wp.quat_inverse(wp.transform_get_rotation(root))
    count = int(0)
    for i in range(touching.shape[1]):
        touching[world, i] = FAR
    for slot in range(near.shape[1]):
        depth = near[world, slot][3]
        if depth <= gap:
            count += 1
        touching[world, links[slot]] = wp.min(touching[world, links[slot]], depth)
    found[world] = count
    last = float(-FAR)
    last_slot = int(-1)
    for k in range(rows.shape[1]):
        # The next deepest; of equals, the first.
        pick = int(-1)
        depth = float(FAR)
        for slot in range(near.shape[1]):
            other = near[world, slot][3]
            later = other > last or (other == last and slot > last_slot)
            if other <= gap and later and other < depth:
                pick = slot
                depth = other
        if pick < 0:
            used[world, k] = False
            continue
        last = depth
        last_slot = pick
        at = near[world, pick]
        point = wp.vec3(at[0], at[1], at[2])
        shape = shapes[world, pick]
        body = shape_body[shape]
        which = plane[world, pick]
        spin = body_qd[body]
        centre = wp.transform_point(body_q[body], body_com[body])
        speed = wp.spatial_top(spin) + wp.cross(wp.spatial_bottom(spin), point - centre)
        local = wp.quat_rotate(turn, point - home)
        normal = wp.quat_rotate(turn, plane_normal[which])
        speed = wp.quat_rotate(turn, speed)
        for j in range(3):
            rows[world, k, j] = local[j]
            rows[world, k, 3 + j] = normal[j]
            rows[world, k, 7 + j] = speed[j]
        rows[world, k, 6] = depth
        rows[world, k, 10] = wp.max(shape_mu[shape], shape_mu[plane_shape[which]])
        rows[world, k, 11] = 1.0
        link[world, k] = wp.int64(links[pick])
        used[world, k] = True


class ContactStage:
    """Contact rows of every robot; nothing for a model that takes none.

    Args:
        card: Says capacity, gap and links.
        model: Finalised Newton model with one robot a world.
        device: Torch device of the simulation.

    Attributes:
        found: Contacts within the gap of each world at the last step, int32 [N]; more than K means that some were
            dropped, the least deep.
        overflow: Model steps in which that happened, int64 [N].
        touching: Distance of each link's nearest point at the last step [m], float32 [N, L].

    Raises:
        FlashNerdError: For links that the scene does not have, for terrain other than planes, or without a plane.
    """

    def __init__(self, card: Card, model: Any, device: torch.device | str) -> None:
        self.capacity, self.gap, self.links = card.contacts.capacity, card.contacts.gap, card.contacts.links
        self._model, self._name = model, card.name
        worlds = max(int(model.world_count), 1)
        self.found = torch.zeros(worlds, dtype=torch.int32, device=device)
        self.overflow = torch.zeros(worlds, dtype=torch.int64, device=device)
        self.touching = torch.full((worlds, max(len(self.links), 1)), FAR, device=device)
        if not self.capacity:
            return
        if card.contacts.detector != "mujoco":
            raise FlashNerdError(
                f"the bundle '{card.name}' takes contacts of the detector '{card.contacts.detector}', but this version "
                "of the backend has 'mujoco' only: use a bundle that was trained on those."
            )
        self._describe(worlds)
        rows = torch.zeros((worlds, self.capacity, ROW_SIZE), device=device)
        link = torch.zeros((worlds, self.capacity), dtype=torch.int64, device=device)
        used = torch.zeros((worlds, self.capacity), dtype=torch.bool, device=device)
        self._rows = ContactRows(rows, link, used)
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
            int(GeoType.SPHERE): _SPHERE, int(GeoType.CAPSULE): _CAPSULE, int(GeoType.BOX): _BOX,
            int(GeoType.CYLINDER): _CYLINDER, int(GeoType.MESH): _MESH, int(GeoType.CONVEX_MESH): _MESH,
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
            turn = wp.quat(*(float(x) for x in place[shape][3:]))
            normal = np.array(wp.quat_rotate(turn, wp.vec3(0.0, 0.0, 1.0)))
            normals.append(normal)
            offsets.append(float(normal @ place[shape][:3]))
        self._shapes = wp.array(np.array(table, np.int32), dtype=int, device=device)
        self._kinds = wp.array([known[int(kinds[s])] for s in slots], dtype=int, device=device)
        self._links = wp.array([self.links.index(names[bodies[s]]) for s in slots], dtype=int, device=device)
        self._normal = wp.array(np.array(normals, np.float32), dtype=wp.vec3, device=device)
        self._offset = wp.array(np.array(offsets, np.float32), dtype=float, device=device)
        self._plane_shape = wp.array(np.array(planes, np.int32), dtype=int, device=device)
        self._near = wp.zeros((worlds, len(slots)), dtype=wp.vec4, device=device)
        self._which = wp.zeros((worlds, len(slots)), dtype=int, device=device)
        self.ground = int(planes[0])
        first = {self.links.index(names[bodies[s]]): i for i, s in reversed(list(enumerate(slots)))}
        self.link_shape = np.array([[row[first[j]] if j in first else -1 for j in range(len(self.links))] for row in table])

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

    def rows(self, state: Any, count: bool = True) -> ContactRows | None:
        """Rows of the present state, ``None`` where the model takes none; the buffers are the same each time.

        Args:
            state: Newton state whose body_q and body_qd belong to its joint coordinates.
            count: Whether dropped rows are counted.
        """
        if not self.capacity:
            return None
        model, shape = self._model, self._shapes.shape
        wp.launch(
            find_contacts,
            dim=shape,
            inputs=[
                self._shapes, self._kinds, state.body_q, model.shape_body, model.shape_transform, model.shape_scale,
                model.shape_source_ptr, self._normal, self._offset,
            ],
            outputs=[self._near, self._which],
            device=model.device,
        )  # fmt: skip
        wp.launch(
            pack_rows,
            dim=shape[0],
            inputs=[
                self._near, self._which, self._shapes, self._links, self._base, state.body_q, state.body_qd,
                model.body_com, model.shape_body, model.shape_material_mu, self._normal, self._plane_shape, self.gap,
            ],
            outputs=self._out,
            device=model.device,
        )  # fmt: skip
        if count:
            self.overflow += self.found > self.capacity
        return self._rows
