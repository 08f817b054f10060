"""A robot that is said to be its own mirror image is one in the simulator: states, forces, torques and contact rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from exported import exported

pytest.importorskip("newton")

from flashnerd_ext.data.engines.mujoco_c import MujocoC
from flashnerd_ext.data.engines.rows import RowDetector
from flashnerd_ext.data.samplers import samplers_of
from flashnerd_ext.model.contacts import ContactRows
from flashnerd_ext.model.integrate import Integrator
from flashnerd_ext.model.metric import state_difference, state_std
from flashnerd_ext.robots.registry import get_robot
from flashnerd_ext.training.mirror import MirroredBatch, Reflection

pytestmark = pytest.mark.kitless
COUNT = 96


@pytest.fixture(scope="module", params=["anymal_c", "go2", "g1"])
def made(request: pytest.FixtureRequest):
    """A robot, its engine and reflection, and states half a second into what its samplers do."""
    robot = get_robot(request.param)
    engine = MujocoC(exported(robot.name))
    rng = np.random.default_rng(0)
    names = list(robot.layout.conditions)
    states = []
    for item in samplers_of(robot.name).values():
        q, qd, policy = item.draw(rng, COUNT, 13)
        limits = np.array([robot.condition_range[name] for name in names])
        condition = rng.uniform(limits[:, 0], limits[:, 1], (COUNT, len(names)))
        friction = rng.uniform(*robot.contacts.friction, COUNT)
        engine.set_worlds(condition, friction)
        for t in range(12):
            q, qd = engine.step(q, qd, policy(t, q, qd))
        states.append((q, qd, policy(12, q, qd), condition, friction))
    return robot, engine, Reflection(robot), [np.concatenate(part) for part in zip(*states, strict=True)]


def image(function, values: np.ndarray) -> np.ndarray:
    return function(torch.from_numpy(np.asarray(values, np.float64))).numpy()


def test_the_image_of_a_step_is_a_step_of_the_image(made) -> None:
    robot, engine, mirror, (q, qd, u, condition, friction) = made
    engine.set_worlds(condition, friction)
    next_q, next_qd = engine.step(q, qd, u)
    force, torque = engine.force.copy(), engine.torque.copy()
    engine.set_worlds(image(mirror.condition, condition), friction)
    found = engine.step(image(mirror.joint_q, q), image(mirror.joint_qd, qd), image(mirror.actuation, u))
    spread = state_std(robot.layout, q[:, None].repeat(2, 1), qd[:, None].repeat(2, 1))
    back = image(mirror.joint_q, found[0]), image(mirror.joint_qd, found[1])
    error, moved = (
        np.sqrt(np.square(state_difference(robot.layout, *pair, *to) / spread).mean(1))
        for pair, to in ((back, (next_q, next_qd)), ((next_q, next_qd), (q, qd)))
    )
    # CAD models differ by grams from side to side, and single touch-downs are decided by less.
    assert np.median(error) < 0.01 * np.median(moved)
    assert np.quantile(error, 0.9) < 0.05 * np.quantile(moved, 0.9)
    for name, here, there in (
        ("force", force, image(mirror.force, engine.force)), ("torque", torque, image(mirror.actuation, engine.torque))
    ):  # fmt: skip
        gap = np.abs(here - there).reshape(len(here), -1).max(1)
        assert np.median(gap) < 0.02 * np.abs(here).max(), name
    # And without the mirror it is another step.
    assert np.median(np.abs(found[1][:, 6:] - next_qd[:, 6:]).max(1)) > 0.1


def test_rows_of_the_image_are_the_images_of_rows(made) -> None:
    robot, engine, mirror, (q, qd, _, condition, friction) = made
    detector = RowDetector(engine)
    here = detector.rows(q, qd, friction, condition)
    there = detector.rows(
        image(mirror.joint_q, q), image(mirror.joint_qd, qd), friction, image(mirror.condition, condition)
    )
    flip = torch.ones(len(q), dtype=torch.bool)
    batch = MirroredBatch(robot, Integrator(robot.layout, robot.dt, robot.inner_steps), None)
    link = torch.from_numpy(here.link).long()[:, None]
    rows = batch.rows(flip, ContactRows(torch.from_numpy(here.features).float()[:, None], link, link >= 0))

    def listed(link: np.ndarray, features: np.ndarray) -> list[np.ndarray]:
        # In the order of link and place, as equally deep rows have no order.
        return [
            np.array(sorted([float(a), *np.round(b, 3)] for a, b in zip(x, y, strict=True) if a >= 0))
            for x, y in zip(link, features, strict=True)
        ]

    pairs = list(zip(listed(rows.link[:, 0].numpy(), rows.features[:, 0].numpy()),
                     listed(there.link, there.features), strict=True))  # fmt: skip
    assert sum(len(a) for a, _ in pairs) > 100
    same = [a.shape == b.shape and np.allclose(a, b, atol=0.02) for a, b in pairs]
    # Of several equally deep points of a flat shape a detector takes any.
    assert np.mean(same) > 0.9
