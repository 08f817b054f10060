"""A refreshed training of CartPole as a user types it, killed in its second refresh and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("isaaclab")

from flashnerd_ext.bundle.store import load_bundle
from flashnerd_ext.data.dataset import load_trajectories
from flashnerd_ext.robots.registry import get_robot

pytestmark = [pytest.mark.kitless, pytest.mark.slow]

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def base_data(folder: Path) -> Path:
    """A small data set of the bundle's robot."""
    from flashnerd_ext.data.engines import build_engine, load_or_export
    from flashnerd_ext.data.writer import Plan, SplitPlan, Writer

    robot = get_robot("cartpole")
    model = load_or_export(robot, folder)
    splits = {"train": SplitPlan(60, 20, True), "val": SplitPlan(20, 20, True)}
    Writer(folder, robot, model, build_engine("mujoco_c", model), Plan("cartpole", 0, "mujoco_c", splits, 64)).run()
    return folder


def words(bundle: Any, data: Path, *more: str) -> list[str]:
    options = {
        "data": data, "num_envs": 8, "score_steps": 8, "steps": 24, "updates": 6, "batch": 32, "window": 4,
        "compiled": "false", "beside": "false", "final": "false",
    }  # fmt: skip
    return [
        sys.executable, str(SCRIPTS / "rsl_rl/train.py"), "--task", "FlashNeRD-Cartpole", "--num_envs", "8",
        "--refresh", "1", "physics=flashnerd", f"env.sim.physics.solver_cfg.bundle={bundle.path}",
        *(f"refresh.{name}={value}" for name, value in options.items()), *more,
    ]  # fmt: skip


def state_of(folder: Path) -> tuple[Path | None, list[dict[str, Any]]]:
    found = sorted(folder.glob("logs/rsl_rl/*/*/refresh/state.json"))
    if not found:
        return None, []
    return found[-1].parents[1], json.loads(found[-1].read_text())["rounds"]


def processes(text: str) -> list[int]:
    """Processes whose command line holds ``text``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if text in line:
                found.append(int(entry.name))
    return found


def test_two_refreshes_with_a_kill_between(tiny_bundle: Any, tmp_path: Path) -> None:
    data = base_data(tmp_path / "data")
    log = (tmp_path / "first.log").open("w")
    process = subprocess.Popen(
        words(tiny_bundle, data, "--max_iterations", "4"), cwd=tmp_path, stdout=log, stderr=log, env=ENVIRONMENT
    )
    deadline = time.monotonic() + 800
    while not (len(state_of(tmp_path)[1]) == 2 and state_of(tmp_path)[1][1]["phase"] == "tune"):
        assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "first.log").read_text()[-3000:]
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    first, rounds = state_of(tmp_path)
    assert first is not None and [item["phase"] for item in rounds] == ["done", "tune"]
    for _ in range(50):
        if not processes(str(first)):
            break
        time.sleep(0.1)
    assert not processes(str(first)), "the fine-tuning outlived the training"
    scored = (Path(rounds[1]["folder"]) / "simulator.json").stat().st_mtime_ns

    done = subprocess.run(
        words(tiny_bundle, data, "--max_iterations", "1", "--checkpoint", str(first)),
        cwd=tmp_path, capture_output=True, text=True, env=ENVIRONMENT, timeout=800,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    assert "resuming from" in done.stdout and "goes on with tune" in done.stdout
    second, rounds = state_of(tmp_path)
    assert second is not None and second != first and rounds[1]["phase"] == "done"
    assert (Path(rounds[1]["folder"]) / "simulator.json").stat().st_mtime_ns == scored

    # The bundles descend from one another, and the manifest names the one in force.
    bundles = [tiny_bundle, *(load_bundle(Path(item["folder"]) / "bundle") for item in rounds)]
    assert [len(bundle.card.lineage) for bundle in bundles] == list(range(len(bundles)))
    assert bundles[2].card.lineage == (bundles[0].hash, bundles[1].hash)
    assert len(bundles[2].card.training.data) == 3
    manifest = json.loads((second / "run.json").read_text())["metadata"]
    assert manifest["bundle_hash"] == bundles[-1].hash and manifest["bundle_path"] == str(bundles[-1].path)

    # Both worlds were scored on the same seeds, and the share is stated with its interval.
    row = json.loads((second / "refresh.json").read_text())["rounds"][1]
    assert row["simulator"]["episodes"] == row["learned"]["episodes"] == 8
    low, high = row["kept"]["interval"]
    assert low <= row["kept"]["ratio"] <= high and manifest["kept"].startswith("kept ")
    assert row["learned"]["return"] != row["simulator"]["return"]
    assert {"start", "score", "record", "learned", "tune", "swap"} <= set(row["seconds"])
    assert load_trajectories(Path(rounds[1]["folder"]) / "data", "train", get_robot("cartpole")).transitions > 100
    best = json.loads((second / "refresh" / "state.json").read_text())["best"]
    returns = [item["facts"]["simulator"]["return"] for item in rounds]
    assert best["return"] == max(returns) and Path(best["path"]).is_file()
