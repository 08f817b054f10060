"""scripts/dataset.py and scripts/inspect_dataset.py as a person runs them."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from forked import forked

from flashnerd_ext.data.dataset import load_trajectories, shard_paths
from flashnerd_ext.robots.registry import get_robot

TINY = ("train=60", "val=10", "test=10", "balance=10", "train_steps=10", "val_steps=10", "test_steps=10")
TINY += ("balance_steps=10", "shard=8", "workers=1")
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")}


def _run(repo: Path, script: str, *words: str, module: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    if not module:
        return forked(repo / "scripts" / script, *words, cwd=repo, env=ENVIRONMENT)
    command = [sys.executable, *module, str(repo / "scripts" / script), *words]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=300)


def _shards(folder: Path) -> dict[str, bytes]:
    paths = [path for split in ("train", "val", "test", "balance") for path in shard_paths(folder, split)]
    return {f"{path.parent.name}-{path.stem[-5:]}": path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def data(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "cartpole"
    done = _run(repo, "dataset.py", f"out={folder}", *TINY)
    assert done.returncode == 0, done.stderr
    assert "complete:" in done.stdout and "a minute" in done.stdout
    return folder


def _copy_model(data: Path, folder: Path) -> Path:
    """A folder with only the engine model: exporting it again takes most of a run."""
    folder.mkdir()
    shutil.copy(data / "engine_model.json", folder)
    return folder


def test_the_folder_is_what_the_reader_wants(repo: Path, data: Path) -> None:
    train = load_trajectories(data, "train", get_robot("cartpole"))
    assert train.joint_q.shape == (60, 11, 2) and train.meta["engine"] == "mujoco_c"
    summary = json.loads((data / "dataset.json").read_text())
    assert summary["command"].startswith("python scripts/dataset.py out=") and summary["seed"] == 0
    assert {path.name for path in data.iterdir()} == {
        "dataset.json", "engine_model.json", "train", "val", "test", "balance"
    }  # fmt: skip
    before = _shards(data)
    again = _run(repo, "dataset.py", f"out={data}", *TINY)
    assert again.returncode == 0 and "nothing was missing" in again.stdout
    assert _shards(data) == before


def test_a_killed_run_resumes_to_the_same_bytes(repo: Path, data: Path, tmp_path: Path) -> None:
    folder = _copy_model(data, tmp_path / "killed")
    command = [sys.executable, str(repo / "scripts" / "dataset.py"), f"out={folder}", *TINY]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    deadline = time.monotonic() + 200
    while len(shard_paths(folder, "train")) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    left = _shards(folder)
    assert len(left) >= 2
    whole = _shards(data)
    assert all(whole[name] == content for name, content in left.items()), "a visible shard is a whole shard"
    done = _run(repo, "dataset.py", f"out={folder}", *TINY)
    assert done.returncode == 0, done.stderr
    assert _shards(folder) == whole


def test_torchrun_with_two_ranks_makes_the_same_data_set(repo: Path, data: Path, tmp_path: Path) -> None:
    folder = _copy_model(data, tmp_path / "ranks")
    module = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")
    done = _run(repo, "dataset.py", f"out={folder}", *TINY, module=module)
    assert done.returncode == 0, done.stderr[-2000:]
    assert {path.name[:9] for path in shard_paths(folder, "train")} == {"shard-000", "shard-001"}
    assert _shards(folder) == _shards(data)
    one, two = (json.loads((path / "dataset.json").read_text())["splits"] for path in (data, folder))
    assert all(one[split]["statistics"] == two[split]["statistics"] for split in one)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("robot=cartpoel",), "did you mean cartpole"),
        (("trian=5",), "did you mean"),
        (("train=many",), "train"),
        (("train=-4",), "train is -4"),
        (("train=0", "val=0", "test=0", "balance=0"), "all 0"),
        (("test_steps=0",), "test_steps is 0"),
        (("shard=0",), "shard is 0"),
        (("seed=-1",), "seed is -1"),
        (("engine=mujocoo_c",), "did you mean mujoco_c"),
        (("workers=-2",), "workers is -2"),
        (("robot=go2", "contacts=fixd"), "contacts is 'fixd', which is unknown: did you mean fixed"),
        (("contacts=fixed",), "robot=cartpole touches nothing: type contacts=variable"),
        (("samplers=[coost:1]",), "did you mean coast"),
        (("samplers=[coast:-1]",), "0 or more"),
        (("samplers=coast",), "samplers"),
        (("samplers=[coast]",), "NAME:WEIGHT"),
        (("samplers=[coast:x]",), "NAME:WEIGHT"),
        (("train",), "key=value"),
        (("--fast",), "key=value"),
        (("train=[",), "command line"),
    ],
)
def test_wrong_overrides_get_one_sentence_and_leave_nothing(
    here: Callable[..., tuple[object, list[str]]], tmp_path: Path, words: tuple[str, ...], answer: str
) -> None:
    code, lines = here("dataset.py", f"out={tmp_path / 'out'}", *words)
    assert code == 2 and len(lines) == 1 and lines[0].startswith("error: ") and answer in lines[0], lines
    assert not (tmp_path / "out").exists()


def test_places_that_cannot_be_written(repo: Path, data: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out, answer in (("file", "is a file"), ("file/deeper", "cannot be made")):
        done = _run(repo, "dataset.py", f"out={tmp_path / out}", *TINY)
        assert done.returncode == 2 and answer in done.stderr and "Traceback" not in done.stderr
    other = _run(repo, "dataset.py", f"out={data}", *TINY, "seed=9")
    assert other.returncode == 2 and "another command" in other.stderr and "Traceback" not in other.stderr


def test_inspect_prints_ranges_and_draws(repo: Path, data: Path, tmp_path: Path) -> None:
    picture = tmp_path / "deep" / "view.png"
    done = _run(repo, "inspect_dataset.py", f"data={data}", f"png={picture}")
    assert done.returncode == 0, done.stderr
    for word in ("train: 60 trajectories, 600 steps", "0 bad rows", "slider_to_cart effort", "covered", "task_noise"):
        assert word in done.stdout
    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[0] > 300 and np.unique(pixels.reshape(-1, pixels.shape[-1]), axis=0).shape[0] > 50


def test_inspect_reports_damage_and_bad_rows(repo: Path, data: Path, tmp_path: Path) -> None:
    import h5py

    folder = tmp_path / "broken"
    shutil.copytree(data, folder)
    first, second, third = shard_paths(folder, "train")[:3]
    first.write_bytes(first.read_bytes()[:3000])
    third.unlink()
    with h5py.File(second, "r+") as file:
        file["joint_qd"][0, 2, 1] = np.nan  # type: ignore[index]
    # Without checksums, as a data set of another tool: the rows themselves have to be looked at.
    summary = json.loads((folder / "dataset.json").read_text())
    summary["splits"]["train"].pop("sha256")
    (folder / "dataset.json").write_text(json.dumps(summary))
    done = _run(repo, "inspect_dataset.py", f"data={folder}", f"png={tmp_path / 'x.png'}")
    assert done.returncode == 1
    assert done.stdout.count("FAULT") == 3 and "not a whole shard" in done.stdout
    assert "1 bad rows, 2 of them marked valid" in done.stdout and "7 shards, but dataset.json says 8" in done.stdout


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("data=nowhere",), "is not a folder"),
        (("data=.", "png=x.png"), "unfinished"),
        (("png=x.jpg",), "ends in .png"),
        (("date=x",), "did you mean data"),
    ],
)
def test_inspect_refuses_in_one_sentence(
    here: Callable[..., tuple[object, list[str]]], words: tuple[str, ...], answer: str
) -> None:
    code, lines = here("inspect_dataset.py", *words)
    assert code == 2 and len(lines) == 1 and answer in lines[0], lines


@pytest.mark.kitless
@pytest.mark.parametrize("name", ["go2", "g1"])
def test_a_walking_robot_needs_no_options_but_its_name(repo: Path, tmp_path: Path, name: str) -> None:
    """Split sizes that are not given are the robot's own; there is no balance. The log shows progress."""
    folder = tmp_path / name
    words = ("train=64", "train_steps=6", "val=6", "test=8", "test_steps=12", "val_steps=6", "shard=40", "workers=1")
    done = _run(repo, "dataset.py", f"robot={name}", f"out={folder}", *words)
    assert done.returncode == 0, done.stderr
    assert "transitions, about" in done.stdout and "balance: 0 x" in done.stdout
    robot = get_robot(name)
    assert robot.contacts is not None
    train = load_trajectories(folder, "train", robot)
    layout, count = robot.layout, robot.contacts.capacity
    assert train.joint_q.shape == (64, 7, layout.nq) and train.joint_qd.shape == (64, 7, layout.nv)
    assert train.valid.all() and np.isfinite(train.joint_q).all() and np.isfinite(train.joint_qd).all()
    assert train.extra["condition"].shape == (64, len(layout.conditions))
    assert train.extra["rows"].shape == (64, 6, count, 12)
    assert train.extra["torque"].shape == (64, 6, layout.nu) and np.abs(train.extra["torque"]).max() > 1.0
    assert train.extra["force"].shape == (64, 6, len(robot.links), 3)
    # Nobody starts in the ground, many start on it, and what touches carries weight.
    used = train.extra["row_link"][:, 0] >= 0
    depth = np.where(used, train.extra["rows"][:, 0, :, 6], 1.0).min(1)
    assert depth.min() > -1e-4 and (depth < 0.011).mean() > 0.3
    assert train.extra["force"].sum(2)[:, :, 2].max() > 50.0
    plan = json.loads((folder / "dataset.json").read_text())["splits"]
    assert set(plan["train"]["samplers"]) == set(plan["test"]["samplers"])
    assert all(plan["train"]["samplers"][key]["trajectories"] > 0 for key in plan["train"]["samplers"])


def test_default_sizes_are_the_robots_own(repo: Path) -> None:
    from flashnerd_ext.data.samplers import plan_of

    script = runpy.run_path(str(repo / "scripts" / "dataset.py"))
    for name in ("cartpole", "go2", "g1", "ant"):
        splits = script["_splits"](script["DatasetConfig"](robot=name))
        sizes = {key: (split.trajectories, split.steps) for key, split in splits.items()}
        assert sizes == {key: (size.trajectories, size.steps) for key, size in plan_of(name).splits.items()}
        assert [key for key, split in splits.items() if split.complete] == ["val", "test", "balance"]
    changed = script["_splits"](script["DatasetConfig"](robot="go2", train=3, test_steps=7))
    assert changed["train"].trajectories == 3 and changed["test"].steps == 7
