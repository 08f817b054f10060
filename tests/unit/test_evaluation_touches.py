"""Error split by contact: classes of rollouts and their errors, known by hand; no simulator."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.evaluation import dynamics
from flashnerd_ext.evaluation.rollout_error import RolloutErrors, Windows, make_windows
from flashnerd_ext.evaluation.touch_plot import plot_touches
from flashnerd_ext.evaluation.touches import (
    KINDS,
    Touches,
    classify,
    classify_windows,
    link_groups,
    mean_touches,
    touch_report,
    touch_table,
    touching_links,
)
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.robots.registry import get_robot

CART = StateLayout(joint_names=("cart", "pole"), joint_kinds=("prismatic", "continuous"), actuated=("cart",))
LINKS = ("base", "LF_THIGH", "LF_SHANK", "LF_FOOT", "RF_THIGH", "RF_SHANK", "RF_FOOT")
ROBOT: Any = SimpleNamespace(
    name="two_legs", links=LINKS, base_link="base", contacts=SimpleNamespace(feet=("LF_FOOT", "RF_FOOT"))
)
GROUPS = link_groups(LINKS, ROBOT.contacts.feet, "base")


def trajectories(touching: list[dict[int, str]], steps: int = 24, fixed: tuple[str, ...] = ()) -> Any:
    """Trajectories whose cart stands at the frame's number, and where the named links touch from frame to frame.

    Args:
        touching: A trajectory each, frame -> links that touch there, with a blank between.
        fixed: Links of fixed rows; none gives variable ones, of which one hovers and touches nothing.
    """
    n = len(touching)
    q, qd = np.zeros((n, steps + 1, 2)), np.zeros((n, steps + 1, 2))
    q[..., 0], qd[..., 1] = np.arange(steps + 1), 1.0
    qd[:, ::2] *= -1.0  # what does not vary has no standard deviation
    q[..., 1], qd[..., 0] = qd[..., 1], qd[..., 1]
    rows, link = np.zeros((n, steps, 4, 12), np.float32), np.full((n, steps, 4), -1, np.int16)
    if fixed:
        link[:] = [LINKS.index(name) for name in fixed]
        rows[..., 6] = 0.3
    for i, frames in enumerate(touching):
        for t, names in frames.items():
            for k, name in enumerate(names.split()):
                at = fixed.index(name) if fixed else k
                link[i, t, at], rows[i, t, at, 6] = LINKS.index(name), -0.001 * k
        if not fixed:
            link[i, :, 3], rows[i, :, 3, 6] = 0, 1e-4
    extra = {"rows": rows, "row_link": link, "row_count": (link >= 0).sum(-1)}
    meta = {"folder": "somewhere", "split": "test", "samplers": ["only"], "fixed": fixed}
    return SimpleNamespace(
        joint_q=q, joint_qd=qd, actuation=np.zeros((n, steps, 1), np.float32), valid=np.ones((n, steps), bool),
        sampler=np.zeros(n, np.uint8), extra=extra, meta=meta,
    )  # fmt: skip


def windows_at(starts: list[int], length: int = 15) -> Windows:
    starts_ = np.array(starts)
    return Windows(np.zeros_like(starts_), starts_, np.full_like(starts_, length))


def names_of(touches: Touches) -> list[tuple[str, str]]:
    return [(touches.groups[g], KINDS[k]) for g, k in zip(touches.group, touches.kind, strict=True)]


def test_links_are_grouped_by_rank_without_leg_or_side():
    assert GROUPS == {
        "base": ("base",),
        "thigh": ("LF_THIGH", "RF_THIGH"),
        "shank": ("LF_SHANK", "RF_SHANK"),
        "feet": ("LF_FOOT", "RF_FOOT"),
    }
    for robot, wanted in (
        ("anymal_c", ["base", "hip", "thigh", "shank", "feet"]),
        ("go2", ["base", "hip", "thigh", "calf", "feet"]),
        ("ant", ["torso", "leg", "feet"]),
        ("g1_29", ["pelvis", "hip", "knee", "ankle", "waist", "torso", "shoulder", "elbow", "wrist", "feet"]),
    ):
        known = get_robot(robot)
        groups = link_groups(known.links, known.contacts.feet, known.base_link)
        assert list(groups) == wanted
        assert sorted(sum(groups.values(), ())) == sorted(known.links)


def test_a_row_touches_from_distance_zero_down_and_only_if_used():
    rows, link = np.zeros((1, 4, 12)), np.array([[3, 1, 2, -1]])
    rows[0, :, 6] = [0.0, 1e-6, -0.01, -0.01]
    assert touching_links(rows, link, 7).tolist() == [[False, False, True, True, False, False, False]]


@pytest.mark.parametrize("fixed", [(), ("LF_FOOT", "RF_FOOT", "LF_SHANK", "base")])
def test_each_window_is_in_its_class_by_its_first_frame_and_the_one_after(fixed):
    frames = {
        3: "LF_FOOT",
        4: "LF_FOOT",
        5: "LF_FOOT RF_FOOT",
        6: "RF_FOOT",
        7: "LF_SHANK",
        8: "LF_SHANK RF_FOOT",
        9: "RF_FOOT",
        11: "base",
    }
    data = trajectories([frames], steps=40, fixed=fixed)
    starts = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    found = classify_windows(data, windows_at(starts), LINKS, GROUPS)
    assert dict(zip(starts, names_of(found), strict=True)) == {
        1: ("none", "none"),
        2: ("feet", "new touch"),
        3: ("feet", "steady"),
        4: ("feet", "new touch"),
        5: ("feet", "release"),
        6: ("shank", "new touch"),  # one link for another
        7: ("shank", "new touch"),
        8: ("shank", "release"),
        9: ("feet", "release"),
        10: ("base", "new touch"),
        11: ("base", "release"),
        12: ("none", "none"),
    }


def test_the_group_of_highest_rank_counts_wherever_it_touches():
    before, after = np.zeros((3, 7), bool), np.zeros((3, 7), bool)
    before[0, [1, 3]], after[0, [2, 3]] = True, True
    before[1, [2, 6]], after[1, [2, 6]] = True, True
    before[2, 6], after[2, [6, 0]] = True, True
    assert names_of(classify(before, after, LINKS, GROUPS)) == [
        ("thigh", "new touch"), ("shank", "steady"), ("base", "new touch"),
    ]  # fmt: skip


def test_errors_shares_and_counts_of_classes_are_those_of_their_windows():
    windows = windows_at([0] * 4)
    squared = np.full((4, 15), 0.01)
    squared[:, 0] = [1.0, 4.0, 3.0, 0.0]
    errors = RolloutErrors(squared, windows, np.zeros(4, np.int64))
    touches = Touches(("base", "feet", "none"), np.array([1, 1, 0, 2]), np.array([1, 3, 3, 0]))
    report = touch_report(errors, touches)
    assert report["windows"] == 4
    assert list(report["by_link"]) == ["none", "feet", "base"]
    assert list(report["by_kind"]) == ["none", "steady", "new touch"]
    assert list(report["by_link_and_kind"]) == ["feet, steady", "feet, new touch", "base, new touch"]
    feet, new = report["by_link"]["feet"], report["by_kind"]["new touch"]
    assert feet["windows"] == 2 and new["windows"] == 2
    assert feet["E"] == pytest.approx({"1": np.sqrt(2.5), "15": np.sqrt((5.0 + 28 * 0.01) / 30)})
    assert feet["share"] == pytest.approx(5 / 8)
    assert new["E"]["1"] == pytest.approx(np.sqrt(3.5))
    assert new["share"] == pytest.approx(7 / 8)
    for split in ("by_link", "by_kind"):
        assert sum(of["share"] for of in report[split].values()) == pytest.approx(1.0)
        assert sum(of["windows"] for of in report[split].values()) == 4
    merged = mean_touches([report, touch_report(RolloutErrors(4.0 * squared, windows, errors.sampler), touches)])
    assert merged["by_link"]["feet"]["E"]["1"] == pytest.approx(1.5 * np.sqrt(2.5))
    assert merged["by_link"]["feet"]["share"] == pytest.approx(5 / 8)
    table = touch_table({"mine": merged, "other": report}).splitlines()
    shown = [" ".join(line.split()) for line in table]
    assert shown[0] == "link rollouts of all mine: E1 E15 of error other: E1 E15 of error"
    assert shown[3] == "feet 2 50.0 % 2.37 0.629 62.5 % 1.58 0.42 62.5 %"


def test_an_error_that_is_not_finite_is_null_for_its_class_only(tmp_path):
    squared = np.full((3, 15), 0.01)
    squared[0, 5:] = np.inf
    touches = Touches(("feet", "none"), np.array([0, 1, 1]), np.array([1, 0, 0]))
    report = touch_report(RolloutErrors(squared, windows_at([0] * 3), np.zeros(3, np.int64)), touches)
    assert report["by_link"]["feet"]["E"] == {"1": pytest.approx(0.1), "15": None}
    assert report["by_link"]["none"]["E"]["15"] == pytest.approx(0.1)
    assert report["by_link"]["feet"]["share"] == pytest.approx(1 / 3)
    squared[0] = np.inf
    report = touch_report(RolloutErrors(squared, windows_at([0] * 3), np.zeros(3, np.int64)), touches)
    assert report["by_link"]["none"] == {
        "E": {"1": pytest.approx(0.1), "15": pytest.approx(0.1)}, "windows": 2, "share": None
    }  # fmt: skip
    json.dumps(report, allow_nan=False)
    assert "not finite" in touch_table({"m": report})
    plot_touches(tmp_path / "t.png", {"m": report}, "t")


def test_a_model_that_errs_at_one_frame_errs_in_that_frames_class(tmp_path):
    """From data to report: the foot of both trajectories lands between frames 4 and 5, and leaves between 6 and 7."""
    data = trajectories([{5: "LF_FOOT", 6: "LF_FOOT"}] * 2)
    plain = dynamics.make_test_set(data, CART, [1, 20], rollouts=4, all_frames=0, seed=0)
    assert dynamics.add_touches(plain, data, ROBOT, 0, 0) is plain
    test = dynamics.add_touches(plain, data, ROBOT, 100, 0)
    # Frames 0 to 9 have 15 steps after them, of 24.
    assert sorted(test.windows["touches"].start) == sorted(list(range(10)) * 2)
    assert (test.windows["touches"].length == 15).all()
    assert test.facts["rollouts"] == {"initial": 2, "touches": 20}
    assert test.facts["link_groups"]["feet"] == ["LF_FOOT", "RF_FOOT"]

    def predict(joint_q, joint_qd, actuation):
        frame = joint_q[:, 0].astype(int)
        steps = frame + np.arange(len(actuation) + 1)[:, None]
        q, qd = data.joint_q[0, np.minimum(steps, 24)].copy(), data.joint_qd[0, np.minimum(steps, 24)]
        q[1, frame == 4, 0] += 0.2 * test.std[0]
        q[1:, frame == 6, 0] += 0.1 * test.std[0]
        return q, qd

    report = dynamics.seed_report(dynamics.roll_out(predict, test, batch=3), test)
    assert report["E"]["1"] == pytest.approx(0.0)
    by = report["by_touch"]
    # One of four state dimensions errs.
    kinds = {name: (of["windows"], of["E"]["1"], of["E"]["15"], of["share"]) for name, of in by["by_kind"].items()}
    assert kinds == {
        "none": (14, pytest.approx(0.0), pytest.approx(0.0), pytest.approx(0.0)),
        "steady": (2, pytest.approx(0.0), pytest.approx(0.0), pytest.approx(0.0)),
        "release": (2, pytest.approx(0.05), pytest.approx(0.05), pytest.approx(0.2)),
        "new touch": (2, pytest.approx(0.1), pytest.approx(0.1 / np.sqrt(15)), pytest.approx(0.8)),
    }
    links = {name: (of["windows"], of["E"]["1"], of["share"]) for name, of in by["by_link"].items()}
    assert links == {
        "none": (14, pytest.approx(0.0), pytest.approx(0.0)),
        "feet": (6, pytest.approx(np.sqrt((0.05**2 + 0.1**2) / 3)), pytest.approx(1.0)),
    }
    merged = dynamics.model_report([report, report], [1, 20])
    assert merged["by_touch"] == by
    path = plot_touches(tmp_path / "t.png", {"flashnerd": by, "mine": by}, "title", "note")
    from PIL import Image

    picture = np.asarray(Image.open(path).convert("RGB"))
    assert picture.shape == (640, 960, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50


def test_without_the_option_nothing_is_different():
    data = trajectories([{}])
    test = dynamics.make_test_set(data, CART, [1], rollouts=4, all_frames=3, seed=0)
    assert set(test.windows) == {"initial", "all_frames"}
    report = dynamics.seed_report(
        dynamics.roll_out(lambda q, qd, u: (np.stack([q, q]), np.stack([qd, qd])), test, 4), test
    )
    assert "by_touch" not in report and "by_touch" not in dynamics.model_report([report], [1])


def test_what_cannot_be_split_is_refused():
    short, bare = trajectories([{}], steps=10), trajectories([{}])
    bare.extra = {}
    for data, text in ((short, "touches is 5, but no trajectory .* 15 valid steps"), (bare, "have no contact rows")):
        test = dynamics.make_test_set(data, CART, [1], rollouts=4, all_frames=0, seed=0)
        with pytest.raises(FlashNerdError, match=text):
            dynamics.add_touches(test, data, ROBOT, 5, 0)
    with pytest.raises(FlashNerdError, match="1 valid steps, but 2 are needed"):
        classify_windows(short, windows_at([9], length=1), LINKS, GROUPS)


def test_windows_with_too_few_valid_steps_are_left_out():
    valid = np.zeros((2, 8), bool)
    valid[0, :5], valid[1, :2] = True, True
    found = make_windows(valid, 3, None, least=3)
    assert found.trajectory.tolist() == [0, 0, 0] and found.start.tolist() == [0, 1, 2]
    assert found.length.tolist() == [3, 3, 3]
