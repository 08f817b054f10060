"""Contact rows on the device equal those of the training data, row for row, on the same states."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from exported import exported

from flashnerd_ext.data.engines.export import robot_usd
from flashnerd_ext.data.engines.mujoco_c import MujocoC
from flashnerd_ext.data.engines.rows import RowDetector
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.contacts import ContactEncoder
from flashnerd_ext.robots.description import fixed_links
from flashnerd_ext.robots.registry import get_robot

WORLDS = 24


def scene(robot, ground: bool = True, mesh: bool = False):
    """The robot in WORLDS worlds above a ground plane, as Isaac Lab's Newton backend builds it."""
    import newton
    import warp as wp
    from newton.solvers import SolverMuJoCo

    wp.config.quiet = True
    one = newton.ModelBuilder(up_axis=newton.Axis.Z)
    SolverMuJoCo.register_custom_attributes(one)
    one.add_usd(robot_usd(robot))
    builder = newton.ModelBuilder(up_axis=newton.Axis.Z)
    SolverMuJoCo.register_custom_attributes(builder)
    for _ in range(WORLDS):
        builder.add_world(one)
    if ground:
        builder.add_ground_plane()
    if mesh:
        builder.add_shape_box(-1, hx=0.1, hy=0.1, hz=0.1)
    return builder.finalize(device="cpu")


def card(robot, capacity: int, gap: float, fixed: tuple[str, ...] = ()):
    contacts = SimpleNamespace(capacity=capacity, gap=gap, links=robot.links, detector="mujoco", fixed=fixed)
    return SimpleNamespace(name="test", contacts=contacts)


def states(robot, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Standing, tilted and lying robots near the ground, with velocities."""
    q, qd = np.zeros((WORLDS, robot.layout.nq)), rng.normal(size=(WORLDS, robot.layout.nv))
    q[:, :2] = rng.uniform(-5, 5, (WORLDS, 2))
    q[:, 2] = rng.uniform(0.1, 1.02 * robot.stand_height, WORLDS)
    quat = rng.normal(size=(WORLDS, 4)) * np.array([0.4, 0.4, 1.0, 1.0])
    quat[: WORLDS // 3] = rng.normal(size=(WORLDS // 3, 4))
    q[:, 3:7] = quat / np.linalg.norm(quat, axis=1, keepdims=True)
    q[:, 7:] = np.array(robot.default_q) + 0.3 * rng.normal(size=(WORLDS, robot.layout.num_joints))
    return q, qd


@pytest.mark.parametrize(
    ("name", "capacity"), [("anymal_c", 10), ("anymal_c", 3), ("go2", 12), ("g1", 16), ("g1_29", 16), ("ant", 10)]
)
def test_rows_equal_those_of_the_training_data(name: str, capacity: int) -> None:
    import newton
    import warp as wp

    from flashnerd_ext.solver.contacts import ContactStage

    robot = get_robot(name)
    assert robot.contacts is not None
    model = scene(robot)
    q, qd = states(robot, np.random.default_rng(3))
    state = model.state()
    state.joint_q.assign(q.astype(np.float32).ravel())
    state.joint_qd.assign(qd.astype(np.float32).ravel())
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    stage = ContactStage(card(robot, capacity, robot.contacts.gap), model, "cpu")  # type: ignore[arg-type]
    rows = stage.rows(state)
    assert rows is not None
    detector = RowDetector(MujocoC(exported(name)))
    detector.capacity = capacity
    reference = detector.rows(q, qd)
    np.testing.assert_array_equal(stage.found.numpy(), reference.count)
    assert reference.count.max() > capacity or capacity != 3
    np.testing.assert_array_equal(stage.overflow.numpy(), (reference.count > capacity).astype(int))
    used = reference.link >= 0
    np.testing.assert_array_equal(rows.used.numpy(), used)
    assert used.sum() > 50
    # Rows of equal depth may change places; there are none among random states.
    np.testing.assert_array_equal(rows.link.numpy()[used], reference.link[used])
    np.testing.assert_allclose(rows.features.numpy()[used], reference.features[used], atol=3e-5)
    # Nothing changes when nothing changed, and buffers stay where they are.
    before, place = rows.features.clone(), rows.features.data_ptr()
    again = stage.rows(state)
    assert again is not None
    assert again.features.data_ptr() == place
    assert torch.equal(again.features, before)
    # A world that is not a number makes no rows, and the others keep theirs.
    spoiled = state.body_q.numpy()
    spoiled[: len(spoiled) // WORLDS] = np.nan
    state.body_q = wp.array(spoiled, dtype=wp.transform)
    third = stage.rows(state)
    assert third is not None
    assert not third.used[0].any()
    assert torch.equal(third.features[1:], before[1:])


def test_what_cannot_be_seen_is_refused() -> None:
    from flashnerd_ext.solver.contacts import ContactStage

    robot = get_robot("anymal_c")
    with pytest.raises(FlashNerdError, match="ground planes only"):
        ContactStage(card(robot, 8, 0.02), scene(robot, mesh=True), "cpu")  # type: ignore[arg-type]
    with pytest.raises(FlashNerdError, match="no ground plane"):
        ContactStage(card(robot, 8, 0.02), scene(robot, ground=False), "cpu")  # type: ignore[arg-type]
    other = card(robot, 8, 0.02)
    other.contacts.detector = "newton"
    with pytest.raises(FlashNerdError, match="detector 'newton'"):
        ContactStage(other, scene(robot), "cpu")  # type: ignore[arg-type]
    other = card(robot, 8, 0.02)
    other.contacts.links = ("base", "TAIL")
    with pytest.raises(FlashNerdError, match="TAIL"):
        ContactStage(other, scene(robot), "cpu")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["anymal_c", "go2", "g1", "g1_29", "ant"])
def test_fixed_rows_are_always_there_in_order_and_equal_those_of_the_training_data(name: str) -> None:
    import newton
    import warp as wp

    from flashnerd_ext.solver.contacts import ContactStage

    robot = get_robot(name)
    assert robot.contacts is not None
    fixed, gap = fixed_links(robot, "fixed"), robot.contacts.gap
    engine = MujocoC(dataclasses.replace(exported(name), fixed=fixed))
    model = scene(robot)
    q, qd = states(robot, np.random.default_rng(4))
    q[-4:, 2] += 2.0
    state = model.state()
    state.joint_q.assign(q.astype(np.float32).ravel())
    state.joint_qd.assign(qd.astype(np.float32).ravel())
    newton.eval_fk(model, state.joint_q, state.joint_qd, state)
    stage = ContactStage(card(robot, len(fixed), gap, fixed), model, "cpu")  # type: ignore[arg-type]
    rows = stage.rows(state)
    assert rows is not None
    detector = RowDetector(engine)
    assert detector.capacity == len(fixed)
    reference = detector.rows(q, qd)
    order = np.tile([robot.links.index(link) for link in fixed], (WORLDS, 1))
    assert rows.used.all()
    np.testing.assert_array_equal(rows.link.numpy(), order)
    np.testing.assert_array_equal(reference.link, order)
    np.testing.assert_array_equal(reference.count, len(fixed))
    np.testing.assert_allclose(rows.features.numpy(), reference.features, atol=3e-5)
    assert reference.features[-4:, :, 6].min() > 1.0
    # What touches is among the variable rows of the same states, and is the deepest of its link.
    touching = RowDetector(engine, fixed=())
    touching.capacity = 100
    variable = touching.rows(q, qd)
    for k, link in enumerate(order[0]):
        depth = np.where(variable.link == link, variable.features[:, :, 6], np.inf).min(1)
        near = reference.features[:, k, 6] <= gap
        np.testing.assert_array_equal(near, np.isfinite(depth))
        np.testing.assert_array_equal(depth[near], reference.features[near, k, 6])
    # Sensors see the same as beside variable rows, and nothing is said to be dropped.
    np.testing.assert_array_equal(stage.found.numpy(), variable.count)
    assert not stage.overflow.any()
    encoder = ContactEncoder(16, len(robot.links), slots=0, capacity=len(fixed))
    assert torch.isfinite(encoder(rows)).all()
    # Worlds that nobody asks for keep their rows, those that are not numbers have none, and buffers stay.
    before, place = rows.features.clone(), rows.features.data_ptr()
    moved = state.body_q.numpy()
    moved[:, 2] += 0.5
    bodies = len(moved) // WORLDS
    moved[:bodies] = np.nan
    state.body_q = wp.array(moved, dtype=wp.transform)
    dirty = torch.arange(WORLDS) < 2
    again = stage.rows(state, dirty)
    assert again is not None
    assert again.features.data_ptr() == place
    assert torch.equal(again.features[2:], before[2:])
    assert not again.used[0].any() and again.used[1:].all()
    np.testing.assert_allclose((again.features[1, :, 6] - before[1, :, 6]).numpy(), 0.5, atol=1e-5)
    spoiled = q.copy()
    spoiled[0, 0] = np.nan
    found = detector.rows(spoiled, qd)
    assert (found.link[0] == -1).all() and (found.link[1:] >= 0).all()
    assert (found.count == [0, *[len(fixed)] * (WORLDS - 1)]).all()


def test_links_that_cannot_have_a_fixed_row_are_refused() -> None:
    from flashnerd_ext.solver.contacts import ContactStage

    robot = get_robot("go2")
    engine = MujocoC(exported(robot.name))
    with pytest.raises(FlashNerdError, match="link 'FL_foott', which robot=go2 does not have: did you mean FL_foot"):
        RowDetector(engine, ("FL_foott",))
    with pytest.raises(FlashNerdError, match="link 'FL_hip', which has no collision shape"):
        RowDetector(engine, ("FL_hip",))
    with pytest.raises(FlashNerdError, match="link 'FL_hip', which has no collision shape"):
        ContactStage(card(robot, 1, 0.03, ("FL_hip",)), scene(robot), "cpu")  # type: ignore[arg-type]
    boxed = engine.model.xml.replace('type="plane"', 'type="box"')
    assert boxed != engine.model.xml
    with pytest.raises(FlashNerdError, match="not made of planes only, which fixed contacts need"):
        RowDetector(MujocoC(dataclasses.replace(engine.model, xml=boxed)), ("FL_foot",))
