"""Writes recorded trajectories as a data set folder, in the format of :mod:`flashnerd_ext.data.dataset`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.data.dataset import EXTRA, FILE, QUATERNION_ORDER, SCHEMA_VERSION, file_hash, save_shard
from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.data.engines.mujoco_c import MujocoC
from flashnerd_ext.data.statistics import Statistics
from flashnerd_ext.data.writer import contact_columns, feature_names, fixed_facts, shard_statistics
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import write_json
from flashnerd_ext.rl.record.cut import Pieces
from flashnerd_ext.robots.description import RobotDescription

SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class Source:
    """Where the data come from.

    Attributes:
        engine: Physics preset. version: Of its solver.
        seed: Of the rollout. command: What was typed.
        samplers: Group of worlds -> what it followed.
        facts: JSON-able facts for ``dataset.json`` (task, policies).
    """

    engine: str
    version: str
    seed: int
    command: str
    samplers: Mapping[str, str]
    facts: Mapping[str, Any]


def splits_of(groups: np.ndarray, val: float, test: float) -> dict[str, np.ndarray]:
    """Worlds of each split, so that no trajectory of a split goes on in another; drawn with a fixed seed.

    Args:
        groups: Group of each world, [N]: a split takes from all groups in turn.
        val, test: Share of the worlds.
    """
    drawn = np.random.default_rng(0).permutation(len(groups))
    # How many worlds of its own group come before each one in the drawn order.
    turn = np.zeros(len(groups), np.int64)
    for group in np.unique(groups):
        mine = drawn[groups[drawn] == group]
        turn[mine] = np.arange(len(mine))
    order = np.lexsort((groups, turn))
    held, tested = round(val * len(groups)), round(test * len(groups))
    parts = np.split(order, [held, held + tested])
    return {"train": np.sort(parts[2]), "val": np.sort(parts[0]), "test": np.sort(parts[1])}


def write_folder(
    folder: Path,
    robot: RobotDescription,
    model: ExportedModel,
    pieces: Pieces,
    groups: np.ndarray,
    source: Source,
    splits: Mapping[str, np.ndarray],
) -> dict[str, Any]:
    """Write shards and then ``dataset.json``, which makes the folder a data set.

    Args:
        groups: Group of each world, index into ``source.samplers``.
        splits: Worlds of each split.

    Returns:
        The summary.

    Raises:
        FlashNerdError: Where a split of some worlds got no valid step.
    """
    model.save(folder)
    content = [dict(source.samplers), dict(source.facts), source.seed, source.engine, model.hash]
    text = json.dumps(content, sort_keys=True)
    command_hash = hashlib.sha256(text.encode()).hexdigest()
    engine = MujocoC(model)
    columns = pieces.columns | {"sampler": groups[pieces.world].astype(np.uint8)}
    if robot.contacts is not None:
        columns |= contact_columns(engine, columns)
    tables: dict[str, Any] = {}
    for split in SPLITS:
        mine = np.isin(pieces.world, splits[split])
        part = {name: column[mine] for name, column in columns.items()}
        if not len(splits[split]):
            tables[split] = _empty(columns, robot)
            continue
        if not part["valid"].any():
            raise FlashNerdError(
                f"the {split} split of {folder} got no valid step from its {len(splits[split])} worlds: "
                "record more steps or worlds."
            )
        tables[split] = _write(folder, split, part, robot, model, source, command_hash)
    summary = {
        "schema_version": SCHEMA_VERSION,
        "robot": robot.name,
        "asset_key": model.asset_key,
        "joint_names": list(robot.layout.joint_names),
        "quaternion_order": QUATERNION_ORDER,
        "dt": robot.dt,
        "sim_dt": robot.sim_dt,
        "decimation": robot.decimation,
        "engine": source.engine,
        "engine_version": source.version,
        "model_hash": model.hash,
        "command_hash": command_hash,
        "command": source.command,
        "seed": source.seed,
        "samplers": dict(source.samplers),
        "splits": tables,
        "recorded": {**source.facts, "dropped_steps": pieces.dropped, "jumps": pieces.jumps},
    } | fixed_facts(model)
    write_json(folder / FILE, summary)
    return summary


def _write(
    folder: Path,
    split: str,
    columns: dict[str, np.ndarray],
    robot: RobotDescription,
    model: ExportedModel,
    source: Source,
    command_hash: str,
) -> dict[str, Any]:
    statistics = shard_statistics(columns)
    names = list(source.samplers)
    drawn = np.bincount(columns["sampler"], minlength=len(names))
    attributes: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "robot": robot.name,
        "asset_key": model.asset_key,
        "engine": source.engine,
        "engine_version": source.version,
        "model_hash": model.hash,
        "command_hash": command_hash,
        "seed": source.seed,
        "sim_dt": robot.sim_dt,
        "decimation": robot.decimation,
        "joint_names": list(robot.layout.joint_names),
        "quaternion_order": QUATERNION_ORDER,
        "split": split,
        "samplers": names,
        "tried": drawn,
        "extra": [name for name in EXTRA if name in columns],
        "links": list(model.links),
        "statistics": statistics.packed(),
    }

    path = save_shard(folder / split / "shard-000-00000.h5", columns, attributes)
    return _facts(columns, statistics, robot, [path]) | {
        "samplers": {
            name: {"share": float(count / max(drawn.sum(), 1)), "trajectories": int(count), "tried": int(count)}
            for name, count in zip(names, drawn, strict=True)
        }
    }


def _facts(
    columns: dict[str, np.ndarray], statistics: Statistics, robot: RobotDescription, paths: Sequence[Path]
) -> dict[str, Any]:
    count, steps = columns["valid"].shape
    frames = np.isfinite(columns["joint_q"]).all(-1) & np.isfinite(columns["joint_qd"]).all(-1)
    return {
        "shards": len(paths),
        "trajectories": count,
        "steps": steps,
        "complete": False,
        "transitions": count * steps,
        "valid_transitions": statistics.count,
        "bad_rows": int((~frames).sum()),
        "sha256": {path.name: file_hash(path) for path in paths},
        "statistics": statistics.to_dict(feature_names(robot)),
    }


def _empty(columns: dict[str, np.ndarray], robot: RobotDescription) -> dict[str, Any]:
    none = {name: column[:0] for name, column in columns.items()}
    nothing = Statistics.of(np.zeros((0, len(feature_names(robot)))))
    return _facts(none, nothing, robot, []) | {"samplers": {}}
