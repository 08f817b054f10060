"""scripts/benchmark.py what=env on the real stock task."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.kitless, pytest.mark.slow]


def run(repo, *words):
    command = [sys.executable, str(repo / "scripts/benchmark.py"), "what=env", "physics=[newton_mjwarp]", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)


def test_the_stock_task_is_stepped_and_physics_is_a_part_of_the_step(repo, tmp_path):
    done = run(repo, "task=Isaac-Cartpole", "num_envs=[4]", "rounds=2", "seconds=0", f"json={tmp_path}/e.json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "e.json").read_text())["rows"]
    assert row["manager"] == "NewtonMJWarpManager"
    assert row["decimation"] == 2
    assert 0 < row["physics_s_per_step"] < row["step_s"]
    assert row["env_steps_per_s"] == pytest.approx(4 / row["step_s"])
    assert "[INFO]" not in done.stdout


def test_a_task_that_is_not_there_is_one_sentence(repo, tmp_path):
    done = run(repo, "task=Isaac-Cartpool", f"json={tmp_path}/e.json")
    assert done.returncode == 2
    assert "Isaac-Cartpool" in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_soak_reads_memory_and_counts_worlds(repo, tmp_path):
    words = ("what=soak", "task=Isaac-Cartpole", "num_envs=[8]", "steps=60", f"json={tmp_path}/s.json")
    done = run(repo, *words)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "s.json").read_text())["soak"]["8"]
    assert found["steps"] == 60 and found["world_steps"] == 480 and found["passed"] == 0
    assert len(found["memory"]) == 61 and all(100 < value < 10_000 for value in found["memory"])
    assert (tmp_path / "s.png").stat().st_size > 5_000
    assert "memory at start, middle, end" in done.stdout
