"""Data set folders: the shard format, and the reader that training and evaluation use.

A folder holds ``dataset.json``, ``engine_model.json`` and ``SPLIT/shard-RANK-INDEX.h5``. A shard has joint_q
[n, T+1, nq] and joint_qd [n, T+1, nv] (float64, Newton's conventions, quaternions x y z w), actuation [n, T, nu]
(float32), valid [n, T] and sampler [n], all at the model's dt. ``valid[i, t]`` says that frames 0 to t + 1 are finite
and inside the robot's ``valid_range``, so the valid steps of a trajectory are always its beginning. Only numpy and
h5py are needed here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.files import atomic_save

SCHEMA_VERSION = 1
QUATERNION_ORDER = "xyzw"
FILE = "dataset.json"
COLUMNS = ("joint_q", "joint_qd", "actuation", "valid", "sampler")
EXTRA = ("condition", "friction", "rows", "row_link", "row_count", "torque", "force")
"""Columns of robots that have them: condition [n, C], friction [n], contact rows at the start of each step (rows
[n, T, K, 12], row_link [n, T, K], row_count [n, T]; see :mod:`flashnerd_ext.data.engines.rows`), the mean torque of
each actuated joint over each step [n, T, nu] and the mean contact force on each link over each step in the world frame
[n, T, L, 3]."""


@dataclass
class Trajectories:
    """A split in memory; shapes as in the module's text."""

    joint_q: np.ndarray
    joint_qd: np.ndarray
    actuation: np.ndarray
    valid: np.ndarray
    sampler: np.ndarray
    """[N] id of each trajectory's sampler, an index into ``meta["samplers"]``."""
    extra: dict[str, np.ndarray]
    """Columns of :data:`EXTRA` that the data set has."""
    meta: dict[str, Any]
    """Attributes of the shards, and ``folder``, ``split``, ``samplers`` (names), ``bad_rows`` and ``fixed`` (links of
    fixed contact rows, empty for variable ones), ``fixed_detector`` (what finds these, where it is not the robot's
    own) and ``chain`` (geometry of a robot in free motion, as :class:`flashnerd_ext.model.chain.Chain` writes it)."""

    @property
    def transitions(self) -> int:
        """Number of valid steps."""
        return int(self.valid.sum())


def shard_paths(folder: str | Path, split: str) -> list[Path]:
    """Finished shards of a split, by index (files still being written have another name)."""
    return sorted((Path(folder) / split).glob("shard-*-*.h5"), key=lambda path: (shard_index(path), path.name))


def shard_index(path: Path) -> int:
    """Index of the shard, which alone decides its content; -1 for a name that is not a shard's."""
    tail = path.stem.rsplit("-", 1)[-1]
    return int(tail) if tail.isdigit() else -1


def read_summary(folder: str | Path) -> dict[str, Any]:
    """``dataset.json`` of a finished data set.

    Raises:
        FlashNerdError: When the folder or the file is missing, damaged, or of another schema version.
    """
    folder = Path(folder)
    path = folder / FILE
    if not folder.is_dir():
        raise FlashNerdError(f"data={folder} is not a folder: make one with python scripts/dataset.py out={folder}")
    if not path.exists():
        raise FlashNerdError(
            f"{folder} has no {FILE}, so the data set is unfinished: run the same scripts/dataset.py command again, "
            "it goes on where it stopped."
        )
    try:
        summary = json.loads(path.read_text())
        found = summary["schema_version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FlashNerdError(f"{path} cannot be read as JSON with a schema_version ({type(error).__name__}).") from None
    _check(path, "schema_version", found, SCHEMA_VERSION)
    return summary


def fixed_of(summary: Mapping[str, Any]) -> tuple[str, ...]:
    """Links of a data set's fixed contact rows, in the order of rows; empty for variable rows."""
    return tuple(summary.get("fixed", ()))


def load_trajectories(folder: str | Path, split: str, robot: Any = None) -> Trajectories:
    """Read a whole split.

    Args:
        folder: A data set that ``scripts/dataset.py`` finished.
        split: ``train``, ``val`` or ``test``.
        robot: A RobotDescription (or just a robot's name) that the data must be of; ``None`` accepts any.

    Raises:
        FlashNerdError: For a missing, truncated or corrupt shard, another schema version, robot, joint order, time
            step or quaternion order, or values that are not finite where ``valid`` says they are.
    """
    summary = read_summary(folder)
    splits = summary.get("splits", {})
    if split not in splits:
        raise FlashNerdError(f"{folder} has no split '{split}': {nearest(split, splits)}")
    paths = shard_paths(folder, split)
    wanted = int(splits[split]["shards"])
    missing = sorted(set(range(wanted)) - {shard_index(path) for path in paths})
    if missing or len(paths) != wanted:
        raise FlashNerdError(
            f"{Path(folder) / split} has {len(paths)} shards, but {FILE} says {wanted} (missing: {missing[:5]}): "
            "run the same scripts/dataset.py command again, it fills the gaps."
        )
    if wanted == 0:
        raise FlashNerdError(f"{folder} has an empty split '{split}': make it with scripts/dataset.py {split}=N.")
    parts: dict[str, list[np.ndarray]] = {}
    meta: dict[str, Any] = {}
    for path in paths:
        check_sum(path, splits[split])
        columns, attributes = read_shard(path, robot)
        _same(path, attributes, meta)
        meta = meta or attributes
        for name, column in columns.items():
            parts.setdefault(name, []).append(column)
    joined = {name: np.concatenate(values) for name, values in parts.items()}
    bad = _settle(Path(folder) / split, joined)
    meta |= {"folder": str(folder), "split": split, "samplers": list(meta["samplers"]), "bad_rows": bad}
    meta["fixed"] = fixed_of(summary)
    meta["fixed_detector"] = str(summary.get("fixed_detector", ""))
    meta["chain"] = summary.get("chain", {})
    extra = {name: joined.pop(name) for name in EXTRA if name in joined}
    return Trajectories(**joined, extra=extra, meta=meta)


def check_sum(path: Path, facts: dict[str, Any]) -> None:
    """Compare a shard with the SHA-256 that ``dataset.json`` has of it.

    HDF5 was seen to run for minutes in a damaged file, so that damage has to be found before it is opened.

    Raises:
        FlashNerdError: When they differ or the file cannot be read.
    """
    wanted = facts.get("sha256", {}).get(path.name)
    if wanted is not None and file_hash(path) != wanted:
        raise FlashNerdError(
            f"{path} is damaged or was replaced (its SHA-256 is not the one in {FILE}): "
            "delete it and run the same scripts/dataset.py command again."
        )


def file_hash(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FlashNerdError(f"{path} cannot be read: {error.strerror}.") from None


def read_shard(path: Path, robot: Any = None) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Columns and attributes of one shard, checked against the format and the robot."""
    try:
        with h5py.File(path, "r") as file:
            attributes = {key: _plain(value) for key, value in file.attrs.items()}
            if "schema_version" in attributes:
                _check(path, "schema_version", attributes["schema_version"], SCHEMA_VERSION)
            columns = {name: np.asarray(file[name]) for name in (*COLUMNS, *(n for n in EXTRA if n in file))}
    except FlashNerdError:
        raise
    except (OSError, KeyError, RuntimeError, ValueError, TypeError) as error:
        raise FlashNerdError(
            f"{path} is not a whole shard ({type(error).__name__}: {error}): "
            "delete it and run scripts/dataset.py again."
        ) from None
    for key in ("schema_version", "robot", "joint_names", "quaternion_order", "sim_dt", "decimation", "samplers"):
        if key not in attributes:
            raise FlashNerdError(f"{path} lacks the attribute '{key}': delete it and run scripts/dataset.py again.")
    _check(path, "quaternion_order", attributes["quaternion_order"], QUATERNION_ORDER)
    _check_shapes(path, columns)
    if isinstance(robot, str):
        _check(path, "robot", attributes["robot"], robot)
    elif robot is not None:
        _check(path, "robot", attributes["robot"], robot.name)
        _check(path, "joint_names", list(attributes["joint_names"]), list(robot.layout.joint_names))
        _check(path, "decimation", int(attributes["decimation"]), robot.decimation)
        if abs(attributes["sim_dt"] - robot.sim_dt) > 1e-9:
            _check(path, "sim_dt", attributes["sim_dt"], robot.sim_dt)
        for name, size in (("joint_q", robot.layout.nq), ("joint_qd", robot.layout.nv), ("actuation", robot.layout.nu)):
            _check(path, f"width of {name}", columns[name].shape[2], size)
    return columns, attributes


def save_shard(path: Path, columns: dict[str, np.ndarray], attributes: dict[str, Any]) -> Path:
    """Write a shard, whole or not at all; the same numbers give the same bytes.

    Args:
        columns: :data:`COLUMNS`, and those of :data:`EXTRA` that the data set has; others are left out.
        attributes: Of the file; see :func:`read_shard` for the ones that a reader needs.
    """

    def save(temporary: Path) -> None:
        # No time stamps and no library-version tricks.
        with h5py.File(temporary, "w", track_order=True) as file:
            for name in (*COLUMNS, *(name for name in EXTRA if name in columns)):
                file.create_dataset(name, data=columns[name], track_times=False)
            for key, value in attributes.items():
                file.attrs[key] = value

    return atomic_save(path, save)


def _plain(value: Any) -> Any:
    """HDF5 attributes as plain Python: bytes to str, arrays of them to lists."""
    if isinstance(value, np.ndarray):
        return value.tolist() if value.dtype.kind not in "OS" else [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode()
    return value.item() if isinstance(value, np.generic) else value


def _check(path: Path, field: str, found: Any, needed: Any) -> None:
    if found != needed:
        raise FlashNerdError(
            f"{path} has {field} {found}, but {needed} is needed: make the data set anew with scripts/dataset.py."
        )


def _check_shapes(path: Path, columns: dict[str, np.ndarray]) -> None:
    q, qd, actuation = columns["joint_q"], columns["joint_qd"], columns["actuation"]
    whole = q.ndim == qd.ndim == actuation.ndim == 3
    if whole:
        n, steps = actuation.shape[:2]
        whole = q.shape[:2] == qd.shape[:2] == (n, steps + 1)
        whole = whole and columns["valid"].shape == (n, steps) and columns["sampler"].shape == (n,)
        whole = whole and all(
            columns[name].shape[: 1 if name in ("condition", "friction") else 2]
            == ((n,) if name in ("condition", "friction") else (n, steps))
            for name in EXTRA
            if name in columns
        )
    if not whole:
        shapes = {name: column.shape for name, column in columns.items()}
        raise FlashNerdError(f"{path} has columns that do not fit together, {shapes}: delete it and make it again.")


def _same(path: Path, attributes: dict[str, Any], first: dict[str, Any]) -> None:
    """Shards of one split come from one command."""
    for key in ("robot", "asset_key", "engine", "seed", "command_hash", "samplers", "model_hash", "extra"):
        if first and attributes.get(key) != first.get(key):
            raise FlashNerdError(
                f"{path} has {key} {attributes.get(key)}, but the shards before it have {first.get(key)}: "
                "shards of different data sets lie in one folder; delete the strangers."
            )


def _settle(path: Path, columns: dict[str, np.ndarray]) -> int:
    """Refuse non-finite values in valid steps; put zeros in the others (0 x NaN is NaN in a masked loss).

    Returns:
        How many frames were not finite.
    """
    valid = columns["valid"] = columns["valid"].astype(bool)
    frames = np.isfinite(columns["joint_q"]).all(-1) & np.isfinite(columns["joint_qd"]).all(-1)
    inputs = np.isfinite(columns["actuation"]).all(-1)
    broken = valid & ~(frames[:, :-1] & frames[:, 1:] & inputs)
    if broken.any():
        raise FlashNerdError(
            f"{path} has {int(broken.sum())} steps that are marked valid but are not finite: "
            "look with scripts/inspect_dataset.py, and make the data set anew."
        )
    columns["joint_q"][~frames] = 0.0
    columns["joint_qd"][~frames] = 0.0
    columns["actuation"][~inputs] = 0.0
    return int((~frames).sum() + (~inputs).sum())
