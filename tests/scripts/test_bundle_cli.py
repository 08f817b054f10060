"""``scripts/bundle.py`` as a person types it, wrong words included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from forked import forked

from flashnerd_ext.bundle.example import WALKER, example_bundle
from flashnerd_ext.bundle.store import shipped


def run(repo: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    result = forked(repo / "scripts" / "bundle.py", *words, cwd=cwd or repo)
    assert "Traceback" not in result.stderr, result.stderr
    return result


def one_sentence(result: subprocess.CompletedProcess[str]) -> str:
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and result.stdout == "", (result.stderr, result.stdout)
    return lines[0]


def test_show_prints_the_card(repo: Path, tmp_path: Path) -> None:
    bundle = example_bundle(tmp_path / "b", WALKER)
    result = run(repo, "show", str(tmp_path / "b"))
    assert result.returncode == 0 and result.stderr == ""
    for text in (bundle.hash, "floating", "left_hip (revolute)", "0.02 s = 4 x 0.005 s", "xyzw", "target", "gravity.z"):
        assert text in result.stdout


def test_verify_says_ok_from_another_folder_with_a_relative_path(repo: Path, tmp_path: Path) -> None:
    bundle = example_bundle(tmp_path / "b")
    result = run(repo, "verify", "b", cwd=tmp_path)
    assert result.returncode == 0 and result.stdout.startswith("ok: example-cartpole") and bundle.hash in result.stdout


def test_verify_warns_of_other_versions(repo: Path, tmp_path: Path) -> None:
    """F21."""
    example_bundle(tmp_path / "b")
    path = tmp_path / "b" / "card.json"
    path.write_text(path.read_text().replace('"newton": "1.6.1"', '"newton": "0.0.1"'))
    assert run(repo, "seal", str(tmp_path / "b")).returncode == 0
    result = run(repo, "verify", str(tmp_path / "b"))
    assert result.returncode == 0 and "newton" in result.stderr and "card 0.0.1" in result.stderr


@pytest.mark.parametrize("command", ["show", "verify", "seal"])
def test_a_bad_folder_is_exit_1_and_one_sentence(repo: Path, tmp_path: Path, command: str) -> None:
    folder = tmp_path / "b"
    example_bundle(folder)
    (folder / "weights.safetensors").write_bytes(os.urandom(500))
    before = sorted((item.name, item.read_bytes()) for item in folder.iterdir())
    result = run(repo, command, str(folder))
    assert result.returncode == 1 and "weights.safetensors" in one_sentence(result)
    assert sorted((item.name, item.read_bytes()) for item in folder.iterdir()) == before


def test_verify_refuses_weights_that_explode(repo: Path, tmp_path: Path) -> None:
    import torch

    from flashnerd_ext.bundle.example import example_model_and_card
    from flashnerd_ext.bundle.store import save_bundle

    model, card = example_model_and_card()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1e38)
    save_bundle(tmp_path / "b", model, card)
    result = run(repo, "verify", str(tmp_path / "b"))
    assert result.returncode == 1 and "predicts NaN or infinity" in one_sentence(result)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((), 2, "list, show, verify"),
        (("verfy", "x"), 2, "did you mean verify"),
        (("verify",), 2, "takes 1 argument, but got 0"),
        (("verify", "a", "b"), 2, "got 2"),
        (("list", "all"), 2, "takes 0 arguments"),
        (("--verify", "cartpole"), 2, "not known"),
        (("name=cartpole",), 2, "not known"),
        (("verify", ""), 1, "name or a folder"),
        (("verify", "no-such-bundle"), 1, "no bundle is named"),
        (("show", "no/such/folder"), 1, "does not exist"),
        (("verify", "/"), 1, "card.json"),
        (("verify", "/etc/hostname"), 1, "/etc/hostname"),
        (("seal", "no/such/folder"), 1, "does not exist"),
        (("verify", "bundle\x1b[2J\nx"), 1, "does not exist"),
    ],
)
def test_wrong_words_are_one_sentence(repo: Path, words: tuple[str, ...], code: int, text: str) -> None:
    result = run(repo, *words)
    assert result.returncode == code and text in one_sentence(result)
    assert "\x1b" not in result.stderr


def test_help_and_list(repo: Path) -> None:
    result = run(repo, "--help")
    assert result.returncode == 0 and "verify NAME_OR_PATH" in result.stdout
    result = run(repo, "list")
    assert result.returncode == 0 and all(name in result.stdout for name in shipped())


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_bundle_verifies(repo: Path, name: str) -> None:
    result = run(repo, "verify", name)
    assert result.returncode == 0 and result.stdout.startswith("ok: "), result.stderr


def test_a_reader_that_stops_early_is_no_error(repo: Path, tmp_path: Path) -> None:
    example_bundle(tmp_path / "b", WALKER)
    command = f"{sys.executable} {repo}/scripts/bundle.py show {tmp_path}/b | head -1"
    result = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert result.stdout == "bundle example-walker\n" and result.stderr == ""


def test_the_card_on_disk_is_plain_json(tmp_path: Path) -> None:
    example_bundle(tmp_path / "b")
    content = json.loads((tmp_path / "b" / "card.json").read_text())
    assert content["schema_version"] == 2 and content["simulation"]["decimation"] == 2
