# type: ignore  (Warp compiles what stands here; to a type checker its arrays and vectors are other things)
"""Warp kernels of contacts with terrain: every robot shape against planes, boxes and a triangle mesh; deepest K rows.

The rule is one of geometry, not of a detector, so that a step made of boxes and the same step in a triangle mesh give
the same rows: of each robot shape and everything that stands still, the point of least signed Euclidean distance; and,
where the shape sits in a corner, the nearest point of the other wall. Of what moves, the nearest point alone.

A triangle is taken as a slab of material behind its face, so that overlap has a depth.
"""

# ruff: noqa: RUF046, UP018  (Warp needs int(0) to see a variable where a literal would be a constant)

import warp as wp

from flashnerd_ext.solver.contact_kernels import next_deepest
from flashnerd_ext.solver.gjk import (
    BOX,
    CAPSULE,
    CYLINDER,
    FAR,
    SLAB,
    SPHERE,
    Piece,
    Shape,
    edge_of,
    mat63,
    nearest,
    shrinkable,
    tip_of,
)

THICK = wp.constant(0.05)
"""Thickness of the material behind a triangle [m]. Walls should be thicker, and no shape lies deeper."""
CORNER = wp.constant(0.5)
"""Cosine between the normals of two walls, below which they make a corner."""
BEHIND = wp.constant(-2.0e-3)
"""How far the point of one wall may lie behind the other's plane in a corner [m]; more is an edge that sticks out."""
CLEAR = wp.constant(3.0e-3)
"""A shape is shrunk until it is this far from a piece [m]: the direction is not read off two points that coincide."""
LEAST = wp.constant(4.0e-3)
"""First try of shrinking [m]; each further one is twice as much."""
TINY = wp.constant(1.0e-6)
SAME = wp.constant(5.0e-6)
"""Differences of depth [m] that float32 makes."""
SLOTS = wp.constant(3)
"""Candidates of a shape: nearest of the terrain, the other wall of a corner, nearest of what moves."""
KEPT = wp.constant(12)
"""Nearest candidates of a shape that are remembered while its corner is looked for."""

vec_kept = wp.types.vector(length=12, dtype=float)
vec_kept_int = wp.types.vector(length=12, dtype=int)
mat_kept = wp.types.matrix(shape=(12, 3), dtype=float)


@wp.struct
class Near:
    """A candidate: point half-way between the surfaces, normal towards the robot, signed distance."""

    point: wp.vec3
    normal: wp.vec3
    depth: float
    bound: bool
    """The depth is a bound from below so far: the narrow phase has to say."""


@wp.func
def nothing() -> Near:
    near = Near()
    near.depth = FAR
    return near


@wp.func
def settled(face: Near, piece: Piece, middle: wp.vec3, shape: Shape, gap: float) -> Near:
    """What the narrow phase makes of the greatest gap along a face's normal; FAR beyond the gap."""
    most = shrinkable(shape)
    # A ball or capsule is a point or a segment with a radius, and apart as long as those are not inside.
    round = shape.kind == SPHERE or shape.kind == CAPSULE
    shrink = wp.where(round, most, 0.0)
    limit = gap + shrink
    best = face
    trying = bool(True)
    while trying:
        found = nearest(shape, piece, middle, shrink, limit)
        if found.distance == FAR:
            return nothing()
        if found.found and found.distance > 0.1 * CLEAR:
            # What was taken off the shape along the direction counts; an error of the direction hardly does so.
            whole = tip_of(shape, -found.normal, 0.0)
            depth = found.distance + wp.dot(found.normal, whole - tip_of(shape, -found.normal, shrink))
            if depth > gap:
                return nothing()
            # Of equals the later one, whose direction is known better.
            if depth > face.depth + TINY and depth > best.depth - SAME:
                best.depth = depth
                best.normal = found.normal
                best.point = found.point + found.normal * (0.5 * depth)
                best.bound = False
        if round or shrink >= most or (found.found and found.distance > CLEAR):
            trying = False
        else:
            # Touching or overlapping: as little smaller as will do, so that the same features stay nearest.
            shrink = wp.min(wp.max(2.0 * shrink, LEAST), most)
            limit = FAR * 0.25
    if best.depth < 0.0 and (shape.kind == BOX or shape.kind == CYLINDER):
        # Deep in, an edge of the terrain may leave soonest through one of the shape's own flat sides.
        sides = int(6)
        for side in range(sides):
            axis = side // 2
            if shape.kind == BOX or axis == 2:
                normal = wp.vec3(shape.turn[0, axis], shape.turn[1, axis], shape.turn[2, axis])
                if side % 2 == 1:
                    normal = -normal
                edge = edge_of(piece, normal)
                depth = wp.dot(normal, tip_of(shape, -normal, 0.0) - edge)
                if depth > best.depth + TINY:
                    best.depth = depth
                    best.normal = normal
                    best.point = edge + normal * (0.5 * depth)
                    best.bound = False
    return best


@wp.func
def near_plane(shape: Shape, normal: wp.vec3, offset: float) -> Near:
    """The plane ``normal . x = offset``, in coordinates about the shape's centre."""
    near = Near()
    tip = tip_of(shape, -normal, 0.0)
    near.depth = wp.dot(normal, tip) - offset
    near.point = tip - normal * (0.5 * near.depth)
    near.normal = normal
    return near


@wp.func
def sphere_box(place: wp.transform, half: wp.vec3, radius: float) -> Near:
    """Sphere about the origin against a box."""
    near = Near()
    centre = wp.transform_point(wp.transform_inverse(place), wp.vec3(0.0, 0.0, 0.0))
    inside = wp.vec3(
        wp.clamp(centre[0], -half[0], half[0]),
        wp.clamp(centre[1], -half[1], half[1]),
        wp.clamp(centre[2], -half[2], half[2]),
    )
    across = centre - inside
    away = wp.length(across)
    if away > TINY:
        normal = across / away
    else:
        # The centre is in the box: out through the nearest face.
        axis = int(0)
        least = half[0] - wp.abs(centre[0])
        for i in range(1, 3):
            left = half[i] - wp.abs(centre[i])
            if left < least:
                least = left
                axis = i
        normal = wp.vec3(0.0, 0.0, 0.0)
        normal[axis] = 1.0
        if centre[axis] < 0.0:
            normal[axis] = -1.0
        away = -least
    near.normal = wp.transform_vector(place, normal)
    near.depth = away - radius
    near.point = -near.normal * (radius + 0.5 * near.depth)
    return near


@wp.func
def near_box(shape: Shape, reach: float, place: wp.transform, half: wp.vec3, gap: float) -> Near:
    """A box at ``place``, in coordinates about the shape's centre."""
    centre = wp.transform_get_translation(place)
    turn = wp.quat_to_matrix(wp.transform_get_rotation(place))
    local = wp.transpose(turn) @ (-centre)
    beyond = wp.vec3(
        wp.max(wp.abs(local[0]) - half[0], 0.0),
        wp.max(wp.abs(local[1]) - half[1], 0.0),
        wp.max(wp.abs(local[2]) - half[2], 0.0),
    )
    if wp.length(beyond) > reach + gap:
        return nothing()
    if shape.kind == SPHERE:
        return sphere_box(place, half, shape.size[0])
    # The greatest gap along the normal of a face bounds the distance from below, and is it where the tip is over it.
    best = float(-FAR)
    tip = wp.vec3(0.0, 0.0, 0.0)
    out = wp.vec3(0.0, 0.0, 0.0)
    over = bool(False)
    sides = int(6)  # a variable: unrolled loops take minutes to compile
    for side in range(sides):
        axis = side // 2
        sign = 1.0 - 2.0 * float(side % 2)
        normal = wp.vec3(turn[0, axis], turn[1, axis], turn[2, axis]) * sign
        point = tip_of(shape, -normal, 0.0)
        at = wp.transpose(turn) @ (point - centre)
        apart = sign * at[axis] - half[axis]
        if apart > best:
            best = apart
            tip = point
            out = normal
            i = (axis + 1) % 3
            j = (axis + 2) % 3
            over = wp.abs(at[i]) <= half[i] and wp.abs(at[j]) <= half[j]
    if best > gap:
        return nothing()
    face = Near()
    face.depth = best
    face.normal = out
    face.point = tip - out * (0.5 * best)
    face.bound = not (best > 0.0 and over)
    return face


@wp.func
def part_of(place: wp.transform, half: wp.vec3, far: float) -> Piece:
    """The part of a box that is not far from the origin along its axes: a small one loses fewer digits."""
    piece = Piece()
    piece.kind = BOX
    piece.turn = wp.quat_to_matrix(wp.transform_get_rotation(place))
    local = -(wp.transpose(piece.turn) @ wp.transform_get_translation(place))
    middle = wp.vec3(0.0, 0.0, 0.0)
    three = int(3)  # a variable: unrolled loops take minutes to compile
    for i in range(three):
        low = wp.max(-half[i], local[i] - far)
        high = wp.min(half[i], local[i] + far)
        middle[i] = 0.5 * (low + high)
        piece.half[i] = 0.5 * (high - low)
    piece.centre = wp.transform_get_translation(place) + piece.turn @ middle
    return piece


@wp.func
def within(a: wp.vec3, b: wp.vec3, c: wp.vec3, normal: wp.vec3, point: wp.vec3) -> bool:
    """Whether a point lies over a triangle."""
    return (
        wp.dot(wp.cross(b - a, point - a), normal) >= 0.0
        and wp.dot(wp.cross(c - b, point - b), normal) >= 0.0
        and wp.dot(wp.cross(a - c, point - c), normal) >= 0.0
    )


@wp.func
def nearest_on_edge(a: wp.vec3, b: wp.vec3) -> wp.vec3:
    """Point of a segment that is nearest to the origin."""
    along = b - a
    t = wp.clamp(-wp.dot(a, along) / wp.max(wp.dot(along, along), 1.0e-12), 0.0, 1.0)
    return a + along * t


@wp.func
def near_triangle(shape: Shape, a: wp.vec3, b: wp.vec3, c: wp.vec3, gap: float) -> Near:
    """A triangle with material behind it, in coordinates about the shape's centre."""
    normal = wp.cross(b - a, c - a)
    size = wp.length(normal)
    if size < 1.0e-9:
        return nothing()
    normal = normal / size
    tip = tip_of(shape, -normal, 0.0)
    apart = wp.dot(normal, tip - a)
    # Too far in front of it, or all of it behind the face: that is another face's matter.
    if apart > gap or wp.dot(normal, tip_of(shape, normal, 0.0) - a) < 0.0:
        return nothing()
    face = Near()
    face.depth = apart
    face.normal = normal
    face.point = tip - normal * (0.5 * apart)
    over = within(a, b, c, normal, tip)
    if apart > 0.0 and over:
        return face
    if shape.kind == SPHERE:
        height = -wp.dot(normal, a)
        if within(a, b, c, normal, wp.vec3(0.0, 0.0, 0.0)):
            return face
        if height < 0.0:
            return nothing()
        nearest = nearest_on_edge(a, b)
        other = nearest_on_edge(b, c)
        if wp.length_sq(other) < wp.length_sq(nearest):
            nearest = other
        other = nearest_on_edge(c, a)
        if wp.length_sq(other) < wp.length_sq(nearest):
            nearest = other
        away = wp.length(nearest)
        if away < TINY:
            return nothing()
        curve = Near()
        curve.normal = -nearest / away
        curve.depth = away - shape.size[0]
        curve.point = -curve.normal * (shape.size[0] + 0.5 * curve.depth)
        return curve
    face.bound = True
    return face


@wp.func
def slab_of(a: wp.vec3, b: wp.vec3, c: wp.vec3) -> mat63:
    """Corners of the material behind a triangle."""
    back = wp.normalize(wp.cross(b - a, c - a)) * THICK
    prism = mat63()
    prism[0] = a - back
    prism[1] = b - back
    prism[2] = c - back
    prism[3] = a
    prism[4] = b
    prism[5] = c
    return prism


@wp.kernel(enable_backward=False)
def find_terrain_contacts(
    dirty: wp.array[wp.bool],
    gap: float,
    # the robot's shapes: the body of each in each world, and what is the same in all worlds
    bodies: wp.array2d[int],
    kinds: wp.array[int],
    sizes: wp.array[wp.vec3],
    places: wp.array[wp.transform],
    reach: wp.array[float],
    inner: wp.array[float],
    corner_start: wp.array[int],
    corner_count: wp.array[int],
    corners: wp.array[wp.vec3],
    body_q: wp.array[wp.transform],
    # planes of all worlds
    plane_normal: wp.array[wp.vec3],
    plane_offset: wp.array[float],
    plane_shape: wp.array[int],
    # boxes: those that only one world has or that move, -1 for no more; and a tree of those that stand in all worlds
    boxes: wp.array2d[int],
    still_boxes: wp.uint64,
    box_body: wp.array[int],
    box_place: wp.array[wp.transform],
    box_half: wp.array[wp.vec3],
    box_shape: wp.array[int],
    # one mesh for all worlds, always there
    mesh: wp.uint64,
    face_shape: wp.array[int],
    # outputs, [worlds, shapes * SLOTS]
    near: wp.array2d[wp.vec4],
    normals: wp.array2d[wp.vec3],
    others: wp.array2d[int],
    moving: wp.array2d[int],
):
    world, slot = wp.tid()
    if not dirty[world]:
        return
    for j in range(SLOTS):
        near[world, slot * SLOTS + j] = wp.vec4(0.0, 0.0, 0.0, FAR)
        moving[world, slot * SLOTS + j] = -1
    place = body_q[bodies[world, slot]] * places[slot]
    centre = wp.transform_get_translation(place)
    turn = wp.transform_get_rotation(place)
    if not (wp.isfinite(wp.length_sq(centre)) and wp.isfinite(wp.length_sq(turn))):
        return
    shape = Shape()
    shape.kind = kinds[slot]
    shape.turn = wp.quat_to_matrix(turn)
    shape.size = sizes[slot]
    shape.start = corner_start[slot]
    shape.count = corner_count[slot]
    shape.inner = inner[slot]
    shape.corners = corners

    count = int(0)
    depth = vec_kept()
    point = mat_kept()
    normal = mat_kept()
    other = vec_kept_int()
    moved = nothing()
    moved_shape = int(-1)
    moved_body = int(-1)

    piece = Piece()
    middle = wp.vec3(0.0, 0.0, 0.0)
    planes = plane_normal.shape[0]
    choices = boxes.shape[1]
    far = reach[slot] + gap
    low = wp.vec3(0.0, 0.0, 0.0)
    high = wp.vec3(0.0, 0.0, 0.0)
    three = int(3)  # a variable: unrolled loops take minutes to compile
    for i in range(three):
        axis = wp.vec3(0.0, 0.0, 0.0)
        axis[i] = 1.0
        high[i] = tip_of(shape, axis, 0.0)[i] + gap
        low[i] = tip_of(shape, -axis, 0.0)[i] - gap
    query = wp.mesh_query_aabb(mesh, centre + low, centre + high)
    more = bool(True)
    around = wp.bvh_query_aabb(still_boxes, centre + low, centre + high)
    item = int(0)
    face = int(0)
    still = int(0)
    while item < planes + choices or more:
        found = nothing()
        which = int(-1)
        body = int(-1)
        box = int(-1)
        if item < planes:
            offset = plane_offset[item] - wp.dot(plane_normal[item], centre)
            if -offset <= far:
                found = near_plane(shape, plane_normal[item], offset)
                which = plane_shape[item]
        elif item < planes + choices:
            box = boxes[world, item - planes]
            if box < 0:
                item = planes + choices - 1
        elif wp.bvh_query_next(around, still):
            box = still
        elif wp.mesh_query_aabb_next(query, face):
            a = wp.mesh_get_point(mesh, 3 * face) - centre
            b = wp.mesh_get_point(mesh, 3 * face + 1) - centre
            c = wp.mesh_get_point(mesh, 3 * face + 2) - centre
            found = near_triangle(shape, a, b, c, gap)
            piece.kind = SLAB
            piece.slab = slab_of(a, b, c)
            middle = (a + b + piece.slab[2]) / 3.0
            which = face_shape[face]
        else:
            more = False
        item += 1
        if box >= 0:
            at = box_place[box]
            body = box_body[box]
            if body >= 0:
                at = body_q[body] * at
            at = wp.transform(wp.transform_get_translation(at) - centre, wp.transform_get_rotation(at))
            found = near_box(shape, reach[slot], at, box_half[box], gap)
            which = box_shape[box]
            piece = part_of(at, box_half[box], 2.0 * reach[slot] + 0.1)
            middle = piece.centre
        if found.bound:
            found = settled(found, piece, middle, shape, gap)
        if found.depth <= gap:
            if body >= 0:
                if found.depth < moved.depth:
                    moved = found
                    moved_shape = which
                    moved_body = body
            else:
                into = count
                if count == KEPT:
                    # Full: in place of the farthest, if it is nearer.
                    into = int(0)
                    for k in range(count):
                        if depth[k] > depth[into]:
                            into = k
                    if depth[into] <= found.depth:
                        into = -1
                else:
                    count += 1
                if into >= 0:
                    depth[into] = found.depth
                    point[into] = found.point
                    normal[into] = found.normal
                    other[into] = which

    base = slot * SLOTS
    first = int(-1)
    for k in range(count):
        if first < 0 or depth[k] < depth[first]:
            first = k
    if first >= 0:
        second = int(-1)
        n = normal[first]
        foot = point[first] - 0.5 * depth[first] * n
        for k in range(count):
            m = normal[k]
            across = point[k] - 0.5 * depth[k] * m - foot
            corner = wp.dot(m, n) < CORNER and wp.dot(n, across) > BEHIND and wp.dot(m, across) < -BEHIND
            if corner and (second < 0 or depth[k] < depth[second]):
                second = k
        for j in range(2):
            k = first
            if j == 1:
                k = second
            if k >= 0:
                spot = centre + point[k]
                near[world, base + j] = wp.vec4(spot[0], spot[1], spot[2], depth[k])
                normals[world, base + j] = normal[k]
                others[world, base + j] = other[k]
    if moved_shape >= 0:
        spot = centre + moved.point
        near[world, base + 2] = wp.vec4(spot[0], spot[1], spot[2], moved.depth)
        normals[world, base + 2] = moved.normal
        others[world, base + 2] = moved_shape
        moving[world, base + 2] = moved_body


@wp.func
def speed_at(
    body: int, point: wp.vec3, q: wp.array[wp.transform], qd: wp.array[wp.spatial_vector], com: wp.array[wp.vec3]
) -> wp.vec3:
    """Velocity of a body's material at a point; ``qd`` is that of the centre of mass, in the world frame."""
    centre = wp.transform_point(q[body], com[body])
    return wp.spatial_top(qd[body]) + wp.cross(wp.spatial_bottom(qd[body]), point - centre)


@wp.kernel(enable_backward=False)
def pack_terrain_rows(
    dirty: wp.array[wp.bool],
    near: wp.array2d[wp.vec4],
    normals: wp.array2d[wp.vec3],
    others: wp.array2d[int],
    moving: wp.array2d[int],
    gap: float,
    bodies: wp.array2d[int],
    shapes: wp.array2d[int],
    links: wp.array[int],
    base: wp.array[int],
    body_q: wp.array[wp.transform],
    body_qd: wp.array[wp.spatial_vector],
    body_com: wp.array[wp.vec3],
    shape_mu: wp.array[float],
    # outputs
    rows: wp.array3d[float],
    link: wp.array2d[wp.int64],
    used: wp.array2d[wp.bool],
    found: wp.array[int],
    touching: wp.array2d[float],
):
    world = wp.tid()
    if not dirty[world]:
        return
    home = wp.transform_get_translation(body_q[base[world]])
    turn = wp.quat_inverse(wp.transform_get_rotation(body_q[base[world]]))
    for i in range(touching.shape[1]):
        touching[world, i] = FAR
    count = int(0)
    for i in range(near.shape[1]):
        depth = near[world, i][3]
        if depth <= gap:
            count += 1
        part = links[i // SLOTS]
        touching[world, part] = wp.min(touching[world, part], depth)
    found[world] = count
    last = float(-FAR)
    last_pick = int(-1)
    for k in range(rows.shape[1]):
        pick = next_deepest(near, world, gap, last, last_pick)
        used[world, k] = pick >= 0
        if pick < 0:
            continue
        depth = near[world, pick][3]
        last = depth
        last_pick = pick
        slot = pick // SLOTS
        at = near[world, pick]
        point = wp.vec3(at[0], at[1], at[2])
        speed = speed_at(bodies[world, slot], point, body_q, body_qd, body_com)
        other_body = moving[world, pick]
        rows[world, k, 11] = 1.0
        if other_body >= 0:
            speed = speed - speed_at(other_body, point, body_q, body_qd, body_com)
            rows[world, k, 11] = 0.0
        local = wp.quat_rotate(turn, point - home)
        normal = wp.quat_rotate(turn, normals[world, pick])
        speed = wp.quat_rotate(turn, speed)
        for j in range(3):
            rows[world, k, j] = local[j]
            rows[world, k, 3 + j] = normal[j]
            rows[world, k, 7 + j] = speed[j]
        rows[world, k, 6] = depth
        rows[world, k, 10] = wp.max(shape_mu[shapes[world, slot]], shape_mu[others[world, pick]])
        link[world, k] = wp.int64(links[slot])
