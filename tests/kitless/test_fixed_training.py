"""Fixed contacts from data to deployment: data of both kinds, four models, their errors on one data set, a backend."""

from __future__ import annotations

import dataclasses
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flashnerd_ext.bundle.make import envelope, make_card
from flashnerd_ext.bundle.store import load_bundle, save_bundle, self_test
from flashnerd_ext.data.dataset import load_trajectories
from flashnerd_ext.data.engines import build_engine, load_or_export
from flashnerd_ext.data.engines.export import export_model, robot_usd
from flashnerd_ext.data.engines.mujoco_c import MujocoC
from flashnerd_ext.data.engines.rows import RowDetector
from flashnerd_ext.data.writer import Plan, SplitPlan, Writer
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.evaluation.predictors import model_predictor
from flashnerd_ext.evaluation.touches import touching_links
from flashnerd_ext.model.registry import build_model
from flashnerd_ext.model.sensed import Sensed
from flashnerd_ext.robots.description import fixed_links
from flashnerd_ext.robots.registry import get_robot
from flashnerd_ext.training.config import TrainDynamicsConfig, TrainOptions
from flashnerd_ext.training.dynamics import train_dynamics

pytestmark = pytest.mark.kitless
ANT = get_robot("ant")
FIXED = fixed_links(ANT, "fixed")
TINY: dict[str, dict[str, Any]] = {
    "flashnerd": {"width": 8, "heads": 2, "hidden": 8},
    "nerd": {"width": 8, "heads": 2, "layers": 2, "window": 4, "head_hidden": 8},
}


def make_data(folder: Path, contacts: str) -> Path:
    model = load_or_export(ANT, folder, contacts)
    splits = {"train": SplitPlan(24, 8, False), "val": SplitPlan(6, 8, True), "test": SplitPlan(6, 16, True)}
    plan = Plan("ant", 0, "mujoco_c", splits, shard=40)
    assert Writer(folder, ANT, model, build_engine("mujoco_c", model), plan).run() is not None
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("fixed")
    return {kind: make_data(root / kind, kind) for kind in ("variable", "fixed")}


def train(folder: Path, data: Path, model: str, **changes: Any) -> Path:
    options = TrainOptions(updates=3, batch=16, window=4, compiled=False, validate_every=3)
    config = TrainDynamicsConfig(
        robot="ant", model=model, data=str(data), out=str(folder), rollouts=4, device="cpu", threads=1,
        options=dict(TINY[model]), train=options,
    )  # fmt: skip
    return train_dynamics(dataclasses.replace(config, **changes))


@pytest.fixture(scope="module")
def bundles(data: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    root = tmp_path_factory.mktemp("bundles")
    return {(model, kind): train(root / f"{model}-{kind}", data[kind], model) for model in TINY for kind in data}


def test_both_kinds_of_data_have_the_same_trajectories(data: dict[str, Path]) -> None:
    for split in ("train", "val", "test"):
        variable, fixed = (load_trajectories(data[kind], split, ANT) for kind in ("variable", "fixed"))
        for name in ("joint_q", "joint_qd", "actuation", "valid", "sampler"):
            np.testing.assert_array_equal(getattr(variable, name), getattr(fixed, name))
        for name in ("condition", "friction", "torque", "force"):
            np.testing.assert_array_equal(variable.extra[name], fixed.extra[name])
        assert variable.meta["fixed"] == () and fixed.meta["fixed"] == FIXED
        link = fixed.extra["row_link"]
        assert link.shape[2] == len(FIXED) and variable.extra["row_link"].shape[2] == 10
        order = [ANT.links.index(name) for name in FIXED]
        assert (link[fixed.valid] == order).all()
        assert (fixed.extra["row_count"][fixed.valid] == len(FIXED)).all()
        # Friction is the world's, distances are beyond any gap where the robot is in the air.
        rows = fixed.extra["rows"]
        np.testing.assert_array_equal(
            rows[..., 10][fixed.valid],
            np.broadcast_to(fixed.extra["friction"][:, None, None], rows.shape[:3])[fixed.valid],
        )
        assert rows[..., 6].max() > 0.1
    assert "fixed" not in json.loads((data["variable"] / "dataset.json").read_text())


def test_four_models_are_trained_and_say_what_they_take(
    bundles: dict[tuple[str, str], Path], data: dict[str, Path]
) -> None:
    for (name, kind), path in bundles.items():
        bundle = load_bundle(path)
        self_test(bundle)
        contacts = bundle.card.contacts
        assert contacts.kind == kind and contacts.fixed == (FIXED if kind == "fixed" else ())
        assert bundle.model.rows_capacity == contacts.capacity == (5 if kind == "fixed" else 10)
        assert bundle.model.config["slots"] == (0 if kind == "fixed" else 4)
        assert bundle.card.model.name == name
        assert 0 < bundle.card.measured["E1"] < 1e8
    nerd = bundles["nerd", "fixed"]
    with pytest.raises(FlashNerdError, match=r"takes contacts=fixed rows, but data=.* has contacts=variable ones"):
        train(nerd.parent / "other", data["variable"], "nerd", init=str(nerd))
    with pytest.raises(FlashNerdError, match=r"has contacts=fixed rows, but .* has contacts=variable ones"):
        train(nerd.parent / "mixed", data["variable"], "nerd", more={str(data["fixed"]): 0.3})


def test_errors_of_all_kinds_on_one_data_set(
    bundles: dict[tuple[str, str], Path],
    data: dict[str, Path],
    repo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Rows are detected in the kind of each bundle, so that the data's own kind does not matter."""
    names = {f"{model}_{kind}": path for (model, kind), path in bundles.items()}
    names["nerd_optimized"] = bundles["nerd", "fixed"]
    listed = ",".join(f"{name}:{path}" for name, path in names.items())
    target = tmp_path / "error.json"

    def run(folder: Path, noise: str) -> Any:
        argv = [
            "evaluate_dynamics.py", "robot=ant", f"data={folder}", f"models=[{','.join(names)}]", f"json={target}",
            f"bundles={{{listed}}}", "horizons=[1,10]", "plot=none", "clip=none", f"noise={noise}", "all_frames=0",
        ]  # fmt: skip
        monkeypatch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(repo / "scripts" / argv[0]), run_name="__main__")
        return left.value.code

    reports = []
    for kind in ("variable", "fixed"):
        assert not run(data[kind], "none")
        reports.append(json.loads(target.read_text())["models"])
    assert set(reports[0]) == set(names)
    assert reports[0] == reports[1]
    # The disturbance is measured on the rows that the data have, and the first model takes others.
    assert run(data["fixed"], "model") == 2
    assert "takes contacts=variable rows, but data=" in capfd.readouterr().err


def test_both_kinds_are_compared_by_touch_on_the_same_rollouts(
    bundles: dict[tuple[str, str], Path],
    data: dict[str, Path],
    repo: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The data's rows say what touches, whatever rows a model takes; a foot touches in data of either kind."""
    names = {"flashnerd": bundles["flashnerd", "variable"], "flashnerd_fixed": bundles["flashnerd", "fixed"]}
    listed = ",".join(f"{name}:{path}" for name, path in names.items())
    feet = []
    for kind in data:
        argv = [
            "evaluate_dynamics.py", "robot=ant", f"data={data[kind]}", f"models=[{','.join(names)}]", "all_frames=0",
            f"bundles={{{listed}}}", "horizons=[1,10]", "touches=100", "noise=none", "clip=none",
            f"json={tmp_path}/{kind}.json",
        ]  # fmt: skip
        monkeypatch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(repo / "scripts" / argv[0]), run_name="__main__")
        assert not left.value.code
        content = json.loads((tmp_path / f"{kind}.json").read_text())
        first, second = (content["models"][name]["by_touch"] for name in names)
        # Each of 6 trajectories of 16 steps has two frames with 15 steps after them.
        assert first["windows"] == second["windows"] == content["test_set"]["rollouts"]["touches"] == 12
        for split in ("by_link", "by_kind"):
            counts = [{name: of["windows"] for name, of in report[split].items()} for report in (first, second)]
            assert counts[0] == counts[1] and sum(counts[0].values()) == 12
            assert first[split] != second[split]
        feet.append(touching_feet(load_trajectories(data[kind], "test", ANT)))
        shown = capsys.readouterr().out
        assert "12 rollouts from frames anywhere" in shown and "flashnerd_fixed: E1" in shown
        assert (tmp_path / f"{kind}.touches.png").stat().st_size > 1000
    np.testing.assert_array_equal(*feet)
    assert feet[0].any() and not feet[0].all()


def touching_feet(data: Any) -> np.ndarray:
    """Which feet touch at the start of each valid step."""
    assert ANT.contacts is not None
    rows, link = (data.extra[name][data.valid] for name in ("rows", "row_link"))
    return touching_links(rows, link, len(ANT.links))[:, [ANT.links.index(name) for name in ANT.contacts.feet]]


def test_the_backend_gives_fixed_rows_to_either_form_of_nerd(tmp_path: Path) -> None:
    """Steps of the solver are those of the model fed with the data's rows, beyond the window's length."""
    import newton
    import warp as wp
    from newton.solvers import SolverMuJoCo

    from flashnerd_ext.solver.solver_flashnerd import SolverFlashNerd
    from flashnerd_ext.solver.stream import make_stepper

    layout, count, rng = ANT.layout, 5, np.random.default_rng(0)
    torch.manual_seed(0)
    options = {"rows_capacity": len(FIXED), "slots": 0, "links": len(ANT.links)}
    model = build_model("nerd", layout, {**TINY["nerd"], **options, "sensed": Sensed(layout, len(ANT.links)).size})
    model.out_norm.fit(torch.zeros(model.out_size), torch.full((model.out_size,), 0.02))
    q, qd = rng.uniform(-20, 20, (256, layout.nq)), rng.uniform(-50, 50, (256, layout.nv))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    reach = envelope(layout, q, qd, rng.uniform(-9, 9, (256, layout.nu)))
    card = make_card(robot=ANT, model=model, envelope=reach, engine="mujoco_c", seed=0, fixed=FIXED)
    bundle = save_bundle(tmp_path / "b", model, card)
    wp.config.quiet = True
    one, scene = newton.ModelBuilder(), newton.ModelBuilder()
    for builder in (one, scene):
        SolverMuJoCo.register_custom_attributes(builder)
    one.add_usd(robot_usd(ANT))
    for _ in range(count):
        scene.add_world(one)
    scene.add_ground_plane()
    world = scene.finalize(device="cpu")
    q, qd = np.zeros((count, layout.nq)), rng.normal(size=(count, layout.nv))
    q[:, 2], q[:, 6], q[:, 7:] = np.linspace(0.4, 3.0, count), 1.0, ANT.default_q
    force = rng.uniform(-5, 5, (8, count, layout.nu)).astype(np.float32)
    detector = RowDetector(MujocoC(export_model(ANT)), FIXED)
    friction = np.full(count, float(world.shape_material_mu.numpy().max()))
    simulation = bundle.card.simulation
    predict = model_predictor(bundle.model, simulation.dt, simulation.inner_steps, detector=detector)
    wanted, _ = predict(q, qd, force, {"friction": friction})
    for architecture in ("nerd", "nerd_optimized"):
        stepper = make_stepper(bundle, count, "cpu", architecture=architecture)
        solver = SolverFlashNerd(world, bundle, stepper, njmax=100, nconmax=60)
        state, control = world.state(), world.control()
        state.joint_q.assign(q.astype(np.float32).ravel())
        state.joint_qd.assign(qd.astype(np.float32).ravel())
        newton.eval_fk(world, state.joint_q, state.joint_qd, state)
        for step in range(8):
            whole = np.zeros((count, layout.nv), np.float32)
            whole[:, 6:] = force[step]
            control.joint_f.assign(whole.ravel())
            solver.step(state, state, control, None, simulation.dt)
            found = state.joint_q.numpy().reshape(count, -1)
            np.testing.assert_allclose(found, wanted[step + 1], atol=2e-4)
        assert not solver.guard.failed.any()
        assert not solver.contact_stage.overflow.any()
