"""A data set on terrain, end to end: what robots start on, what their rows say, and what stays as it was without."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from forked import forked

from flashnerd_ext.data.dataset import shard_paths
from flashnerd_ext.data.engines import load_or_export
from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.data.terrain import Terrain
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.registry import get_robot

pytestmark = pytest.mark.kitless
SCRIPT = Path(__file__).parents[2] / "scripts" / "dataset.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("terrain") / "data"
    words = [f"out={out}", "robot=anymal_c", "terrain=mixed", "terrain_seed=4", "workers=1", "shard=64"]
    words += ["train=96", "train_steps=10", "val=4", "val_steps=5", "test=4", "test_steps=5"]
    done = forked(SCRIPT, *words, cwd=Path.cwd())
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def columns(folder: Path, split: str) -> dict[str, np.ndarray]:
    parts = []
    for path in shard_paths(folder, split):
        with h5py.File(path, "r") as file:
            parts.append({name: np.asarray(file[name]) for name in file})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def test_robots_start_all_over_the_terrain_and_out_of_it(folder: Path) -> None:
    from flashnerd_ext.evaluation.predictors import make_detector

    data = columns(folder, "train")
    terrain = Terrain.from_dict(ExportedModel.load(folder).terrain)
    start = data["joint_q"][:, 0]
    assert (terrain.kind, terrain.seed) == ("mixed", 4)
    assert (np.abs(start[:, :2]) <= terrain.half + 1e-9).all()
    assert (np.ptp(start[:, :2], axis=0) > 1.5 * terrain.half).all()
    assert (terrain.height_at(start[:, :2]) > 0.01).mean() > 0.3
    found = make_detector(folder).rows(start, data["joint_qd"][:, 0])
    depth = np.where(found.link >= 0, found.features[..., 6], 1.0).min(1)
    assert depth.min() > -1e-4
    # Many stand on it or are about to; none were thrown out of it.
    assert (depth < 0.03).mean() > 0.3
    assert np.isfinite(data["joint_q"]).all() and np.abs(data["joint_qd"][..., :3]).max() < 15.0


def test_rows_of_the_shards_are_the_detectors(folder: Path) -> None:
    from flashnerd_ext.evaluation.predictors import make_detector

    data, robot = columns(folder, "train"), get_robot("anymal_c")
    where, when = np.nonzero(data["valid"])
    # Alone and in another order: a row does not depend on what else is in its batch.
    take = np.random.default_rng(0).permutation(len(where))[:300]
    where, when = where[take], when[take]
    again = make_detector(folder).rows(
        data["joint_q"][where, when], data["joint_qd"][where, when], data["friction"][where], data["condition"][where]
    )
    np.testing.assert_array_equal(again.features, data["rows"][where, when])
    np.testing.assert_array_equal(again.link, data["row_link"][where, when])
    np.testing.assert_array_equal(again.count, data["row_count"][where, when])
    used = data["row_link"] >= 0
    touching = data["row_link"][used & (data["rows"][..., 6] < 0.0)]
    assert len({robot.links[i].split("_")[-1] for i in touching} & {"base", "HIP", "THIGH", "SHANK", "FOOT"}) >= 4
    # Walls and edges: not every normal is vertical in the world, as on flat ground it would be.
    normal = data["rows"][..., 3:6][used]
    gravity = up_in_root(data["joint_q"][:, :-1, 3:7])[..., None, :]
    upright = (data["rows"][..., 3:6] * gravity).sum(-1)[used]
    assert (np.abs(np.linalg.norm(normal, axis=1) - 1.0) < 1e-4).all()
    assert ((upright < 0.95).mean() > 0.03) and ((upright > 0.98).mean() > 0.2)


def up_in_root(quat: np.ndarray) -> np.ndarray:
    """The world's vertical in the root frame."""
    x, y, z, w = np.moveaxis(quat, -1, 0)
    return np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1)


def test_contact_forces_come_where_the_rows_say_that_something_touches(folder: Path) -> None:
    data = columns(folder, "train")
    pushed = np.linalg.norm(data["force"], axis=-1).sum(-1) > 20.0
    near = (np.where(data["row_link"] >= 0, data["rows"][..., 6], 1.0)).min(-1) < 0.03
    # Pushed in the step that begins where no row was: it fell farther than the gap in that step.
    assert (near | ~pushed)[data["valid"]].mean() > 0.97
    assert pushed.mean() > 0.2


def test_flat_ground_keeps_its_hash_and_another_terrain_is_refused(folder: Path) -> None:
    model = ExportedModel.load(folder)
    assert model.hash == json.loads((folder / "dataset.json").read_text())["model_hash"]
    flat = dataclasses.replace(model, terrain={})
    assert flat.hash != model.hash
    content = {name: value for name, value in dataclasses.asdict(flat).items() if name != "terrain"}
    for name, value in content.items():
        content[name] = tuple(value) if isinstance(value, list) else value
    assert ExportedModel(**content).hash == flat.hash
    robot = get_robot("anymal_c")
    with pytest.raises(FlashNerdError, match=r"terrain=mixed terrain_seed=4, but terrain=flat"):
        load_or_export(robot, folder, terrain="flat")
    assert load_or_export(robot, folder).hash == model.hash
    with pytest.raises(FlashNerdError, match=r"robot=cartpole touches nothing"):
        load_or_export(get_robot("cartpole"), folder, terrain="stairs")


def test_fixed_rows_on_terrain_are_the_deepest_contact_of_each_link(folder: Path) -> None:
    from flashnerd_ext.data.engines.mujoco_c import MujocoC
    from flashnerd_ext.data.engines.rows import RowDetector

    robot, data = get_robot("anymal_c"), columns(folder, "train")
    assert robot.contacts is not None and robot.contacts.fixed
    engine, fixed = MujocoC(ExportedModel.load(folder)), robot.contacts.fixed
    q, qd = (np.concatenate([data[name][:, 3], data[name][:, 8]]) for name in ("joint_q", "joint_qd"))
    q[0, 0], friction = np.nan, np.tile(data["friction"], 2)
    variable = RowDetector(engine).rows(q, qd, friction)
    rows = RowDetector(engine, fixed).rows(q, qd, friction)
    assert (rows.link[0] == -1).all() and not rows.features[0].any() and rows.count[0] == 0
    wanted = [robot.links.index(name) for name in fixed]
    assert (rows.link[1:] == wanted).all() and (rows.count[1:] == len(fixed)).all()
    touched = 0
    # Where more contacts were found than variable rows hold, the encodings differ by the ones that were dropped.
    for world in range(1, len(q)):
        if variable.count[world] > variable.link.shape[1]:
            continue
        for place, link in enumerate(wanted):
            mine = variable.features[world][variable.link[world] == link]
            if len(mine):
                touched += 1
                np.testing.assert_array_equal(rows.features[world, place], mine[mine[:, 6].argmin()])
            else:
                assert rows.features[world, place, 6] == np.float32(robot.contacts.gap)
    assert touched > 100


def test_both_encodings_have_the_same_trajectories(folder: Path, tmp_path: Path) -> None:
    words = [f"out={tmp_path / 'fixed'}", "robot=anymal_c", "terrain=mixed", "terrain_seed=4", "workers=1", "shard=64"]
    words += ["contacts=fixed", "train=0", "val=4", "val_steps=5", "test=0"]
    done = forked(SCRIPT, *words, cwd=Path.cwd())
    assert done.returncode == 0, done.stdout + done.stderr
    fixed, variable = columns(tmp_path / "fixed", "val"), columns(folder, "val")
    for name in ("joint_q", "joint_qd", "actuation", "force"):
        np.testing.assert_array_equal(fixed[name], variable[name])
    assert (fixed["row_link"] >= 0).all() and fixed["rows"].shape[2] == 13 != variable["rows"].shape[2]


def test_blind_fixed_rows_are_those_of_flat_ground(folder: Path) -> None:
    from flashnerd_ext.data.engines.mujoco_c import MujocoC
    from flashnerd_ext.data.engines.rows import RowDetector

    robot, data = get_robot("anymal_c"), columns(folder, "train")
    assert robot.contacts is not None
    model = ExportedModel.load(folder)
    q, qd = data["joint_q"][:, 3], data["joint_qd"][:, 3]
    flat = MujocoC(dataclasses.replace(model, terrain={}))
    blind = RowDetector(MujocoC(model), robot.contacts.fixed, blind=True).rows(q, qd, data["friction"])
    plain = RowDetector(flat, robot.contacts.fixed).rows(q, qd, data["friction"])
    np.testing.assert_array_equal(blind.features, plain.features)
    seeing = RowDetector(MujocoC(model), robot.contacts.fixed).rows(q, qd, data["friction"])
    assert (blind.features[..., 6] > seeing.features[..., 6] + 0.05).any()
    marked = dataclasses.replace(model, fixed=robot.contacts.fixed, blind=True)
    assert (marked.fixed_detector, marked.hash != model.hash) == ("planes", True)


def test_a_folder_of_rows_that_see_the_terrain_takes_no_blind_ones(tmp_path: Path) -> None:
    robot, ground = get_robot("anymal_c"), ("fixed", "stairs", 0)
    for blind in (True, False):
        kept = tmp_path / str(blind)
        load_or_export(robot, kept, *ground, blind=blind)
        assert load_or_export(robot, kept, *ground, blind=blind).blind is blind
        with pytest.raises(
            FlashNerdError, match=f"blind={str(blind).lower()} rows, but blind={str(not blind).lower()}"
        ):
            load_or_export(robot, kept, *ground, blind=not blind)
    for contacts, terrain in (("variable", "stairs"), ("fixed", "flat")):
        with pytest.raises(FlashNerdError, match="blind is true, but contacts is"):
            load_or_export(robot, tmp_path / "none", contacts, terrain, blind=True)
    assert not (tmp_path / "none").exists()
