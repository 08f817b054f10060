"""Manipulation tasks in coupled mode: ours, and stock ones with ``physics=flashnerd``."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

pytest.importorskip("newton")
sys.path.insert(0, str(Path(__file__).parent))

from coupled_world import coupled_bundle
from forked import result_of

from flashnerd_ext.bundle.store import Bundle
from flashnerd_ext.robots.registry import get_robot
from flashnerd_ext.training.dynamics import coupling_of

pytestmark = [pytest.mark.kitless, pytest.mark.slow]

CHILD = Path(__file__).with_name("manipulation_tasks_child.py")
OURS = {
    "FlashNeRD-Reorient-Cube-Allegro": "allegro",
    "FlashNeRD-Reorient-Cube-Allegro-Reduced": "allegro",
    "FlashNeRD-Lift-Cube-Franka": "franka",
}
STOCK = {
    "Isaac-Reorient-Cube-Allegro": "allegro",
    "Isaac-Reorient-Cube-Allegro-Direct": "allegro",
    "Isaac-Lift-Franka": "franka",
    "Isaac-Reach-Franka": "franka_reach",
}


@cache
def bundle_of(name: str) -> Bundle:
    """An untrained bundle of coupled mode for that robot."""
    robot = get_robot(name)
    return coupled_bundle(Path(mkdtemp()) / name, robot, coupling_of(robot))


def child(case: str, robot: str, folder: Path, *tasks: str) -> Any:
    result, said = result_of(CHILD, case, bundle_of(robot).path, folder, *tasks, cwd=folder)
    assert not any(word in said for word in ("exceeded", "overflow"))
    return result


def ran_as_it_should(result: dict[str, Any], robot: str) -> None:
    description = get_robot(robot)
    assert result["solver"] == "SolverCoupled" and result["rows"] == result["worlds"]
    assert result["solver_dt"] == pytest.approx(description.dt)
    substeps = description.substeps * description.decimation
    if robot != "franka_reach":
        assert result["control_dt"] == pytest.approx(description.dt * substeps)
        assert result["steps"] == len(result["path"]) * substeps
    assert result["finite"]


def distance(before: Any, after: Any) -> float:
    return max(abs(a - b) for x, y in zip(before, after, strict=True) for a, b in zip(x, y, strict=True))


@pytest.mark.parametrize("task", OURS)
def test_our_tasks_run_in_both_physics(task: str, tmp_path: Path) -> None:
    """With the scene's own acceleration as the prediction they agree to the bit; then the bundle moves them."""
    learned, stock = (child(case, OURS[task], tmp_path, task) for case in ("learned", "stock"))
    ran_as_it_should(learned, OURS[task])
    assert stock["finite"] and stock["solver_dt"] == learned["solver_dt"]
    assert learned["start"] == stock["start"]
    known = len(stock["path"])
    for mine, theirs in zip(learned["path"][:known], stock["path"], strict=True):
        assert mine == theirs
    assert stock["contacts"] > 0
    end = learned["path"][-1]
    assert distance(learned["start"]["object"], stock["path"][-1]["object"]) > 1e-3
    assert distance(learned["path"][known - 1]["object"], end["object"]) > 1e-4
    assert distance(learned["path"][known - 1]["q"], end["q"]) > 1e-3
    if task.endswith("Reduced"):
        goals_are_one_turn_about_the_vertical(learned["goal"])


def goals_are_one_turn_about_the_vertical(facts: dict[str, Any]) -> None:
    assert len(facts["turn"]) > 1
    for turn, start in zip(facts["turn"], facts["start"], strict=True):
        assert max(map(abs, (*turn[:2], *start[:2]))) < 1e-4
        assert 0.8 - 1e-3 < abs(turn[2]) < 1.6 + 1e-3
        assert abs(start[2]) < 0.79
    assert len({round(turn[2], 3) for turn in facts["turn"]}) > 1


@pytest.mark.parametrize("task", STOCK)
def test_stock_tasks_run_with_a_bundle(task: str, tmp_path: Path) -> None:
    ran_as_it_should(child("learned", STOCK[task], tmp_path, task), STOCK[task])


def test_each_takes_the_shipped_bundle_of_its_robot(tmp_path: Path) -> None:
    """Lift and Reach have the same arm; what tells them apart, its armature, is written after the scene was built."""
    took, _ = result_of(CHILD, "chosen", "auto", tmp_path, *OURS, *STOCK, cwd=tmp_path)
    assert took == OURS | STOCK
