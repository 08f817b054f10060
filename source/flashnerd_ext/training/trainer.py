"""The training run: read the top of :func:`train` for its stages, each a function below."""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.contacts import ContactRows
from flashnerd_ext.model.flashnerd import FlashNerd
from flashnerd_ext.training.checkpoint import flatten, load_checkpoint, save_checkpoint
from flashnerd_ext.training.config import TrainDynamicsConfig
from flashnerd_ext.training.distributed import Ranks
from flashnerd_ext.training.gauss_newton import GaussNewton, refuse
from flashnerd_ext.training.loss import StateLoss
from flashnerd_ext.training.multistep import unrolled_loss
from flashnerd_ext.training.optimisers import lr_factor, make_optimisers, set_lr
from flashnerd_ext.training.readout import solve_readout
from flashnerd_ext.training.windows import Windows

VALIDATION_WINDOWS = 4096
DIVERGED = 50.0
"""A loss this many times the first one, three times running, is a divergence and not a bad batch."""


@dataclass
class Run:
    """State of one training run."""

    config: TrainDynamicsConfig
    model: DynamicsModel
    loss: StateLoss
    train: Windows
    val: Windows
    folder: Path
    ranks: Ranks
    device: torch.device
    optimisers: list[Optimizer] = field(default_factory=list)
    update: int = 0
    total: int = 0
    seconds: float = 0.0
    """Training time so far, over all resumptions [s]."""
    best: float = math.inf
    val_parts: list[float] = field(default_factory=list)
    """The last validation's error on each data set."""
    best_state: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)
    first_loss: float = math.nan
    newton: int = 0
    """Gauss-Newton iterations that are done."""
    damping: float = math.nan
    """Theirs."""


def train(run: Run) -> Run:
    """Train until the budget is used, keep the weights that validate best, finish them: second order, or readout."""
    options = run.config.train
    if options.newton:
        refuse(run.model, run.ranks.world)
    kind = options.optimiser or {"flashnerd": "soap", "nerd": "adamw"}[options.recipe]
    run.optimisers = make_optimisers(run.model, kind, options.lr, options.muon_lr)
    if run.config.resume:
        restore(run)
    step = make_step(run)
    if run.total == 0:
        run.total = options.updates or calibrate(run, step)
    loop(run, step)
    if not run.newton:
        run.model.load_state_dict(run.best_state)
    if options.newton:
        second_order(run)
    elif options.readout and options.recipe == "flashnerd" and isinstance(run.model, FlashNerd):
        refit(run)
    return run


def batch_starts(run: Run, update: int) -> Tensor:
    """This rank's windows of an update; a function of seed and update alone, so that resuming is exact."""
    generator = torch.Generator().manual_seed(run.config.seed * 1_000_003 + update)
    batch = run.config.train.batch
    return run.train.draw(batch, generator)[run.ranks.share(batch)]


def make_step(run: Run) -> Any:
    """A function of an update's start indices that does forward, backward and the optimiser steps -> loss."""
    options, loss = run.config.train, run.loss
    network: nn.Module = run.model
    if run.ranks.world > 1:
        ids = [run.device.index] if run.device.type == "cuda" else None
        network = DistributedDataParallel(run.model, device_ids=ids)

    def one_step(frames: Tensor, targets: Tensor, rows: ContactRows | None) -> Tensor:
        return loss(network(frames, rows), targets)

    compiled = options.compiled and run.ranks.world == 1
    forward = torch.compile(one_step, dynamic=False) if compiled else one_step
    parameters = list(run.model.parameters())

    def step(starts: Tensor) -> Tensor:
        for optimiser in run.optimisers:
            optimiser.zero_grad(set_to_none=True)
        if in_last_phase(run):
            value = unrolled_loss(run.model, loss, run.train, starts, options.multistep, run.device)
            value.backward()
            average_gradients(parameters, run.ranks)
        else:
            value = forward(*run.train.batch(starts, run.device))
            value.backward()
        nn.utils.clip_grad_norm_(parameters, options.clip)
        for optimiser in run.optimisers:
            optimiser.step()
        return value.detach()

    return step


def in_last_phase(run: Run) -> bool:
    """Whether this update unrolls the model over several steps."""
    options = run.config.train
    return options.multistep > 1 and run.total > 0 and run.update >= run.total * (1.0 - options.multistep_share)


def average_gradients(parameters: list[nn.Parameter], ranks: Ranks) -> None:
    """What DistributedDataParallel does in its forward, for losses that do not go through it."""
    if ranks.world == 1:
        return
    for parameter in parameters:
        if parameter.grad is not None:
            torch.distributed.all_reduce(parameter.grad)
            parameter.grad /= ranks.world


def calibrate(run: Run, step: Any, warm: int = 5, timed: int = 30) -> int:
    """How many updates fit into ``train.minutes``: a few are timed, then everything is put back."""
    model_state = copy.deepcopy(run.model.state_dict())
    set_lr(run.optimisers, 0.0)
    for k in range(warm):
        step(batch_starts(run, k))
    begin = time.perf_counter()
    for k in range(timed):
        step(batch_starts(run, k))
    each = (time.perf_counter() - begin) / timed
    run.model.load_state_dict(model_state)
    options = run.config.train
    for optimiser in run.optimisers:
        optimiser.state.clear()
    return run.ranks.agree(max(20, int(options.minutes * 60 / each)))


def loop(run: Run, step: Any) -> None:
    """Updates with progress, validation, checkpoints and an early stop on divergence."""
    from tqdm import tqdm

    options = run.config.train
    every = options.validate_every or max(1, run.total // 40)
    writer = log_writer(run)
    began, saved, bad = time.perf_counter() - run.seconds, time.perf_counter(), 0
    bar = tqdm(
        total=run.total,
        initial=run.update,
        unit="update",
        desc=f"{run.config.model} seed {run.config.seed}",
        disable=not run.ranks.main,
        mininterval=1.0,
        dynamic_ncols=True,
    )
    if not run.best_state:
        validate(run)
    while run.update < run.total:
        set_lr(run.optimisers, lr_factor(run.update / run.total))
        value = step(batch_starts(run, run.update))
        run.update += 1
        bar.update()
        if run.update % every == 0 or run.update == run.total:
            loss = float(value)
            run.seconds = time.perf_counter() - began
            bad = check_divergence(run, loss, bad)
            error = validate(run)
            size = loss ** (0.5 / options.power)
            row = {"update": run.update, "seconds": run.seconds, "loss": loss, "nrmse": size, "val_nrmse": error}
            if len(run.val_parts) > 1:
                row |= {f"val_nrmse_{number}": part for number, part in enumerate(run.val_parts)}
            run.history.append(row)
            bar.set_postfix_str(f"train {size:.2e} val {error:.2e} best {run.best:.2e}", refresh=False)
            if writer is not None:
                for name, number in row.items():
                    writer.add_scalar(f"dynamics/{name}", number, run.update)
        if run.ranks.main and time.perf_counter() - saved > options.checkpoint_seconds:
            run.seconds = time.perf_counter() - began
            store(run)
            saved = time.perf_counter()
    bar.close()
    run.seconds = time.perf_counter() - began
    if run.ranks.main:
        store(run)
    if writer is not None:
        writer.close()


def check_divergence(run: Run, loss: float, bad: int) -> int:
    """Count bad losses; the third in a row, or a NaN, ends the run with a sentence."""
    if math.isnan(run.first_loss):
        run.first_loss = loss
    bad = bad + 1 if loss > DIVERGED * run.first_loss else 0
    if not math.isfinite(loss) or bad >= 3:
        raise FlashNerdError(
            f"training diverged at update {run.update}: the loss is {loss:.3g} and began at {run.first_loss:.3g}. "
            f"Type a smaller train.lr (it is {run.config.train.lr})."
        )
    return bad


@torch.no_grad()
def validate(run: Run) -> float:
    """One-step NRMSE on held-out windows; the best weights are kept. The same windows every time.

    With several data sets their squared errors count by their shares.
    """
    run.val_parts = [one_step_error(run, starts) for _, starts in run.val.parts()]
    squares = [share * part**2 for (share, _), part in zip(run.val.parts(), run.val_parts, strict=True)]
    error = sum(squares) ** 0.5
    if error < run.best or not run.best_state:
        run.best = error
        run.best_state = {name: value.detach().cpu().clone() for name, value in run.model.state_dict().items()}
    return error


def one_step_error(run: Run, windows: Tensor) -> float:
    """One-step NRMSE on held-out windows [W], of which at most so many are taken, evenly spread."""
    squares, count = 0.0, 0
    stride = max(1, len(windows) // VALIDATION_WINDOWS)
    for starts in windows[::stride][:VALIDATION_WINDOWS].split(1024):
        frames, targets, rows = run.val.batch(starts, run.device)
        error = run.loss.nrmse(run.model.sequence(frames, rows), targets)
        squares += float(error) ** 2 * len(starts)
        count += len(starts)
    return (squares / count) ** 0.5


def refit(run: Run) -> None:
    """Solve the readout; validation says whether the result is kept."""
    assert isinstance(run.model, FlashNerd)
    before = run.best
    generator = torch.Generator().manual_seed(run.config.seed)
    solve_readout(run.model.cpu(), run.train, min(len(run.train.starts), 200_000), generator)
    run.model.to(run.device)
    after = validate(run)
    run.history.append({"update": run.total, "seconds": run.seconds, "readout_before": before, "readout_after": after})
    run.model.load_state_dict(run.best_state)


def second_order(run: Run) -> None:
    """Gauss-Newton iterations; validation says which weights are kept. A killed run resumes at the last checkpoint."""
    from tqdm import tqdm

    options = run.config.train
    solver = GaussNewton(
        run.model, run.loss, run.train, run.config.seed, options.newton_frames, uniform=options.recipe == "nerd"
    )
    if run.newton:
        solver.damping = run.damping
    writer = log_writer(run)
    began, saved = time.perf_counter() - run.seconds, time.perf_counter()
    bar = tqdm(total=options.newton, initial=run.newton, unit="step", desc="Gauss-Newton", dynamic_ncols=True)
    while run.newton < options.newton:
        gain = solver.iterate(run.newton)
        run.newton += 1
        run.damping, run.seconds = solver.damping, time.perf_counter() - began
        error = validate(run)
        row = {"update": run.total, "newton": run.newton, "seconds": run.seconds, "loss": gain.after}
        row |= {"nrmse": gain.after**0.5, "val_nrmse": error, "damping": run.damping, "length": gain.length}
        run.history.append(row)
        bar.update()
        bar.set_postfix_str(f"train {gain.after**0.5:.2e} val {error:.2e} best {run.best:.2e}", refresh=False)
        if writer is not None:
            for name in ("seconds", "loss", "nrmse", "val_nrmse"):
                writer.add_scalar(f"dynamics/{name}", row[name], run.total + run.newton)
        if time.perf_counter() - saved > options.checkpoint_seconds or run.newton == options.newton:
            store(run)
            saved = time.perf_counter()
    bar.close()
    if writer is not None:
        writer.close()
    run.model.load_state_dict(run.best_state)
    run.model.float()


def store(run: Run) -> None:
    """Checkpoint everything that the rest of the run depends on."""
    content = {
        "config": flatten(run.config),
        "model": run.model.state_dict(),
        "optimisers": [optimiser.state_dict() for optimiser in run.optimisers],
        "update": run.update,
        "total": run.total,
        "seconds": run.seconds,
        "best": run.best,
        "best_state": run.best_state,
        "history": run.history,
        "first_loss": run.first_loss,
        "newton": run.newton,
        "damping": run.damping,
    }
    save_checkpoint(run.folder, content)


def restore(run: Run) -> None:
    """Go on from the checkpoint in the run's folder."""
    content = load_checkpoint(run.folder, run.config, run.device)
    if content["newton"]:
        run.model.double()  # Its weights have more digits than float32.
    run.model.load_state_dict(content["model"])
    for optimiser, state in zip(run.optimisers, content["optimisers"], strict=True):
        optimiser.load_state_dict(state)
    for name in ("update", "total", "seconds", "best", "best_state", "history", "first_loss", "newton", "damping"):
        setattr(run, name, content[name])
    if run.ranks.main:
        print(f"resumed {run.folder} at update {run.update} of {run.total}")


def log_writer(run: Run) -> Any:
    """TensorBoard writer of the main process."""
    if not run.ranks.main:
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(run.folder / "log"))
