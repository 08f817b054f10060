"""What a training logs and keeps beside rsl_rl's own: guard, times, best.pt and latest.pt; selectors that find them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.physics.clock import timed_physics
from flashnerd_ext.rl import best, checkpoint, live_log, manifest
from flashnerd_ext.rl.best import BestByReturn
from flashnerd_ext.rl.live_log import GuardCount, LiveLog, guard_scalars
from flashnerd_ext.rl.record.program import checkpoints
from flashnerd_ext.rl.selectors import select
from flashnerd_ext.rl.transfer import TransferConfig, check

SCALARS = ("FlashNeRD/guard_held", "FlashNeRD/guard_held_total", "FlashNeRD/fallback_share", "Perf/simulator_share")


def test_shares_are_of_the_iteration_and_survive_a_rebuild() -> None:
    before, now = GuardCount(10, 100, 8), GuardCount(26, 120, 8)
    found = guard_scalars(before, now)
    assert found["FlashNeRD/guard_held"] == 16 and found["FlashNeRD/guard_held_total"] == 26
    assert found["FlashNeRD/fallback_share"] == pytest.approx(16 / (20 * 8))
    assert guard_scalars(now, GuardCount(2, 5, 8))["FlashNeRD/guard_held"] == 2
    assert guard_scalars(now, now)["FlashNeRD/fallback_share"] == 0.0
    assert guard_scalars(None, None) == {}


class Manager:
    """A physics manager whose step takes a known share of the environment's."""

    @classmethod
    def step(cls) -> None:
        time.sleep(0.006)


def runner_of(tmp_path: Path, writer: Any) -> Any:
    base = SimpleNamespace(sim=SimpleNamespace(physics_manager=Manager), device="cpu")

    def step(_: Any) -> str:
        base.sim.physics_manager.step()
        time.sleep(0.002)
        return "stepped"

    logger = SimpleNamespace(writer=writer, log=lambda **_: None, rewbuffer=[], log_dir=str(tmp_path))
    return SimpleNamespace(env=SimpleNamespace(unwrapped=base, step=step), logger=logger, alg=SimpleNamespace())


def test_both_writers_get_the_guard_and_the_simulators_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rsl_rl.utils import wandb_log_writer
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    sent: list[tuple[str, float, int]] = []
    fake = SimpleNamespace(
        init=lambda **_: None,
        log=lambda values, step: sent.extend((name, float(value), step) for name, value in values.items()),
        finish=lambda: None,
    )
    monkeypatch.setattr(wandb_log_writer, "wandb", fake)
    counts = iter([GuardCount(0, 0, 4), GuardCount(1, 3, 4), GuardCount(1, 6, 4)])
    monkeypatch.setattr(live_log, "guard_count", lambda: next(counts))
    # rsl_rl's writer for Weights & Biases writes for TensorBoard too.
    runner = runner_of(tmp_path, wandb_log_writer.WandbLogWriter(str(tmp_path), "project"))
    original = Manager.__dict__["step"]
    live = LiveLog(runner)
    for iteration in (0, 1):
        assert [runner.env.step(None) for _ in range(3)] == ["stepped"] * 3
        runner.logger.log(it=iteration)
    live.close()
    runner.logger.writer.close()
    assert Manager.__dict__["step"] is original
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    for name in SCALARS:
        logged = [(event.step, event.value) for event in events.Scalars(name)]
        assert [step for step, _ in logged] == [0, 1]
        assert [(step, value) for key, value, step in sent if key == name] == [
            (step, pytest.approx(value)) for step, value in logged
        ]
    share = [event.value for event in events.Scalars("FlashNeRD/fallback_share")]
    assert share == [pytest.approx(1 / 12), 0.0]
    assert all(0.0 < event.value < 1.0 for event in events.Scalars("Perf/simulator_share"))


def test_the_clock_stands_before_a_manager_that_keeps_its_state_on_another_class() -> None:
    pytest.importorskip("isaaclab")
    from flashnerd_ext.physics.physx_base import SharedState

    class Stock(metaclass=SharedState):
        calls = 0

        @classmethod
        def step(cls) -> None:
            Stock.calls += 1

    class Mixed:
        @classmethod
        def step(cls) -> None:
            super().step()  # type: ignore[misc]

    class Ours(Mixed, Stock):
        stock = Stock

    stock = Stock.__dict__["step"]
    base = SimpleNamespace(sim=SimpleNamespace(physics_manager=Ours), device="cpu")
    with timed_physics(base) as clock:
        base.sim.physics_manager.step()
        base.sim.physics_manager.step()
    assert (clock.calls, Stock.calls) == (2, 2) and clock.total > 0
    assert Stock.__dict__["step"] is stock and "step" not in Ours.__dict__
    Ours.step()
    assert (clock.calls, Stock.calls) == (2, 3)


class Trained:
    """A runner of which only the returns and the stage of its schedule matter."""

    def __init__(self, run: Path) -> None:
        self.logger = SimpleNamespace(writer=object(), log=lambda **_: None, rewbuffer=[], log_dir=str(run))
        self.alg = SimpleNamespace(_followed=SimpleNamespace(number=0))
        self.iteration = -1

    def write(self, path: Path) -> None:
        path.write_text(f"policy {self.iteration}")

    def iterate(self, *returns: float) -> None:
        self.iteration += 1
        self.logger.rewbuffer.extend(returns)
        self.logger.log(it=self.iteration)


def test_best_is_the_highest_mean_of_a_hundred_returns_of_one_stage(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"metadata": {"physics": "flashnerd"}}))
    runner = Trained(tmp_path)
    kept = BestByReturn(runner, "flashnerd")
    path = tmp_path / "best.pt"
    runner.iterate(*[9.0] * 99)
    assert not path.exists()
    runner.iterate(9.0)
    runner.iterate(*[2.0] * 50)
    assert path.read_text() == "policy 1" and kept.value == 9.0
    runner.iterate(*[12.0] * 100)
    assert path.read_text() == "policy 3"
    assert manifest.read_manifest(tmp_path).items() >= {"best_iteration": "3", "best_return": "12"}.items()
    line = best.best_line(tmp_path)
    assert line is not None and "iteration 3, chosen by the mean return of 100 episodes in flashnerd (12)" in line
    # Another stage: what was earned in the one before says nothing about it.
    runner.alg._followed.number = 1
    runner.iterate(*[50.0] * 100)
    assert path.read_text() == "policy 3"
    runner.iterate(*[1.0] * 100)
    assert path.read_text() == "policy 5" and kept.value == 1.0


def test_latest_points_to_the_newest_checkpoint_and_to_nothing_else(tmp_path: Path) -> None:
    for name in ("model_3.pt", "model_20.pt"):
        (tmp_path / name).write_text(name)
        checkpoint.point_latest(tmp_path / name)
    (tmp_path / "best.pt").write_text("best.pt")
    checkpoint.point_latest(tmp_path / "best.pt")
    assert (tmp_path / "latest.pt").read_text() == "model_20.pt"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.pt", "latest.pt", "model_20.pt", "model_3.pt"]


def run_of(logs: Path, name: str, day: int, physics: str, task: str = "T") -> Path:
    run = logs / "experiment" / name
    run.mkdir(parents=True)
    content = {"library": "rsl_rl", "task": task, "created_at": f"2026-01-0{day}T00:00:00+00:00"}
    (run / "run.json").write_text(json.dumps({**content, "metadata": {"physics": physics, "agent": "a"}}))
    for number in (9, 10):
        (run / f"model_{number}.pt").touch()
    return run


def test_selectors_stand_for_the_newest_run_that_fits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = tmp_path / "logs" / "rsl_rl"
    old = run_of(logs, "b", 1, "newton_mjwarp")
    new = run_of(logs, "a", 2, "flashnerd")
    run_of(logs, "c", 3, "flashnerd", task="Other")
    (logs / "experiment" / "d").mkdir()
    (logs / "experiment" / "d" / "run.json").write_text("{")
    assert select("latest", "Isaac:T", logs=logs) == new / "model_10.pt"
    assert select("latest", "T", {"physics": "newton_mjwarp"}, logs) == old / "model_10.pt"
    assert select("best", "T", logs=logs) == new / "model_10.pt"
    assert "has no best.pt" in capsys.readouterr().out
    (new / "best.pt").touch()
    assert select("best", "T", logs=logs / "experiment") == new / "best.pt"
    with pytest.raises(FlashNerdError, match=r"none is of task=T, physics=mujoco_c: train one"):
        select("latest", "T", {"physics": "mujoco_c"}, logs)


def test_every_command_takes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    logs = Path("logs") / "rsl_rl"
    learned, simulated = run_of(logs, "a", 2, "flashnerd"), run_of(logs, "b", 1, "newton_mjwarp")
    (simulated / "best.pt").touch()
    assert checkpoints("latest", "T") == [(learned / "model_10.pt").resolve()]
    found = check(TransferConfig(policies={"flashnerd": "latest", "newton_mjwarp": "best"}, task="T"))
    assert found == {
        "flashnerd": [str((learned / "model_10.pt").resolve())],
        "newton_mjwarp": [str((simulated / "best.pt").resolve())],
    }
    with pytest.raises(FlashNerdError, match="physics=mujoco_c"):
        check(TransferConfig(policies={"mujoco_c": "latest"}, task="T"))
