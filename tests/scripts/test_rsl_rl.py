"""The policy scripts' first answers: help and wrong options, before any simulator starts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from forked import forked


def run(repo: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return forked(repo / "scripts" / words[0], *words[1:], cwd=folder)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("rsl_rl/train.py", "--num_envs", "none"), "--num_envs is 'none'"),
        (("rsl_rl/train.py", "--steps", "3"), "--steps belongs to play"),
        (("rsl_rl/play.py", "--checkpoint", "nowhere.pt"), "there is no checkpoint at nowhere.pt"),
        (("rsl_rl/play.py", "--steps", "0"), "--steps is '0'"),
        (("evaluate_policy.py",), "no policies are given"),
        (("evaluate_policy.py", "policies={flashnerd: nowhere.pt}"), "there is no such file"),
        (("evaluate_policy.py", "polices={}"), "did you mean policies"),
        (("evaluate_policy.py", "policies={a"), "cannot be used"),
        (("evaluate_policy.py", "num_envs=many"), "cannot be used"),
    ],
)
def test_wrong_options_get_one_sentence(repo: Path, tmp_path: Path, words: tuple[str, ...], expected: str) -> None:
    done = run(repo, tmp_path, *words)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and expected in lines[0]
    assert list(tmp_path.iterdir()) == []


def test_help_of_the_table(repo: Path, tmp_path: Path) -> None:
    done = run(repo, tmp_path, "evaluate_policy.py", "--help")
    assert done.returncode == 0 and "policies" in done.stdout and "num_envs=256" in done.stdout


@pytest.mark.kitless
@pytest.mark.parametrize("name", ["train", "play"])
def test_help_shows_both_sets_of_options(repo: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("isaaclab")
    done = run(repo, tmp_path, f"rsl_rl/{name}.py", "--help")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "--trust_checkpoint" in done.stdout and "--video_length" in done.stdout and "--num_envs" in done.stdout
