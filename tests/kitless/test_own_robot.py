"""Two made-up robots from their URDFs to data, a bundle and a running task, by the commands that a user types."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashnerd_ext.data.dataset import load_trajectories
from flashnerd_ext.data.engines import build_engine, load_or_export
from flashnerd_ext.data.samplers import SPLITS
from flashnerd_ext.data.writer import Plan, SplitPlan, Writer
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.intake.options import Options
from flashnerd_ext.robots.intake.program import guesses, new_robot, next_steps
from flashnerd_ext.robots.own import load_own
from flashnerd_ext.robots.registry import get_robot
from flashnerd_ext.training.config import TrainDynamicsConfig, TrainOptions
from flashnerd_ext.training.dynamics import train_dynamics

pytestmark = [pytest.mark.kitless, pytest.mark.slow]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, dog: str, arm: str) -> Any:
    """A folder with the robots ``rex`` and ``picker`` as the command writes them, which is looked through."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "robots").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLASHNERD_ROBOTS", str(folder / "robots"))
        for name, text in (("rex", dog), ("picker", arm)):
            (folder / f"{name}.urdf").write_text(text)
            effort = {"joint2": 30.0} if name == "picker" else {}
            new_robot(Options(path=folder / f"{name}.urdf", name=name, out=folder / "robots", effort=effort), "typed")
        yield folder


def tiny(folder: Path, name: str) -> Path:
    """A data set of a few trajectories."""
    robot, data = get_robot(name), folder / f"data_{name}"
    sizes = {"train": SplitPlan(16, 6, False), "val": SplitPlan(4, 6, True), "test": SplitPlan(4, 6, True)}
    plan = Plan(name, 0, "mujoco_c", sizes | {"balance": SplitPlan(0, 6, True)}, shard=64)
    assert set(plan.splits) == set(SPLITS)
    data.mkdir(exist_ok=True)
    model = load_or_export(robot, data)
    Writer(data, robot, model, build_engine("mujoco_c", model), plan).run(lambda *_: None)
    return data


def trained(home: Path, name: str, **options: Any) -> Path:
    """A bundle of a few updates in the robot's folder."""
    small = {"width": 16, "hidden": 16, "heads": 2} | options
    train = TrainOptions(updates=3, batch=16, window=1, compiled=False)
    config = TrainDynamicsConfig(
        robot=name, data=str(tiny(home, name)), out=str(home / "robots" / name / "bundle"), options=small, train=train,
        rollouts=4, device="cpu",
    )  # fmt: skip
    return train_dynamics(config)


@pytest.fixture(scope="module")
def bundle(home: Path) -> Path:
    """The bundle of ``rex``."""
    return trained(home, "rex")


def test_the_default_pose_stands_on_the_feet(home: Path) -> None:
    robot = get_robot("rex")
    pose = robot.default_joint_q
    for leg in ("FL", "FR", "RL", "RR"):
        hip, knee = pose[f"{leg}_hip"], pose[f"{leg}_knee"]
        # Two links of 0.2 m: the foot lies below the hip, with the knee behind it.
        assert np.sin(hip) + np.sin(hip + knee) == pytest.approx(0.0, abs=0.02) and hip > 0.3
        assert 0.2 * (np.cos(hip) + np.cos(hip + knee)) + 0.025 == pytest.approx(robot.stand_height, abs=2e-3)
    assert robot.stand_height == pytest.approx(0.75 * 0.4 + 0.025, abs=0.01)
    assert robot.mirror is not None and robot.mirror.sides == ("L_", "R_") and robot.mirror.turned == ()


def test_inertias_of_an_arm_are_the_least_over_its_poses(home: Path) -> None:
    inertia = load_own(home / "robots/picker").data.inertia
    # The last link swings about its end: 0.01 + 1.0 * 0.15^2 whatever the pose.
    assert inertia["joint3"] == pytest.approx(0.0325, rel=0.01)
    assert get_robot("picker").layout.position_free == ("joint1",), "the first joint turns about the vertical"
    # Both links about the second joint: least when folded as far as the limit of 2 rad lets them.
    rod, middle = 0.01 + 0.15**2, 0.3**2 + 0.15**2 + 2 * 0.3 * 0.15 * np.cos(2.0)
    assert rod + 0.01 + middle - 1e-6 <= inertia["joint2"] < 1.1 * (rod + 0.01 + middle)


def test_what_the_command_says_is_what_it_wrote(home: Path) -> None:
    text = (home / "robots/picker/robot.toml").read_text()
    assert get_robot("picker").effort_limit["joint2"] == 30.0 and "typed" in text
    printed = guesses(home / "robots/rex") + next_steps(home / "robots/rex")
    for word in (
        "guessed: default, stiffness, damping",
        "robot=rex",
        "FLASHNERD_ROBOTS=",
        "-Flat-Rex physics=flashnerd",
    ):
        assert word in printed, printed
    findings = json.loads((home / "robots/rex/findings.json").read_text())
    assert {finding["severity"] for finding in findings} == {"note"}
    with pytest.raises(FlashNerdError, match="--force"):
        new_robot(Options(path=home / "rex.urdf", name="rex", out=home / "robots"))
    with pytest.raises(FlashNerdError, match="holds a robot of that name"):
        new_robot(Options(path=home / "rex.urdf", name="rex", out=home / "elsewhere"))
    assert not (home / "elsewhere").exists()


def test_data_training_and_task_run_on_it_unchanged(home: Path, bundle: Path) -> None:
    data = load_trajectories(home / "data_rex", "train", get_robot("rex"))
    assert data.valid.all() and (data.extra["row_count"] > 0).any(), "some robots touch the ground"
    card = json.loads((bundle / "card.json").read_text())
    assert card["robot"]["asset_key"].startswith("rex@own-") and card["robot"]["name"] == "rex"
    child = Path(__file__).with_name("own_robot_child.py")
    words = ["FlashNeRD-Velocity-Flat-Rex", "FlashNeRD-Reach-Picker"]
    done = subprocess.run(
        [sys.executable, str(child), *words], capture_output=True, text=True, cwd=home, env={**os.environ}
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert lines, (done.stdout[-1500:], done.stderr[-3000:])
    result, robot = json.loads(lines[-1].removeprefix("RESULT")), get_robot("rex")
    assert result["registered"] == ["FlashNeRD-Reach-Picker", "FlashNeRD-Velocity-Flat-Rex"]
    assert result["imported_before"] == [], "a task file is imported when its task is asked for"
    assert result["joints"] == list(robot.layout.joint_names), "the file's order is the simulator's"
    assert result["default"] == pytest.approx(list(robot.default_q), abs=1e-6)
    assert result["heights"] == pytest.approx([robot.base_height] * 2, abs=1e-4)
    assert result["finite"] and result["dt"] == pytest.approx(robot.dt) and result["bundle"] == str(bundle)
    assert result["experiment"] == "flashnerd_rex_flat" and result["mirror"] == ["L_", "R_"]
    task = load_own(home / "robots/picker").task
    assert result["arm"] == {
        "solver": "FlashNerdSolverCfg", "tip": "link3", "reach": [list(task.reach[0]), list(task.reach[2])],
        "experiment": "flashnerd_picker_reach",
    }  # fmt: skip


def test_data_of_a_robot_that_was_edited_since_are_not_gone_on_with(home: Path, bundle: Path) -> None:
    path = home / "robots/rex/robot.toml"
    text = path.read_text()
    path.write_text(text.replace("base_mass = [-0.25, 0.3]", "").replace("stiffness = 20,", "stiffness = 30,"))
    try:
        with pytest.raises(FlashNerdError, match="layout differ"):
            load_or_export(get_robot("rex"), home / "data_rex")
    finally:
        path.write_text(text)
    assert load_or_export(get_robot("rex"), home / "data_rex").robot == "rex"


def test_an_arm_gets_a_bundle_of_coupled_mode(home: Path) -> None:
    card = json.loads((trained(home, "picker", span=1) / "card.json").read_text())
    assert card["coupling"]["label"] == "qacc_smooth" and card["simulation"]["dt"] == pytest.approx(1 / 240)
