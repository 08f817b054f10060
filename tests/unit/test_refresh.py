"""The refresh loop with pretended work: phases, beside the learner and not, failures, resuming, best checkpoint."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashnerd_ext.bundle.card import ContactCard
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl.record.scores import Episode, summarise, to_json
from flashnerd_ext.rl.refresh import loop as loop_module
from flashnerd_ext.rl.refresh.loop import Refresh, child_words
from flashnerd_ext.rl.refresh.options import RefreshOptions, take_options
from flashnerd_ext.rl.refresh.report import kept, scalars
from flashnerd_ext.rl.refresh.state import load_state

DONE: dict[str, int | None] = {}
"""Kind of work -> exit code that it has, ``None`` while it runs."""
RETURNS = {"simulator": 8.0, "learned": 10.0}
STARTED: list[tuple[str, dict[str, Any]]] = []


class PretendedWork:
    """Writes what a child would, without one."""

    seconds = 1.0

    def __init__(self, kind: str, folder: Path, spec: dict[str, Any]) -> None:
        self.kind, self.folder, self.spec, self.log = kind, folder, spec, folder / f"{kind}.log"
        STARTED.append((kind, spec))

    def poll(self) -> int | None:
        code = DONE.get(self.kind, 0)
        if code == 0:
            self._write()
        return code

    def wait(self) -> int:
        return self.poll() or 0

    def stop(self) -> None:
        STARTED.append(("stop", {}))

    def reason(self) -> str:
        return "out of memory"

    def _write(self) -> None:
        if self.kind == "simulate":
            for name, value in RETURNS.items():
                episodes = [Episode(i, 0, "task", value + 0.1 * i, 9, "time", False) for i in range(8)]
                content = {"summary": summarise(episodes), "episodes": to_json(episodes), "held": 0}
                (self.folder / f"{name}.json").write_text(json.dumps(content))
            if self.spec["record"]:
                (self.folder / "data").mkdir(exist_ok=True)
                (self.folder / "data" / "dataset.json").write_text("{}")
        else:
            (self.folder / "bundle-run").mkdir(exist_ok=True)
            history = [
                {"update": 9, "val_nrmse": 0.2, "val_nrmse_0": 0.1},
                {"update": 18, "val_nrmse": 0.1, "val_nrmse_0": 0.1},
            ]
            (self.folder / "bundle-run" / "history.json").write_text(json.dumps({"history": history}))


class Writer:
    def __init__(self) -> None:
        self.scalars: dict[str, float] = {}

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars[name] = value


class Runner:
    """Trains nothing."""

    def __init__(self) -> None:
        self.logger: Any = type("Logger", (), {"log": lambda self, **named: None, "writer": Writer()})()
        self.facts: dict[str, str] = {}

    def save(self, path: str) -> None:
        Path(path).write_text(f"policy {Path(path).stem}")


class Bundle:
    hash = "h"
    contacts = ContactCard(detector="none", capacity=0)

    def __init__(self, path: Path) -> None:
        self.path = path
        self.card = SimpleNamespace(name="base", robot=SimpleNamespace(name="cartpole"), contacts=self.contacts)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Factory: a refresh loop of a run folder whose children are pretended, and the bundles that took over."""
    STARTED.clear()
    DONE.clear()
    swapped: list[str] = []
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dataset.json").write_text('{"schema_version": 1}')
    monkeypatch.setattr(loop_module, "Work", PretendedWork)
    monkeypatch.setattr(loop_module.manifest, "running_bundle", lambda: {"bundle_hash": str(len(swapped))})
    monkeypatch.setattr(Refresh, "_swap", lambda self, folder: swapped.append(folder))
    monkeypatch.setattr(Refresh, "_solver", lambda self: type("S", (), {"bundle": Bundle(tmp_path / "base")})())

    def factory(name: str = "run", **options: Any) -> tuple[Refresh, Runner, list[str]]:
        run = tmp_path / name
        run.mkdir(exist_ok=True)
        (run / "run.json").write_text(json.dumps({"metadata": {}}))
        settings = {"every": 3, "data": str(tmp_path / "data"), "beside": "true", "final": False, "older": 1}
        refresh = Refresh(RefreshOptions(**(settings | options)), run, "T", "a", ["env.x=1"], "cpu")
        runner = Runner()
        refresh.attach(runner)
        return refresh, runner, swapped

    return factory


def train(runner: Runner, iterations: range) -> None:
    for iteration in iterations:
        runner.logger.log(it=iteration)


def test_work_runs_beside_the_learner_and_the_bundle_takes_over_when_it_is_ready(make: Any) -> None:
    refresh, runner, swapped = make()
    DONE["simulate"] = DONE["tune"] = None
    train(runner, range(0, 5))  # A refresh begins after iteration 2 and the learner goes on.
    assert [kind for kind, _ in STARTED] == ["simulate"] and refresh.state.rounds[0].iteration == 2
    DONE["simulate"] = 0
    train(runner, range(5, 9))  # None begins beside another, although one is due.
    assert [kind for kind, _ in STARTED] == ["simulate", "tune"] and not swapped
    assert STARTED[1][1]["more"] == {refresh.state.rounds[0].data: pytest.approx(0.4)}
    assert STARTED[1][1]["bundle"] == STARTED[0][1]["bundle"] == refresh.state.base
    DONE["tune"] = 0
    train(runner, range(9, 10))
    assert swapped == [refresh.state.rounds[0].tuned] and refresh.state.rounds[0].swapped_at == 9
    assert (refresh.run / "model_9.pt").exists()
    train(runner, range(10, 11))
    second = STARTED[2][1]
    assert second["bundle"] == swapped[0]  # scored in the world that it was trained in
    assert [Path(p).name for p in second["policies"]] == ["model_10.pt", "model_2.pt"]
    assert [kind for kind, _ in STARTED] == ["simulate", "tune", "simulate", "tune"] and len(swapped) == 2
    assert len(STARTED[3][1]["more"]) == 2


def test_data_of_other_contact_rows_are_refused_before_anything_runs(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = ContactCard(detector="mujoco", capacity=1, links=("foot",), kind="fixed", fixed=("foot",))
    monkeypatch.setattr(Bundle, "contacts", card)
    with pytest.raises(FlashNerdError, match=r"the bundle 'base' takes contacts=fixed rows, but refresh\.data="):
        make()
    assert not STARTED


def test_report_manifest_and_log_state_the_kept_ratio(make: Any) -> None:
    refresh, runner, _ = make(beside="false")
    train(runner, range(0, 3))
    report = json.loads((refresh.run / "refresh.json").read_text())
    row = report["rounds"][0]
    assert row["phase"] == "done" and report["bundle"] == row["bundle"] == refresh.state.rounds[0].tuned
    assert row["kept"]["ratio"] == pytest.approx(8.35 / 10.35) and row["tuning"]["last_val_nrmse"] == 0.1
    low, high = row["kept"]["interval"]
    assert 0.7 < low < row["kept"]["ratio"] < high < 0.9
    metadata = json.loads((refresh.run / "run.json").read_text())["metadata"]
    assert metadata["kept"].startswith("kept 80.7% [") and metadata["bundle_hash"] == "1"
    assert metadata["bundle_path"] == row["bundle"] and metadata["best_iteration"] == "2"
    logged = runner.logger.writer.scalars
    assert logged["Refresh/kept"] == row["kept"]["ratio"] and logged["Refresh/return_learned"] == pytest.approx(10.35)
    assert logged["Refresh_task/falls_simulator"] == 0.0 and "Refresh_seconds/tune" in logged


def test_best_checkpoint_is_the_simulators_choice(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    refresh, runner, _ = make(beside="false", final=True)
    for value, iterations in ((8.0, range(0, 3)), (9.0, range(3, 6)), (7.0, range(6, 9))):
        monkeypatch.setitem(RETURNS, "simulator", value)
        train(runner, iterations)
    assert (refresh.run / "best.pt").read_text() == "policy model_5" and refresh.state.best["iteration"] == 5
    monkeypatch.setitem(RETURNS, "simulator", 11.0)
    refresh.finish(9)
    assert refresh.state.best["iteration"] == 9 and refresh.state.rounds[-1].scores_only
    assert [kind for kind, _ in STARTED][-1] == "simulate"  # no fine-tuning that nothing would train in
    refresh.finish(9)
    assert len(refresh.state.rounds) == 4


def test_a_failed_refresh_is_said_and_two_in_a_row_end_the_training(make: Any, capsys: pytest.CaptureFixture) -> None:
    refresh, runner, swapped = make()
    DONE["simulate"] = 137
    train(runner, range(0, 3))
    assert "warning: refresh 0 failed in simulate: out of memory" in capsys.readouterr().out
    DONE["simulate"] = 0
    train(runner, range(3, 6))
    assert len(swapped) == 1
    DONE["tune"] = 2
    train(runner, range(6, 9))
    with pytest.raises(FlashNerdError, match="second in a row"):
        train(runner, range(9, 12))
    assert [item.phase for item in refresh.state.rounds] == ["failed", "done", "failed", "failed"]


@pytest.mark.parametrize("phase", ["simulate", "tune"])
def test_a_killed_training_goes_on_with_the_phase_it_was_in(make: Any, phase: str) -> None:
    first, runner, swapped = make()
    DONE[phase] = None
    train(runner, range(0, 4))
    assert first.state.active is not None and first.state.active.phase == phase
    STARTED.clear()
    DONE.clear()
    again, runner, _ = make("again")
    again.resume(first.run, 3)
    train(runner, range(4, 5))
    assert [kind for kind, _ in STARTED] == (["simulate", "tune"] if phase == "simulate" else ["tune"])
    assert again.state.rounds[0].swapped_at == 4 and swapped == [again.state.rounds[0].tuned]
    assert load_state(again.run) == again.state
    train(runner, range(5, 6))
    assert again.state.rounds[1].number == 1 and Path(again.state.rounds[1].folder).parent.parent == again.run.resolve()


def test_an_older_checkpoint_brings_its_own_past(make: Any) -> None:
    first, runner, swapped = make(beside="false")
    train(runner, range(0, 6))
    assert [item.swapped_at for item in first.state.rounds] == [2, 5]
    again, _, _ = make("again")
    again.resume(first.run, 4)  # Before the second refresh: it never was.
    assert len(again.state.rounds) == 1 and swapped[-1] == again.state.rounds[0].tuned
    late, runner, _ = make("late")
    first.state.rounds[1].swapped_at = 6
    first.state.save(first.run)
    late.resume(first.run, 5)  # Between its beginning and its taking over.
    assert late.state.rounds[1].phase == "swap" and swapped[-1] == late.state.rounds[0].tuned
    train(runner, range(6, 7))
    assert swapped[-1] == late.state.rounds[1].tuned
    (first.run / "refresh" / "state.json").write_text('{"schema_version": 1, "rounds": 3}')
    with pytest.raises(FlashNerdError, match="not the state of a refreshed training"):
        late.resume(first.run, 5)


def test_a_share_of_nothing_is_no_share() -> None:
    def episodes(value: float) -> list[Episode]:
        return [Episode(i, 0, "task", value + i, 9, "time", False) for i in range(4)]

    assert kept(episodes(1.0), episodes(-9.0)) is None and kept([], episodes(1.0)) is None
    found = kept(episodes(2.0), episodes(2.0))
    assert found is not None and found["ratio"] == 1.0
    assert scalars({"kept": None}, {"tune": 2.0}) == {"Refresh_seconds/tune": 2.0}


def test_words_of_the_command_line() -> None:
    rest, options = take_options(["--task", "T", "refresh.beside=true", "env.a=1", "refresh.noise=[0,1]"], "7")
    assert rest == ["--task", "T", "env.a=1"] and options is not None
    assert (options.every, options.beside.lower(), options.noise) == (7, "true", [0.0, 1.0])
    assert take_options(["--task"], None) == (["--task"], None) and take_options([], "0")[1] is None
    for words, every, sentence in (
        (["refresh.steps=3"], None, "has no effect without refreshes"),
        (["refresh.stepz=3"], "5", "did you mean steps"),
        ([], "-1", "whole number"),
    ):
        with pytest.raises(FlashNerdError, match=sentence):
            take_options(words, every)
    words = ["physics=flashnerd", "env.sim.physics.solver_cfg.bundle=b", "env.scene.num_envs=4", "env.decimation=4"]
    assert child_words(words) == ["env.decimation=4"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"data": "/nowhere"}, "no data set"),
        ({"share": 1.0}, "between 0 and 1"),
        ({"power": 0.0}, "refresh.power is 0.0"),
        ({"beside": "maybe"}, "auto, true"),
        ({"more": {"/nowhere": 0.1}}, "refresh.more names /nowhere"),
        ({"more": {"/nowhere": 2.0}}, "between 0 and 1"),
    ],
)
def test_options_that_cannot_work_are_refused(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    (tmp_path / "dataset.json").write_text("{}")
    with pytest.raises(FlashNerdError, match=sentence):
        RefreshOptions(**({"every": 3, "data": str(tmp_path)} | change)).check("cartpole")


def test_the_base_data_are_no_further_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dataset.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FlashNerdError, match=r"which is refresh\.data= already"):
        RefreshOptions(every=3, data=str(tmp_path), more={".": 0.1}).check("cartpole")


def test_further_data_go_into_the_mix(make: Any, tmp_path: Path) -> None:
    other = tmp_path / "visited"
    other.mkdir()
    (other / "dataset.json").write_text("{}")
    refresh, _, _ = make(more={str(other): 0.12}, beside="false")
    refresh.after(3)
    found = next(spec for kind, spec in STARTED if kind == "tune")["more"]
    assert found == {str(other): 0.12, refresh.state.rounds[0].data: pytest.approx(0.4)}
    with pytest.raises(FlashNerdError, match=r"sum to 1\.02"):
        make(name="other", more={str(other): 0.62})


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    """The parent is killed outright, so that it cannot tidy up."""
    child = "import os, time; from flashnerd_ext.rl.refresh.child import die_with; die_with(int({parent})); "
    child += "open({mark!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    mark = tmp_path / "pid"
    parent = (
        "import os, subprocess, sys, time\n"
        f"code = {child!r}.format(parent=os.getpid(), mark={str(mark)!r})\n"
        "subprocess.Popen([sys.executable, '-c', code])\n"
        f"while not os.path.exists({str(mark)!r}): time.sleep(0.05)\n"
        "time.sleep(0.2); os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", parent], timeout=120, check=False)
    pid = int(mark.read_text())
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return
        os.sched_yield()
        subprocess.run(["sleep", "0.1"], check=True)
    os.kill(pid, 9)
    raise AssertionError("the child outlived its parent")
