"""Terrain of a data set: tiles of stairs, boxes and rough ground side by side on a plane, made from a seed.

All tiles are in the one engine model of a data set, and robots start anywhere on them; what is in the model decides,
not the code that made it, so that a data set stays what it is. Steps and obstacles are 2 to 20 cm high: bases, thighs
and shanks meet them, not feet alone. Platforms that move are known to the simulation's contact stage only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flashnerd_ext.errors import FlashNerdError, nearest

if TYPE_CHECKING:
    from flashnerd_ext.data.engines import Engine

KINDS = ("flat", "stairs", "boxes", "field", "mixed")
"""What the option ``terrain`` takes; ``mixed`` takes the three rough ones in turn."""
SIDE = 6.0
"""Side of a tile [m]."""
GRID = 3
"""Tiles along each side of the terrain."""
SPACING = 0.1
"""Distance between the points of a height field [m]."""
BELOW = 0.2
"""How far boxes and fields reach below the plane [m]."""
BODY = "terrain"
"""MuJoCo's name of the body that the terrain hangs on."""
ROUNDS = 24
"""How often a start is raised before it is taken as it is."""


@dataclass(frozen=True)
class Terrain:
    """Boxes and height fields in the world frame.

    Attributes:
        kind: What it was asked to be.
        seed: What it was made from.
        boxes: Position, quaternion (x, y, z, w) and half sizes [m], shape [B, 10].
        fields: Height fields: middle (x, y), half size of each side and heights [rows, columns], along x first [m].
    """

    kind: str
    seed: int
    boxes: np.ndarray
    fields: tuple[tuple[np.ndarray, float, np.ndarray], ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON; :meth:`from_dict` reads it back."""
        fields = [{"middle": m.tolist(), "half": half, "height": h.tolist()} for m, half, h in self.fields]
        return {"kind": self.kind, "seed": self.seed, "boxes": self.boxes.tolist(), "fields": fields}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Terrain:
        """See :meth:`to_dict`."""
        fields = tuple((np.array(x["middle"]), float(x["half"]), np.array(x["height"])) for x in content["fields"])
        return cls(content["kind"], int(content["seed"]), np.array(content["boxes"]).reshape(-1, 10), fields)

    @property
    def half(self) -> float:
        """Half the side of the square in which robots start [m]."""
        return GRID * SIDE / 2

    def height_at(self, place: np.ndarray) -> np.ndarray:
        """Height of the ground at places [N, 2] in the world frame, shape [N] [m]; 0 is the plane."""
        height = np.zeros(len(place))
        for box in self.boxes:
            x, y, z, w = box[3:7]
            normal = np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])
            side = np.array([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)])
            other = np.cross(normal, side)
            across = place - box[:2]
            # The top face at that place: a tilted one is higher on one side.
            top = box[2] + (box[9] - across @ normal[:2]) / normal[2]
            at = np.concatenate([across, (top - box[2])[:, None]], 1)
            over = (np.abs(at @ side) <= box[7]) & (np.abs(at @ other) <= box[8])
            height = np.where(over, np.maximum(height, top), height)
        for middle, half, field in self.fields:
            cell = (place - middle + half) / SPACING
            inside = ((cell >= 0) & (cell <= len(field) - 1)).all(1)
            column, row = np.clip(np.rint(cell).astype(int), 0, len(field) - 1).T
            height = np.where(inside, np.maximum(height, field[row, column]), height)
        return height


def make_terrain(kind: str, seed: int) -> Terrain | None:
    """The terrain of that kind and seed; ``None`` for flat ground.

    Raises:
        FlashNerdError: For an unknown kind.
    """
    if kind == "platforms":
        raise FlashNerdError(
            "terrain is 'platforms', but the data engines move nothing but the robot; the simulation's contact stage "
            "knows platforms: type terrain=mixed for data."
        )
    if kind not in KINDS:
        raise FlashNerdError(f"terrain is '{kind}', which is unknown: {nearest(kind, KINDS)}")
    if kind == "flat":
        return None
    makers = {"stairs": _stairs, "boxes": _boxes, "field": _field}
    turn = list(makers) if kind == "mixed" else [kind]
    boxes: list[np.ndarray] = []
    fields: list[tuple[np.ndarray, float, np.ndarray]] = []
    for tile in range(GRID * GRID):
        rng = np.random.default_rng([seed, tile])
        middle = (np.array([tile % GRID, tile // GRID]) - (GRID - 1) / 2) * SIDE
        more_boxes, field = makers[turn[tile % len(turn)]](rng, middle)
        boxes.extend(more_boxes)
        if field is not None:
            fields.append((middle, SIDE / 2, field))
    # Whole tenths of a millimetre, so that the file is short and says exactly what is simulated.
    return Terrain(
        kind, seed, np.round(np.array(boxes).reshape(-1, 10), 6), tuple((m, s, np.round(f, 4)) for m, s, f in fields)
    )


def _upright(middle: np.ndarray, top: float, half: np.ndarray, yaw: float = 0.0, tilt: float = 0.0) -> np.ndarray:
    """A box that stands in the ground with the middle of its top at that height, turned, then tilted about its y."""
    depth = (top + BELOW) / 2
    z, y = np.array([np.cos(yaw / 2), np.sin(yaw / 2)]), np.array([np.cos(tilt / 2), np.sin(tilt / 2)])
    quat = np.array([-z[1] * y[1], z[0] * y[1], z[1] * y[0], z[0] * y[0]])
    return np.concatenate([middle, [top - depth], quat, half, [depth]])


def _stairs(rng: np.random.Generator, middle: np.ndarray) -> tuple[list[np.ndarray], None]:
    """A pyramid of steps with a platform of 1 m or more on top."""
    rise, run = rng.uniform(0.05, 0.2), rng.uniform(0.25, 0.45)
    half, boxes = SIDE / 2 - rng.uniform(0.1, 0.5), []
    while half > 0.5 and len(boxes) < 7:
        boxes.append(_upright(middle, rise * (len(boxes) + 1), np.array([half, half])))
        half -= run
    return boxes, None


def _boxes(rng: np.random.Generator, middle: np.ndarray) -> tuple[list[np.ndarray], None]:
    """Obstacles of any height and yaw, some tilted, that may run into each other."""
    boxes = []
    for _ in range(32):
        place = middle + rng.uniform(-0.45, 0.45, 2) * SIDE
        tilt = rng.uniform(-0.25, 0.25) if rng.random() < 0.3 else 0.0
        half = rng.uniform(0.1, 0.5, 2)
        boxes.append(_upright(place, rng.uniform(0.02, 0.2), half, rng.uniform(-np.pi, np.pi), tilt))
    return boxes, None


def _field(rng: np.random.Generator, middle: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Smooth hills with noise upon them, from 0 at the border."""
    count = round(SIDE / SPACING) + 1
    coarse = rng.uniform(0, 1, (10, 10))
    at = np.linspace(0, 9, count)
    low = np.minimum(at.astype(int), 8)
    part = at - low
    rows = coarse[low] * (1 - part)[:, None] + coarse[low + 1] * part[:, None]
    hills = rows[:, low] * (1 - part) + rows[:, low + 1] * part
    height = rng.uniform(0.05, 0.25) * hills + rng.uniform(0.0, 0.06) * rng.uniform(0, 1, (count, count)) + 0.01
    height[[0, -1]], height[:, [0, -1]] = 0.0, 0.0
    return [], height


def add_to_spec(mujoco: Any, spec: Any, terrain: Terrain) -> None:
    """Add the terrain's geoms to a MuJoCo specification, on a body of their own after all others.

    Indices of everything that is there stay as they are. What the plane collides with, the terrain does too.
    """
    plane = next(geom for geom in spec.geoms if geom.type == mujoco.mjtGeom.mjGEOM_PLANE)
    body = spec.worldbody.add_body(name=BODY)
    shared = {
        "contype": plane.contype, "conaffinity": plane.conaffinity, "condim": plane.condim,
        "friction": plane.friction, "priority": plane.priority, "solmix": plane.solmix,
    }  # fmt: skip
    for box in terrain.boxes:
        body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, pos=box[:3], quat=box[[6, 3, 4, 5]], size=box[7:], **shared)
    for index, (middle, half, height) in enumerate(terrain.fields):
        top = float(height.max())
        spec.add_hfield(
            name=f"{BODY}{index}", nrow=len(height), ncol=height.shape[1], size=[half, half, top, BELOW],
            userdata=(height / top).ravel().tolist(),
        )  # fmt: skip
        body.add_geom(type=mujoco.mjtGeom.mjGEOM_HFIELD, hfieldname=f"{BODY}{index}", pos=[*middle, 0.0], **shared)


def soften(model: Any) -> None:
    """Give a compiled model's terrain the contact softness of its plane, which is set after compiling."""
    body = model.body(BODY).id
    mine = model.geom_bodyid == body
    plane = int((model.geom_bodyid == 0).argmax())
    for name in ("geom_friction", "geom_solref", "geom_solimp", "geom_margin", "geom_gap"):
        array = getattr(model, name)
        array[mine] = array[plane]
    model.body_margin[body] = model.body_margin[0]


def terrain_starts(engine: Engine, draws: list, generators: list[np.random.Generator]) -> list:
    """Put robots down anywhere on the terrain, and raise them until they are a few millimetres out of it.

    Args:
        draws: Number of the sampler, and its start (about the world's origin, height above a plane) and policy.
    """
    from flashnerd_ext.data.engines.rows import RowDetector

    terrain = Terrain.from_dict(engine.model.terrain)  # type: ignore[attr-defined]
    detector = RowDetector(engine, fixed=())  # type: ignore[arg-type]
    placed = []
    for n, (q, qd, policy) in draws:
        start = q.copy()
        start[:, :2] += generators[n].uniform(-terrain.half, terrain.half, (len(q), 2))
        start[:, 2] += terrain.height_at(start[:, :2])
        deep = np.arange(len(start))
        spare = generators[n].uniform(0.0, 0.01, len(start))
        for _ in range(ROUNDS):
            found = detector.rows(start[deep], qd[deep])
            depth = np.where(found.link[:, 0] >= 0, found.features[:, 0, 6].astype(np.float64), 0.0)
            deep, depth = deep[depth < 0], depth[depth < 0]
            if not len(deep):
                break
            # A way out to the side is shorter than the way up, so it may take more than one of these.
            start[deep, 2] += spare[deep] - 1.5 * depth + 1.0e-4
        placed.append((n, (start, qd, policy)))
    return placed
