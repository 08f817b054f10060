"""Comparing trainings: curves from event files, what is trained and what is kept, table and picture; no simulator."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl import transfer
from flashnerd_ext.rl.compare import program, summary, training
from flashnerd_ext.rl.compare.curve import COLLECTION, LEARNING, REWARD, Curve, read_curve
from flashnerd_ext.rl.compare.options import CompareConfig, words_of

Row = tuple[int, dict[str, float]]


def log(run: Path, rows: list[Row], suffix: str = "") -> Path:
    """An event file as rsl_rl's writer makes it."""
    run.mkdir(parents=True, exist_ok=True)
    writer = EventFileWriter(str(run), filename_suffix=suffix)
    for step, values in rows:
        for tag, value in values.items():
            item = Summary.Value(tag=tag, simple_value=value)
            writer.add_event(Event(step=step, wall_time=1000.0 + step, summary=Summary(value=[item])))
    writer.close()
    return run


def rows(rewards: list[float | None], collection: float = 2.0, learning: float = 1.0, start: int = 0) -> list[Row]:
    found = []
    for step, reward in enumerate(rewards, start):
        values = {COLLECTION: collection, LEARNING: learning, "Perf/total_fps": 9.0}
        found.append((step, values | ({} if reward is None else {REWARD: reward})))
    return found


def test_curve_is_reward_over_accumulated_time(tmp_path: Path) -> None:
    curve = read_curve(log(tmp_path, rows([None, 1.0, 3.0, 2.5])))
    np.testing.assert_allclose(curve.seconds, [3.0, 6.0, 9.0, 12.0])
    np.testing.assert_allclose(curve.reward, [np.nan, 1.0, 3.0, 2.5])
    assert curve.final == 2.5 and curve.wall == pytest.approx(3.0)
    assert [curve.reached(level) for level in (1.0, 2.0, 3.1)] == [6.0, 9.0, None]


def test_what_a_resumed_training_logged_last_counts(tmp_path: Path) -> None:
    log(tmp_path, rows([0.0, 1.0, 2.0]), ".0")
    for path in tmp_path.iterdir():
        os.utime(path, (1.0, 1.0))
    log(tmp_path, rows([7.0, 8.0], start=2), ".1")
    curve = read_curve(tmp_path)
    np.testing.assert_allclose(curve.reward, [0.0, 1.0, 7.0, 8.0])
    np.testing.assert_array_equal(curve.iteration, range(4))


def test_other_logs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FlashNerdError, match="0 entries of Perf/collection_time"):
        read_curve(tmp_path)
    log(tmp_path / "loss", [(0, {"Loss/value": 1.0})])
    log(tmp_path / "half", [(0, {COLLECTION: 1.0})])
    for name in ("loss", "half"):
        with pytest.raises(FlashNerdError, match="one of each an iteration"):
            read_curve(tmp_path / name)
    (tmp_path / "events.out.tfevents.1").write_bytes(b"\x07" * 999)
    with pytest.raises(FlashNerdError, match=r"cannot be read as a TensorBoard log|0 entries"):
        read_curve(tmp_path)
    no_episode = read_curve(log(tmp_path / "young", rows([None, None])))
    assert np.isnan(no_episode.final) and no_episode.reached(0.0) is None


def test_words_of_each_physics(tmp_path: Path) -> None:
    bundles = {"nerd_optimized": "/b/nerd", "flashnerd": "/b/flash"}
    config = CompareConfig(
        bundles=bundles, refresh=50, refresh_options=["refresh.minutes=1"], overrides=["env.episode_length_s=4"]
    )
    lines = {name: " ".join(words_of(config, name, 7)) for name in config.physics}
    for line in lines.values():
        assert "--task FlashNeRD-Cartpole" in line and "--seed 7 --num_envs 512 --max_iterations 100" in line
        assert line.endswith("env.episode_length_s=4")
    assert "physics=newton_mjwarp" in lines["newton_mjwarp"] and "solver_cfg" not in lines["newton_mjwarp"]
    optimised = lines["nerd_optimized"]
    assert "physics=flashnerd" in optimised and "solver_cfg.model=nerd_optimized" in optimised
    assert "solver_cfg.bundle=/b/nerd" in optimised and "--refresh" not in optimised
    learned = lines["flashnerd"]
    assert "solver_cfg.bundle=/b/flash" in learned and "solver_cfg.model" not in learned
    assert "--refresh 50 refresh.minutes=1" in learned


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"json": ""}, "json is empty"),
        ({"num_envs": 0}, "num_envs is 0"),
        ({"max_iterations": 0}, "max_iterations is 0"),
        ({"jobs": 0}, "jobs is 0"),
        ({"reach": 0.0}, "reach is 0"),
        ({"reach": 101.0}, "reach is 101"),
        ({"seeds": []}, "seeds is"),
        ({"seeds": [1, 1]}, "seeds is"),
        ({"physics": []}, "different names are needed"),
        ({"physics": ["newton_mjwarp", "newton_mjwarp"]}, "different names are needed"),
        ({"physics": ["newton_mjwarp"], "refresh": 5}, "flashnerd alone is refreshed"),
        ({"refresh_options": ["refresh.minutes=1"]}, "refresh is 0"),
        ({"refresh": 5, "refresh_options": ["minutes=1"]}, "refresh.KEY=VALUE is needed"),
        ({"bundles": {"flashnrd": "x"}}, "did you mean flashnerd"),
        ({"bundles": {"newton_mjwarp": "x"}}, "is not learned physics"),
        ({"physics": ["nerd_optimized"]}, "needs a bundle of a NeRD"),
        ({"runs": {"physx": "x"}}, "runs names 'physx'"),
        ({"runs": {"flashnerd": 3}}, r"runs\.flashnerd is 3"),
        ({"runs": {"flashnerd": []}}, r"runs\.flashnerd is \[\]"),
        ({"runs": {"flashnerd": "/nowhere"}}, "there is no such folder"),
        ({"runs": {"flashnerd": "EMPTY"}}, r"has no model_\*"),
        ({"runs": {"flashnerd": ["NO_LOG"]}}, "events.out.tfevents"),
    ],
)
def test_wrong_options_get_one_sentence(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    (tmp_path / "EMPTY").mkdir()
    (tmp_path / "NO_LOG").mkdir()
    (tmp_path / "NO_LOG" / "model_3.pt").touch()
    places = {"EMPTY": str(tmp_path / "EMPTY")}
    if "runs" in change:
        given = {k: places.get(v, v) if isinstance(v, str) else v for k, v in change["runs"].items()}
        change = {"runs": {k: [str(tmp_path / "NO_LOG")] if v == ["NO_LOG"] else v for k, v in given.items()}}
    base: dict[str, Any] = {"physics": ["newton_mjwarp", "flashnerd"], "json": str(tmp_path / "c.json")}
    with pytest.raises(FlashNerdError, match=match) as caught:
        CompareConfig(**{**base, **change}).check()
    assert "\n" not in str(caught.value)


PRETENDER = """
import shutil, sys
from pathlib import Path

with open("../../trained.txt", "a") as stream:
    print(Path.cwd().name, file=stream)
if Path("../../fail.txt").exists():
    print("error: the bundle does not fit.\\nbye")
    sys.exit(2)
run = Path("logs/rsl_rl/exp/2026-01-01")
shutil.copytree(Path("../..") / Path.cwd().name.split("-s")[0], run)
for i in range(3):
    print(f"\\x1b[1m Learning iteration {i}/3 \\x1b[0m")
(run / "model_2.pt").touch()
"""
"""Takes what lies ready as the log of its physics; imports next to nothing, so that it starts at once."""


@pytest.fixture
def comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompareConfig:
    """A comparison whose trainings are pretended, and so is the evaluation: 3.9 and 4.8, less 0.1 for each seed."""
    script = tmp_path / "pretender.py"
    script.write_text(PRETENDER)
    log(tmp_path / "newton_mjwarp", rows([None, 2.0, 4.0], collection=3.0))
    log(tmp_path / "flashnerd", rows([None, 2.5, 5.0], collection=1.0))
    monkeypatch.setattr(training, "COMMAND", (sys.executable, str(script)))

    def evaluated(options: transfer.TransferConfig) -> dict[str, Any]:
        level = {"newton_mjwarp": 3.9, "flashnerd": 4.8}
        cells = [
            {
                "trained": name, "evaluated": options.physics[0], "mode": "mean", "return": level[name],
                "interval": [level[name] - 0.2, level[name] + 0.2],
                "policies": [{"return": level[name] - 0.1 * i, "survival": 1.0} for i in range(len(paths))],
            }
            for name, paths in options.policies.items()
        ]  # fmt: skip
        content = {"policies": options.policies, "task": options.task, "num_envs": options.num_envs, "cells": cells}
        content |= {"seeds": options.seeds, "physics": {name: {} for name in options.physics}}
        Path(options.json).write_text(json.dumps(content))
        with (tmp_path / "trained.txt").open("a") as stream:
            print("evaluated", file=stream)
        return content

    monkeypatch.setattr(transfer, "run", evaluated)
    return CompareConfig(
        physics=["newton_mjwarp", "flashnerd"], seeds=[0, 1], max_iterations=3, json=str(tmp_path / "c.json")
    )


def started(config: CompareConfig) -> list[str]:
    path = Path(config.json).parent / "trained.txt"
    return path.read_text().split() if path.exists() else []


def test_comparison_from_training_to_picture(comparison: CompareConfig, capsys: pytest.CaptureFixture[str]) -> None:
    content = program.run(comparison)
    # Seeds take turns, so that a stopped comparison has the same ones of every physics.
    assert started(comparison) == ["newton_mjwarp-s0", "flashnerd-s0", "newton_mjwarp-s1", "flashnerd-s1", "evaluated"]
    assert json.loads(Path(comparison.json).read_text()) == json.loads(json.dumps(content, allow_nan=False))
    first, second = content["physics"]
    assert (first["physics"], second["physics"]) == ("newton_mjwarp", "flashnerd")
    assert (first["final"], second["final"]) == (4.0, 5.0) and content["level"] == pytest.approx(0.9 * 4.8)
    assert (first["collection"], first["learning"], second["collection"]) == (9.0, 3.0, 3.0)
    assert first["reached"] is None and first["reached_runs"] == 0 and second["reached"] == 6.0
    assert second["evaluated"] == 4.8 and second["interval"] == [4.6, 5.0]
    assert [run["evaluated"] for run in content["runs"]] == [3.9, 3.8, 4.8, pytest.approx(4.7)]
    assert 0 < first["wall"] < 100
    folder = Path(comparison.json).parent
    assert (folder / "c.png").read_bytes().startswith(b"\x89PNG")
    text = (folder / "c.txt").read_text()
    assert "4.800 [4.600, 5.000]" in text and "90 % of the best return in newton_mjwarp is 4.320" in text
    assert text.strip() in capsys.readouterr().out


def test_what_is_finished_is_not_done_again(comparison: CompareConfig) -> None:
    before = program.run(comparison)
    count = len(started(comparison))
    again = program.run(comparison)
    assert len(started(comparison)) == count
    assert again["physics"] == before["physics"] and again["runs"] == before["runs"]
    # A training that was killed has no stamp: it begins anew, the others stay, and policies are evaluated again.
    killed = training.place_of(comparison, "flashnerd", 1)
    (killed / training.STAMP).unlink()
    time.sleep(0.01)
    program.run(comparison)
    assert started(comparison)[count:] == ["flashnerd-s1", "evaluated"]
    # Other options are another training.
    comparison.num_envs = 64
    assert training.finished(comparison, "flashnerd", 0) is None


def test_a_failing_training_says_why_and_keeps_the_others(comparison: CompareConfig) -> None:
    program.run(comparison)
    fail = Path(comparison.json).parent / "fail.txt"
    fail.touch()
    comparison.seeds = [0, 2]
    with pytest.raises(FlashNerdError, match=r"newton_mjwarp with seed 2 failed: the bundle does not fit; its log is"):
        program.run(comparison)
    assert started(comparison)[-1] == "newton_mjwarp-s2"  # the next one is not begun
    fail.unlink()
    count = len(started(comparison))
    program.run(comparison)
    assert started(comparison)[count:] == ["newton_mjwarp-s2", "flashnerd-s2", "evaluated"]


def test_given_runs_take_the_place_of_trainings(comparison: CompareConfig, tmp_path: Path) -> None:
    given = log(tmp_path / "given", rows([1.0, 2.0, 3.0, 6.0]))
    (given / "model_3.pt").touch()
    comparison.runs = {"newton_mjwarp": str(given)}
    content = program.run(comparison)
    assert started(comparison) == ["flashnerd-s0", "flashnerd-s1", "evaluated"]
    assert content["runs"][0]["seed"] is None and content["runs"][0]["wall"] == pytest.approx(3.0)
    assert content["physics"][0]["runs"] == 1 and content["physics"][0]["final"] == 6.0


def test_without_an_evaluation_there_are_no_diamonds(comparison: CompareConfig) -> None:
    comparison.evaluate = "none"
    content = program.run(comparison)
    assert "evaluated" not in started(comparison)
    assert all(run["evaluated"] is None for run in content["runs"])
    assert Path(comparison.json).with_suffix(".png").stat().st_size > 5000


def test_medians_over_seeds() -> None:
    def entry(physics: str, rewards: list[float | None], seconds: float) -> dict[str, Any]:
        size = len(rewards)
        curve = Curve(
            np.arange(size), np.full(size, seconds), np.zeros(size), np.array(rewards, float), wall=seconds * size
        )
        return summary.run_entry(training.Run(physics, 0, Path("x"), None), curve, None)

    runs = [entry("a", [None, 1.0, 5.0], 1.0), entry("a", [0.0, 2.0, 6.0, 9.0], 2.0), entry("a", [0.0, 9.0, 7.0], 4.0)]
    seconds, reward = summary.median_curve(runs)
    np.testing.assert_allclose(seconds, [2.0, 4.0, 6.0])  # as far as all came
    np.testing.assert_allclose(reward, [np.nan, 2.0, 6.0])
    # Two of three seeds came there: the median is the later of their times only if half of all did.
    assert summary.physics_entry("a", runs, [4.0, None, 8.0], None)["reached"] == 6.0
    assert summary.physics_entry("a", runs, [4.0, None, None], None)["reached"] is None
    assert summary.level_of(runs, None, 50.0) == pytest.approx(3.5)  # finals 5, 9 and 7
    assert summary.level_of(runs, {"cells": [{"return": 2.0}, {"return": -3.0}]}, 50.0) == pytest.approx(1.0)
    assert summary.level_of([entry("b", [-1.0], 1.0)], None, 50.0) is None
