# type: ignore  (Warp compiles what stands here; to a type checker its arrays and vectors are other things)
"""Distance of a robot shape to a convex piece of terrain, in Warp: GJK, small enough to compile in seconds.

Overlap needs no expanding polytope: the shape is shrunk until the two are apart, the direction between them is taken
from there, and the depth along it is that of the whole shape. Where the same corner, edge or face stays the nearest,
that is the exact penetration depth. Coordinates are relative to the shape's centre, so that float32 suffices anywhere.
"""

# ruff: noqa: RUF046, UP018  (Warp needs int(0) to see a variable where a literal would be a constant)

import warp as wp

SPHERE, CAPSULE, BOX, CYLINDER, HULL, SLAB = (wp.constant(i) for i in range(6))
"""Kinds: the robot's shapes, the last being the convex hull of a mesh; terrain is made of BOX and SLAB."""
FAR = wp.constant(1.0e6)
"""Distance of what is not near anything [m]."""
ITERATIONS = wp.constant(40)

mat63 = wp.types.matrix(shape=(6, 3), dtype=float)
mat43 = wp.types.matrix(shape=(4, 3), dtype=float)


@wp.struct
class Shape:
    """A robot shape about the origin. ``size`` as MuJoCo has it; a hull's corners are a part of one list."""

    kind: int
    turn: wp.mat33
    size: wp.vec3
    start: int
    count: int
    inner: float
    """Radius of a ball about the origin inside of a hull [m]."""
    corners: wp.array[wp.vec3]


@wp.struct
class Piece:
    """A box (centre, axes, half sizes) or a slab, the material behind a triangle (its corners)."""

    kind: int
    centre: wp.vec3
    turn: wp.mat33
    half: wp.vec3
    slab: mat63


@wp.struct
class Nearest:
    """Direction from the piece to the shape and the piece's nearest point; ``found`` is false where they overlap."""

    found: bool
    normal: wp.vec3
    point: wp.vec3
    distance: float


@wp.func
def tip_of(shape: Shape, way: wp.vec3, shrink: float) -> wp.vec3:
    """The shape's point that lies farthest in a direction (a unit vector), after shrinking it by so many metres."""
    local = wp.transpose(shape.turn) @ way
    size = shape.size
    tip = wp.vec3(0.0, 0.0, 0.0)
    if shape.kind == SPHERE:
        tip = local * (size[0] - shrink)
    elif shape.kind == CAPSULE:
        tip = local * (size[0] - shrink)
        tip[2] += wp.where(local[2] < 0.0, -size[1], size[1])
    elif shape.kind == BOX:
        tip[0] = wp.where(local[0] < 0.0, shrink - size[0], size[0] - shrink)
        tip[1] = wp.where(local[1] < 0.0, shrink - size[1], size[1] - shrink)
        tip[2] = wp.where(local[2] < 0.0, shrink - size[2], size[2] - shrink)
    elif shape.kind == CYLINDER:
        across = wp.sqrt(local[0] * local[0] + local[1] * local[1])
        if across > 1.0e-6:
            tip[0] = local[0] * (size[0] - shrink) / across
            tip[1] = local[1] * (size[0] - shrink) / across
        tip[2] = wp.where(local[2] < 0.0, shrink - size[1], size[1] - shrink)
    else:
        best = float(-FAR)
        for i in range(shape.count):
            corner = shape.corners[shape.start + i]
            far = wp.dot(corner, local)
            if far > best:
                best = far
                tip = corner
        tip = tip * (1.0 - shrink / shape.inner)
    return shape.turn @ tip


@wp.func
def shrinkable(shape: Shape) -> float:
    """By how much a shape may be shrunk [m]."""
    if shape.kind == SPHERE or shape.kind == CAPSULE:
        return shape.size[0]
    if shape.kind == BOX:
        return 0.95 * wp.min(shape.size[0], wp.min(shape.size[1], shape.size[2]))
    if shape.kind == CYLINDER:
        return 0.95 * wp.min(shape.size[0], shape.size[1])
    return 0.95 * shape.inner


@wp.func
def edge_of(piece: Piece, way: wp.vec3) -> wp.vec3:
    """The piece's point that lies farthest in a direction."""
    if piece.kind == BOX:
        local = wp.transpose(piece.turn) @ way
        tip = wp.vec3(
            wp.where(local[0] < 0.0, -piece.half[0], piece.half[0]),
            wp.where(local[1] < 0.0, -piece.half[1], piece.half[1]),
            wp.where(local[2] < 0.0, -piece.half[2], piece.half[2]),
        )
        return piece.centre + piece.turn @ tip
    best = float(-FAR)
    tip = wp.vec3(0.0, 0.0, 0.0)
    six = int(6)
    for i in range(six):
        far = wp.dot(piece.slab[i], way)
        if far > best:
            best = far
            tip = piece.slab[i]
    return tip


@wp.func
def on_triangle(a: wp.vec3, b: wp.vec3, c: wp.vec3) -> wp.vec3:
    """Barycentric coordinates of a triangle's point nearest to the origin."""
    ab = b - a
    ac = c - a
    d1 = -wp.dot(ab, a)
    d2 = -wp.dot(ac, a)
    if d1 <= 0.0 and d2 <= 0.0:
        return wp.vec3(1.0, 0.0, 0.0)
    d3 = -wp.dot(ab, b)
    d4 = -wp.dot(ac, b)
    if d3 >= 0.0 and d4 <= d3:
        return wp.vec3(0.0, 1.0, 0.0)
    vc = d1 * d4 - d3 * d2
    if vc <= 0.0 and d1 >= 0.0 and d3 <= 0.0:
        t = d1 / wp.max(d1 - d3, 1.0e-20)
        return wp.vec3(1.0 - t, t, 0.0)
    d5 = -wp.dot(ab, c)
    d6 = -wp.dot(ac, c)
    if d6 >= 0.0 and d5 <= d6:
        return wp.vec3(0.0, 0.0, 1.0)
    vb = d5 * d2 - d1 * d6
    if vb <= 0.0 and d2 >= 0.0 and d6 <= 0.0:
        t = d2 / wp.max(d2 - d6, 1.0e-20)
        return wp.vec3(1.0 - t, 0.0, t)
    va = d3 * d6 - d5 * d4
    if va <= 0.0 and d4 - d3 >= 0.0 and d5 - d6 >= 0.0:
        t = (d4 - d3) / wp.max((d4 - d3) + (d5 - d6), 1.0e-20)
        return wp.vec3(0.0, 1.0 - t, t)
    whole = wp.max(va + vb + vc, 1.0e-30)
    return wp.vec3(va / whole, vb / whole, vc / whole)


@wp.func
def nearest(shape: Shape, piece: Piece, middle: wp.vec3, shrink: float, limit: float) -> Nearest:
    """GJK between the shape, shrunk, and the piece.

    Args:
        middle: Any point inside the piece.
        limit: A distance beyond which the answer does not matter; ``distance`` is FAR then.
    """
    answer = Nearest()
    answer.found = False
    answer.distance = 0.5 * FAR
    w = mat43()
    on = mat43()
    size = int(0)
    again = int(0)
    apart = bool(False)
    v = -middle
    if wp.length_sq(v) < 1.0e-12:
        v = wp.vec3(0.0, 0.0, 1.0)
    have = float(FAR)
    going = bool(True)
    step = int(0)
    while going and step < ITERATIONS:
        step += 1
        length = wp.length(v)
        way = v / length
        edge = edge_of(piece, way)
        new = tip_of(shape, -way, shrink) - edge
        toward = wp.dot(way, new)
        if toward > limit:
            # Nothing of the difference lies nearer to the origin than this plane.
            answer.distance = FAR
            return answer
        if toward > 2.0e-6:
            apart = True
        if size > 0 and length - toward <= 1.0e-7 + 2.0e-6 * length:
            going = False
        else:
            w[size] = new
            on[size] = edge
            size += 1
            # Nearest point of the simplex to the origin, and which of its corners hold it.
            keep = wp.vec4(1.0, 0.0, 0.0, 0.0)
            if size == 2:
                along = w[1] - w[0]
                t = wp.clamp(-wp.dot(w[0], along) / wp.max(wp.length_sq(along), 1.0e-20), 0.0, 1.0)
                keep = wp.vec4(1.0 - t, t, 0.0, 0.0)
            elif size == 3:
                part = on_triangle(w[0], w[1], w[2])
                keep = wp.vec4(part[0], part[1], part[2], 0.0)
            elif size == 4:
                least = float(FAR)
                four = int(4)
                for skip in range(four):
                    i = (skip + 1) % 4
                    j = (skip + 2) % 4
                    k = (skip + 3) % 4
                    normal = wp.cross(w[j] - w[i], w[k] - w[i])
                    mine = -wp.dot(normal, w[i])
                    theirs = wp.dot(normal, w[skip] - w[i])
                    # A plane between the two was seen, or the tetrahedron is flat: it cannot hold the origin, and each
                    # of its sides is looked at.
                    if apart or mine * theirs <= 0.0 or theirs * theirs <= 1.0e-10 * wp.length_sq(normal):
                        part = on_triangle(w[i], w[j], w[k])
                        near = part[0] * w[i] + part[1] * w[j] + part[2] * w[k]
                        if wp.length_sq(near) < least:
                            least = wp.length_sq(near)
                            keep = wp.vec4(0.0, 0.0, 0.0, 0.0)
                            keep[i] = part[0]
                            keep[j] = part[1]
                            keep[k] = part[2]
                if least == FAR:
                    return answer  # the origin is inside
            count = int(0)
            v = wp.vec3(0.0, 0.0, 0.0)
            spot = wp.vec3(0.0, 0.0, 0.0)
            corners = size
            for i in range(corners):
                if keep[i] > 0.0:
                    v += keep[i] * w[i]
                    spot += keep[i] * on[i]
                    w[count] = w[i]
                    on[count] = on[i]
                    count += 1
            size = count
            now = wp.length(v)
            if now < 1.0e-6:
                return answer
            if now >= have:
                # No progress: float32 ends here, or the simplex has become too thin to say where the origin is.
                v = way * length
                if length - toward <= 1.0e-6 + 1.0e-3 * length or again > 0:
                    going = False
                else:
                    again += 1
                    size = 0
                    have = FAR
            else:
                have = now
                if now < answer.distance:
                    answer.distance = now
                    answer.normal = v / now
                    answer.point = spot
    answer.found = answer.distance < 0.5 * FAR
    return answer
