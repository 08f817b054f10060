"""A tiny comparison of trainings, typed as a user types it: three physics, one of them with another architecture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked import forked, fresh

pytest.importorskip("isaaclab")

from flashnerd_ext.robots.registry import get_robot

pytestmark = [pytest.mark.kitless, pytest.mark.slow]
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "compare_training.py"


def test_three_physics_from_training_to_picture(tmp_path: Path, make_bundle: Callable[..., Any]) -> None:
    nerd = make_bundle(get_robot("cartpole"), model="nerd")
    words = (
        "task=FlashNeRD-Cartpole", "seeds=[3]", "num_envs=8", "max_iterations=8", "eval_envs=4", "json=c.json",
        f"bundles={{nerd_optimized: {nerd.path}}}", "overrides=['env.episode_length_s=2']",
    )  # fmt: skip
    done = fresh(SCRIPT, *words, cwd=tmp_path, timeout=1800)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-3000:]
    content = json.loads((tmp_path / "c.json").read_text())
    names = ["newton_mjwarp", "nerd_optimized", "flashnerd"]
    assert [row["physics"] for row in content["physics"]] == names
    for row, run in zip(content["physics"], content["runs"], strict=True):
        assert run["iterations"] == 8 and len(run["curve"]["seconds"]) == 8 and run["seed"] == 3
        assert row["collection"] > 0 and row["learning"] > 0 and row["collection"] + row["learning"] < row["wall"]
        assert row["final"] is not None and row["evaluated"] is not None
        manifest = json.loads((tmp_path / run["folder"] / "run.json").read_text())["metadata"]
        learned = row["physics"] != "newton_mjwarp"
        assert manifest["physics"] == ("flashnerd" if learned else "newton_mjwarp")
        assert (manifest["bundle_hash"] == nerd.hash) == (row["physics"] == "nerd_optimized")
    # Each policy is worth something of its own in the simulator.
    assert len({round(row["evaluated"], 6) for row in content["physics"]}) == 3
    assert (tmp_path / "c.png").stat().st_size > 5000 and "newton_mjwarp" in (tmp_path / "c.txt").read_text()

    again = forked(SCRIPT, *words, cwd=tmp_path)
    assert again.returncode == 0 and "3 of 3 trainings are there already" in again.stdout
    assert json.loads((tmp_path / "c.json").read_text())["runs"] == content["runs"]


def test_wrong_words_get_one_sentence(tmp_path: Path) -> None:
    for words, expected in (
        (("physics=[nerd_optimized]",), "needs a bundle of a NeRD"),
        (("max_itarations=3",), "did you mean max_iterations"),
    ):
        done = forked(SCRIPT, *words, cwd=tmp_path)
        assert done.returncode == 2 and expected in done.stderr and "Traceback" not in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "outputs").exists()
