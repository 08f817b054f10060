"""The stages behind `make demo`: what runs, what is reused, what is said when a stage fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from flashnerd_ext.demo.stages import Stage, StageRunner, run_logged
from flashnerd_ext.errors import FlashNerdError


def _stage(folder: Path, name: str, code: str = "", after: tuple[str, ...] = (), limit_s: float = 1800.0) -> Stage:
    """A stage that appends a line to ``name.txt`` (so that runs can be counted), then runs ``code``."""
    output = folder / f"{name}.txt"
    text = f"open({str(output)!r}, 'a').write('run\\n'); print('hello from {name}')\n{code}"
    return Stage(
        name, f"title of {name}", lambda: [sys.executable, "-c", text], lambda: [output], after=after, limit_s=limit_s
    )


def _runs(folder: Path, name: str) -> int:
    path = folder / f"{name}.txt"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_finished_stages_are_reused(tmp_path: Path) -> None:
    stages = [_stage(tmp_path, "a"), _stage(tmp_path, "b", after=("a",))]
    first = StageRunner(tmp_path).run(stages)
    second = StageRunner(tmp_path).run(stages)
    assert [outcome.reused for outcome in first] == [False, False]
    assert [outcome.reused for outcome in second] == [True, True]
    assert [outcome.seconds for outcome in second] == [outcome.seconds for outcome in first]
    assert (_runs(tmp_path, "a"), _runs(tmp_path, "b")) == (1, 1)


def test_fresh_runs_everything_again(tmp_path: Path) -> None:
    stages = [_stage(tmp_path, "a")]
    StageRunner(tmp_path).run(stages)
    StageRunner(tmp_path, fresh=True).run(stages)
    assert _runs(tmp_path, "a") == 2


def test_lost_file_runs_its_stage_again(tmp_path: Path) -> None:
    stages = [_stage(tmp_path, "a"), _stage(tmp_path, "b")]
    StageRunner(tmp_path).run(stages)
    (tmp_path / "a.txt").unlink()
    assert [outcome.reused for outcome in StageRunner(tmp_path).run(stages)] == [False, True]


def test_changed_stage_runs_what_builds_on_it_and_nothing_else(tmp_path: Path) -> None:
    StageRunner(tmp_path).run(
        [_stage(tmp_path, "a"), _stage(tmp_path, "b", after=("a",)), _stage(tmp_path, "c", after=("b",))]
    )
    changed = [
        _stage(tmp_path, "a"),
        _stage(tmp_path, "b", "print('new')", after=("a",)),
        _stage(tmp_path, "c", after=("b",)),
    ]
    assert [outcome.reused for outcome in StageRunner(tmp_path).run(changed)] == [True, False, False]


def test_changed_input_file_runs_its_stage_again(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(b"one")
    plain = _stage(tmp_path, "a")
    stages = [Stage(plain.name, plain.title, plain.command, plain.outputs, inputs=[weights])]
    StageRunner(tmp_path).run(stages)
    weights.write_bytes(b"two")
    assert [outcome.reused for outcome in StageRunner(tmp_path).run(stages)] == [False]


def test_failure_names_stage_command_and_log_and_keeps_the_rest(tmp_path: Path) -> None:
    broken = _stage(tmp_path, "b", "raise SystemExit('the disk is full')")
    after = _stage(tmp_path, "c")
    with pytest.raises(FlashNerdError) as caught:
        StageRunner(tmp_path).run([_stage(tmp_path, "a"), broken, after])
    message = str(caught.value)
    for part in ("'b'", "exit code 1", "the disk is full", "python -c", str(tmp_path / "logs" / "b.log")):
        assert part in message
    assert "hello from b" in (tmp_path / "logs" / "b.log").read_text()
    assert _runs(tmp_path, "c") == 0
    repaired = StageRunner(tmp_path).run([_stage(tmp_path, "a"), _stage(tmp_path, "b"), after])
    assert [outcome.reused for outcome in repaired] == [True, False, False]


def test_stage_without_its_file_has_failed(tmp_path: Path) -> None:
    missing = tmp_path / "never.json"
    stage = Stage("a", "title", lambda: [sys.executable, "-c", ""], lambda: [missing])
    with pytest.raises(FlashNerdError, match=r"left no .*never\.json"):
        StageRunner(tmp_path).run([stage])


def test_endless_stage_is_ended_with_its_children(tmp_path: Path) -> None:
    held = tmp_path / "held"
    # The child holds a lock for as long as it lives; the stage ends only by its limit.
    child = f"import fcntl, time; file = open({str(held)!r}, 'w'); fcntl.flock(file, fcntl.LOCK_EX); time.sleep(120)"
    code = f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {child!r}])\ntime.sleep(120)"
    with pytest.raises(FlashNerdError, match="ran longer than 3 s"):
        StageRunner(tmp_path).run([_stage(tmp_path, "a", code, limit_s=3.0)])
    FileLock(held).acquire(timeout=20)


def test_broken_stamp_is_no_stamp(tmp_path: Path) -> None:
    StageRunner(tmp_path).run([_stage(tmp_path, "a")])
    for content in ("", "{}", "[]", json.dumps({"key": 1, "seconds": "x"})):
        (tmp_path / ".stages" / "a.json").write_text(content)
        assert [outcome.reused for outcome in StageRunner(tmp_path).run([_stage(tmp_path, "a")])] == [False]


def test_progress_bars_become_lines_of_the_log(tmp_path: Path) -> None:
    code = "import sys; sys.stdout.write('10%\\r20%\\r'); sys.stderr.write('\\xff end'); sys.exit(3)"
    status, last = run_logged([sys.executable, "-c", code], tmp_path / "x.log", tmp_path / "new", 30.0)
    assert status == 3
    assert "end" in last
    assert "20%" in (tmp_path / "x.log").read_text().splitlines()
