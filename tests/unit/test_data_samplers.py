"""Samplers, mixtures, statistics and the writer's arithmetic, without a simulator."""

from __future__ import annotations

import numpy as np
import pytest

from flashnerd_ext.data.samplers import SPLITS, counts, mixture, sampler, samplers_of
from flashnerd_ext.data.statistics import Statistics
from flashnerd_ext.data.writer import Plan, SplitPlan, valid_steps
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.registry import get_robot


@pytest.mark.parametrize("name", list(samplers_of("cartpole")))
def test_a_sampler_follows_its_seed_and_gives_finite_forces(name: str) -> None:
    item = samplers_of("cartpole")[name]

    def forces(seed: int) -> np.ndarray:
        q, qd, policy = item.draw(np.random.default_rng(seed), 50, 30)
        assert q.shape == qd.shape == (50, 2)
        out = [policy(t, q, qd) for t in range(30)]
        assert all(force.shape == (50, 1) for force in out)
        return np.concatenate([q, qd, *out], 1)

    first, again, other = forces(1), forces(1), forces(2)
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    assert np.isfinite(first).all()
    assert np.abs(first[:, 0]).max() <= 3.0


def test_task_samplers_start_as_the_stock_task_resets() -> None:
    q, qd, _ = samplers_of("cartpole")["task_noise"].draw(np.random.default_rng(0), 20_000, 1)
    for values, bound in ((q[:, 0], 1.0), (q[:, 1], np.pi / 4), (qd[:, 0], 0.5), (qd[:, 1], np.pi / 4)):
        assert np.abs(values).max() <= bound
        # The standard deviation of a uniform distribution tells that it is filled.
        assert values.std() == pytest.approx(bound / np.sqrt(3), rel=0.03)


def test_mixtures_sum_to_one_and_can_be_replaced() -> None:
    for split in SPLITS:
        assert mixture("cartpole", split).sum() == pytest.approx(1.0)
    names = list(samplers_of("cartpole"))
    shares = mixture("cartpole", "train", {"coast": 3, "uniform": 1})
    assert shares[names.index("coast")] == 0.75 and shares[names.index("uniform")] == 0.25
    assert counts(np.array([0.5, 0.3, 0.2]), 7).tolist() == [4, 2, 1]
    assert counts(shares, 1001).sum() == 1001


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"coats": 1.0}, "coast"),
        ({"coast": -1.0}, "0 or more"),
        ({"coast": float("nan")}, "0 or more"),
        ({"coast": 0.0}, "every weight as 0"),
    ],
)
def test_wrong_mixtures_are_refused(overrides: dict[str, float], words: str) -> None:
    with pytest.raises(FlashNerdError, match=words):
        mixture("cartpole", "train", overrides)


def test_unknown_robot_is_refused_with_the_nearest() -> None:
    with pytest.raises(FlashNerdError, match="cartpole"):
        samplers_of("cartpol")


def test_registering_adds_a_sampler_and_nothing_else() -> None:
    import flashnerd_ext.data.samplers as module

    before = dict(module._REGISTRY)
    try:
        sampler("toy", "zero", "nothing", 1.0, 1.0)(lambda rng, count, steps: None)
        assert list(module._REGISTRY["toy"]) == ["zero"]
    finally:
        module._REGISTRY.clear()
        module._REGISTRY.update(before)


def test_merged_statistics_equal_those_of_all_rows_in_any_order() -> None:
    rng = np.random.default_rng(0)
    # A large mean against a small spread shows a naive sum of squares.
    rows = rng.normal(size=(5000, 3)) * [1e-3, 1.0, 50.0] + [1e4, 0.0, -3.0]
    parts = np.split(rows, [7, 7, 1200, 4000])
    for order in (range(5), reversed(range(5)), (3, 0, 4, 1, 2)):
        total = Statistics.of(np.zeros((0, 3)))
        for i in order:
            total = total.merged(Statistics.unpacked(Statistics.of(parts[i]).packed()))
        assert total.count == 5000
        np.testing.assert_allclose(total.mean, rows.mean(0), rtol=1e-13)
        np.testing.assert_allclose(total.std, rows.std(0), rtol=1e-9)
        assert np.array_equal(total.low, rows.min(0)) and np.array_equal(total.high, rows.max(0))
    empty = Statistics.of(np.zeros((0, 2))).to_dict(["a", "b"])
    assert empty["a"] == {"mean": None, "std": None, "min": None, "max": None}


def test_validity_ends_for_good_at_the_rail_or_at_nan() -> None:
    robot = get_robot("cartpole")
    q, qd = np.zeros((3, 6, 2)), np.zeros((3, 6, 2))
    q[0, 2, 0] = 3.001  # and back at 0 afterwards
    qd[1, 5, 1] = np.nan
    q[2, :, 1] = 1e3  # an angle has no bounds
    assert valid_steps(robot, q, qd).tolist() == [
        [True, False, False, False, False],
        [True, True, True, True, False],
        [True] * 5,
    ]


def _plan(**changes: object) -> Plan:
    splits = {"train": SplitPlan(10, 5, False), "test": SplitPlan(0, 5, True)}
    return Plan(**({"robot": "cartpole", "seed": 0, "engine": "x", "splits": splits, "shard": 4} | changes))  # type: ignore[arg-type]


def test_plan_counts_and_hash() -> None:
    plan = _plan()
    plan.check()
    assert plan.shards("train") == 3 and plan.shards("test") == 0
    assert [plan.shard_size("train", i) for i in range(3)] == [4, 4, 2]
    assert plan.hash("m") == _plan().hash("m")
    others = [_plan(seed=1), _plan(shard=5), _plan(samplers={"coast": 1.0}), _plan(engine="y")]
    assert len({plan.hash("m"), plan.hash("n"), *(other.hash("m") for other in others)}) == 6


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": -1}, "seed is -1"),
        ({"shard": 0}, "shard is 0"),
        ({"splits": {"train": SplitPlan(-1, 5, False)}}, "train is -1"),
        ({"splits": {"train": SplitPlan(1, 0, False)}}, "train_steps is 0"),
        ({"splits": {"train": SplitPlan(0, 5, False)}}, "all 0"),
        ({"samplers": {"nothing": 1.0}}, "nothing"),
    ],
)
def test_wrong_plans_are_refused(changes: dict, words: str) -> None:
    with pytest.raises(FlashNerdError, match=words):
        _plan(**changes).check()
