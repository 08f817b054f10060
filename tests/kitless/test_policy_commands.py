"""Isaac Lab's own commands with this package installed, typed in a folder that knows nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("isaaclab")
pytestmark = [pytest.mark.kitless, pytest.mark.slow]


def isaaclab(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """``isaaclab WORDS`` in ``folder``, as a user without any setting of ours types it."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("FLASHNERD", "ISAACSIM_ASSET"))}
    environment["OMP_NUM_THREADS"] = "1"
    return subprocess.run(
        [sys.executable, "-m", "isaaclab", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )


def test_tasks_are_listed(tmp_path: Path) -> None:
    done = isaaclab(tmp_path, "list_envs")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "FlashNeRD-Cartpole" in done.stdout


@pytest.mark.parametrize("agent", ["zero_agent", "random_agent"])
def test_agents_run_our_task(tmp_path: Path, agent: str, tiny_bundle: Any) -> None:
    done = isaaclab(
        tmp_path,
        *(agent, "--task", "FlashNeRD-Cartpole", "--num_envs", "4", "--max_steps", "5", "--device", "cpu"),
        *("--viz", "none", f"env.sim.physics.solver_cfg.bundle={tiny_bundle.path}"),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "FlashNeRD: bundle" in done.stdout
