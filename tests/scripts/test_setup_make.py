"""The Makefile's commands and `.ci/run`, without running what they start."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def _make(repo: Path, *words: str) -> str:
    command = ["make", "--no-print-directory", "-n", "-C", str(repo), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_help_is_the_default_and_lists_the_two_commands(repo: Path) -> None:
    command = ["make", "--no-print-directory", "-C", str(repo)]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    for target in ("setup", "demo", "test", "lint", "clean"):
        assert f"make {target} " in shown


@pytest.mark.parametrize("target", ["demo", "test", "lint"])
def test_every_command_sets_up_first(repo: Path, target: str) -> None:
    lines = _make(repo, target).splitlines()
    assert lines[0] == "scripts/setup/setup.sh"
    assert len(lines) > 1


def test_arguments_reach_the_programs(repo: Path) -> None:
    assert "scripts/demo.py --fresh" in _make(repo, "demo", "ARGS=--fresh")
    assert "-m 'not slow'" in _make(repo, "test", "PYTEST_ARGS=-m 'not slow'")


def test_clean_keeps_environment_data_and_bundles(repo: Path) -> None:
    removed = set(_make(repo, "clean").split())
    assert "demo" in removed
    assert removed.isdisjoint({".venv", "data", "source", "datasets", ".", "*"})


@pytest.fixture
def checkout(repo: Path, tmp_path: Path) -> Path:
    (tmp_path / ".ci").mkdir()
    shutil.copy(repo / ".ci/run", tmp_path / ".ci/run")
    return tmp_path


@pytest.mark.parametrize(
    ("setup", "lint", "docs", "test", "code", "runs"),
    [
        ("true", "true", "true", "true", 0, ["setup", "lint", "docs", "test"]),
        ("false", "true", "true", "true", 1, ["setup"]),
        ("true", "false", "true", "true", 1, ["setup", "lint", "docs", "test"]),
        ("true", "true", "false", "true", 1, ["setup", "lint", "docs", "test"]),
        ("true", "true", "true", "false", 1, ["setup", "lint", "docs", "test"]),
        ("true", "true", "true", "exit 5", 1, ["setup", "lint", "docs", "test"]),
    ],
)
def test_ci_fails_when_any_part_does(
    checkout: Path, setup: str, lint: str, docs: str, test: str, code: int, runs: list[str]
) -> None:
    rules = {"setup": setup, "lint": lint, "docs": docs, "test": test}
    text = "".join(f"{name}:\n\t@echo {name} $$CI >>calls; {command}\n" for name, command in rules.items())
    (checkout / "Makefile").write_text(text)
    done = subprocess.run(
        ["bash", ".ci/run"], cwd=checkout, env={"PATH": "/usr/bin:/bin"}, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == code
    calls = (checkout / "calls").read_text().splitlines()
    # The linters run beside the tests.
    assert calls[0] == "setup true" and sorted(calls) == sorted(f"{name} true" for name in runs)
