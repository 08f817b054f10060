"""Robot and object compared as a user types it: the simulator and two-way coupling, a few control steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from forked import forked, fresh

pytest.importorskip("isaaclab")

pytestmark = [pytest.mark.kitless, pytest.mark.slow]
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "evaluate_objects.py"
WORDS = ("runs=[simulator,two_way]", "num_envs=3", "seconds=0.07", "bootstrap=100", "folder=runs", "json=o.json")


def test_two_way_agrees_with_the_simulator_and_runs_are_taken_again(tmp_path: Path) -> None:
    done = fresh(SCRIPT, *WORDS, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-3000:]
    content = json.loads((tmp_path / "o.json").read_text())
    assert list(content["runs"]) == ["two_way"] and content["num_envs"] == 3
    run = content["runs"]["two_way"]
    assert run["steps"] > 0 and run["fallen_back"] == 0
    assert run["all"]["pose"]["worlds"] == 3
    # After two control steps chance has not grown yet: a start that is 1e-6 rad off is as far away.
    assert run["all"]["pose"]["mm"] < 0.1 and run["all"]["pose"]["rad"] < 1e-3
    assert (tmp_path / "o.png").read_bytes().startswith(b"\x89PNG")
    rows = (tmp_path / "runs" / "two_way.json", tmp_path / "runs" / "two_way.npz")
    written = [row.stat().st_mtime_ns for row in rows]

    again = forked(SCRIPT, *WORDS, cwd=tmp_path)
    assert again.returncode == 0, again.stderr[-3000:]
    assert json.loads((tmp_path / "o.json").read_text())["runs"] == content["runs"]
    assert [row.stat().st_mtime_ns for row in rows] == written

    other = forked(SCRIPT, *WORDS, "seed=1", cwd=tmp_path)
    assert other.returncode == 2 and "another folder=" in other.stderr and "Traceback" not in other.stderr
    assert [row.stat().st_mtime_ns for row in rows] == written
