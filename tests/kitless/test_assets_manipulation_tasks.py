"""The stock manipulation tasks run on the local asset root, with Newton and with PhysX, without Kit."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from forked import forked

from flashnerd_ext.robots.assets import root
from flashnerd_ext.robots.assets.descriptions import get_description
from flashnerd_ext.robots.assets.readback import read_asset
from flashnerd_ext.robots.registry import get_robot

pytestmark = [pytest.mark.kitless, pytest.mark.slow]

TASKS = {
    "Isaac-Reorient-Cube-Allegro": "allegro",
    "Isaac-Reorient-Cube-Allegro-Direct": "allegro",
    "Isaac-Reach-Franka": "franka_reach",
    "Isaac-Lift-Franka": "franka",
}
ENVS, STEPS = 8, 50


def run(task: str, physics: str) -> tuple[dict[str, Any] | None, str]:
    """Result of the task, if it came to one, and everything it said."""
    child = Path(__file__).parent / "manipulation_child.py"
    done = forked(child, task, physics, ENVS, STEPS, cwd=Path.cwd(), timeout=1800)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    said = done.stdout + done.stderr
    return (json.loads(lines[-1].removeprefix("RESULT ")) if done.returncode == 0 and lines else None), said


@cache
def newton(task: str) -> dict[str, Any]:
    result, said = run(task, "newton_mjwarp")
    assert result is not None, said[-3000:]
    # A stock task reserves room for its robot's contacts: more shapes lose some, silently to physics.
    assert not any(word in said for word in ("exceeded", "overflow"))
    return result


@pytest.mark.parametrize("task", TASKS)
def test_stock_tasks_run_with_newton_and_have_the_assets_numbers(task: str) -> None:
    result, robot = newton(task), get_robot(TASKS[task])
    assert result["finite"] and result["envs"] == ENVS and result["moved"] > 0.05
    asset = read_asset(root.local_root() / robot.asset_path)
    joints = {joint.name: joint for joint in asset.movable}
    # Newton's order is the description's; the object comes after the robot.
    assert tuple(result["joints"]) == robot.layout.joint_names == tuple(result["order"])
    assert tuple(result["links"]) == robot.links
    assert result["lower"] == pytest.approx([joints[name].limits[0] for name in result["joints"]], rel=1e-5, abs=1e-6)
    assert result["upper"] == pytest.approx([joints[name].limits[1] for name in result["joints"]], rel=1e-5, abs=1e-6)
    masses = dict(zip(result["bodies"], result["mass"], strict=True))
    for body, inertia in asset.bodies.items():
        assert masses[body] == pytest.approx(inertia.mass, rel=1e-6), body
    assert get_description("allegro" if robot.name == "allegro" else "franka").outputs[0] == robot.asset_path


@pytest.mark.parametrize("task", TASKS)
def test_descriptions_have_the_numbers_in_force(task: str) -> None:
    """Armature, effort limits, the solver's step, and drives but where the task's events change their gains."""
    result, robot = newton(task), get_robot(TASKS[task])
    joints = robot.layout.joint_names
    assert result["solver_dt"] == pytest.approx(robot.dt)
    assert result["armature"] == pytest.approx([robot.armature[name] for name in joints])
    assert result["effort"] == pytest.approx([robot.effort_limit[name] for name in joints])
    assert result["gravcomp"] == 0.0
    assert result["equalities"] == (1 if robot.name.startswith("franka") else 0)
    if task != "Isaac-Lift-Franka":
        assert result["stiffness"] == pytest.approx([robot.joint_stiffness[name] for name in joints])
        assert result["damping"] == pytest.approx([robot.joint_damping[name] for name in joints])


@pytest.mark.parametrize("task", ["Isaac-Reorient-Cube-Allegro", "Isaac-Reach-Franka", "Isaac-Lift-Franka"])
def test_stock_tasks_run_with_physx_without_kit(task: str) -> None:
    result, said = run(task, "ovphysx")
    assert result is not None, said[-3000:]
    assert result["finite"] and result["envs"] == ENVS and result["moved"] > 0.05
    assert sorted(result["order"]) == sorted(get_robot(TASKS[task]).layout.joint_names)


def test_the_contributed_lift_task_needs_isaac_sim() -> None:
    """Its physics is PhysX inside Kit and no preset offers another: it says so itself, and no asset is missing."""
    result, said = run("IsaacContrib-Lift-Cube-Franka", "")
    assert result is None and "This environment requires Isaac Sim and Omniverse Kit" in said
    result, said = run("IsaacContrib-Lift-Cube-Franka", "newton_mjwarp")
    assert result is None and "did not match a selectable preset" in said
