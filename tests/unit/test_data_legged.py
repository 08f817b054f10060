"""Samplers of legged robots: shapes, seeds, bounds, and what their names promise; without a simulator."""

from __future__ import annotations

import numpy as np
import pytest

from flashnerd_ext.data.biped import Biped
from flashnerd_ext.data.legged import Legged, quaternion, yawed
from flashnerd_ext.data.quadruped import LEGS, Quadruped
from flashnerd_ext.data.samplers import SPLITS, mixture, plan_of, samplers_of
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.description import inertial_condition, per_joint
from flashnerd_ext.robots.registry import ROBOTS, get_robot

LEGGED = ("anymal_c", "go2", "g1", "g1_29", "ant")
ALL = [(robot, name) for robot in LEGGED for name in samplers_of(robot)]


def upwards(q: np.ndarray) -> np.ndarray:
    """Cosine of the base's tilt."""
    return 1.0 - 2.0 * (q[:, 3] ** 2 + q[:, 4] ** 2)


@pytest.mark.parametrize(("robot", "name"), ALL)
def test_a_sampler_follows_its_seed_and_stays_within_limits(robot: str, name: str) -> None:
    description, item = get_robot(robot), samplers_of(robot)[name]
    layout = description.layout

    def rows(seed: int) -> np.ndarray:
        q, qd, policy = item.draw(np.random.default_rng(seed), 40, 12)
        assert q.shape == (40, layout.nq) and qd.shape == (40, layout.nv)
        np.testing.assert_allclose(np.linalg.norm(q[:, 3:7], axis=1), 1.0, atol=1e-9)
        for i, joint in enumerate(layout.joint_names):
            low, high = description.position_limit[joint]
            assert low - 1e-9 <= q[:, 7 + i].min() and q[:, 7 + i].max() <= high + 1e-9
        out = [policy(t, q, qd) for t in range(12)]
        assert all(command.shape == (40, layout.nu) for command in out)
        return np.concatenate([q, qd, *out], 1)

    first, again, other = rows(1), rows(1), rows(2)
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert np.isfinite(first).all()


@pytest.mark.parametrize("robot", LEGGED)
def test_mixtures_and_plans_belong_together(robot: str) -> None:
    plan = plan_of(robot)
    assert set(plan.splits) == set(SPLITS) and plan.shard > 0
    for split in ("train", "val", "test"):
        assert mixture(robot, split).sum() == pytest.approx(1.0)
        assert sum(item.weight[split] for item in samplers_of(robot).values()) == pytest.approx(1.0)
        assert plan.splits[split].trajectories > 0
    assert plan.splits["balance"].trajectories == 0
    with pytest.raises(FlashNerdError, match=f"robot={robot} has no samplers for the split 'balance'.*type balance=0"):
        mixture(robot, "balance")


def test_every_registered_robot_has_samplers_and_a_plan() -> None:
    for robot in ROBOTS:
        assert samplers_of(robot) and plan_of(robot).splits["train"].trajectories >= 10_000


def test_resets_are_those_of_the_stock_task() -> None:
    """Any yaw, +-0.5 m/s and rad/s, joints at rest at 0.5 to 1.5 times the default, from the task's height."""
    legged = Legged(get_robot("go2"))
    q, qd = legged.reset(np.random.default_rng(0), 4000, (0.5, 1.5))
    assert np.allclose(q[:, 2], 0.4) and not qd[:, 6:].any()
    assert np.abs(qd[:, :6]).max() <= 0.5 and qd[:, :6].std(0) == pytest.approx(np.full(6, 0.5 / np.sqrt(3)), rel=0.05)
    ratio = q[:, 7:] / legged.default
    assert ratio.min() >= 0.5 - 1e-9 and ratio.max() <= 1.5 + 1e-9 and ratio[:, 1].std() > 0.25
    assert np.allclose(upwards(q), 1.0)
    # G1's task resets inside the ground; its data start where the soles touch.
    biped = Legged(get_robot("g1"))
    assert biped.reset(np.random.default_rng(0), 1, (1.0, 1.0))[0][0, 2] == get_robot("g1").stand_height > 0.74


@pytest.mark.parametrize(
    ("robot", "left", "front"), [("anymal_c", ("LF", "LH"), ("LF", "RF")), ("go2", ("FL", "RL"), ("FL", "FR"))]
)
def test_gaits_know_their_legs(robot: str, left: tuple[str, ...], front: tuple[str, ...]) -> None:
    body, legs = Quadruped(get_robot(robot)), LEGS[robot]
    assert (
        get_robot(robot).layout.joint_names[::3]
        == tuple(name for leg in legs for name in get_robot(robot).layout.joint_names if name.startswith(leg))[::3]
    )
    assert [leg for leg, side in zip(legs, body.side, strict=True) if side > 0] == list(left)
    trot, pace, bound, pronk = body.patterns
    index = {leg: i for i, leg in enumerate(legs)}
    fl, fr = (index[leg] for leg in front)
    rl, rr = (i for i in range(4) if i not in (fl, fr))
    assert trot[fl] == trot[rr] != trot[fr] == trot[rl]
    assert pace[fl] == pace[rl] != pace[fr] == pace[rr]
    assert bound[fl] == bound[fr] != bound[rl] == bound[rr]
    assert len(set(pronk)) == 1


def test_a_gait_repeats_and_moves_diagonal_legs_together() -> None:
    body = Quadruped(get_robot("go2"))
    policy = body.gait(np.random.default_rng(4), 300, 0.0)
    none = np.zeros((300, 19))
    wave = np.stack([policy(t, none, none) for t in range(400)]) - body.default
    wave = wave - wave.mean(0)
    # The hips of each robot: which of the other three legs follows the first one most closely.
    hips = wave[:, :, 1::3]
    together = np.einsum("tni,tnj->nij", hips, hips)
    size = np.sqrt(np.einsum("nii->ni", together))
    alike = together[:, 0, 1:] / (size[:, :1] * size[:, 1:])
    trots = (alike[:, 2] > 0.95) & (alike[:, 0] < -0.95) & (alike[:, 1] < -0.95)
    assert 0.1 < trots.mean() < 0.3
    # Knees bend and hips swing by more than noise: the rhythm is there.
    assert (np.abs(wave).max(0).max(1) > 0.01).mean() > 0.99


def test_falling_humanoids_cover_every_tilt_and_fall() -> None:
    q, qd, _ = samplers_of("g1")["fall"].draw(np.random.default_rng(0), 4000, 1)
    tilt = np.degrees(np.arccos(upwards(q)))
    assert np.percentile(tilt, 2) < 30 and np.percentile(tilt, 98) > 80
    # Mostly they go on falling: the axis of the body moves down.
    x, y, z, w = q[:, 3:7].T
    axis = np.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)], 1)
    down = -np.cross(qd[:, 3:6], axis)[:, 2]
    assert (down > 0).mean() > 0.6
    assert np.corrcoef(down, -qd[:, 2])[0, 1] > 0.5


def test_striding_humanoids_are_upright_with_legs_apart_and_walk_forwards() -> None:
    biped = Biped(get_robot("g1"))
    q, qd = biped.striding(np.random.default_rng(0), 4000)
    assert (upwards(q) > 0.95).mean() > 0.95
    x, y, z, w = q[:, 3:7].T
    forward = np.stack([1 - 2 * (y * y + z * z), 2 * (x * y + w * z)], 1)
    assert (qd[:, :2] * forward).sum(1).mean() == pytest.approx(0.5, abs=0.1)
    left, right = (q[:, 7 + biped.legs[i, 0]] for i in (0, 1))
    assert np.corrcoef(left, right)[0, 1] < -0.7


def test_the_humanoid_strides_in_antiphase() -> None:
    biped = Biped(get_robot("g1"))
    policy = biped.stride(np.random.default_rng(1), 200, 0.0)
    none = np.zeros((200, biped.robot.layout.nq))
    wave = np.stack([policy(t, none, none) for t in range(300)])
    left, right = wave[:, :, biped.legs[0, 0]], wave[:, :, biped.legs[1, 0]]
    alike = [np.corrcoef(left[:, i], right[:, i])[0, 1] for i in range(200)]
    assert np.mean(np.array(alike) < -0.9) > 0.7


def test_stiff_arms_are_moved_less() -> None:
    """Arms of 3,000 N m/rad that follow a fresh policy's noise would turn at hundreds of rad/s."""
    for robot, arm in (("g1_29", "left_elbow_joint"), ("g1", "left_elbow_pitch_joint")):
        index = get_robot(robot).layout.joint_names.index(arm)
        _, _, policy = samplers_of(robot)["explore"].draw(np.random.default_rng(0), 500, 1)
        targets = policy(0, np.zeros(0), np.zeros(0)) - np.array(get_robot(robot).default_q)
        share = targets[:, index].std() / targets[:, 0].std()
        assert (share < 0.1) == (robot == "g1_29")


def test_random_turns_are_rotations_about_the_vertical() -> None:
    rng = np.random.default_rng(0)
    tilted = quaternion(rng.normal(size=(1000, 3)))
    turned = yawed(rng, tilted)
    q = np.zeros((1000, 7))
    q[:, 3:] = tilted
    before = upwards(q)
    q[:, 3:] = turned
    np.testing.assert_allclose(upwards(q), before, atol=1e-12)
    assert not np.allclose(turned, tilted)


def test_ant_torques_are_clipped_as_the_stock_task_clips_them() -> None:
    for name in ("explore", "rhythm", "smooth", "coast"):
        q, qd, policy = samplers_of("ant")[name].draw(np.random.default_rng(0), 200, 5)
        torque = np.stack([policy(t, q, qd) for t in range(5)])
        assert np.abs(torque).max() <= 7.5
        assert (np.abs(torque).max() == 7.5) == (name != "coast")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("base_mass", ("mass", "")),
        ("base_com_y", ("com_y", "")),
        ("mass:torso_link", ("mass", "torso_link")),
        ("com_z:torso_link", ("com_z", "torso_link")),
        ("stiffness", None),
        ("base_colour", None),
        ("mass", None),
        ("friction:foot", None),
    ],
)
def test_conditions_of_links_are_read_from_their_names(name: str, found: tuple[str, str] | None) -> None:
    assert inertial_condition(name) == found


def test_patterns_give_each_joint_one_value() -> None:
    assert per_joint(("a_hip", "a_knee"), {".*_hip": 1.0, ".*_knee": 2.0}) == {"a_hip": 1.0, "a_knee": 2.0}
    with pytest.raises(FlashNerdError, match="joint a_hip matches 2 of"):
        per_joint(("a_hip",), {".*_hip": 1.0, "a_.*": 2.0})
    with pytest.raises(FlashNerdError, match="joint b matches 0 of"):
        per_joint(("b",), {"a": 1.0})


@pytest.mark.parametrize("robot", LEGGED)
def test_descriptions_agree_with_themselves(robot: str) -> None:
    description = get_robot(robot)
    layout, links = description.layout, description.links
    assert set(description.position_limit) == set(layout.joint_names)
    for name, value in zip(layout.joint_names, description.default_q, strict=True):
        low, high = description.position_limit[name]
        assert low <= value <= high, name
    assert description.base_link == links[0] and len(set(links)) == len(links)
    assert description.contacts is not None and set(description.contacts.feet) <= set(links)
    for condition in layout.conditions:
        link = (inertial_condition(condition) or ("", ""))[1]
        assert not link or link in links
        low, high = description.condition_range[condition]
        assert low < 0 < high
    assert 0.2 < description.stand_height < 0.9
