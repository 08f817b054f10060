"""Contact rows on terrain: the same in simulation and data, however the ground is described, and what platforms do."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from exported import exported

from flashnerd_ext.data.engines.export import robot_usd
from flashnerd_ext.data.engines.mujoco_c import MujocoC
from flashnerd_ext.data.engines.rows import RowDetector
from flashnerd_ext.data.terrain import Terrain, make_terrain
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.description import RobotDescription
from flashnerd_ext.robots.registry import get_robot

pytestmark = pytest.mark.kitless
WORLDS = 48


def scene(robot: RobotDescription, add: Callable[[Any], None], worlds: int = WORLDS, each: Any = None) -> Any:
    """The robot in so many worlds on a plane, with what ``add`` puts beside it for all and ``each`` in every world."""
    import newton
    import warp as wp
    from newton.solvers import SolverMuJoCo

    wp.config.quiet = True
    one = newton.ModelBuilder(up_axis=newton.Axis.Z)
    SolverMuJoCo.register_custom_attributes(one)
    one.add_usd(robot_usd(robot))
    if each is not None:
        each(one)
    builder = newton.ModelBuilder(up_axis=newton.Axis.Z)
    SolverMuJoCo.register_custom_attributes(builder)
    for _ in range(worlds):
        builder.add_world(one)
    builder.add_ground_plane()
    add(builder)
    return builder.finalize(device="cpu")


def as_boxes(terrain: Terrain) -> Callable[[Any], None]:
    def add(builder: Any) -> None:
        import newton
        import warp as wp

        for box in terrain.boxes:
            x, y, z = box[7:]
            builder.add_shape_box(-1, xform=wp.transform(*box[:7]), hx=x, hy=y, hz=z)
        for middle, half, height in terrain.fields:
            field = newton.Heightfield(
                data=height, nrow=len(height), ncol=len(height), hx=half, hy=half, min_z=0.0, max_z=float(height.max())
            )
            place = wp.transform(wp.vec3(*middle, 0.0), wp.quat(0.0, 0.0, 0.0, 1.0))
            builder.add_shape_heightfield(heightfield=field, xform=place)

    return add


def as_mesh(terrain: Terrain) -> Callable[[Any], None]:
    """All boxes in one triangle mesh with faces inside of others, as Isaac Lab's terrain generator makes it."""

    def add(builder: Any) -> None:
        import newton
        import trimesh
        from scipy.spatial.transform import Rotation

        parts = []
        for box in terrain.boxes:
            place = np.eye(4)
            place[:3, :3], place[:3, 3] = Rotation.from_quat(box[3:7]).as_matrix(), box[:3]
            parts.append(trimesh.creation.box(extents=2 * box[7:], transform=place))
        whole = trimesh.util.concatenate(parts)
        mesh = newton.Mesh(np.asarray(whole.vertices), np.asarray(whole.faces).ravel(), compute_inertia=False)
        builder.add_shape_mesh(-1, mesh=mesh)

    return add


def stage_of(robot: RobotDescription, model: Any, capacity: int, gap: float = 0.03) -> Any:
    from flashnerd_ext.solver.terrain_contacts import contact_stage

    contacts = SimpleNamespace(capacity=capacity, gap=gap, links=robot.links, detector="mujoco", fixed=())
    return contact_stage(SimpleNamespace(name="test", contacts=contacts), model, "cpu")  # type: ignore[arg-type]


def states(robot: RobotDescription, terrain: Terrain, seed: int, low: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
    """Standing, tilted, lying and fallen robots low over the terrain, with velocities."""
    rng = np.random.default_rng(seed)
    q, qd = np.zeros((WORLDS, robot.layout.nq)), rng.normal(size=(WORLDS, robot.layout.nv))
    q[:, :2] = rng.uniform(-terrain.half, terrain.half, (WORLDS, 2))
    q[:, 2] = terrain.height_at(q[:, :2]) + rng.uniform(low, 1.0, WORLDS) * robot.stand_height
    quat = rng.normal(size=(WORLDS, 4)) * np.array([0.4, 0.4, 1.0, 1.0])
    quat[: WORLDS // 3] = rng.normal(size=(WORLDS // 3, 4))
    q[:, 3:7] = quat / np.linalg.norm(quat, axis=1, keepdims=True)
    q[:, 7:] = np.array(robot.default_q) + 0.3 * rng.normal(size=(WORLDS, robot.layout.num_joints))
    return q, qd


def posed(model: Any, q: np.ndarray, qd: np.ndarray) -> Any:
    import newton

    state = model.state()
    state.joint_q.assign(q.astype(np.float32).ravel())
    state.joint_qd.assign(qd.astype(np.float32).ravel())
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    return state


def detector_on(name: str, terrain: Terrain, capacity: int) -> RowDetector:
    detector = RowDetector(MujocoC(dataclasses.replace(exported(name), terrain=terrain.to_dict())))
    detector.capacity, detector.gap = capacity, 0.03
    return detector


@pytest.mark.parametrize(
    ("name", "kind", "capacity"),
    [("anymal_c", "stairs", 24), ("anymal_c", "boxes", 24), ("anymal_c", "field", 4), ("go2", "mixed", 24)],
)
def test_rows_equal_those_of_the_training_data(name: str, kind: str, capacity: int) -> None:
    robot, terrain = get_robot(name), make_terrain(kind, 3)
    assert terrain is not None
    model = scene(robot, as_boxes(terrain))
    q, qd = states(robot, terrain, 5)
    state, stage = posed(model, q, qd), stage_of(robot, model, capacity)
    rows = stage.rows(state)
    reference = detector_on(name, terrain, capacity).rows(q, qd)
    same = stage.found.numpy() == reference.count
    # One that lies at the gap, or a corner at its limit, may fall either way in float32.
    assert same.mean() > 0.95
    used = reference.link >= 0
    np.testing.assert_array_equal(rows.used.numpy()[same], used[same])
    used &= same[:, None]
    assert used.sum() > 100
    equal = (np.abs(rows.features.numpy() - reference.features) < 3e-5 * (1 + np.abs(reference.features))).all(-1)
    equal &= rows.link.numpy() == reference.link
    # Where two features are almost as near, or a shape lies deep in an edge, float32 poses decide.
    assert equal[used].mean() > 0.95
    depth = np.abs(rows.features.numpy() - reference.features)[..., 6][used]
    assert np.quantile(depth, 0.97) < 3e-5 and depth.max() < 3e-3
    # The robots touch with more than their feet.
    touched = {robot.links[i].split("_")[-1].lower() for i in reference.link[used & (reference.features[..., 6] < 0)]}
    assert {"base", "foot", "thigh"} <= touched and ({"shank", "calf"} & touched), touched
    assert (reference.features[used][:, 11] == 1.0).all()
    np.testing.assert_allclose(np.linalg.norm(reference.features[used][:, 3:6], axis=1), 1.0, atol=1e-5)
    # What did not fit is counted, and the same again gives the same.
    np.testing.assert_array_equal(stage.overflow.numpy(), stage.found.numpy() > capacity)
    assert capacity > 4 or stage.overflow.sum() > 0
    before = [x.clone() for x in (rows.features, rows.link, rows.used)]
    again = stage.rows(state, count=False)
    assert all(torch.equal(a, b) for a, b in zip(before, (again.features, again.link, again.used), strict=True))


def test_distances_are_those_of_mujoco() -> None:
    """MuJoCo C's ``mj_geomDistance`` of every robot shape to every box, where it is right: not with capsules."""
    import mujoco

    robot, terrain = get_robot("anymal_c"), make_terrain("boxes", 3)
    assert terrain is not None
    terrain = dataclasses.replace(terrain, boxes=terrain.boxes[::3])
    q, qd = states(robot, terrain, 8, low=0.6)
    near = np.argsort([np.linalg.norm(terrain.boxes[:, None, :2] - q[None, :, :2], axis=2).min(0)])[0, :24]
    found = detector_on("anymal_c", terrain, 60).rows(q[near], qd[near])
    model: Any = dataclasses.replace(exported("anymal_c"), terrain=terrain.to_dict()).compile()
    data = mujoco.MjData(model)
    bodies = [model.body(body).id for body in exported("anymal_c").links.values()]
    robots = [g for g in range(model.ngeom) if model.geom_bodyid[g] in bodies]
    ground = [g for g in range(model.ngeom) if model.geom_bodyid[g] not in bodies]
    errors = []
    for i, world in enumerate(near):
        data.qpos[:7], data.qpos[7:] = q[world, [0, 1, 2, 6, 3, 4, 5]], q[world, 7:]
        qpos = np.asarray(exported("anymal_c").qpos_index)
        data.qpos[qpos] = q[world, 7:]
        mujoco.mj_kinematics(model, data)
        link_depths: dict[int, list[float]] = {}
        for geom in robots:
            depth = min(mujoco.mj_geomDistance(model, data, geom, other, 0.1, None) for other in ground)
            if depth < 0.03:
                link_depths.setdefault(bodies.index(model.geom_bodyid[geom]), []).append(depth)
        for link, depths in link_depths.items():
            mine = found.features[i, found.link[i] == link, 6]
            if min(depths) > -0.02:
                errors.append(abs(mine.min() - min(depths)) if len(mine) else 1.0)
    assert len(errors) > 20
    assert np.quantile(errors, 0.95) < 1e-4 and max(errors) < 3e-3


def test_a_mesh_of_boxes_makes_the_rows_of_the_boxes() -> None:
    """What Isaac Lab's generator makes is one mesh; the data have boxes."""
    robot, terrain = get_robot("anymal_c"), make_terrain("stairs", 3)
    assert terrain is not None
    q, qd = states(robot, terrain, 6, low=0.6)
    depths = []
    for add in (as_boxes(terrain), as_mesh(terrain)):
        model = scene(robot, add)
        stage = stage_of(robot, model, 60)
        rows = stage.rows(posed(model, q, qd))
        depths.append((stage.touching.numpy().copy(), stage.found.numpy().copy(), rows.features.clone().numpy()))
    (a, count_a, _), (b, count_b, _) = depths
    shallow = (a < 0.03) & (a > -0.02)
    assert shallow.sum() > 40
    error = np.abs(a - b)[shallow]
    assert np.quantile(error, 0.9) < 1e-4 and np.quantile(error, 0.97) < 5e-3
    assert np.abs(count_a - count_b).mean() < 0.1 * count_a.mean()


def test_a_foot_in_the_corner_of_a_step_feels_both_walls() -> None:
    """And one on the edge of a step feels one thing."""
    import warp as wp

    from flashnerd_ext.solver.terrain_detector import RobotShapes, TerrainDetector
    from flashnerd_ext.solver.terrain_detector import Terrain as Pieces

    step = np.array([[0.5, 0.0, 0.05, 0.0, 0.0, 0.0, 1.0, 0.5, 1.0, 0.05]])
    foot = RobotShapes(
        ["sphere"], np.array([[0.03, 0.0, 0.0]]), np.array([[0, 0, 0, 0, 0, 0, 1.0]]), np.zeros(1, int), [None]
    )
    still = np.array([-1])
    pieces = Pieces(
        plane=np.array([[0.0, 0.0, 1.0, 0.0]]), plane_id=np.zeros(1, int), box=step, box_id=np.zeros(1, int),
        box_body=still, box_world=still,
    )  # fmt: skip
    ids = np.arange(3)[:, None]
    detector = TerrainDetector(foot, ids, 0 * ids, ids[:, 0], pieces, 1, 4, 0.03)
    place = np.array([[-0.032, 0.0, 0.029], [0.0, 0.3, 0.129], [-0.02, 0.0, 0.11]], np.float32)
    q = np.concatenate([place, np.tile(np.float32([0, 0, 0, 1]), (3, 1))], 1)
    rest = wp.array(np.zeros((3, 6), np.float32), dtype=wp.spatial_vector)
    rows = detector.detect(
        wp.array(np.ones(3, bool), dtype=wp.bool), wp.array(q, dtype=wp.transform),
        rest, wp.zeros(3, dtype=wp.vec3), wp.ones(1, dtype=float),
    )  # fmt: skip
    assert detector.found.tolist() == [2, 1, 1]
    np.testing.assert_allclose(rows.features[0, :2, 3:7], [[0, 0, 1, -0.001], [-1, 0, 0, 0.002]], atol=1e-6)
    np.testing.assert_allclose(rows.features[1, 0, 3:7], [0, 0, 1, -0.001], atol=1e-6)
    across = np.array([-0.02, 0.0, 0.01])
    away = np.linalg.norm(across)
    np.testing.assert_allclose(rows.features[2, 0, 3:7], [*(across / away), away - 0.03], atol=1e-6)


def test_a_moving_platform_is_not_static_and_its_velocity_counts() -> None:
    import warp as wp

    robot = get_robot("anymal_c")

    def platform(builder: Any) -> None:
        body = builder.add_body(
            xform=wp.transform(wp.vec3(0.0, 0.0, 0.1), wp.quat(0.0, 0.0, 0.0, 1.0)), label="platform"
        )
        builder.add_shape_box(body, hx=2.0, hy=2.0, hz=0.05)

    model = scene(robot, lambda builder: None, worlds=2, each=platform)
    stage = stage_of(robot, model, 24)
    state = model.state()
    names = [label.rsplit("/", 1)[-1] for label in model.body_label]
    base, moved = (np.array([i for i, x in enumerate(names) if x == name]) for name in ("base", "platform"))
    q = np.tile(np.concatenate([np.zeros(7), robot.default_q, np.zeros(7)]), (2, 1))
    q[:, 2], q[:, 6], q[:, -1] = robot.stand_height + 0.15, 1.0, 1.0
    q[:, -7:-4] = [0.0, 0.0, 0.1]
    qd = np.zeros((2, 6 + 12 + 6))
    qd[:, 0] = 0.5
    qd[1, -6:] = [0.2, -0.1, 0.3, 0.0, 0.0, 2.0]
    state = posed(model, q, qd)
    assert len(base) == len(moved) == 2
    rows = stage.rows(state)
    feet = [robot.links.index(foot) for foot in robot.contacts.feet]  # type: ignore[union-attr]
    for world in range(2):
        mine = (
            rows.used[world].numpy()
            & np.isin(rows.link[world].numpy(), feet)
            & (rows.features[world, :, 11] == 0).numpy()
        )
        found = rows.features[world].numpy()[mine]
        assert len(found) >= 4
        np.testing.assert_allclose(found[:, 3:6], np.tile([0, 0, 1], (len(found), 1)), atol=1e-4)
        # Points are in the root frame, which has no turn here; the platform turns about its middle, below the root.
        own, spin = (np.array([0.2, -0.1, 0.3]), 2.0) if world else (np.zeros(3), 0.0)
        carried = own + spin * np.stack([-found[:, 1], found[:, 0], 0 * found[:, 0]], 1)
        np.testing.assert_allclose(found[:, 7:10], np.array([0.5, 0.0, 0.0]) - carried, atol=1e-4)


def test_planes_alone_keep_the_plain_stage_and_strange_terrain_is_named() -> None:
    from flashnerd_ext.solver.contacts import ContactStage

    robot = get_robot("anymal_c")
    assert type(stage_of(robot, scene(robot, lambda builder: None, worlds=1), 8)) is ContactStage
    ball = scene(robot, lambda builder: builder.add_shape_sphere(-1, radius=0.3), worlds=1)
    with pytest.raises(FlashNerdError, match="planes, boxes, height fields or triangle meshes"):
        stage_of(robot, ball, 8)


def test_an_unknown_terrain_is_refused() -> None:
    with pytest.raises(FlashNerdError, match=r"terrain is 'stair'.*stairs"):
        make_terrain("stair", 0)
    with pytest.raises(FlashNerdError, match="terrain=mixed"):
        make_terrain("platforms", 0)
    assert make_terrain("flat", 0) is None
