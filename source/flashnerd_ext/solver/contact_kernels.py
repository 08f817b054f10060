# type: ignore  (Warp compiles what stands here; to a type checker its arrays and vectors are other things)
"""Warp kernels of the contact stage: every robot shape against every ground plane, then the deepest K of a robot."""

# ruff: noqa: RUF046, UP018  (Warp needs int(0) to see a variable where a literal would be a constant)

import warp as wp

FAR = wp.constant(1.0e6)
"""Distance of a shape that is not near anything [m]."""
SPHERE, CAPSULE, BOX, CYLINDER, MESH = (wp.constant(i) for i in range(5))
"""Kinds of shapes, as the kernels know them."""


@wp.func
def nearest_to_plane(
    kind: int, size: wp.vec3, mesh: wp.uint64, place: wp.transform, normal: wp.vec3, offset: float
) -> wp.vec4:
    """Deepest point of a shape with respect to a plane, half-way to it, and its signed distance."""
    centre = wp.transform_get_translation(place)
    turn = wp.transform_get_rotation(place)
    point = centre
    if kind == SPHERE:
        point = centre - normal * size[0]
    elif kind == CAPSULE:
        arm = wp.quat_rotate(turn, wp.vec3(0.0, 0.0, size[1]))
        point = centre + arm
        if wp.dot(normal, arm) > 0.0:
            point = centre - arm
        point = point - normal * size[0]
    elif kind == BOX:
        for i in range(3):
            edge = wp.vec3(0.0, 0.0, 0.0)
            edge[i] = size[i]
            arm = wp.quat_rotate(turn, edge)
            if wp.dot(normal, arm) > 0.0:
                arm = -arm
            point = point + arm
    elif kind == CYLINDER:
        axis = wp.quat_rotate(turn, wp.vec3(0.0, 0.0, 1.0))
        along = wp.dot(normal, axis)
        if along > 0.0:
            axis = -axis
            along = -along
        rim = axis * along - normal
        length = wp.length(rim)
        if length < 1.0e-6:  # noqa: SIM108  (Warp has no conditional expression of vectors)
            # Flat on the plane: any point of the rim is as deep.
            rim = wp.quat_rotate(turn, wp.vec3(1.0, 0.0, 0.0)) * size[0]
        else:
            rim = rim * (size[0] / length)
        point = centre + rim + axis * size[1]
    elif kind == MESH:
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
    dirty: wp.array[wp.bool],
    gap: float,
    shapes: wp.array2d[int],
    kinds: wp.array[int],
    reach: wp.array[float],
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
    if not dirty[world]:
        return
    shape = shapes[world, slot]
    place = body_q[shape_body[shape]] * shape_transform[shape]
    best = wp.vec4(0.0, 0.0, 0.0, FAR)
    which = int(0)
    centre = wp.transform_get_translation(place)
    for i in range(plane_normal.shape[0]):
        # Most shapes are far above the ground; the ball around them says so at once.
        if wp.dot(plane_normal[i], centre) - plane_offset[i] <= reach[slot] + gap:
            found = nearest_to_plane(
                kinds[slot], shape_scale[shape], shape_mesh[shape], place, plane_normal[i], plane_offset[i]
            )
            if found[3] < best[3]:
                best = found
                which = i
    near[world, slot] = best
    plane[world, slot] = which


@wp.func
def next_deepest(near: wp.array2d[wp.vec4], world: int, gap: float, last: float, last_slot: int) -> int:
    """Slot of the contact after the one in ``last_slot`` at depth ``last``; of equals, the first. -1 for none."""
    pick = int(-1)
    depth = float(FAR)
    for slot in range(near.shape[1]):
        other = near[world, slot][3]
        later = other > last or (other == last and slot > last_slot)
        if other <= gap and later and other < depth:
            pick = slot
            depth = other
    return pick


@wp.kernel(enable_backward=False)
def pack_rows(
    dirty: wp.array[wp.bool],
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
    if not dirty[world]:
        return
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
        pick = next_deepest(near, world, gap, last, last_slot)
        if pick < 0:
            used[world, k] = False
            continue
        depth = near[world, pick][3]
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
