"""Coupled mode under Isaac Lab's own environments: a stock task with an object that learned mode would refuse."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("newton")
sys.path.insert(0, str(Path(__file__).parent))

from coupled_world import coupled_bundle, coupling_of
from forked import result_of

from flashnerd_ext.bundle.store import Bundle
from flashnerd_ext.robots.registry import get_robot

pytestmark = [pytest.mark.kitless, pytest.mark.slow]

CHILD = Path(__file__).with_name("coupled_child.py")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    robot = get_robot("cartpole")
    none = dict.fromkeys(robot.layout.joint_names, 0.0)
    coupling = coupling_of(robot.layout.joint_names, damping=none, armature=none)
    return coupled_bundle(tmp_path_factory.mktemp("cartpole") / "b", robot, coupling)


def child(case: str, bundle: Bundle, folder: Path) -> tuple[Any, str]:
    return result_of(CHILD, case, bundle.path, folder, cwd=folder)


def test_a_known_model_gives_the_stock_task(bundle: Bundle, tmp_path: Path) -> None:
    """Robot and object move as under physics=newton_mjwarp, to the bit."""
    result, text = child("compare", bundle, tmp_path)
    learned, stock = result["learned"], result["stock"]
    assert learned["solver"] == "SolverCoupled"
    assert learned["q"] == stock["q"] and learned["cube"] == stock["cube"]
    assert learned["handles"] == stock["handles"]
    assert abs(learned["q"][-1][0][1] - learned["q"][0][0][1]) > 0.05
    assert learned["cube"][-1][0][2] < learned["cube"][0][0][2] - 0.05
    assert learned["steps"] == 24
    assert learned["fallen_back"] == 0 and not any(learned["ended"])
    assert "coupled mode" in text


def test_what_does_not_fit_is_refused_with_one_sentence(bundle: Bundle, tmp_path: Path) -> None:
    said, _ = child("refusals", bundle, tmp_path)
    assert "in coupled mode both step together" in said["dt"]
    assert "type env.sim.dt=0.00833333333 env.sim.physics.num_substeps=1" in said["substeps"]
    assert "integrator is rk4" in said["integrator"]
    assert "coupling is 'both'" in said["coupling"]
    assert all("\n" not in text for text in said.values())
