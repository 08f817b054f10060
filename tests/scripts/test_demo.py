"""`scripts/demo.py` as a person types it, and the plan behind it."""

from __future__ import annotations

import dataclasses
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from filelock import FileLock
from forked import forked

from flashnerd_ext.demo.plan import DemoConfig, Files, cartpole


def _demo(repo: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return forked(repo / "scripts" / "demo.py", *words, cwd=folder, timeout=120)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["iteratons=5"], "iterations"),
        (["iterations=many"], "iterations=many"),
        (["num_envs=0"], "num_envs is 0"),
        (["seed=-1"], "seed is -1"),
        (["speed_envs=[]"], "speed_envs is []"),
        (["--frsh"], "--frsh"),
        (["out=taken"], "out is 'taken'"),
    ],
)
def test_wrong_options_are_one_sentence(repo: Path, tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "taken").write_text("a file")
    done = _demo(repo, tmp_path, *words)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["taken"], "nothing is begun"


def test_help_lists_the_options(repo: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(repo / "scripts" / "demo.py"), "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    for field in dataclasses.fields(DemoConfig):
        assert f"{field.name}=" in done.stdout


def test_second_demo_in_one_folder_is_refused(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    with FileLock(tmp_path / "demo" / ".lock"):
        done = _demo(repo, tmp_path)
    assert done.returncode == 2
    assert "another demo is running" in done.stderr


def _script(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_option_of_a_stage_is_known_to_its_script(repo: Path, tmp_path: Path) -> None:
    stages, files = cartpole(DemoConfig(out=str(tmp_path)), repo)
    checkpoint = files.training / "logs/rsl_rl/x/2026-01-01_00-00-00/model_3.pt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    for stage in stages:
        script, *words = stage.command()[1:]
        assert Path(script).is_file(), f"stage {stage.name} runs {script}"
        if "rsl_rl" in script:
            continue  # Isaac Lab's own command line
        module = _script(Path(script))
        [config] = [
            value
            for value in vars(module).values()
            if dataclasses.is_dataclass(value) and isinstance(value, type) and value.__name__.endswith("Config")
        ]
        known = {field.name for field in dataclasses.fields(config)}
        given = {word.split("=")[0] for word in words}
        assert given <= known, f"stage {stage.name}: {given - known}"


def test_newest_checkpoint_by_run_and_number(tmp_path: Path) -> None:
    files = Files(tmp_path)
    assert files.checkpoint() is None
    for run, name in (("2026-01-01_10-00-00", "model_900"), ("2026-01-02_10-00-00", "model_99")):
        folder = files.training / "logs/rsl_rl/cartpole" / run
        folder.mkdir(parents=True)
        (folder / f"{name}.pt").touch()
    newest = folder / "model_100.pt"
    newest.touch()
    assert files.checkpoint() == newest


def test_stages_name_only_earlier_ones(repo: Path, tmp_path: Path) -> None:
    stages, _ = cartpole(DemoConfig(out=str(tmp_path)), repo)
    seen: set[str] = set()
    for stage in stages:
        assert set(stage.after) <= seen
        seen.add(stage.name)
    assert len(seen) == len(stages)
