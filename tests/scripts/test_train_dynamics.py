"""scripts/train_dynamics.py as a person runs it: a bundle, resuming, one sentence for wrong words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from forked import forked

from flashnerd_ext.bundle.store import load_bundle

ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")}
SMALL = ("options.width=16", "options.hidden=16", "train.batch=64", "train.compiled=false", "threads=1")


def command(repo: Path, *words: str, module: tuple[str, ...] = ()) -> list[str]:
    return [sys.executable, *module, str(repo / "scripts" / "train_dynamics.py"), *words]


def run(repo: Path, *words: str, module: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    if not module:
        return forked(repo / "scripts" / "train_dynamics.py", *words, cwd=repo, env=ENVIRONMENT)
    return subprocess.run(
        command(repo, *words, module=module), capture_output=True, text=True, env=ENVIRONMENT, timeout=300
    )


@pytest.fixture(scope="module")
def data(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("train") / "cartpole"
    words = ["train=200", "val=20", "test=20", "balance=0", "train_steps=16", "val_steps=20", "test_steps=20"]
    done = forked(repo / "scripts" / "dataset.py", f"out={folder}", *words, "workers=1", cwd=repo, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    return folder


def test_a_run_makes_a_bundle_that_says_how_it_was_made(repo: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    done = run(repo, f"data={data}", f"out={out}", "train.updates=30", "seed=3", *SMALL)
    assert done.returncode == 0, done.stderr
    card = load_bundle(out).card
    assert card.training.seed == 3
    assert "train.updates=30" in card.training.command
    assert card.measured["E1"] > 0 and card.measured["E15"] > 0
    assert card.physical.masses["cart"] == pytest.approx(1.0)
    assert card.robot.asset_key == json.loads((data / "dataset.json").read_text())["asset_key"]
    assert list((tmp_path / "bundle-run" / "log").glob("events*"))
    again = run(repo, f"data={data}", f"out={out}", "train.updates=30", "seed=3", *SMALL)
    assert again.returncode == 2
    assert "resume=true" in again.stderr


def test_a_killed_run_resumes_to_the_same_weights(repo: Path, data: Path, tmp_path: Path) -> None:
    words = [f"data={data}", "train.updates=150", "train.checkpoint_seconds=0.001", "train.validate_every=100", *SMALL]
    killed, checkpoint = tmp_path / "killed", tmp_path / "killed-run" / "checkpoint.pt"
    process = subprocess.Popen(
        command(repo, *words, f"out={killed}"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT
    )
    deadline = time.monotonic() + 200
    while not (checkpoint.exists() and checkpoint.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    stopped_at = torch.load(checkpoint, weights_only=True)["update"]
    assert 0 < stopped_at < 150
    resumed = run(repo, *words, f"out={killed}", "resume=true")
    assert resumed.returncode == 0, resumed.stderr
    assert f"resumed {tmp_path / 'killed-run'} at update" in resumed.stdout
    whole = run(repo, *words, f"out={tmp_path / 'whole'}")
    assert whole.returncode == 0, whole.stderr
    one, two = load_bundle(killed).model.state_dict(), load_bundle(tmp_path / "whole").model.state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_two_processes_learn_what_one_learns(repo: Path, data: Path, tmp_path: Path) -> None:
    words = [f"data={data}", "train.updates=60", "train.validate_every=20", "deterministic=false", *SMALL]
    # AdamW: its path does not amplify rounding, so that a wrong average of gradients would show.
    words += ["train.optimiser=adamw", "train.lr=0.003"]
    alone = run(repo, *words, f"out={tmp_path / 'alone'}")
    assert alone.returncode == 0, alone.stderr
    module = ("-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=29533")
    together = run(repo, *words, f"out={tmp_path / 'together'}", module=module)
    assert together.returncode == 0, together.stderr

    def curve(name: str) -> list[float]:
        rows = json.loads((tmp_path / f"{name}-run" / "history.json").read_text())["history"]
        return [row["val_nrmse"] for row in rows if "val_nrmse" in row]

    assert curve("together") == pytest.approx(curve("alone"), rel=2e-3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["robot=cartpol"], "did you mean cartpole"),
        (["model=flashnrd"], "did you mean flashnerd"),
        (["modle=flashnerd"], "did you mean model"),
        (["train.minuets=3"], "did you mean minutes"),
        (["train.batch=many"], "train.batch"),
        (["train.batch=-1"], "at least 1 is needed"),
        (["options.widht=3"], "did you mean width"),
        (["options.width=3"], "not a multiple of options.heads"),
        (["device=tpu"], "device is 'tpu'"),
        (["data=/nowhere"], "make one with python scripts/dataset.py"),
        (["seed"], "type key=value"),
        (["train={"], "cannot be used"),
        (["resume=true", "out=nowhere"], "nowhere-run/checkpoint.pt does not exist"),
    ],
)
def test_wrong_words_get_one_sentence(
    here: Callable[..., tuple[object, list[str]]],
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = words if words[0].startswith("data=") else [f"data={data}", *words]
    code, errors = here("train_dynamics.py", *given, "train.updates=1")
    assert code == 2
    assert len(errors) == 1 and errors[0].startswith("error: "), errors
    assert message in errors[0]
    assert not list(tmp_path.rglob("*.safetensors")) and not list(tmp_path.rglob("checkpoint.pt"))
