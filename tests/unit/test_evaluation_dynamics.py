"""Reports, predictors and pictures around the rollout error; no simulator."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from flashnerd_ext.bundle.example import example_bundle
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.evaluation import dynamics, predictors
from flashnerd_ext.evaluation.clip import write_clip
from flashnerd_ext.evaluation.plots import plot_error
from flashnerd_ext.files import write_json
from flashnerd_ext.model.layout import StateLayout

CART = StateLayout(joint_names=("cart", "pole"), joint_kinds=("prismatic", "continuous"), actuated=("cart",))
DT = 1 / 60


def data(n: int = 12, steps: int = 20):
    """Linear motion under a force, exactly integrable by hand."""
    rng = np.random.default_rng(0)
    q, qd = np.zeros((n, steps + 1, 2)), np.zeros((n, steps + 1, 2))
    u = rng.normal(size=(n, steps, 1)).astype(np.float32)
    q[:, 0], qd[:, 0] = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    for t in range(steps):
        qd[:, t + 1] = qd[:, t] + DT * u[:, t]
        q[:, t + 1] = q[:, t] + DT * qd[:, t + 1]
    valid = np.ones((n, steps), dtype=bool)
    meta = {"folder": "somewhere", "split": "test", "samplers": ["quiet", "loud"], "engine": "by_hand", "seed": 3}
    return SimpleNamespace(joint_q=q, joint_qd=qd, actuation=u, valid=valid, sampler=np.arange(n) % 2, meta=meta)


def by_hand(joint_q, joint_qd, actuation):
    q, qd = [joint_q], [joint_qd]
    for u in actuation:
        qd.append(qd[-1] + DT * u)
        q.append(q[-1] + DT * qd[-1])
    return np.stack(q), np.stack(qd)


def test_a_perfect_model_has_no_error_and_a_report_that_json_can_hold(tmp_path):
    test = dynamics.make_test_set(data(), CART, [1, 5, 20], rollouts=8, all_frames=10, seed=0)
    report = dynamics.seed_report(dynamics.roll_out(by_hand, test, batch=3), test)
    assert set(report["E"]) == {"1", "5", "20"}
    assert max(report["E"].values()) < 1e-12
    assert max(report["all_frames"]["E"][h] for h in ("1", "5")) < 1e-12
    assert report["diverged"] == 0.0
    assert report["rollouts"] == {"1": 8, "5": 8, "20": 8}
    assert sum(split["rollouts"] for split in report["by_sampler"].values()) == 8
    assert test.facts["transitions"] == 240
    write_json(tmp_path / "x.json", {"test_set": test.facts, **report})


def test_a_model_that_blows_up_is_null_in_json_and_counted(tmp_path):
    test = dynamics.make_test_set(data(), CART, [1, 20], rollouts=8, all_frames=0, seed=0)

    def explode(joint_q, joint_qd, actuation):
        q, qd = by_hand(joint_q, joint_qd, actuation)
        q[3:] = np.nan
        return q, qd

    report = dynamics.seed_report(dynamics.roll_out(explode, test, batch=3), test)
    assert report["E"]["20"] is None
    assert report["E"]["1"] < 1e-12
    assert report["diverged"] == 1.0
    assert "all_frames" not in report
    merged = dynamics.model_report([report, report], [1, 20])
    assert merged["E"]["20"] is None
    write_json(tmp_path / "x.json", merged)
    table = dynamics.error_table({"m": {"params": 1, "flops_per_step": 2, **merged}}, None, [1, 20])
    assert "not finite" in table
    assert "100.0 %" in table


def test_a_horizon_that_no_trajectory_has_is_a_dash_in_the_table():
    test = dynamics.make_test_set(data(), CART, [1, 5000], rollouts=8, all_frames=0, seed=0)
    report = dynamics.model_report([dynamics.seed_report(dynamics.roll_out(by_hand, test, 4), test)], [1, 5000])
    table = dynamics.error_table({"m": {"params": 1, "flops_per_step": 2, **report}}, report["seeds"][0], [1, 5000])
    assert report["E"]["5000"] is None and "not finite" not in table
    assert [line.split()[-3:] for line in table.splitlines()[2:]] == [["-", "-", "-"]] * 2


def test_seeds_are_averaged_and_kept():
    test = dynamics.make_test_set(data(), CART, [1, 5], rollouts=8, all_frames=0, seed=0)

    def off(by):
        def predict(joint_q, joint_qd, actuation):
            q, qd = by_hand(joint_q, joint_qd, actuation)
            return q, qd + by * test.std[2:]

        return predict

    seeds = [dynamics.seed_report(dynamics.roll_out(off(by), test, 4), test) for by in (0.01, 0.03)]
    merged = dynamics.model_report(seeds, [1, 5])
    assert merged["E"]["5"] == pytest.approx(0.02 * np.sqrt(0.5))
    assert [seed["E"]["5"] for seed in merged["seeds"]] == pytest.approx([0.01 * np.sqrt(0.5), 0.03 * np.sqrt(0.5)])


def test_model_predictor_equals_the_integrated_sequence_and_starts_each_rollout_afresh():
    from flashnerd_ext.model.frame import encode_frame
    from flashnerd_ext.model.integrate import Integrator
    from flashnerd_ext.model.registry import build_model

    torch.manual_seed(0)
    model = build_model("flashnerd", CART, {"width": 8, "heads": 2, "hidden": 8}).double().eval()
    held = data(4, 12)
    predict = predictors.model_predictor(model, DT, 2, dtype=torch.float64)
    u = np.swapaxes(held.actuation, 0, 1)
    q, qd = predict(held.joint_q[:, 0], held.joint_qd[:, 0], u)
    again, _ = predict(held.joint_q[:, 0], held.joint_qd[:, 0], u)
    np.testing.assert_array_equal(q, again)
    # Feed the frames that were visited through the parallel form: each prediction must give the next state.
    past_q, past_qd = torch.tensor(q[:-1]), torch.tensor(qd[:-1])
    frames = encode_frame(CART, past_q, past_qd, torch.tensor(u).double())
    with torch.no_grad():
        out = model.sequence(frames.transpose(0, 1)).transpose(0, 1)
    next_q, next_qd = Integrator(CART, DT, 2, model.kinematic_prior).apply(past_q, past_qd, out)
    np.testing.assert_allclose(next_q.numpy(), q[1:], atol=1e-12)
    np.testing.assert_allclose(next_qd.numpy(), qd[1:], atol=1e-12)


def test_rounding_noise_is_small_but_there():
    class Engine:
        def step(self, q, qd, u):
            qd = qd + DT * u
            return q + DT * qd, qd

    test = dynamics.make_test_set(data(), CART, [1, 20], rollouts=8, all_frames=0, seed=0)
    exact = dynamics.seed_report(dynamics.roll_out(predictors.engine_predictor(Engine()), test, 4), test)  # type: ignore[arg-type]
    rounded = dynamics.seed_report(
        dynamics.roll_out(predictors.engine_predictor(Engine(), np.float32), test, 4),  # type: ignore[arg-type]
        test,
    )
    assert exact["E"]["20"] < 1e-12
    assert 1e-9 < rounded["E"]["20"] < 1e-5
    with pytest.raises(FlashNerdError, match="rounding"):
        predictors.reference_noise(None, None, "thermal")  # type: ignore[arg-type]


def test_a_nerd_bundle_serves_as_optimized_nerd_and_a_wrong_one_is_refused(tmp_path):
    nerd = example_bundle(tmp_path / "nerd", model="nerd")
    flash = example_bundle(tmp_path / "flash")
    stored = {"nerd": nerd, "flash": flash}
    load = stored.__getitem__
    (as_optimized,) = predictors.load_models("nerd_optimized", ["nerd"], "cartpole", load)
    assert as_optimized.model.name == "nerd_optimized"
    held = data(4, 8)
    held_u = np.swapaxes(held.actuation, 0, 1)
    plain = predictors.model_predictor(nerd.model, DT, 2)(held.joint_q[:, 0], held.joint_qd[:, 0], held_u)
    quick = predictors.model_predictor(as_optimized.model, DT, 2)(held.joint_q[:, 0], held.joint_qd[:, 0], held_u)
    np.testing.assert_allclose(plain[1], quick[1], atol=1e-5)
    assert predictors.load_models("mine", ["flash"], "cartpole", load)[0] is flash
    with pytest.raises(FlashNerdError, match="holds a 'flashnerd' model"):
        predictors.load_models("nerd", ["flash"], "cartpole", load)
    with pytest.raises(FlashNerdError, match="of robot 'cartpole'"):
        predictors.load_models("flashnerd", ["flash"], "franka", load)


def test_evaluate_model_reports_size_and_arithmetic(tmp_path):
    bundle = example_bundle(tmp_path / "flash")
    layout = bundle.card.layout
    test = dynamics.make_test_set(data(), layout, [1, 5], rollouts=4, all_frames=4, seed=0)
    done = []
    report, errors = dynamics.evaluate_model([bundle, bundle], test, batch=4, progress=done.append)
    assert sum(done) == 2 * test.rollouts
    assert report["params"] == bundle.model.parameter_count()
    assert report["flops_per_step"] > 0
    assert len(report["seeds"]) == len(errors) == 2
    assert report["seeds"][0]["E"] == report["seeds"][1]["E"]
    json.dumps(report, allow_nan=False)
    curve = dynamics.curve_of(errors)
    assert curve.mean.shape == (5,)
    path = plot_error(tmp_path / "e.png", {"flashnerd": curve}, "t", horizons=[1, 5], floor=0.1 * curve.mean, dt=DT)
    from PIL import Image

    picture = np.asarray(Image.open(path).convert("RGB"))
    assert picture.shape == (600, 960, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50


@pytest.mark.parametrize("robot", ["cartpole", "an_arm_without_a_drawing"])
def test_clip_has_frames_that_move_with_the_state(tmp_path, robot):
    from PIL import Image, ImageSequence

    time = np.arange(13)[:, None] * DT
    q = np.stack([np.sin(5 * time + k) for k in (0, 1, 2)], 1) * np.ones(2)
    path = write_clip(tmp_path / "c.gif", robot, CART, q, {"flashnerd": q + 0.2}, DT)
    frames = [np.asarray(f.convert("RGB"), dtype=np.int64) for f in ImageSequence.Iterator(Image.open(path))]
    assert len(frames) == 7
    assert frames[0].mean() > 100
    assert all(np.abs(a - b).max() > 50 for a, b in itertools.pairwise(frames))
    with pytest.raises(FlashNerdError, match="mp4 or"):
        write_clip(tmp_path / "c.avi", robot, CART, q, {}, DT)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.gif"]


def test_evaluation_needs_no_simulator():
    import subprocess
    import sys

    code = (
        "import sys\n"
        "for name in ('warp', 'newton', 'isaaclab', 'mujoco', 'mujoco_warp', 'pxr'): sys.modules[name] = None\n"
        "import flashnerd_ext.evaluation.dynamics, flashnerd_ext.evaluation.throughput, flashnerd_ext.evaluation.clip\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
