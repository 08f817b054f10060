"""Writes a data set: shard by shard, resumable, on any number of processes and machines that share the folder.

The content of a shard follows from the command, the split and the shard's index alone (its random numbers have
the seed [seed, split, index]), so it does not matter who writes it, when, or how often it was interrupted.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from flashnerd_ext.data.dataset import (
    COLUMNS,
    EXTRA,
    FILE,
    QUATERNION_ORDER,
    SCHEMA_VERSION,
    file_hash,
    save_shard,
    shard_index,
    shard_paths,
)
from flashnerd_ext.data.engines import Engine
from flashnerd_ext.data.engines.chain import chain_of
from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.data.engines.mujoco_c import MujocoC
from flashnerd_ext.data.samplers import SPLITS, counts, mixture, samplers_of
from flashnerd_ext.data.statistics import Statistics
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import write_json
from flashnerd_ext.robots.description import RobotDescription

MAX_ROUNDS = 60
"""Rejection rounds before a sampler is said to be unable to stay in the valid range."""


@dataclass(frozen=True)
class SplitPlan:
    """``trajectories`` of ``steps`` steps; ``complete`` keeps only those that stay valid to the end."""

    trajectories: int
    steps: int
    complete: bool


@dataclass(frozen=True)
class Plan:
    """Everything that decides the numbers of a data set."""

    robot: str
    seed: int
    engine: str
    splits: dict[str, SplitPlan]
    shard: int
    """Trajectories in a shard."""
    samplers: dict[str, float] = field(default_factory=dict)
    """Mixture for every split; empty takes each split's own."""

    def check(self) -> None:
        """Raise a FlashNerdError for counts that make no sense."""
        if self.seed < 0:
            raise FlashNerdError(f"seed is {self.seed}, but 0 or more is needed.")
        if self.shard < 1:
            raise FlashNerdError(f"shard is {self.shard}, but at least 1 trajectory is needed in a shard.")
        for name, split in self.splits.items():
            if split.trajectories < 0:
                raise FlashNerdError(f"{name} is {split.trajectories}, but 0 or more trajectories are needed.")
            if split.steps < 1:
                raise FlashNerdError(f"{name}_steps is {split.steps}, but at least 1 is needed.")
            if split.trajectories:
                mixture(self.robot, name, self.samplers)
        if not any(split.trajectories for split in self.splits.values()):
            raise FlashNerdError(
                "train, val, test and balance are all 0: give at least one of them, for example train=1000."
            )

    def shards(self, split: str) -> int:
        """How many shards the split has; the last one may be shorter."""
        return -(-self.splits[split].trajectories // self.shard)

    def shard_size(self, split: str, index: int) -> int:
        """Trajectories in that shard."""
        return min(self.shard, self.splits[split].trajectories - index * self.shard)

    def hash(self, model_hash: str) -> str:
        """Identifies the numbers: plan, engine model and the text of the mixture."""
        shares = {
            name: mixture(self.robot, name, self.samplers).tolist()
            for name, split in self.splits.items()
            if split.trajectories
        }
        content = json.dumps([asdict(self), shares, list(samplers_of(self.robot)), model_hash], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


def rollout_policy(
    engine: Engine, q: np.ndarray, qd: np.ndarray, policy: Callable, steps: int
) -> tuple[np.ndarray, ...]:
    """Close the loop for ``steps`` model steps.

    Args:
        q, qd: Start, [N, nq] and [N, nv].

    Returns:
        joint_q [N, T+1, nq], joint_qd [N, T+1, nv], actuation [N, T, nu] float32 (as the engine used it) and, from
        engines that say, mean torques [N, T, nu] and contact forces [N, T, L, 3], both float32.
    """
    joint_q, joint_qd, actions, torques, forces = [q], [qd], [], [], []
    for t in range(steps):
        # The engine gets what is stored, so that a stored trajectory replays exactly.
        action = np.asarray(policy(t, q, qd), np.float32)
        action[~np.isfinite(action)] = 0.0
        q, qd = engine.step(q, qd, action)
        joint_q.append(q)
        joint_qd.append(qd)
        actions.append(action)
        if isinstance(engine, MujocoC) and engine.model.capacity:
            torques.append(engine.torque.astype(np.float32))
            forces.append(engine.force.astype(np.float32))
    return tuple(np.stack(parts, 1) for parts in (joint_q, joint_qd, actions, torques, forces) if parts)


def _rollout_together(engine: Engine, draws: list, steps: int) -> list[tuple[np.ndarray, ...]]:
    """Roll several samplers' worlds out as one batch and hand each its own columns."""
    edges = np.cumsum([0] + [len(q) for q, _, _ in draws])
    slices = [slice(a, b) for a, b in pairwise(edges)]

    def policy(t: int, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        return np.concatenate([draw[2](t, q[part], qd[part]) for draw, part in zip(draws, slices, strict=True)])

    start_q, start_qd = (np.concatenate([draw[i] for draw in draws]) for i in (0, 1))
    columns = rollout_policy(engine, start_q, start_qd, policy, steps)
    return [tuple(column[part] for column in columns) for part in slices]


def valid_steps(robot: RobotDescription, joint_q: np.ndarray, joint_qd: np.ndarray) -> np.ndarray:
    """[N, T] bool: frames 0 to t + 1 are finite and inside the robot's valid range."""
    good = np.isfinite(joint_q).all(-1) & np.isfinite(joint_qd).all(-1)
    for name, (low, high) in robot.valid_range.items():
        values = joint_q[..., robot.layout.q0 + robot.layout.joint_names.index(name)]
        good &= (values >= low) & (values <= high)
    return np.logical_and.accumulate(good, axis=1)[:, 1:]


def make_shard(robot: RobotDescription, engine: Engine, plan: Plan, split: str, index: int) -> dict[str, np.ndarray]:
    """The columns of a shard, and ``tried`` [samplers]: how many trajectories each sampler drew for it."""
    setting = plan.splits[split]
    known = list(samplers_of(plan.robot).values())
    wanted = counts(mixture(plan.robot, split, plan.samplers), plan.shard_size(split, index))
    generators = [np.random.default_rng([plan.seed, SPLITS.index(split), index, n]) for n in range(len(known))]
    parts: list[tuple[np.ndarray, ...]] = []
    tried, kept = np.zeros(len(known), np.int64), np.zeros(len(known), np.int64)
    for _ in range(MAX_ROUNDS):
        missing = wanted - kept
        if not missing.any():
            break
        # All samplers advance in one batch: the engine's threads want many worlds.
        draws = [
            (n, item.draw(generators[n], _draws(robot, setting, int(missing[n])), setting.steps))
            for n, item in enumerate(known)
            if missing[n]
        ]
        if robot.contacts is not None:
            draws = lift_starts(engine, draws, generators)
        worlds = [draw_worlds(robot, generators[n], len(draw[0])) for n, draw in draws]
        if robot.contacts is not None or robot.layout.conditions:
            engine.set_worlds(*(np.concatenate(part) for part in zip(*worlds, strict=True)))  # type: ignore[attr-defined]
        for (n, _), world, columns in zip(
            draws, worlds, _rollout_together(engine, [draw for _, draw in draws], setting.steps), strict=True
        ):
            valid = valid_steps(robot, columns[0], columns[1])
            take = np.flatnonzero(valid[:, -1])[: missing[n]] if setting.complete else np.arange(len(valid))
            mine = (*columns[:3], valid, np.full(len(valid), n, np.uint8), *world, *columns[3:])
            parts.append(tuple(column[take] for column in mine))
            tried[n] += len(valid)
            kept[n] += len(take)
    for n in np.flatnonzero(kept < wanted):
        raise FlashNerdError(
            f"sampler '{known[n].name}' kept {kept[n]} of {wanted[n]} {split} trajectories in the valid range for "
            f"{setting.steps} steps: lower {split}_steps or give it another weight."
        )
    # Mixed, so that any part of a shard has the whole mixture.
    joined = [np.concatenate([part[i] for part in parts]) for i in range(len(parts[0]))]
    order = np.random.default_rng([plan.seed, SPLITS.index(split), index, 1 << 20]).permutation(len(joined[0]))
    names = ("joint_q", "joint_qd", "actuation", "valid", "sampler", "condition", "friction", "torque", "force")
    columns = {name: column[order] for name, column in zip(names, joined, strict=False)}
    if robot.contacts is None:
        columns = {name: columns[name] for name in (*COLUMNS, *(["condition"] if robot.layout.conditions else []))}
    else:
        columns |= contact_columns(engine, columns)
    return columns | {"tried": tried}


def lift_starts(engine: Engine, draws: list, generators: list[np.random.Generator]) -> list:
    """Raise free bases that a sampler put into the ground, to a few millimetres above it: thrown out of the ground, a
    robot would start with speeds that it never has."""
    from flashnerd_ext.data.engines.rows import RowDetector
    from flashnerd_ext.data.terrain import terrain_starts

    if engine.model.terrain:  # type: ignore[attr-defined]
        return terrain_starts(engine, draws, generators)
    # By what touches, whichever encoding the data have: both kinds of data get the same starts.
    detector = RowDetector(engine, fixed=())  # type: ignore[arg-type]
    lifted = []
    for n, (q, qd, policy) in draws:
        found = detector.rows(q, qd)
        # The deepest row comes first; a robot without rows is in the air.
        depth = np.where(found.link[:, 0] >= 0, found.features[:, 0, 6].astype(np.float64), 0.0)
        raised = q.copy()
        raised[:, 2] += np.where(depth < 0, -depth + generators[n].uniform(0.0, 0.01, len(q)), 0.0)
        lifted.append((n, (raised, qd, policy)))
    return lifted


def _draws(robot: RobotDescription, setting: SplitPlan, missing: int) -> int:
    """How many worlds to draw for ``missing`` trajectories: more where some will leave the valid range."""
    return 2 * missing + 8 if setting.complete and robot.valid_range else missing


def draw_worlds(robot: RobotDescription, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Conditions [count, C] and friction [count] float32 of worlds; a fifth of them is nominal but for friction."""
    names = robot.layout.conditions
    low, high = (np.array([robot.condition_range[name][i] for name in names]) for i in (0, 1))
    condition = np.zeros((count, len(names)), np.float32)
    if len(names):
        condition = (rng.uniform(low, high, (count, len(names))) * (rng.random((count, 1)) > 0.2)).astype(np.float32)
    friction = np.ones(count, np.float32)
    if robot.contacts is not None:
        friction = rng.uniform(*robot.contacts.friction, count).astype(np.float32)
    return condition, friction


def contact_columns(engine: Engine, columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Contact rows at the start of every valid step, by the detector of the engine's own model."""
    from flashnerd_ext.data.engines.rows import RowDetector

    valid, count = columns["valid"], len(columns["valid"])
    steps = valid.shape[1]
    trajectory, time = np.nonzero(valid)
    found = RowDetector(engine).rows(  # type: ignore[arg-type]
        columns["joint_q"][trajectory, time],
        columns["joint_qd"][trajectory, time],
        columns["friction"][trajectory],
        columns["condition"][trajectory],
    )
    result: dict[str, np.ndarray] = {}
    for name, values, empty in (
        ("rows", found.features, 0),
        ("row_link", found.link, -1),
        ("row_count", found.count, 0),
    ):
        whole = np.full((count, steps, *values.shape[1:]), empty, values.dtype)
        whole[trajectory, time] = values
        result[name] = whole
    return result


def fixed_facts(model: ExportedModel) -> dict[str, Any]:
    """What ``dataset.json`` says of fixed contact rows; nothing where rows are variable, as it was before."""
    facts: dict[str, Any] = {"fixed": list(model.fixed)} if model.fixed else {}
    return facts | ({"fixed_detector": model.fixed_detector} if model.fixed_detector else {})


def feature_names(robot: RobotDescription) -> list[str]:
    """Names of the statistics' features: state, actuation, then one-step velocity increments."""
    base_q = ["base_x", "base_y", "base_z", "base_qx", "base_qy", "base_qz", "base_qw"]
    base_v = ["base_vx", "base_vy", "base_vz", "base_wx", "base_wy", "base_wz"]
    layout = robot.layout
    joints_v = (base_v if layout.floating_base else []) + list(layout.joint_names)
    return (
        [f"joint_q:{name}" for name in (base_q if layout.floating_base else []) + list(layout.joint_names)]
        + [f"joint_qd:{name}" for name in joints_v]
        + [f"actuation:{name}" for name in layout.actuated]
        + [f"increment:{name}" for name in joints_v]
    )


def shard_statistics(columns: dict[str, np.ndarray]) -> Statistics:
    """Of the valid steps' features (:func:`feature_names`)."""
    q, qd, actuation, valid = (columns[name] for name in ("joint_q", "joint_qd", "actuation", "valid"))
    features = [q[:, :-1][valid], qd[:, :-1][valid], actuation[valid], qd[:, 1:][valid] - qd[:, :-1][valid]]
    return Statistics.of(np.concatenate([part.reshape(len(part), -1) for part in features], 1))


class Writer:
    """One process's share of a data set folder."""

    def __init__(
        self,
        folder: Path,
        robot: RobotDescription,
        model: ExportedModel,
        engine: Engine,
        plan: Plan,
        rank: int = 0,
        world: int = 1,
        command: str = "",
    ) -> None:
        plan.check()
        self.folder, self.robot, self.model, self.engine, self.plan = folder, robot, model, engine, plan
        self.rank, self.world, self.command = rank, world, command
        self.hash = plan.hash(model.hash)

    def finished(self, split: str) -> dict[int, Path]:
        """Shards that are there, by index; refuses those of another command."""
        found: dict[int, Path] = {}
        for path in shard_paths(self.folder, split):
            try:
                with h5py.File(path, "r") as file:
                    stored = str(file.attrs["command_hash"])
            except (OSError, KeyError):
                path.unlink()  # A damaged shard is made again.
                continue
            if stored != self.hash:
                raise FlashNerdError(
                    f"{path} was made by another command or other samplers (hash {stored[:12]}, this one has "
                    f"{self.hash[:12]}): type another out=FOLDER, or delete the folder."
                )
            if shard_index(path) >= self.plan.shards(split) or shard_index(path) in found:
                raise FlashNerdError(f"{path} is a shard too many: delete it.")
            found[shard_index(path)] = path
        return found

    def run(self, progress: Callable[[str, int, int], None] = lambda split, steps, done: None) -> dict[str, Any] | None:
        """Write what is missing of this rank's shards, then ``dataset.json`` if every rank's are there.

        ``progress(split, transitions, bad)`` is called after each shard.

        Returns:
            The summary when the data set is whole, else ``None`` (another rank has yet to finish).
        """
        for split in self.plan.splits:
            done = self.finished(split)
            for index in range(self.rank, self.plan.shards(split), self.world):
                if index in done:
                    progress(split, 0, 0)
                    continue
                started = time.perf_counter()
                columns = make_shard(self.robot, self.engine, self.plan, split, index)
                self._write(split, index, columns, time.perf_counter() - started)
                rows = ~(np.isfinite(columns["joint_q"]).all(-1) & np.isfinite(columns["joint_qd"]).all(-1))
                progress(split, columns["valid"].size, int(rows.sum()))
        return self.finish()

    def _write(self, split: str, index: int, columns: dict[str, np.ndarray], seconds: float) -> None:
        path = self.folder / split / f"shard-{self.rank:03d}-{index:05d}.h5"
        attributes = {
            "schema_version": SCHEMA_VERSION,
            "robot": self.plan.robot,
            "asset_key": self.model.asset_key,
            "engine": self.engine.name,
            "engine_version": self.engine.version,
            "model_hash": self.model.hash,
            "command_hash": self.hash,
            "seed": self.plan.seed,
            "sim_dt": self.robot.sim_dt,
            "decimation": self.robot.decimation,
            "joint_names": list(self.robot.layout.joint_names),
            "quaternion_order": QUATERNION_ORDER,
            "split": split,
            "samplers": list(samplers_of(self.plan.robot)),
            "tried": columns["tried"],
            "extra": [name for name in EXTRA if name in columns],
            "links": list(self.model.links),
            "statistics": shard_statistics(columns).packed(),
        }

        save_shard(path, columns, attributes)

    def finish(self) -> dict[str, Any] | None:
        """Merge the shards' statistics in index order and write ``dataset.json``; ``None`` while shards are missing."""
        plan, names = self.plan, list(samplers_of(self.plan.robot))
        splits: dict[str, Any] = {}
        for split, setting in plan.splits.items():
            done = self.finished(split)
            if len(done) < plan.shards(split):
                return None
            total = Statistics.of(np.zeros((0, len(feature_names(self.robot)))))
            per_sampler, tried = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
            bad = 0
            for index in sorted(done):
                with h5py.File(done[index], "r") as file:
                    total = total.merged(Statistics.unpacked(np.asarray(file.attrs["statistics"])))
                    per_sampler += np.bincount(np.asarray(file["sampler"]), minlength=len(names))
                    tried += np.asarray(file.attrs["tried"])
                    q, qd = np.asarray(file["joint_q"]), np.asarray(file["joint_qd"])
                    bad += int((~(np.isfinite(q).all(-1) & np.isfinite(qd).all(-1))).sum())
            shares = mixture(plan.robot, split, plan.samplers) if setting.trajectories else np.zeros(len(names))
            splits[split] = {
                "shards": plan.shards(split),
                "trajectories": setting.trajectories,
                "steps": setting.steps,
                "complete": setting.complete,
                "transitions": setting.trajectories * setting.steps,
                "valid_transitions": total.count,
                "bad_rows": bad,
                "sha256": {path.name: file_hash(path) for _, path in sorted(done.items())},
                "samplers": {
                    name: {"share": float(shares[i]), "trajectories": int(per_sampler[i]), "tried": int(tried[i])}
                    for i, name in enumerate(names)
                },
                "statistics": total.to_dict(feature_names(self.robot)),
            }
        summary = {
            "schema_version": SCHEMA_VERSION,
            "robot": plan.robot,
            "asset_key": self.model.asset_key,
            "joint_names": list(self.robot.layout.joint_names),
            "quaternion_order": QUATERNION_ORDER,
            "dt": self.robot.dt,
            "sim_dt": self.robot.sim_dt,
            "decimation": self.robot.decimation,
            "engine": self.engine.name,
            "engine_version": self.engine.version,
            "model_hash": self.model.hash,
            "command_hash": self.hash,
            "command": self.command,
            "seed": plan.seed,
            "samplers": {name: item.text for name, item in samplers_of(plan.robot).items()},
            "splits": splits,
        } | fixed_facts(self.model)
        if self.model.coupling:
            summary["chain"] = chain_of(self.model).to_dict()
        write_json(self.folder / FILE, summary)
        return summary
