"""Writing shards: the seed decides every bit, whoever writes and however often it is interrupted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from exported import exported

from flashnerd_ext.data.dataset import load_trajectories, shard_paths
from flashnerd_ext.data.engines import Engine, build_engine
from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.data.samplers import samplers_of
from flashnerd_ext.data.writer import Plan, SplitPlan, Writer, feature_names
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.registry import get_robot

pytestmark = pytest.mark.kitless

ROBOT = get_robot("cartpole")


@pytest.fixture(scope="session")
def model() -> ExportedModel:
    return exported(ROBOT.name)


def _writer(folder: Path, model: ExportedModel, seed: int = 0, rank: int = 0, world: int = 1, **more: object) -> Writer:
    splits = {"train": SplitPlan(100, 20, False), "val": SplitPlan(20, 30, True), "test": SplitPlan(40, 30, True)}
    plan = Plan(robot="cartpole", seed=seed, engine="mujoco_c", splits=splits, shard=16, **more)  # type: ignore[arg-type]
    return Writer(folder, ROBOT, model, build_engine("mujoco_c", model, 1), plan, rank, world)


def _bytes(folder: Path) -> dict[str, bytes]:
    """Shards by split and index; the writer's rank is only in the name."""
    paths = [path for split in ("train", "val", "test") for path in shard_paths(folder, split)]
    return {f"{path.parent.name}-{path.stem[-5:]}": path.read_bytes() for path in paths}


@pytest.fixture(scope="session")
def whole(model: ExportedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    assert _writer(folder, model).run() is not None
    return folder


def test_one_seed_gives_one_data_set(whole: Path, model: ExportedModel, tmp_path: Path) -> None:
    _writer(tmp_path / "same", model).run()
    _writer(tmp_path / "other", model, seed=1).run()
    same, other, first = _bytes(tmp_path / "same"), _bytes(tmp_path / "other"), _bytes(whole)
    assert same == first and len(first) == 12
    assert all(other[name] != first[name] for name in first)


def test_splits_and_shards_share_no_start(whole: Path) -> None:
    starts = [load_trajectories(whole, split).joint_q[:, 0] for split in ("train", "val", "test")]
    joined = np.concatenate(starts)
    assert len(np.unique(joined, axis=0)) == len(joined) == 160


def test_what_is_stored_replays_to_the_last_bit(whole: Path, model: ExportedModel) -> None:
    data = load_trajectories(whole, "train", ROBOT)
    engine = build_engine("mujoco_c", model, 1)
    q, qd = data.joint_q[:, 0], data.joint_qd[:, 0]
    for t in range(data.actuation.shape[1]):
        q, qd = engine.step(q, qd, data.actuation[:, t])
        assert np.array_equal(q, data.joint_q[:, t + 1]) and np.array_equal(qd, data.joint_qd[:, t + 1])


def test_test_trajectories_are_valid_to_the_end_and_mixed_as_stated(whole: Path, model: ExportedModel) -> None:
    data = load_trajectories(whole, "test", ROBOT)
    assert data.valid.all() and np.abs(data.joint_q[..., 0]).max() <= 3.0
    assert data.joint_q.shape == (40, 31, 2)
    summary = _writer(whole, model).run()
    assert summary is not None
    facts = summary["splits"]["test"]["samplers"]
    counted = {name: int((data.sampler == i).sum()) for i, name in enumerate(samplers_of("cartpole"))}
    assert {name: facts[name]["trajectories"] for name in facts} == counted
    for name, item in facts.items():
        assert abs(item["trajectories"] - 40 * item["share"]) <= 3, name
        assert item["tried"] >= item["trajectories"]


def test_statistics_are_those_of_the_valid_steps(whole: Path, model: ExportedModel) -> None:
    summary = _writer(whole, model).run()
    assert summary is not None
    data = load_trajectories(whole, "train", ROBOT)
    rows = np.concatenate(
        [
            data.joint_q[:, :-1][data.valid],
            data.joint_qd[:, :-1][data.valid],
            data.actuation[data.valid],
            (data.joint_qd[:, 1:] - data.joint_qd[:, :-1])[data.valid],
        ],
        1,
    )
    facts = summary["splits"]["train"]["statistics"]
    assert facts["count"] == len(rows) == summary["splits"]["train"]["valid_transitions"]
    for i, name in enumerate(feature_names(ROBOT)):
        found = [facts[name][key] for key in ("mean", "std", "min", "max")]
        column = rows[:, i]
        np.testing.assert_allclose(found, [column.mean(), column.std(), column.min(), column.max()], rtol=1e-10)


class _StopError(Exception):
    pass


@pytest.mark.parametrize("stop_after", [1, 5, 8])
def test_an_interrupted_run_resumes_to_the_same_bytes(
    whole: Path, model: ExportedModel, tmp_path: Path, stop_after: int
) -> None:
    made = 0

    def stop(split: str, transitions: int, bad: int) -> None:
        nonlocal made
        made += 1
        if made == stop_after:
            raise _StopError

    with pytest.raises(_StopError):
        _writer(tmp_path, model).run(stop)
    assert len(_bytes(tmp_path)) == stop_after and not (tmp_path / "dataset.json").exists()
    # A machine that died while writing leaves a temporary file, or a shard cut short by its file system.
    victim = shard_paths(tmp_path, "train")[0]
    victim.write_bytes(victim.read_bytes()[:1000])
    (tmp_path / "train" / ".shard-000-00003-abc.h5").write_bytes(b"half")
    writes: list[int] = []
    assert _writer(tmp_path, model).run(lambda split, transitions, bad: writes.append(transitions)) is not None
    assert sum(count > 0 for count in writes) == 12 - stop_after + 1
    assert _bytes(tmp_path) == _bytes(whole)


def test_two_ranks_make_the_same_data_set(whole: Path, model: ExportedModel, tmp_path: Path) -> None:
    assert _writer(tmp_path, model, rank=1, world=2).run() is None
    assert {path.name[:9] for path in shard_paths(tmp_path, "train")} == {"shard-001"}
    summary = _writer(tmp_path, model, rank=0, world=2).run()
    alone = _writer(whole, model).run()
    assert summary is not None and alone is not None
    assert _bytes(tmp_path) == _bytes(whole)
    for split in ("train", "val", "test"):
        assert summary["splits"][split]["statistics"] == alone["splits"][split]["statistics"]
        assert summary["splits"][split]["samplers"] == alone["splits"][split]["samplers"]


def test_a_folder_of_another_command_is_refused(whole: Path, model: ExportedModel) -> None:
    before = _bytes(whole)
    for other in (_writer(whole, model, seed=5), _writer(whole, model, samplers={"coast": 1.0})):
        with pytest.raises(FlashNerdError, match="made by another command or other samplers"):
            other.run()
    assert _bytes(whole) == before


class _Broken:
    """An engine in which world 3 of every batch turns NaN at its third step."""

    name, version = "mujoco_c", "0"

    def __init__(self, engine: Engine) -> None:
        self.engine, self.calls = engine, 0

    def step(self, joint_q: np.ndarray, joint_qd: np.ndarray, actuation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.calls += 1
        q, qd = self.engine.step(joint_q, joint_qd, actuation)
        if self.calls == 3:
            qd[3] = np.nan
        return q, qd


def test_rows_that_are_not_finite_are_counted_and_never_valid(model: ExportedModel, tmp_path: Path) -> None:
    writer = _writer(tmp_path, model)
    writer.engine = _Broken(writer.engine)
    seen: list[int] = []
    summary = writer.run(lambda split, transitions, bad: seen.append(bad))
    assert summary is not None and summary["splits"]["train"]["bad_rows"] == sum(seen) == 18
    data = load_trajectories(tmp_path, "train", ROBOT)
    assert data.meta["bad_rows"] == 18 and np.isfinite(data.joint_qd).all()
    assert (~data.valid[:16]).sum() >= 18
    assert np.isfinite(
        [item["mean"] for item in summary["splits"]["train"]["statistics"].values() if isinstance(item, dict)]
    ).all()


def test_a_sampler_that_cannot_stay_is_named(model: ExportedModel, tmp_path: Path) -> None:
    splits = {"test": SplitPlan(200, 5, True)}
    plan = Plan(robot="cartpole", seed=0, engine="mujoco_c", splits=splits, shard=200, samplers={"uniform": 1.0})
    writer = Writer(tmp_path, ROBOT, model, _Leaving(), plan)
    with pytest.raises(FlashNerdError, match="sampler 'uniform' kept 0 of 200 test trajectories"):
        writer.run()
    assert not shard_paths(tmp_path, "test")


class _Leaving:
    """An engine that puts every cart past the end of the rail."""

    name, version = "mujoco_c", "0"

    def step(self, joint_q: np.ndarray, joint_qd: np.ndarray, actuation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full_like(joint_q, 9.0), joint_qd
