"""Training on a small system: it learns, resumes exactly, refuses what cannot work, and does not touch test data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.flashnerd import FlashNerd
from flashnerd_ext.model.integrate import Integrator
from flashnerd_ext.model.registry import build_model
from flashnerd_ext.robots.cartpole import CARTPOLE
from flashnerd_ext.training import gauss_newton
from flashnerd_ext.training.checkpoint import load_checkpoint
from flashnerd_ext.training.config import TrainDynamicsConfig, TrainOptions
from flashnerd_ext.training.distributed import Ranks
from flashnerd_ext.training.dynamics import prepare
from flashnerd_ext.training.gauss_newton import GaussNewton, add_gram, refuse
from flashnerd_ext.training.loss import StateLoss
from flashnerd_ext.training.multistep import unrolled_loss
from flashnerd_ext.training.readout import solve_readout
from flashnerd_ext.training.statistics import least_squares
from flashnerd_ext.training.trainer import Run, train
from flashnerd_ext.training.windows import make_windows

LAYOUT = CARTPOLE.layout
CPU = torch.device("cpu")


class Data:
    """Trajectories of a small nonlinear system in CartPole's coordinates."""

    def __init__(self, count: int, steps: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        q, qd = rng.uniform(-1, 1, (count, 2)), rng.uniform(-2, 2, (count, 2))
        self.joint_q, self.joint_qd = np.empty((count, steps + 1, 2)), np.empty((count, steps + 1, 2))
        self.actuation = rng.uniform(-50, 50, (count, steps, 1)).astype(np.float32)
        for t in range(steps + 1):
            self.joint_q[:, t], self.joint_qd[:, t] = q, qd
            if t < steps:
                force = self.actuation[:, t, 0]
                push = np.stack([force - 3 * qd[:, 0], 9.81 * np.sin(q[:, 1]) - force * np.cos(q[:, 1])], 1)
                qd = qd + push / 60
                q = q + qd / 60
        self.extra: dict[str, np.ndarray] = {}
        self.valid = np.ones((count, steps), bool)
        self.valid[0, steps // 2 :] = False
        self.meta: dict[str, object] = {}


def make_run(
    folder: Path,
    seed: int = 0,
    resume: bool = False,
    model: str = "flashnerd",
    options: dict[str, int] | None = None,
    **train: object,
) -> Run:
    settings = {"updates": 40, "batch": 64, "window": 5, "lr": 3e-3, "compiled": False, "checkpoint_seconds": 1e9}
    if options is None:
        options = {"width": 16, "heads": 2} | ({"hidden": 16} if model == "flashnerd" else {"layers": 1})
    config = TrainDynamicsConfig(
        model=model,
        seed=seed,
        resume=resume,
        options={**options},
        train=TrainOptions(**(settings | train)),  # type: ignore[arg-type]
    )
    torch.manual_seed(seed)
    folder.mkdir(exist_ok=True)
    network = build_model(config.model, LAYOUT, config.options)
    data, val = Data(60, 24, 1), Data(20, 24, 2)
    return prepare(config, CARTPOLE, network, data, val, folder, Ranks(), CPU)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["flashnerd", "nerd"])
@pytest.mark.parametrize("recipe", ["flashnerd", "nerd"])
def test_every_model_learns_with_every_recipe(tmp_path: Path, model: str, recipe: str) -> None:
    run = train(make_run(tmp_path, model=model, recipe=recipe, updates=120))
    first, last = run.history[0]["val_nrmse"], run.best
    assert last < 0.6 * first


def test_stop_and_resume_equals_a_run_without_a_stop(tmp_path: Path) -> None:
    whole = train(make_run(tmp_path / "a"))
    # Stopped by force in the middle, after a checkpoint: what a killed process leaves behind.
    stopped = make_run(tmp_path / "b", checkpoint_seconds=1e-9)
    draw, calls = stopped.train.draw, []

    def interrupted(count: int, generator: torch.Generator) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 18:
            raise KeyboardInterrupt
        return draw(count, generator)

    stopped.train.draw = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        train(stopped)
    resumed = train(make_run(tmp_path / "b", resume=True))
    assert resumed.update == whole.update == 40
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name
    assert [row["update"] for row in resumed.history] == [row["update"] for row in whole.history]
    assert [row.get("loss") for row in resumed.history] == [row.get("loss") for row in whole.history]


def test_same_seed_same_weights_other_seed_other_weights(tmp_path: Path) -> None:
    one, two, other = (train(make_run(tmp_path / str(i), seed=s)).model.state_dict() for i, s in enumerate((3, 3, 4)))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["embed.weight"], other["embed.weight"])


def test_resume_with_other_options_lists_each_with_the_override(tmp_path: Path) -> None:
    train(make_run(tmp_path, updates=3))
    changed = make_run(tmp_path, updates=3, resume=True, lr=1e-4)
    with pytest.raises(FlashNerdError, match=r"train.lr: stored 0.003, now 0.0001 \(type train.lr=0.003\)"):
        load_checkpoint(tmp_path, changed.config, CPU)
    (tmp_path / "checkpoint.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(FlashNerdError, match="cannot be read as a checkpoint"):
        load_checkpoint(tmp_path, changed.config, CPU)


def test_divergence_is_reported_with_what_to_change(tmp_path: Path) -> None:
    run = make_run(tmp_path, optimiser="adamw", lr=1e6, clip=1e9, updates=200, validate_every=1)
    with pytest.raises(FlashNerdError, match=r"training diverged at update \d+.*smaller train.lr"):
        train(run)


def test_windows_never_hold_an_invalid_step(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    trajectory, time = run.train.starts // 24, run.train.starts % 24
    assert time[trajectory == 0].max() == 12 - 5
    assert time[trajectory == 1].max() == 24 - 5


def test_emphasis_draws_unusual_windows_more_often_and_reaches_all(tmp_path: Path) -> None:
    run = make_run(tmp_path, emphasis=2.0)
    drawn = run.train.draw(200_000, torch.Generator().manual_seed(0))
    z = (run.train.frames - run.model.frame_norm.mean) / run.model.frame_norm.std
    size = z.square().mean(-1)
    assert size[drawn].mean() > 1.3 * size[run.train.starts].mean()
    assert len(drawn.unique()) == len(run.train.starts)


def test_loss_is_the_metric(tmp_path: Path) -> None:
    """One-step NRMSE of the loss equals the error of the integrated states, divided by their spread."""
    run = make_run(tmp_path)
    integrator = run.loss.integrator
    frames, targets, _ = run.train.batch(run.train.starts[:50])
    out = targets + 0.01 * torch.randn_like(targets)
    q, qd = torch.zeros(50, 5, 2), frames[..., 2:4]
    guess, truth = integrator.apply(q, qd, out), integrator.apply(q, qd, targets)
    position = ((guess[0] - truth[0]) / run.loss.position_std).square().mean()
    velocity = ((guess[1] - truth[1]) / run.loss.velocity_std).square().mean()
    assert torch.allclose(run.loss(out, targets), 0.5 * (position + velocity), rtol=1e-3)


def test_multistep_loss_is_zero_for_the_true_model_and_has_gradients(tmp_path: Path) -> None:
    run = make_run(tmp_path, multistep=4)
    run.model.double()
    starts = run.train.starts[:8]
    value = unrolled_loss(run.model, run.loss, run.train, starts, 4, CPU)
    value.backward()
    assert value > 0
    assert all(parameter.grad is not None for parameter in run.model.parameters())


def test_readout_solution_is_the_optimum(tmp_path: Path) -> None:
    """No small change of head or affine weights lowers the error that the closed form minimises."""
    run = make_run(tmp_path)
    model = run.model
    assert isinstance(model, FlashNerd)
    solve_readout(model, run.train, 4000, torch.Generator().manual_seed(5), ridge=1e-12)
    frames, targets, _ = run.train.batch(run.train.draw(4000, torch.Generator().manual_seed(5)))

    def error() -> float:
        with torch.no_grad():
            return float((model.out_norm(model.sequence(frames)) - model.out_norm(targets)).double().square().mean())

    best = error()
    generator = torch.Generator().manual_seed(0)
    for weight in (model.head.weight, model.affine.weight, model.affine.bias):
        move = 0.01 * torch.randn(weight.shape, generator=generator)
        with torch.no_grad():
            weight += move
        assert error() > best
        with torch.no_grad():
            weight -= move


def test_readout_solution_leaves_features_alone_that_are_always_zero(tmp_path: Path) -> None:
    """Such as the distance beyond a stop that no trajectory reaches: the normal equations have an empty row for it."""
    run = make_run(tmp_path)
    model = run.model
    assert isinstance(model, FlashNerd)
    run.train.frames[..., 0] = 0.0
    model.frame_norm.mean[0] = 0.0
    before = model.affine.weight[:, 0].clone()
    solve_readout(model, run.train, 4000, torch.Generator().manual_seed(5))
    assert torch.equal(model.affine.weight[:, 0], before)
    assert all(bool(torch.isfinite(parameter).all()) for parameter in model.parameters())


def test_least_squares_recovers_an_affine_map() -> None:
    x = torch.randn(500, 4, dtype=torch.float64)
    true = torch.randn(4, 3, dtype=torch.float64)
    assert torch.allclose(least_squares(x, x @ true), true, atol=1e-8)


def test_increments_keep_float64_digits() -> None:
    """A small increment on a large coordinate survives: differences are taken before rounding to float32."""
    data = Data(2, 10, 0)
    data.joint_q[..., 1] += 1000.0
    integrator = Integrator(LAYOUT, CARTPOLE.dt, 2)
    args = (data.joint_q, data.joint_qd, data.actuation, np.ones((2, 10), bool), 5)
    shifted = make_windows(LAYOUT, integrator, *args).targets
    data.joint_q[..., 1] -= 1000.0
    assert torch.allclose(shifted, make_windows(LAYOUT, integrator, *args).targets, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recipe": "best"}, "train.recipe is 'best'"),
        ({"optimiser": "sgd"}, "train.optimiser is 'sgd'"),
        ({"batch": 0}, "train.batch is 0"),
        ({"lr": -1.0}, "train.lr is -1.0"),
        ({"updates": 0, "minutes": 0.0}, "train.minutes=10"),
        ({"multistep_share": 1.5}, "train.multistep_share is 1.5"),
        ({"newton": -1}, "train.newton is -1"),
        ({"power": 0.0}, "train.power is 0.0, but a number above 0"),
        ({"power": 0.5, "newton": 3}, "train.power is 0.5, but Gauss-Newton.*type train.power=1 or train.newton=0"),
        ({"newton_frames": 2}, "train.newton_frames is 2"),
    ],
)
def test_options_that_cannot_work_are_refused(change: dict[str, object], message: str) -> None:
    config = TrainDynamicsConfig(train=TrainOptions(**change))  # type: ignore[arg-type]
    with pytest.raises(FlashNerdError, match=message):
        config.check()


def test_window_longer_than_a_trajectory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FlashNerdError, match=r"train\.window=24 or less"):
        make_run(tmp_path, window=30)


def test_equal_weights_are_the_nerd_recipe(tmp_path: Path) -> None:
    run = make_run(tmp_path, recipe="nerd")
    assert run.loss.equal
    assert isinstance(run.loss, StateLoss)
    assert run.train.cumulative is None
    assert json.dumps(run.model.config)


def test_finish_lowers_the_error_by_an_order(tmp_path: Path) -> None:
    options = {"width": 6, "hidden": 6}
    run = train(make_run(tmp_path, options=options, updates=150, window=1, newton=5, newton_frames=1200, lr=1e-2))
    first_order = [row["val_nrmse"] for row in run.history if "newton" not in row][-1]
    assert run.best < 0.2 * first_order
    assert next(run.model.parameters()).dtype == torch.float32
    assert [row["newton"] for row in run.history if "newton" in row] == [1, 2, 3, 4, 5]


def test_stop_and_resume_takes_the_same_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"updates": 20, "newton": 4, "newton_frames": 500, "options": {"width": 4, "hidden": 4}}
    monkeypatch.setattr(gauss_newton, "SOLVES", 1)
    monkeypatch.setattr(gauss_newton, "PRODUCTS", 3)
    whole = train(make_run(tmp_path / "a", **settings))
    stopped = make_run(tmp_path / "b", checkpoint_seconds=1e-9, **settings)
    iterate = GaussNewton.iterate

    def interrupted(self: GaussNewton, number: int) -> gauss_newton.Gain:
        if number == 2:
            raise KeyboardInterrupt
        return iterate(self, number)

    monkeypatch.setattr(GaussNewton, "iterate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(stopped)
    monkeypatch.setattr(GaussNewton, "iterate", iterate)
    resumed = train(make_run(tmp_path / "b", resume=True, **settings))
    assert resumed.newton == whole.newton == 4
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name
    assert [row["loss"] for row in resumed.history] == [row["loss"] for row in whole.history]
    # A finished run goes on as if it had been asked for more from the start.
    longer = settings | {"newton": 6}
    one, two = (train(make_run(tmp_path / name, resume=name == "b", **longer)) for name in ("c", "b"))
    assert all(torch.equal(one.model.state_dict()[name], value) for name, value in two.model.state_dict().items())


def test_gradient_and_products_are_those_of_the_loss(tmp_path: Path) -> None:
    """Against finite differences of the weighted loss, on a model whose attention sees three frames."""
    run = make_run(tmp_path)
    solver = GaussNewton(run.model, run.loss, run.train, seed=0, frames=300)
    frames, targets, weight = solver._draw(60, 7)
    theta = solver.theta()
    gradient = solver._gradient(frames, targets, weight)
    move = torch.randn(solver.count, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 1e-5
    ahead, behind = (solver._loss(theta + sign * solver._whole(move), frames, targets, weight) for sign in (1, -1))
    assert 0.5 * (ahead - behind) == pytest.approx(float(2 * gradient @ move), rel=1e-3)
    rows = solver._jacobian(theta, frames)[:, solver.live].double()
    rows = rows * weight.expand(-1, -1, 4).reshape(-1, 1)
    expected = rows.T @ (rows @ move) / weight.numel()
    product = solver._products(theta, frames, weight)(move)
    assert torch.allclose(product, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


def test_weights_without_effect_are_left_alone(tmp_path: Path) -> None:
    """Queries and keys of an attention that sees one frame change nothing."""
    run = make_run(tmp_path, window=1)
    solver = GaussNewton(run.model, run.loss, run.train, seed=0, frames=300)
    assert 0 < solver.count < len(solver.live)


def test_gram_is_the_upper_triangle() -> None:
    rows = torch.randn(50, 70)
    gram = torch.zeros(70, 70)
    add_gram(gram, rows, strip=32)
    assert torch.allclose(gram.triu(), (rows.T @ rows).triu(), atol=1e-4)


def test_residuals_are_the_loss(tmp_path: Path) -> None:
    for recipe in ("flashnerd", "nerd"):
        run = make_run(tmp_path, recipe=recipe)
        out, target = torch.randn(30, 5, 4), torch.randn(30, 5, 4)
        squares = run.loss.residuals(out, target).square().sum(-1).mean()
        assert torch.allclose(squares, run.loss(out, target), rtol=1e-5)


def test_what_the_finish_cannot_handle_is_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path, newton=2)
    with pytest.raises(FlashNerdError, match=r"2: type train\.newton=0"):
        refuse(run.model, 2)
    monkeypatch.setattr(gauss_newton, "MOST_WEIGHTS", 100)
    with pytest.raises(FlashNerdError, match=r"at most 100 weights.*options\.width="):
        train(run)
    assert not run.history
