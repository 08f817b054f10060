"""The engines against each other and against a recording of the stock Isaac-Cartpole task."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from exported import exported

from flashnerd_ext.data.engines import build_engine, load_or_export
from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.data.samplers import samplers_of
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.registry import get_robot

pytestmark = pytest.mark.kitless

RECORDING = Path(__file__).parent.parent / "fixtures" / "cartpole_steps.npz"
FLOAT32 = 1e-5
"""Relative size of what two float32 steps may differ by from float64 ones, of (1 + the largest velocity)."""


@pytest.fixture(scope="session")
def model() -> ExportedModel:
    return exported("cartpole")


def _batch(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    q = np.stack([rng.uniform(-2.9, 2.9, count), rng.uniform(-7, 7, count)], 1)
    qd = rng.normal(size=(count, 2)) * [5.0, 10.0]
    return q, qd, rng.uniform(-400, 400, (count, 1)).astype(np.float32)


def test_the_engine_steps_as_the_stock_task_does(model: ExportedModel) -> None:
    """Each recorded control step of Isaac-Cartpole from its own state, with forces past the joint's 400 N limit."""
    record = np.load(RECORDING)
    q, qd, force, done = (record[name] for name in ("joint_q", "joint_qd", "force", "done"))
    assert np.array_equal(force, 100.0 * record["action"]), "the task holds the unclamped action"
    assert np.abs(force).max() > 600.0
    engine = build_engine("mujoco_c", model, 1)
    kept = ~done
    assert kept.sum() > 800
    for t in range(len(force)):
        next_q, next_qd = engine.step(q[t].astype(float), qd[t].astype(float), force[t])
        scale = 1.0 + np.abs(qd[t]).max(1, keepdims=True)
        assert (np.abs(next_q - q[t + 1]) / scale)[kept[t]].max(initial=0.0) < FLOAT32
        assert (np.abs(next_qd - qd[t + 1]) / scale)[kept[t]].max(initial=0.0) < FLOAT32
    # The comparison can fail: clamping at the limit is seen.
    past = np.abs(force[..., 0]) > 450.0
    t, i = np.argwhere(past & kept)[0]
    clamped = np.clip(force[t], -400.0, 400.0)
    assert np.abs(engine.step(q[t].astype(float), qd[t].astype(float), clamped)[1] - qd[t + 1])[i].max() > 0.1


def test_mujoco_warp_agrees_with_mujoco_c(model: ExportedModel) -> None:
    q, qd, force = _batch(128)
    c, warp = build_engine("mujoco_c", model, 1), build_engine("mujoco_warp", model)
    scale = 1.0 + np.abs(qd).max(1, keepdims=True)
    for ours, theirs in zip(c.step(q, qd, force), warp.step(q, qd, force), strict=True):
        assert (np.abs(ours - theirs) / scale).max() < FLOAT32
    # A whole short rollout, where errors add up but are not yet amplified.
    state_c, state_w = (q, qd), (q, qd)
    for _ in range(15):
        state_c, state_w = c.step(*state_c, force), warp.step(*state_w, force)
    inside = (np.abs(state_c[0][:, 0]) < 3.9) & (np.abs(q[:, 0]) < 2)
    assert inside.sum() > 20
    assert (np.abs(state_c[1] - state_w[1]) / scale)[inside].max() < 1e-3


def test_threads_and_batch_do_not_change_a_bit(model: ExportedModel) -> None:
    q, qd, force = _batch(64)
    one, two = build_engine("mujoco_c", model, 1), build_engine("mujoco_c", model, 2)
    whole = one.step(q, qd, force)
    for ours, theirs in zip(whole, two.step(q, qd, force), strict=True):
        assert np.array_equal(ours, theirs)
    for ours, theirs in zip(whole, one.step(q[10:13], qd[10:13], force[10:13]), strict=True):
        assert np.array_equal(ours[10:13], theirs)


def test_a_diverging_world_turns_nan_and_is_not_reset_quietly(model: ExportedModel) -> None:
    q, qd, force = _batch(3)
    force[1] = 1e30
    engine = build_engine("mujoco_c", model, 1)
    for _ in range(3):
        q, qd = engine.step(q, qd, force)
    assert not np.isfinite(qd[1]).all()
    assert np.isfinite(qd[[0, 2]]).all() and np.isfinite(q[[0, 2]]).all()


def test_the_balancing_sampler_balances(model: ExportedModel) -> None:
    """Wrong signs in the feedback would drop every pole."""
    engine = build_engine("mujoco_c", model, 1)
    q, qd, policy = samplers_of("cartpole")["task_policy"].draw(np.random.default_rng(0), 400, 150)
    for t in range(150):
        q, qd = engine.step(q, qd, policy(t, q, qd))
    assert (np.abs(q[:, 1]) < 0.5).mean() > 0.4


def test_the_model_survives_being_kept_as_text(model: ExportedModel, tmp_path: Path) -> None:
    model.save(tmp_path)
    again = load_or_export(get_robot("cartpole"), tmp_path)
    assert again.hash == model.hash and again == model
    q, qd, force = _batch(16)
    first = build_engine("mujoco_c", model, 1).step(q, qd, force)
    for ours, theirs in zip(first, build_engine("mujoco_c", again, 1).step(q, qd, force), strict=True):
        assert np.array_equal(ours, theirs)
    compiled = again.compile()
    # The float32 numbers of Newton's model, which MJCF's six digits do not hold.
    assert compiled.body_mass[1] == np.float32(7.2) and compiled.body_pos[3, 0] == pytest.approx(0.12, abs=1e-8)
    assert compiled.jnt_actfrcrange[0].tolist() == [-400.0, 400.0]
    assert compiled.actuator_biasprm[0, :3].tolist() == [0.0, 0.0, -10.0]
    assert not compiled.dof_damping.any() and not compiled.dof_frictionloss.any() and not compiled.dof_armature.any()


def test_an_edited_or_damaged_engine_model_is_refused(model: ExportedModel, tmp_path: Path) -> None:
    path = model.save(tmp_path)
    content = json.loads(path.read_text())
    content["sim_dt"] = 0.01
    path.write_text(json.dumps(content))
    with pytest.raises(FlashNerdError, match="it was edited"):
        ExportedModel.load(tmp_path)
    for text in ("", "{}", "[]", '{"schema_version": 7}', '{"schema_version": 1, "hash": "", "extra": 1}'):
        path.write_text(text)
        with pytest.raises(FlashNerdError, match="not a usable engine model"):
            ExportedModel.load(tmp_path)


def test_wrong_engine_names_and_counts(model: ExportedModel) -> None:
    with pytest.raises(FlashNerdError, match="did you mean mujoco_c"):
        build_engine("mujoco_cc", model)
    with pytest.raises(FlashNerdError, match="workers is 0"):
        build_engine("mujoco_c", model, 0)
