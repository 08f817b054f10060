"""scripts/evaluate_dynamics.py on a hand-made data set and untrained bundles."""

from __future__ import annotations

import json
import sys

import h5py
import numpy as np
import pytest

from flashnerd_ext.bundle.example import example_bundle
from flashnerd_ext.errors import FlashNerdError, cli_main
from flashnerd_ext.robots.registry import get_robot


@pytest.fixture(scope="module")
def script(load_script):
    with load_script("evaluate_dynamics.py") as module:
        yield module


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished data set of 10 test trajectories of 12 steps, and one bundle of each model."""
    root = tmp_path_factory.mktemp("evaluate")
    robot, rng = get_robot("cartpole"), np.random.default_rng(0)
    (root / "data" / "test").mkdir(parents=True)
    (root / "data" / "dataset.json").write_text(json.dumps({"schema_version": 1, "splits": {"test": {"shards": 1}}}))
    with h5py.File(root / "data" / "test" / "shard-000-00000.h5", "w") as file:
        file["joint_q"], file["joint_qd"] = rng.normal(size=(2, 10, 13, 2))
        file["actuation"] = rng.normal(size=(10, 12, 1)).astype(np.float32)
        file["valid"] = np.ones((10, 12), dtype=bool)
        file["sampler"] = np.arange(10, dtype=np.uint8) % 2
        facts = {
            "schema_version": 1, "robot": "cartpole", "asset_key": "cartpole@x", "engine": "by_hand", "seed": 0,
            "engine_version": "0", "model_hash": "0", "command_hash": "0", "sim_dt": robot.sim_dt,
            "decimation": robot.decimation, "quaternion_order": "xyzw", "split": "test",
            "joint_names": list(robot.layout.joint_names), "samplers": ["quiet", "loud"],
        }  # fmt: skip
        for key, value in facts.items():
            file.attrs[key] = value
    example_bundle(root / "flash0")
    example_bundle(root / "flash1", seed=1)
    example_bundle(root / "nerd0", model="nerd")
    return root


def run(script, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["evaluate_dynamics.py", *words])
    with pytest.raises(SystemExit) as end:
        cli_main(script.main)
    return end.value.code


def test_figures_picture_clip_and_table(script, folder, tmp_path, monkeypatch, capsys):
    code = run(
        script,
        monkeypatch,
        f"data={folder}/data",
        "models=[flashnerd,nerd,nerd_optimized]",
        f"bundles={{flashnerd:[{folder}/flash0,{folder}/flash1],nerd:{folder}/nerd0,nerd_optimized:{folder}/nerd0}}",
        "horizons=[1,5,12]",
        "rollouts=6",
        "all_frames=8",
        "noise=none",
        f"json={tmp_path}/e.json",
        f"clip={tmp_path}/e.gif",
        "panels=3",
    )
    assert code == 0
    content = json.loads((tmp_path / "e.json").read_text())
    assert content["robot"] == "cartpole"
    assert content["dt"] == pytest.approx(1 / 60)
    assert content["test_set"]["rollouts"] == {"initial": 6, "all_frames": 8}
    assert set(content["models"]) == {"flashnerd", "nerd", "nerd_optimized"}
    for report in content["models"].values():
        assert set(report["E"]) == set(report["median"]) == {"1", "5", "12"}
        assert report["params"] > 0
    flash, nerd, quick = (content["models"][name] for name in ("flashnerd", "nerd", "nerd_optimized"))
    assert len(flash["seeds"]) == 2
    assert flash["E"]["5"] == pytest.approx(np.mean([seed["E"]["5"] for seed in flash["seeds"]]))
    assert quick["E"] == nerd["E"]
    assert quick["flops_per_step"] < nerd["flops_per_step"]
    assert "same weights" in quick["note"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e.gif", "e.json", "e.png"]
    shown = capsys.readouterr().out
    assert "flashnerd (2 seeds)" in shown
    assert "E12" in shown


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["robt=cartpole"], "did you mean robot"),
        (["robot=cartpol"], "did you mean cartpole"),
        (["rollouts=0"], "rollouts is 0"),
        (["rollouts=many"], "rollouts"),
        (["horizons=[]"], "horizons"),
        (["horizons=[0,5]"], "horizons"),
        (["models=[]"], "models"),
        (["models=[nerd]"], "train_dynamics.py robot=cartpole model=nerd"),
        (["bundles=[a,b]"], "bundles"),
        (["bundles={nerd:x}"], "models=[flashnerd,nerd]"),
        (["touches=-1"], "touches is -1, but 0 or more"),
        (["touches=9", "data=DATA", "bundles={flashnerd:FLASH}"], "touches is 9, but the data of robot=cartpole in"),
        (["noise=thermal"], "noise is 'thermal'"),
        (["clip=film.avi"], ".mp4"),
        (["data=no/such/folder", "bundles={flashnerd:FLASH}"], "scripts/dataset.py robot=cartpole out=no/such/folder"),
        (["split=holdout", "data=DATA", "bundles={flashnerd:FLASH}"], "no split 'holdout'"),
        (["data=DATA", "bundles={flashnerd:NERD}"], "holds a 'nerd' model"),
        (["data=DATA", "bundles={flashnerd:DATA}"], "card.json"),
        (["{{{"], "key=value"),
    ],
)
def test_what_cannot_work_is_one_sentence_and_writes_nothing(
    script, folder, tmp_path, monkeypatch, capsys, words, text
):
    monkeypatch.chdir(folder)  # a folder without runs of one's own
    places = {"FLASH": f"{folder}/flash0", "NERD": f"{folder}/nerd0", "DATA": f"{folder}/data"}
    for short, path in places.items():
        words = [word.replace(short, path) for word in words]
    assert run(script, monkeypatch, *words, f"json={tmp_path}/e.json") == 2
    shown = capsys.readouterr().err
    assert text in shown
    assert len(shown.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_bundles_that_training_left_here_are_found_and_one_nerd_serves_both(script, tmp_path, monkeypatch):
    for seed in (1, 0):
        example_bundle(tmp_path / f"runs/dynamics/cartpole-nerd-s{seed}", model="nerd", seed=seed)
    (tmp_path / "runs/dynamics/cartpole-nerd-s2").mkdir()
    monkeypatch.chdir(tmp_path)
    config = script.EvaluateConfig(models=["nerd", "nerd_optimized"])
    found = script.find_bundles(config)
    assert [bundle.path.name for bundle in found["nerd"]] == ["cartpole-nerd-s0", "cartpole-nerd-s1"]
    assert [bundle.model.name for bundle in found["nerd_optimized"]] == ["nerd_optimized"] * 2


def test_a_result_that_cannot_be_written_is_refused_before_the_work(script, tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    for path, text in ((tmp_path, "which is a folder"), (tmp_path / "file" / "x.json", "is a file, not a folder")):
        assert run(script, monkeypatch, f"json={path}") == 2
        assert text in capsys.readouterr().err
    from flashnerd_ext.evaluation.outputs import writing

    with pytest.raises(FlashNerdError, match="cannot be written"), writing():
        (tmp_path / "gone" / "x").write_text("")
