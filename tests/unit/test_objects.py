"""Comparing robot and object between two runs: what counts as the same, and what does not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl.objects import compare
from flashnerd_ext.rl.objects.actions import check_kinds, kind_of_world, sequences
from flashnerd_ext.rl.objects.program import ObjectsConfig, summarise
from flashnerd_ext.rl.objects.table import text

WORLDS, STEPS, DT = 60, 20, 0.05
KINDS = ["hold", "random", "turn"]


def track(seed: int = 0, drops: float = 0.3, push: float = 1.0, shift: float = 0.0) -> compare.Track:
    """Objects that drift at constant speed and are dropped at random."""
    rng = np.random.default_rng(seed)
    speed = rng.normal(size=(WORLDS, 3)) * 0.02
    pose = np.zeros((STEPS + 1, WORLDS, 7))
    pose[..., :3] = np.arange(STEPS + 1)[:, None, None] * DT * speed
    pose[1:, :, 0] += shift
    pose[..., 6] = 1.0
    ended = np.zeros((STEPS, WORLDS), bool)
    ended[rng.integers(10, STEPS, WORLDS), np.arange(WORLDS)] = rng.random(WORLDS) < drops
    force = np.abs(rng.normal(size=(STEPS, WORLDS))) * push
    return compare.Track(pose, force, ended, np.zeros((WORLDS, 2)), DT)


def test_a_run_agrees_with_itself_and_not_with_one_that_drops_more() -> None:
    one = track()
    same = compare.compare(one, one, 500)
    assert all(cell["agrees"] and cell["difference"] == 0.0 for cell in same.values())
    assert compare.force_distance(one, one, 200)["agrees"]
    worse = dataclasses.replace(one, ended=one.ended | (np.arange(STEPS) == 12)[:, None], force=4.0 * one.force)
    found = compare.compare(one, worse, 500)
    assert found["dropped"]["mean"] == 1.0
    assert not any(found[name]["agrees"] for name in ("dropped", "lasted", "force", "peak"))
    assert not compare.force_distance(one, worse, 200)["agrees"]


def test_chance_alone_is_seldom_called_a_difference() -> None:
    alike = [bool(compare.compare(track(seed), track(seed + 100), 400)["force"]["agrees"]) for seed in range(20)]
    assert sum(alike) > 15


def test_what_a_track_says_of_itself() -> None:
    one = track(drops=0.0)
    one.ended[3, 0] = True
    one.ended[7, 0] = True  # a later episode of that world
    assert one.dropped.tolist() == [1.0] + [0.0] * (WORLDS - 1)
    assert one.lasted[0] == pytest.approx(3 * DT) and one.lasted[1] == pytest.approx(STEPS * DT)
    one.force[3:, 0] = np.nan  # after the drop it counts no more
    assert one.mean_force[0] < 10 and one.peak_force[0] < 10
    one.ended[0, 1] = True  # nothing is left of this world
    assert one.mean_force[1] == 0.0 and one.peak_force[1] == 0.0


def test_poses_are_compared_where_both_last() -> None:
    one, other = track(drops=0.0), track(drops=0.0, shift=0.003)
    other.ended[2, :20] = True
    found = compare.pose_error(one, other, 200)
    assert found["worlds"] == WORLDS - 20 and found["mm"] == pytest.approx(3.0) and found["rad"] == pytest.approx(0.0)
    turned = np.array([[0.0, 0, 0, 0, 0, np.sin(0.2), np.cos(0.2)]])
    far, angle = compare.distance(turned, np.array([[0.0, 0, 0, 0, 0, 0, -1.0]]))  # q and -q are one orientation
    assert far[0] == 0.0 and angle[0] == pytest.approx(0.4)
    little = np.array([[0.0, 0, 0, 1e-7, 0, 0, 1]], np.float32)
    assert compare.distance(little, np.array([[0.0, 0, 0, 0, 0, 0, 1]], np.float32))[1][0] == pytest.approx(2e-7)


def test_kolmogorovs_distance() -> None:
    assert compare.kolmogorov(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == 0.0
    assert compare.kolmogorov(np.array([1.0, 2.0]), np.array([3.0])) == 1.0
    assert compare.kolmogorov(np.array([]), np.array([3.0])) == 1.0


def test_actions_are_the_same_for_every_physics_and_bounded() -> None:
    joints = [f"{finger}_joint_{i}" for finger in ("index", "thumb") for i in range(4)]
    one, again = (sequences(KINDS, joints, 9, 30, DT, seed=4) for _ in range(2))
    assert np.array_equal(one, again) and one.shape == (30, 9, 8) and np.abs(one).max() <= 1.0
    assert not one[:, 0].any()
    assert np.array_equal(one[:, 2], one[:, 5]) and not np.array_equal(one[:, 1], one[:, 4])
    assert np.allclose(one[:, 2, 0], -one[:, 2, 4])  # the thumb moves against the fingers
    assert kind_of_world(KINDS, 5).tolist() == [0, 1, 2, 0, 1]
    assert sequences(["turn"], ["panda_joint1"], 2, 5, DT, 0).any()
    for wrong in ([], ["hold", "throw"]):
        with pytest.raises(FlashNerdError, match="actions"):
            check_kinds(wrong)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"runs": ["two_way"]}, "simulator and another"),
        ({"runs": ["simulator", "three_way"]}, "three_way"),
        ({"num_envs": 1}, "num_envs is 1"),
        ({"seconds": 0.0}, "seconds is 0"),
        ({"json": "none"}, "json is empty"),
        ({"bootstrap": 5}, "bootstrap is 5"),
    ],
)
def test_options_are_refused_before_anything_runs(change: dict, match: str) -> None:
    with pytest.raises(FlashNerdError, match=match):
        ObjectsConfig(**change).check()


def test_table_and_picture(tmp_path: Path) -> None:
    from flashnerd_ext.rl.objects.plot import draw

    config = ObjectsConfig(num_envs=WORLDS, bootstrap=200)
    tracks = {"simulator": track(), "two_way": track(), "one_way": track(drops=1.0, push=5.0)}
    content = summarise(config, tracks)
    shown = text(content)
    assert "two_way" in shown and "dropped: turn" in shown
    row = next(line for line in shown.splitlines() if line.startswith("contact force, mean"))
    assert row.count("*") == 1 and row.rstrip().endswith("*")  # one-way differs, two-way does not
    picture = draw(tracks, content, tmp_path / "objects.png")
    assert picture.stat().st_size > 10_000
    moved = dataclasses.replace(tracks["two_way"], joint_q=tracks["two_way"].joint_q + 0.1)
    with pytest.raises(FlashNerdError, match=r"starts differ by 0\.1"):
        summarise(config, tracks | {"two_way": moved})
