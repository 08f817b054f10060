# type: ignore  (Warp compiles what stands here; to a type checker its arrays and vectors are other things)
"""Warp kernel of fixed contact rows: each listed link's nearest point to the ground planes."""

# ruff: noqa: RUF046, UP018  (Warp needs int(0) to see a variable where a literal would be a constant)

import warp as wp

from flashnerd_ext.solver.contact_kernels import FAR, nearest_to_plane


@wp.kernel(enable_backward=False)
def fixed_rows(
    dirty: wp.array[wp.bool],
    fixed: wp.array[int],
    shapes: wp.array2d[int],
    kinds: wp.array[int],
    reach: wp.array[float],
    links: wp.array[int],
    base: wp.array[int],
    body_q: wp.array[wp.transform],
    body_qd: wp.array[wp.spatial_vector],
    body_com: wp.array[wp.vec3],
    shape_body: wp.array[int],
    shape_transform: wp.array[wp.transform],
    shape_scale: wp.array[wp.vec3],
    shape_mesh: wp.array[wp.uint64],
    shape_mu: wp.array[float],
    plane_normal: wp.array[wp.vec3],
    plane_offset: wp.array[float],
    plane_shape: wp.array[int],
    # outputs
    rows: wp.array3d[float],
    link: wp.array2d[wp.int64],
    used: wp.array2d[wp.bool],
):
    world, k = wp.tid()
    if not dirty[world]:
        return
    best = wp.vec4(0.0, 0.0, 0.0, FAR)
    pick = int(-1)
    which = int(0)
    for slot in range(shapes.shape[1]):
        if links[slot] == fixed[k]:
            shape = shapes[world, slot]
            place = body_q[shape_body[shape]] * shape_transform[shape]
            centre = wp.transform_get_translation(place)
            for i in range(plane_normal.shape[0]):
                # A ball around the shape says whether it can be nearer than the one found: meshes are long to look at.
                if wp.dot(plane_normal[i], centre) - plane_offset[i] - reach[slot] < best[3]:
                    found = nearest_to_plane(
                        kinds[slot], shape_scale[shape], shape_mesh[shape], place, plane_normal[i], plane_offset[i]
                    )
                    if found[3] < best[3]:
                        best = found
                        pick = shape
                        which = i
    # A world that is not a number has no nearest point.
    used[world, k] = pick >= 0
    if pick < 0:
        return
    root = body_q[base[world]]
    turn = wp.quat_inverse(wp.transform_get_rotation(root))
    body = shape_body[pick]
    point = wp.vec3(best[0], best[1], best[2])
    spin = body_qd[body]
    centre = wp.transform_point(body_q[body], body_com[body])
    speed = wp.spatial_top(spin) + wp.cross(wp.spatial_bottom(spin), point - centre)
    local = wp.quat_rotate(turn, point - wp.transform_get_translation(root))
    normal = wp.quat_rotate(turn, plane_normal[which])
    speed = wp.quat_rotate(turn, speed)
    for j in range(3):
        rows[world, k, j] = local[j]
        rows[world, k, 3 + j] = normal[j]
        rows[world, k, 7 + j] = speed[j]
    rows[world, k, 6] = best[3]
    rows[world, k, 10] = wp.max(shape_mu[pick], shape_mu[plane_shape[which]])
    rows[world, k, 11] = 1.0
    link[world, k] = wp.int64(fixed[k])
