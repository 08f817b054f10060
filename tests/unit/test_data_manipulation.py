"""Samplers of coupled robots: torques within limits, starts over the whole range, and the same numbers for a seed."""

from __future__ import annotations

import numpy as np
import pytest

from flashnerd_ext.data.manipulation import Bolted, last_step
from flashnerd_ext.data.samplers import mixture, plan_of, samplers_of
from flashnerd_ext.robots.registry import get_robot

NAMES = ("franka", "franka_reach", "allegro")


def arm(**changes: object) -> Bolted:
    robot = get_robot("franka")
    values: dict = {"inertia": np.full(9, 0.5), "margin": 0.05, "speed": np.ones(9)}
    return Bolted(robot, **(values | changes))


@pytest.mark.parametrize("name", NAMES)
def test_every_sampler_gives_states_and_torques_within_the_effort_limits(name: str) -> None:
    robot = get_robot(name)
    layout, count, steps = robot.layout, 128, 12
    limit = np.array([robot.effort_limit[joint] for joint in layout.actuated])
    low, high = (np.array([robot.position_limit[joint][i] for joint in layout.joint_names]) for i in (0, 1))
    for item in samplers_of(name).values():
        q, qd, policy = item.draw(np.random.default_rng(0), count, steps)
        assert q.shape == (count, layout.nq) and qd.shape == (count, layout.nv)
        assert (q >= low - 0.051 * (high - low)).all() and (q <= high + 0.051 * (high - low)).all(), item.name
        largest = np.zeros(layout.nu)
        for t in range(steps):
            torque = policy(t, q, qd)
            assert torque.shape == (count, layout.nu) and np.isfinite(torque).all()
            largest = np.maximum(largest, np.abs(torque).max(0))
        assert largest.min() > 0.0, item.name
        assert (largest <= limit * (1 + 1e-9)).all(), item.name


@pytest.mark.parametrize("name", NAMES)
def test_starts_fill_the_range_and_go_a_little_beyond(name: str) -> None:
    robot = get_robot(name)
    names = robot.layout.joint_names
    low, high = (np.array([robot.position_limit[joint][i] for joint in names]) for i in (0, 1))
    q, qd, _ = samplers_of(name)["waves"].draw(np.random.default_rng(1), 4000, 4)
    share = (q - low) / (high - low)
    assert (share.min(0) < -0.03).all() and (share.max(0) > 1.03).all()
    assert np.histogram(share[:, 1], bins=10, range=(0, 1))[0].min() > 250
    assert np.abs(qd).max() > 10 * np.median(np.abs(qd))  # from slow to fast


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_decides_every_number(name: str) -> None:
    for item in samplers_of(name).values():
        first, again, other = (item.draw(np.random.default_rng(seed), 8, 6) for seed in (5, 5, 6))
        assert np.array_equal(first[0], again[0]) and not np.array_equal(first[0], other[0])
        for t in range(6):
            assert np.array_equal(first[2](t, first[0], first[1]), again[2](t, first[0], first[1]))


@pytest.mark.parametrize("name", NAMES)
def test_test_data_have_no_kicks(name: str) -> None:
    """What throws a robot in its last step is for training only, and so is a robot that nothing holds."""
    known = list(samplers_of(name))
    shares = {split: dict(zip(known, mixture(name, split), strict=True)) for split in ("train", "val", "test")}
    assert shares["train"]["kick"] > 0 and shares["train"]["coast"] > 0
    assert all(shares[split][sampler] == 0 for split in ("val", "test") for sampler in ("kick", "coast"))
    assert plan_of(name).splits["test"].steps == 200


def test_a_stiff_drive_is_what_is_left_of_it_over_a_step() -> None:
    """Of a drive alone on a joint with the given inertia: the torque that one implicit step needs on average."""
    robot, rng = get_robot("franka"), np.random.default_rng(0)
    hand = arm()
    stiffness, damping, dt = hand.stiffness[0], hand.damping[0], robot.dt
    q, qd = np.full((1, 9), 0.05), np.full((1, 9), 0.2)
    target = np.zeros((1, 9))
    torque = hand.drive(rng, 1, lambda t, q, qd: target, (1.0, 1.0 + 1e-12))(0, q, qd)[0, 0]
    # (I + dt d + dt^2 k) v' = I v - dt k q, by the implicit rule.
    after = (0.5 * 0.2 - dt * stiffness * 0.05) / (0.5 + dt * damping + dt**2 * stiffness)
    assert torque == pytest.approx(0.5 * (after - 0.2) / dt, rel=1e-9)
    at_once = hand.at_once(rng, 1, lambda t, q, qd: target, (1.0, 1.0 + 1e-12))(0, q, qd)[0, 0]
    assert at_once == pytest.approx(-stiffness * 0.05 - damping * 0.2, rel=1e-9)
    assert abs(at_once) > abs(torque)


def test_only_the_last_step_is_kicked() -> None:
    policy = last_step(lambda t, q, qd: np.zeros(1), lambda t, q, qd: np.ones(1), 4)
    assert [policy(t, np.zeros(1), np.zeros(1))[0] for t in range(4)] == [0.0, 0.0, 0.0, 1.0]


def test_targets_of_an_exploring_policy_change_every_control_step() -> None:
    hand = arm()
    start = np.tile((hand.low + hand.high) / 2, (3, 1))
    targets = hand.jumps(np.random.default_rng(0), start, 40, (0.05, 0.06))
    held = hand.robot.decimation * hand.robot.substeps
    values = [targets(t, start, start) for t in range(40)]
    for t in range(1, 40):
        assert np.array_equal(values[t], values[t - 1]) == (t % held != 0)
