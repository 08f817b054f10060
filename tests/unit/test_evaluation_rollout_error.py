"""The rollout error against results known by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.evaluation import rollout_error as metric
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.metric import metric_names, state_difference, state_std, wrap_angle
from flashnerd_ext.model.rotation import multiply

CART = StateLayout(joint_names=("cart", "pole"), joint_kinds=("prismatic", "continuous"), actuated=("cart",))
FREE = StateLayout(joint_names=("hip",), joint_kinds=("revolute",), floating_base=True, actuated=("hip",))


def record(n: int = 6, steps: int = 30, seed: int = 0):
    rng = np.random.default_rng(seed)
    q = np.cumsum(rng.normal(size=(n, steps + 1, 2)), axis=1)
    qd, u = rng.normal(size=(n, steps + 1, 2)), rng.normal(size=(n, steps, 1))
    return q, qd, u, np.ones((n, steps), dtype=bool)


def offset_predictor(q, qd, offset, growth=0.0):
    """A model that replays the record (single start at frame 0) plus a known offset in every predicted frame."""

    def predict(q0, qd0, actuation):
        steps = actuation.shape[0]
        rows = [int(np.flatnonzero(np.all(q[:, 0] == row, axis=1))[0]) for row in q0]
        out_q, out_qd = np.swapaxes(q[rows, : steps + 1], 0, 1).copy(), np.swapaxes(qd[rows, : steps + 1], 0, 1).copy()
        scale = 1.0 + growth * np.arange(steps + 1)[:, None, None]
        out_q += scale * offset[:2]
        out_qd += scale * offset[2:]
        return out_q, out_qd

    return predict


def test_wrap_angle_keeps_pi_and_is_periodic():
    assert wrap_angle(np.array([np.pi])) == pytest.approx(np.pi)
    assert wrap_angle(np.array([-np.pi])) == pytest.approx(np.pi)
    x = np.linspace(-20, 20, 999)
    wrapped = wrap_angle(x)
    assert np.all((wrapped > -np.pi) & (wrapped <= np.pi))
    np.testing.assert_allclose(np.exp(1j * wrapped), np.exp(1j * x), atol=1e-12)


def test_constant_error_gives_its_normalised_root_mean_square_at_every_horizon():
    q, qd, u, valid = record()
    std = np.array([2.0, 0.5, 1.0, 4.0])
    offset = np.array([0.02, 0.01, -0.03, 0.08])
    windows = metric.make_windows(valid, horizon=30)
    errors = metric.rollout_errors(offset_predictor(q, qd, offset), CART, q, qd, u, windows, std, batch=4)
    expected = np.sqrt(np.mean((offset / std) ** 2))
    for horizon in (1, 15, 30):
        at = errors.at(horizon)
        assert at.mean == pytest.approx(expected, rel=1e-9)
        assert at.median == pytest.approx(expected, rel=1e-9)
        assert at.low == pytest.approx(expected) and at.high == pytest.approx(expected)
        assert at.diverged == 0.0 and at.rollouts == 6


def test_growing_error_is_the_mean_over_steps_not_the_last_step():
    q, qd, u, valid = record()
    offset = np.array([1e-3, 0, 0, 0])
    errors = metric.rollout_errors(
        offset_predictor(q, qd, offset, growth=1.0), CART, q, qd, u, metric.make_windows(valid, 30), np.ones(4)
    )
    expected = np.sqrt(np.mean((np.arange(2, 32) * 1e-3) ** 2) / 4)
    assert errors.at(30).mean == pytest.approx(expected, rel=1e-9)
    mean, bands = errors.curve()
    assert mean[29] == pytest.approx(expected, rel=1e-9)
    assert bands.shape == (5, 30) and np.all(np.diff(bands, axis=0) >= 0)


def test_a_full_turn_of_the_pole_is_no_error_and_a_metre_of_the_cart_is_one():
    q, qd, u, valid = record()
    windows = metric.make_windows(valid, 30)
    turn = metric.rollout_errors(
        offset_predictor(q, qd, np.array([0, 2 * np.pi, 0, 0])), CART, q, qd, u, windows, np.ones(4)
    )
    assert turn.at(30).mean < 1e-12
    cart = metric.rollout_errors(
        offset_predictor(q, qd, np.array([2 * np.pi, 0, 0, 0])), CART, q, qd, u, windows, np.ones(4)
    )
    assert cart.at(30).mean == pytest.approx(np.pi)


def test_std_wraps_angles_and_ignores_invalid_frames():
    q, qd, _, valid = record(n=4)
    reference = np.concatenate([q.copy(), qd], axis=-1)
    reference[..., 1] = wrap_angle(reference[..., 1])
    np.testing.assert_allclose(state_std(CART, q, qd), reference.reshape(-1, 4).std(0), rtol=1e-12)
    valid[2, 10:] = False
    q[2, 11:] = 1e6
    std = state_std(CART, q, qd, valid)
    assert std[0] < 100
    with pytest.raises(FlashNerdError, match="standard deviation"):
        state_std(CART, np.zeros_like(q), qd)


def test_windows_stop_at_the_first_invalid_transition():
    valid = np.ones((2, 10), dtype=bool)
    valid[1, 4] = False
    windows = metric.make_windows(valid, horizon=8, starts=None)
    lengths = {
        (int(t), int(s)): int(n) for t, s, n in zip(windows.trajectory, windows.start, windows.length, strict=True)
    }
    assert lengths[0, 0] == 8 and lengths[0, 9] == 1
    assert lengths[1, 0] == 4 and lengths[1, 3] == 1 and (1, 4) not in lengths and lengths[1, 5] == 5
    spread = metric.make_windows(valid, horizon=8, starts=2)
    assert sorted(set(spread.start.tolist())) == [0, 5]
    first = metric.make_windows(valid, horizon=8)
    assert set(first.start.tolist()) == {0}
    thinned = metric.make_windows(valid, horizon=8, starts=None, limit=5, seed=3)
    assert len(thinned.start) == 5 and thinned.trajectory.max() == 1


def test_rollouts_start_where_the_window_says():
    q, qd, u, valid = record()
    windows = metric.make_windows(valid, horizon=5, starts=None)
    seen = []

    def hold(q0, qd0, actuation):
        seen.append((q0, actuation))
        steps = actuation.shape[0]
        return np.repeat(q0[None], steps + 1, 0), np.repeat(qd0[None], steps + 1, 0)

    errors = metric.rollout_errors(hold, CART, q, qd, u, windows, np.ones(4), batch=7)
    index = int(np.flatnonzero((windows.trajectory == 3) & (windows.start == 11))[0])
    diff = state_difference(CART, q[3, 11], qd[3, 11], q[3, 12], qd[3, 12])
    assert errors.squared[index, 0] == pytest.approx(np.mean(diff**2))
    assert np.isnan(errors.squared[windows.length == 2, 2]).all()
    assert errors.at(5).rollouts == int((windows.length >= 5).sum())


def test_non_finite_and_lost_rollouts_count_as_diverged_and_spoil_the_mean_not_the_median():
    q, qd, u, valid = record(n=10)
    good = offset_predictor(q, qd, np.full(4, 1e-3))

    def predict(q0, qd0, actuation):
        out_q, out_qd = good(q0, qd0, actuation)
        for row in range(len(q0)):
            if np.array_equal(q0[row], q[0, 0]):
                out_q[5:, row] = np.nan
            if np.array_equal(q0[row], q[1, 0]):
                out_qd[20:, row] += 50.0
        return out_q, out_qd

    errors = metric.rollout_errors(predict, CART, q, qd, u, metric.make_windows(valid, 30), np.ones(4), batch=3)
    assert errors.at(4).diverged == 0.0
    assert errors.at(5).diverged == pytest.approx(0.1) and errors.at(5).mean == np.inf
    assert errors.at(30).diverged == pytest.approx(0.2)
    assert errors.at(30).median == pytest.approx(1e-3)
    assert not np.isnan(errors.curve()[0]).any()


def test_split_by_sampler_uses_only_its_trajectories():
    q, qd, u, valid = record()
    sampler = np.array([0, 0, 0, 1, 1, 1], dtype=np.uint8)

    def predict(q0, qd0, actuation):
        out_q, out_qd = offset_predictor(q, qd, np.zeros(4))(q0, qd0, actuation)
        for row in range(len(q0)):
            if np.any([np.array_equal(q0[row], q[i, 0]) for i in (3, 4, 5)]):
                out_qd[1:, row] += 0.2
        return out_q, out_qd

    errors = metric.rollout_errors(predict, CART, q, qd, u, metric.make_windows(valid, 30), np.ones(4), sampler)
    assert errors.at(15, errors.sampler == 0).mean == pytest.approx(0.0, abs=1e-12)
    assert errors.at(15, errors.sampler == 1).mean == pytest.approx(np.sqrt(2 * 0.04 / 4))


def test_bootstrap_interval_covers_the_mean_and_draws_whole_trajectories():
    rng = np.random.default_rng(0)
    per_trajectory = rng.exponential(size=40)
    trajectory = np.repeat(np.arange(40), 25)
    squared = np.repeat(per_trajectory, 25)[:, None] * np.ones((1, 3))
    grouped = metric.summarise(squared, trajectory)
    loose = metric.summarise(squared, np.arange(1000))
    assert grouped.low < grouped.mean < grouped.high
    # The 1,000 rollouts hold only 40 independent values, so the honest interval is several times wider.
    assert grouped.high - grouped.low > 3 * (loose.high - loose.low)


def test_floating_base_is_measured_without_position_and_yaw():
    rng = np.random.default_rng(4)
    q, qd = rng.normal(size=(5, 8)), rng.normal(size=(5, 7))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    turn = rng.uniform(-3, 3, 5)
    half = turn / 2
    yaw = np.stack([0 * half, 0 * half, np.sin(half), np.cos(half)], 1)
    moved, moved_qd = q.copy(), qd.copy()
    moved[:, :2] += 7.0
    moved[:, 3:7] = -multiply(torch.from_numpy(yaw), torch.from_numpy(q[:, 3:7])).numpy()
    for part in (slice(0, 3), slice(3, 6)):
        x, y = qd[:, part][:, 0], qd[:, part][:, 1]
        moved_qd[:, part.start] = np.cos(turn) * x - np.sin(turn) * y
        moved_qd[:, part.start + 1] = np.sin(turn) * x + np.cos(turn) * y
    np.testing.assert_allclose(state_difference(FREE, moved, moved_qd, q, qd), 0.0, atol=1e-12)
    moved[:, 2] += 0.1
    difference = state_difference(FREE, moved, moved_qd, q, qd)
    assert difference.shape == (5, len(metric_names(FREE)))
    np.testing.assert_allclose(difference[:, metric_names(FREE).index("height")], 0.1)
    tilted = q.copy()
    tilted[:, 3:7] = multiply(torch.from_numpy(q[:, 3:7]), torch.tensor([[np.sin(0.1), 0.0, 0.0, np.cos(0.1)]])).numpy()
    assert np.abs(state_difference(FREE, tilted, qd, q, qd)[:, :3]).max() > 0.05


def test_no_rollout_is_one_sentence():
    q, qd, u, valid = record()
    with pytest.raises(FlashNerdError, match="no rollout"):
        metric.rollout_errors(
            offset_predictor(q, qd, np.zeros(4)), CART, q, qd, u, metric.make_windows(~valid, 5), np.ones(4)
        )
    assert np.isnan(metric.summarise(np.zeros((0, 3)), np.zeros(0)).mean)
