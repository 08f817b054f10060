"""Recorded steps of running tasks are steps of the simulator: the data engine takes the same ones from each state.

Each command is typed as a user types it: a process has one simulation.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from forked import forked, fresh

pytest.importorskip("isaaclab")

from flashnerd_ext.data.dataset import Trajectories, load_trajectories
from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.data.engines.mujoco_c import MujocoC
from flashnerd_ext.robots.registry import get_robot

pytestmark = [pytest.mark.kitless, pytest.mark.slow]

sys.path.append(str(Path(__file__).parent))
from test_backend_legged import bundle_at  # noqa: E402

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def typed(folder: Path, script: str, *words: object) -> None:
    # The first task's recording starts as a user starts it.
    start = fresh if (script, words[0]) == ("record_policy.py", "task=Isaac-Cartpole") else forked
    done = start(SCRIPTS / script, *words, cwd=folder)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]


def recorded(folder: Path, task: str, *words: object) -> Path:
    """A barely trained policy of the task, and what it visited."""
    typed(folder, "rsl_rl/train.py", *("--task", task, "--num_envs", 4, "--max_iterations", 1, "physics=newton_mjwarp"))
    run = next(folder.glob("logs/rsl_rl/*/*"))
    typed(folder, "record_policy.py", f"task={task}", f"policy={run}", "out=data", *words)
    return folder / "data"


def replayed(folder: Path, data: Trajectories) -> tuple[np.ndarray, np.ndarray, MujocoC]:
    """Errors of the engine's step from every recorded state, relative in the velocities, [n, nq] and [n, nv]."""
    engine = MujocoC(ExportedModel.load(folder))
    i, t = np.nonzero(data.valid)
    if "condition" in data.extra:
        engine.set_worlds(data.extra["condition"][i], data.extra["friction"][i])
    q, qd = engine.step(data.joint_q[i, t], data.joint_qd[i, t], data.actuation[i, t])
    scale = 1.0 + np.abs(data.joint_qd[i, t]).max(1, keepdims=True)
    return np.abs(q - data.joint_q[i, t + 1]), np.abs(qd - data.joint_qd[i, t + 1]) / scale, engine


def test_cartpole_transitions_are_the_engines(tmp_path: Path) -> None:
    folder = recorded(tmp_path, "Isaac-Cartpole", "num_envs=16", "steps=90", "length=40", "seed=5")
    data = load_trajectories(folder, "train", get_robot("cartpole"))
    q, qd, _ = replayed(folder, data)
    assert len(q) > 800 and q.max() < 1e-5 and qd.max() < 1e-5
    moved = np.abs(np.diff(data.joint_qd, axis=1))[data.valid]
    assert np.median(moved.max(1)) > 0.05  # far above the tolerance: another step's state would show
    scores = json.loads((folder / "scores.json").read_text())
    # A fall in the last step of all is followed by nothing.
    falls = sum(episode["end"] == "fell" and episode["steps"] < 90 for episode in scores["episodes"])
    assert len(scores["episodes"]) == 16 and scores["data"]["jumps"] >= falls > 0
    assert [group["noise"] for group in scores["groups"]] == [0.0, 1.0, 2.0]
    # Mean actions are a function of the state, sampled ones are not: the action alone must tell them apart.
    spread = [np.abs(np.diff(data.actuation[data.sampler == n], axis=1)).mean() for n in (0, 1, 2)]
    assert spread[0] < spread[1] < spread[2]


@pytest.mark.parametrize("physics", ["newton_mjwarp", "mujoco_c"])
def test_anymal_transitions_are_the_engines(tmp_path: Path, physics: str) -> None:
    """Whether Isaac Lab's solver made them, or the engine itself behind the learned backend."""
    folder = recorded(
        tmp_path, "FlashNeRD-Velocity-Flat-AnymalC", f"physics={physics}", f"bundle={bundle_at(tmp_path / 'bundle')}",
        "num_envs=12", "steps=40", "noise=[0,1]",
        "bins={stand: 1, turn: 1, backward: 1}", "pushes=0.4", "push_every=0.3",
    )  # fmt: skip
    data = load_trajectories(folder, "train", get_robot("anymal_c"))
    q, qd, engine = replayed(folder, data)
    i, t = np.nonzero(data.valid)
    assert len(q) > 300
    # MuJoCo Warp in float32 and MuJoCo C in float64 solve the same contacts to their tolerances.
    assert np.median(q.max(1)) < 2e-6 and np.median(qd.max(1)) < 5e-5
    assert np.quantile(q.max(1), 0.95) < 1e-3 and np.quantile(qd.max(1), 0.95) < 1e-2
    air = data.extra["row_count"][i, t] == 0
    if air.any():
        assert q[air].max() < 1e-5 and qd[air].max() < 1e-4
    torque, force = data.extra["torque"][i, t], data.extra["force"][i, t]
    assert np.median(np.abs(engine.torque - torque).max(1)) < 1e-3 < 1.0 < np.abs(torque).max()
    assert np.median(np.abs(engine.force - force).max((1, 2))) < 0.5 < 50.0 < np.abs(force).max()
    # The stock task changes every robot's base, and without that the same steps do not come out.
    assert np.abs(data.extra["condition"]).max() > 0.02
    engine.set_worlds(None, data.extra["friction"][i])
    nominal = engine.step(data.joint_q[i, t], data.joint_qd[i, t], data.actuation[i, t])[1]
    assert np.median(np.abs(nominal - data.joint_qd[i, t + 1]).max(1)) > 1e-2
    scores = json.loads((folder / "scores.json").read_text())
    assert scores["data"]["jumps"] > 0 and {episode["bin"] for episode in scores["episodes"]} == {
        "stand", "turn", "backward",
    }  # fmt: skip
    assert any(episode["pushed"] for episode in scores["episodes"])
