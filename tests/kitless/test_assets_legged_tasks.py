"""The stock tasks of the legged robots run on the local asset root, and the robots stand on their feet in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import result_of

from flashnerd_ext.robots.assets import root
from flashnerd_ext.robots.assets.descriptions import get_description
from flashnerd_ext.robots.assets.readback import read_asset

pytestmark = pytest.mark.kitless

TASKS = {
    "ant": "Isaac-Ant",
    "anymal_c": "IsaacContrib-Velocity-Flat-AnymalC",
    "g1": "Isaac-Velocity-Flat-G1",
    "go2": "Isaac-Velocity-Flat-UnitreeGo2",
}
RANDOMISED = {"ant": "", "anymal_c": "base", "g1": "torso_link", "go2": "base"}
"""The body whose mass or centre the stock task's own events change at startup."""
ENVS, STEPS = 16, 50


@pytest.fixture(scope="module", params=sorted(TASKS))
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """Robot and what its task said; a simulator lives once in a process, so each task gets one of its own."""
    child = Path(__file__).parent / "legged_child.py"
    words = (TASKS[request.param], request.param, ENVS, STEPS)
    result, said = result_of(child, *words, cwd=tmp_path_factory.mktemp("run"))
    # A stock task reserves room for its robot's contacts: a robot with more shapes loses some, silently to physics.
    assert not any(word in said for word in ("exceeded", "overflow"))
    return request.param, result


def depth_first(name: str) -> list[str]:
    """Movable joints branch after branch, siblings by name."""
    asset = read_asset(root.local_root() / get_description(name).outputs[0])

    def below(body: str) -> list[str]:
        found = []
        for joint in sorted((joint for joint in asset.joints if joint.parent == body), key=lambda joint: joint.name):
            found += ([joint.name] if joint.kind != "fixed" else []) + below(joint.child)
        return found

    children = {joint.child for joint in asset.joints}
    return below(next(body for body in asset.bodies if body not in children))


def test_stock_tasks_run_and_have_the_assets_numbers(ran: tuple[str, dict[str, Any]]) -> None:
    name, result = ran
    assert result["finite"] and result["moved"] > 0.1 and result["envs"] == ENVS
    assert sorted(result["order"]) == sorted(root.joint_order(name))
    assert result["order"] == result["joints"]
    asset = read_asset(root.local_root() / get_description(name).outputs[0])
    joints = {joint.name: joint for joint in asset.movable}
    assert result["lower"] == pytest.approx([joints[joint].limits[0] for joint in result["joints"]], rel=1e-5, abs=1e-6)
    assert result["upper"] == pytest.approx([joints[joint].limits[1] for joint in result["joints"]], rel=1e-5, abs=1e-6)
    assert sorted(result["bodies"]) == sorted(asset.bodies)
    for body, mass, com, tensor in zip(result["bodies"], result["mass"], result["com"], result["inertia"], strict=True):
        if body == RANDOMISED[name]:
            continue
        assert mass == pytest.approx(asset.bodies[body].mass, rel=1e-6)
        assert com == pytest.approx(asset.bodies[body].com, abs=1e-6)
        assert np.array(tensor) == pytest.approx(asset.bodies[body].tensor, rel=1e-4, abs=1e-8)


def test_newton_orders_joints_depth_first(ran: tuple[str, dict[str, Any]]) -> None:
    """The order that data sets and bundles of these robots record: branch after branch, siblings by name."""
    name, result = ran
    assert result["joints"] == depth_first(name) != list(root.joint_order(name))


def test_armature_in_force_comes_from_the_stock_actuators(ran: tuple[str, dict[str, Any]]) -> None:
    """The assets carry none, so a robot has what its stock configuration says: none for those on DC motors."""
    name, result = ran
    expected = {"ant": {0.05}, "anymal_c": {0.0}, "g1": {0.01, 0.001}, "go2": {0.0}}
    assert {round(value, 6) for value in result["armature"]} == expected[name]


def test_robots_stand_on_their_feet(ran: tuple[str, dict[str, Any]]) -> None:
    """Put down in the default pose with the default targets, under the task's randomised masses and centres.

    Four-legged robots still stand after 1 s, lower by what their soft drives give (Go2 25, ANYmal 40 N m/rad): within a
    fifth and a quarter of the height. G1 keeps its height to 1 % for 0.5 s; two ankles of 20 N m/rad cannot balance
    34 kg for longer without a policy. Nobody touches the ground with anything but the feet, which carry the weight.
    """
    name, result = ran
    if "stand" not in result:
        assert name == "ant"  # driven by forces alone, it has no targets to stand on
        return
    stand = result["stand"]
    feet = {"anymal_c": ("FOOT", 4), "g1": ("ankle_roll_link", 2), "go2": ("foot", 4)}[name]
    assert len(stand["feet"]) == feet[1] and all(foot.endswith(feet[0]) for foot in stand["feet"])
    half, end = stand["heights"][24] / stand["start"], stand["heights"][49] / stand["start"]
    allowed = {"anymal_c": (0.75, 0.75), "g1": (0.99, 0.95), "go2": (0.80, 0.80)}[name]
    assert allowed[0] < half < 1.0 and allowed[1] < end < 1.0, stand["heights"]
    assert stand["lowest"] > (allowed[1] - 0.05) * stand["start"]
    assert stand["upright"] > 0.95 and stand["ended"] == 0
    assert stand["others"] == 0.0
    assert stand["load"] == pytest.approx(1.0, abs=0.1)


def test_stock_anymal_says_which_file_it_lacks(ran: tuple[str, dict[str, Any]]) -> None:
    """Its actuator net is in no package, and no other net takes its name: the rest ran with Isaac Lab's DC motors."""
    name, result = ran
    if name != "anymal_c":
        assert result["refusal"] == ""
        return
    assert "anydrive_3_lstm_jit.pt" in result["refusal"]
    assert not list(root.local_root().rglob("*.pt"))
