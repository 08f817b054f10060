"""Training on several data sets: shares hold whatever the sizes, and nothing of one is taken for another's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from flashnerd_ext.data.dataset import Trajectories
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.registry import build_model
from flashnerd_ext.robots.cartpole import CARTPOLE
from flashnerd_ext.training.config import TrainDynamicsConfig, TrainOptions
from flashnerd_ext.training.distributed import Ranks
from flashnerd_ext.training.dynamics import prepare
from flashnerd_ext.training.mixture import Sources, check_shares, joined
from flashnerd_ext.training.trainer import Run, train


def data(count: int, steps: int, seed: int, gravity: float = 9.81, extra: tuple[str, ...] = ()) -> Trajectories:
    """Trajectories of a small system; another gravity is another system."""
    rng = np.random.default_rng(seed)
    q, qd = rng.uniform(-1, 1, (count, 2)), rng.uniform(-2, 2, (count, 2))
    joint_q, joint_qd = np.empty((count, steps + 1, 2)), np.empty((count, steps + 1, 2))
    actuation = rng.uniform(-5, 5, (count, steps, 1)).astype(np.float32)
    for t in range(steps + 1):
        joint_q[:, t], joint_qd[:, t] = q, qd
        if t < steps:
            force = actuation[:, t, 0]
            qd = qd + np.stack([force - 3 * qd[:, 0], gravity * np.sin(q[:, 1]) - force], 1) / 60
            q = q + qd / 60
    valid, sampler = np.ones((count, steps), bool), np.zeros(count, np.uint8)
    columns = {name: np.full((count, steps, 1), seed, np.float32) for name in extra}
    return Trajectories(joint_q, joint_qd, actuation, valid, sampler, columns, {"samplers": ["a"], "folder": str(seed)})


def make_run(folder: Path, shares: tuple[float, ...], updates: int = 150, emphasis: float = 1.0) -> Run:
    config = TrainDynamicsConfig(
        options={"width": 16, "heads": 2, "hidden": 16},
        train=TrainOptions(
            updates=updates, batch=64, window=4, lr=3e-3, compiled=False, emphasis=emphasis, checkpoint_seconds=1e9
        ),
    )
    torch.manual_seed(0)
    folder.mkdir(exist_ok=True)
    model = build_model("flashnerd", CARTPOLE.layout, config.options)
    whole, val = (
        joined([data(count, 12, 1), data(short, 7, 2, gravity=-9.81)]) for count, short in ((200, 12), (40, 10))
    )
    of = [np.repeat([0, 1], sizes) for sizes in ((200, 12), (40, 10))]
    sources = Sources(("a", "b"), shares, of[0], of[1], (1, 2))
    return prepare(config, CARTPOLE, model, whole, val, folder, Ranks(), torch.device("cpu"), sources)


def test_data_sets_of_other_lengths_lie_behind_one_another() -> None:
    first, second = data(3, 6, 1, extra=("torque", "row_link")), data(2, 4, 2, extra=("torque", "row_link"))
    q, actuation = second.joint_q.copy(), second.actuation.copy()
    whole = joined([first, second])
    assert whole.joint_q.shape == (5, 7, 2) and whole.valid.sum(1).tolist() == [6, 6, 6, 4, 4]
    assert np.array_equal(whole.joint_q[3:, :5], q) and np.array_equal(whole.actuation[3:, :4], actuation)
    assert np.array_equal(whole.joint_q[3:, 5:], np.repeat(q[:, -1:], 2, 1))
    assert whole.sampler.tolist() == [0, 0, 0, 1, 1] and whole.meta["samplers"] == ["a", "a"]
    assert whole.extra["torque"][3:, :4].min() == 2 and not whole.extra["torque"][3:, 4:].any()
    assert (whole.extra["row_link"][3:, 4:] == -1).all()
    with pytest.raises(FlashNerdError, match="lacks the column 'torque'"):
        joined([data(3, 6, 1, extra=("torque",)), data(2, 4, 2)])


@pytest.mark.parametrize("emphasis", [0.0, 1.0])
def test_draws_have_the_shares_and_reach_every_window(tmp_path: Path, emphasis: float) -> None:
    run = make_run(tmp_path, (0.6, 0.4), emphasis=emphasis)
    drawn = run.train.draw(40_000, torch.Generator().manual_seed(0))
    small = drawn // run.train.per_trajectory >= 200
    assert float(small.double().mean()) == pytest.approx(0.4, abs=0.01)
    assert len(drawn[small].unique()) == 12 * (7 - 4 + 1)
    assert (drawn % run.train.per_trajectory)[small].max() == 3  # no window reaches into the padding
    if not emphasis:
        _, counts = drawn[small].unique(return_counts=True)
        assert counts.max() < 1.5 * counts.min()


def test_training_follows_the_shares_and_validates_on_both(tmp_path: Path) -> None:
    errors = []
    for number, shares in enumerate(((0.95, 0.05), (0.3, 0.7))):
        run = train(make_run(tmp_path / str(number), shares))
        errors.append(run.val_parts)
        parts = [value**2 for value in run.val_parts]
        assert run.history[-1]["readout_after"] == pytest.approx(
            (shares[0] * parts[0] + shares[1] * parts[1]) ** 0.5, rel=1e-6
        )
        assert {"val_nrmse_0", "val_nrmse_1"} <= set(run.history[0])
    # The two systems contradict each other: what a share gains, the other loses.
    assert errors[1][1] < 0.7 * errors[0][1] and errors[0][0] < 0.7 * errors[1][0]


def test_one_data_set_draws_as_before(tmp_path: Path) -> None:
    config = TrainDynamicsConfig(options={"width": 16, "heads": 2, "hidden": 16}, train=TrainOptions(window=4))
    torch.manual_seed(0)
    model = build_model("flashnerd", CARTPOLE.layout, config.options)
    run = prepare(config, CARTPOLE, model, data(30, 12, 1), data(9, 12, 2), tmp_path, Ranks(), torch.device("cpu"))
    z = (run.train.frames[run.train.starts].double() - model.frame_norm.mean) / model.frame_norm.std
    expected = torch.cumsum(1.0 + z.square().mean(-1), 0)
    assert run.train.cumulative is not None and torch.equal(run.train.cumulative, expected)
    assert [share for share, _ in run.val.parts()] == [1.0]


def test_shares_that_cannot_be_are_refused() -> None:
    for more, sentence in (
        ({"b": 0.0}, "between 0 and 1"),
        ({"b": 0.6, "c": 0.4}, "sum to 1"),
        ({"a": 0.5}, "data= already"),
    ):
        with pytest.raises(FlashNerdError, match=sentence):
            check_shares(more, "a")
    check_shares({"b": 0.5, "c": 0.4}, "a")
