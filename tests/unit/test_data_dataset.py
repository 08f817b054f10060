"""The shard reader: what it gives, and what it refuses with one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from flashnerd_ext.data.dataset import file_hash, load_trajectories, read_summary
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.registry import get_robot

ATTRIBUTES = {
    "schema_version": 1,
    "robot": "cartpole",
    "asset_key": "cartpole@test",
    "engine": "none",
    "seed": 0,
    "sim_dt": 1.0 / 120.0,
    "decimation": 2,
    "joint_names": ["slider_to_cart", "cart_to_pole"],
    "quaternion_order": "xyzw",
    "samplers": ["a", "b"],
}


def _shard(path: Path, n: int, offset: float = 0.0, **attributes: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file["joint_q"] = np.full((n, 5, 2), offset)
        file["joint_qd"] = np.zeros((n, 5, 2))
        file["actuation"] = np.zeros((n, 4, 1), np.float32)
        file["valid"] = np.ones((n, 4), bool)
        file["sampler"] = np.zeros(n, np.uint8)
        for key, value in (ATTRIBUTES | attributes).items():
            file.attrs[key] = value


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    _shard(tmp_path / "train" / "shard-001-00000.h5", 3, 1.0)
    _shard(tmp_path / "train" / "shard-000-00001.h5", 2, 2.0)
    summary = {"schema_version": 1, "robot": "cartpole", "splits": {"train": {"shards": 2}}}
    (tmp_path / "dataset.json").write_text(json.dumps(summary))
    return tmp_path


def test_shards_are_joined_in_the_order_of_their_index(folder: Path) -> None:
    data = load_trajectories(folder, "train", get_robot("cartpole"))
    assert data.joint_q[:, 0, 0].tolist() == [1, 1, 1, 2, 2]
    assert data.joint_q.dtype == np.float64 and data.actuation.dtype == np.float32 and data.valid.dtype == bool
    assert data.transitions == 20 and data.meta["samplers"] == ["a", "b"] and data.meta["bad_rows"] == 0


def _edit(path: Path, change: Callable[[h5py.File], object]) -> None:
    with h5py.File(path, "r+") as file:
        change(file)


def _set(key: str, value: object) -> Callable[[h5py.File], object]:
    return lambda file: file.attrs.__setitem__(key, value)


def _put(name: str, index: tuple[int, ...], value: float) -> Callable[[h5py.File], object]:
    return lambda file: file[name].__setitem__(index, value)  # type: ignore[union-attr]


def _drop(name: str) -> Callable[[h5py.File], object]:
    return lambda file: file.__delitem__(name)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_set("schema_version", 2), ("schema_version 2", "1 is needed")),
        (_set("robot", "ant"), ("robot ant", "cartpole is needed")),
        (_set("quaternion_order", "wxyz"), ("quaternion_order wxyz", "xyzw is needed")),
        (_set("joint_names", ["cart_to_pole", "slider_to_cart"]), ("joint_names", "slider_to_cart")),
        (_set("decimation", 4), ("decimation 4", "2 is needed")),
        (_set("sim_dt", 0.005), ("sim_dt 0.005",)),
        (_set("seed", 7), ("seed 7", "have 0")),
        (lambda file: file.attrs.__delitem__("robot"), ("lacks the attribute 'robot'",)),
        (_drop("actuation"), ("not a whole shard", "actuation")),
        (_drop("valid"), ("not a whole shard", "valid")),
        (_put("joint_q", (1, 2, 0), np.nan), ("2 steps", "valid but are not finite")),
        (_put("joint_qd", (0, 4, 1), np.inf), ("1 steps", "valid but are not finite")),
        (_put("actuation", (0, 0, 0), np.nan), ("1 steps", "valid but are not finite")),
    ],
)
def test_a_wrong_shard_is_refused_in_one_sentence(folder: Path, change: Callable, words: tuple[str, ...]) -> None:
    _edit(folder / "train" / "shard-000-00001.h5", change)
    with pytest.raises(FlashNerdError) as caught:
        load_trajectories(folder, "train", get_robot("cartpole"))
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)


def test_columns_that_do_not_fit_together_are_refused(folder: Path) -> None:
    path = folder / "train" / "shard-000-00001.h5"
    with h5py.File(path, "r+") as file:
        del file["joint_qd"]
        file["joint_qd"] = np.zeros((2, 4, 2))
    with pytest.raises(FlashNerdError, match="do not fit together"):
        load_trajectories(folder, "train")


@pytest.mark.parametrize("keep", [0.0, 0.2, 0.5, 0.9, 0.999])
def test_a_truncated_shard_is_refused(folder: Path, keep: float) -> None:
    path = folder / "train" / "shard-000-00001.h5"
    raw = path.read_bytes()
    path.write_bytes(raw[: int(keep * len(raw))])
    with pytest.raises(FlashNerdError, match="not a whole shard"):
        load_trajectories(folder, "train")


def test_any_damage_is_found_before_the_file_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "train" / "shard-000-00001.h5"
    raw = path.read_bytes()
    summary = json.loads((folder / "dataset.json").read_text())
    summary["splits"]["train"]["sha256"] = {path.name: file_hash(path)}
    (folder / "dataset.json").write_text(json.dumps(summary))
    assert load_trajectories(folder, "train").transitions == 20

    opened: list[str] = []
    real = h5py.File
    monkeypatch.setattr(h5py, "File", lambda name, *rest: opened.append(Path(name).name) or real(name, *rest))
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(raw)
        for place in rng.integers(0, len(raw), rng.integers(1, 40)):
            damaged[place] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(damaged[: rng.integers(1, len(raw) + 1)]))
        with pytest.raises(FlashNerdError, match="damaged or was replaced"):
            load_trajectories(folder, "train")
    assert path.name not in opened


def test_missing_and_surplus_shards(folder: Path) -> None:
    path = folder / "train" / "shard-000-00001.h5"
    other = path.with_name("shard-003-00001.h5")
    other.write_bytes(path.read_bytes())
    with pytest.raises(FlashNerdError, match=r"has 3 shards, but dataset\.json says 2"):
        load_trajectories(folder, "train")
    other.unlink()
    path.unlink()
    with pytest.raises(FlashNerdError, match=r"missing: \[1\]"):
        load_trajectories(folder, "train")


def test_values_after_the_valid_part_are_made_finite(folder: Path) -> None:
    path = folder / "train" / "shard-000-00001.h5"
    with h5py.File(path, "r+") as file:
        file["valid"][1, 2:] = False  # type: ignore[index]
        file["joint_q"][1, 4, 0] = np.nan  # type: ignore[index]
        file["actuation"][1, 3, 0] = np.inf  # type: ignore[index]
    data = load_trajectories(folder, "train")
    assert np.isfinite(data.joint_q).all() and np.isfinite(data.actuation).all()
    assert data.meta["bad_rows"] == 2 and data.transitions == 18


def test_folders_that_are_no_data_set(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(FlashNerdError, match="is not a folder"):
        read_summary(tmp_path / "nowhere")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(FlashNerdError, match="unfinished"):
        read_summary(empty)
    for text in ("", "[]", "{}", "{", "null", "\x00\x01"):
        (empty / "dataset.json").write_text(text)
        with pytest.raises(FlashNerdError, match="schema_version"):
            read_summary(empty)
    (empty / "dataset.json").write_text('{"schema_version": 9}')
    with pytest.raises(FlashNerdError, match="schema_version 9"):
        read_summary(empty)
    with pytest.raises(FlashNerdError, match="did you mean train"):
        load_trajectories(folder, "trian")


def test_reading_needs_no_simulator() -> None:
    code = (
        "import sys, flashnerd_ext.data.dataset, flashnerd_ext.data.inspect\n"
        "heavy = {'mujoco', 'mujoco_warp', 'warp', 'newton', 'isaaclab', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
