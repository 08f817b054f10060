"""From options to a saved bundle: the stages of ``scripts/train_dynamics.py``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from flashnerd_ext.data.dataset import fixed_of, read_summary
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import write_json
from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.chain import Chain
from flashnerd_ext.model.flashnerd import FlashNerd
from flashnerd_ext.model.frame import encode_frame
from flashnerd_ext.model.integrate import Integrator
from flashnerd_ext.model.metric import increment_std, state_std
from flashnerd_ext.model.registry import build_model
from flashnerd_ext.model.rigid import RigidPrior
from flashnerd_ext.model.sensed import Sensed
from flashnerd_ext.robots.description import RobotDescription
from flashnerd_ext.robots.registry import get_robot
from flashnerd_ext.runtime import machine_facts, seed_everything, set_threads
from flashnerd_ext.training.checkpoint import NAME
from flashnerd_ext.training.config import TrainDynamicsConfig
from flashnerd_ext.training.distributed import Ranks, choose_device, ranks
from flashnerd_ext.training.loss import StateLoss
from flashnerd_ext.training.mirror import MirroredBatch
from flashnerd_ext.training.mixture import Sources, load_mixed
from flashnerd_ext.training.rigid_fit import ROWS, fit_rigid
from flashnerd_ext.training.statistics import fit_affine, fit_normalisation
from flashnerd_ext.training.trainer import Run, train
from flashnerd_ext.training.windows import Windows, make_windows

if TYPE_CHECKING:
    from flashnerd_ext.bundle.card import DataCard, PhysicalCard
    from flashnerd_ext.bundle.coupling import CouplingCard
    from flashnerd_ext.data.dataset import Trajectories

STATISTICS_ROWS = 500_000


def train_dynamics(config: TrainDynamicsConfig) -> Path:
    """Train a model and save it as a bundle.

    Returns:
        The bundle's folder; the checkpoint, ``history.json`` and the TensorBoard log lie beside it in ``OUT-run``.

    Raises:
        FlashNerdError: For options, data or a checkpoint that do not fit.
    """
    config.check()
    robot = get_robot(config.robot)
    with ranks(config.device) as place:
        set_threads(config.threads or None)
        device = choose_device(config.device, place.local)
        seed_everything(config.seed, config.deterministic)
        fixed = fixed_of(read_summary(config.data))
        kind = "-fixed" if fixed else ""
        out = Path(config.out or f"runs/dynamics/{config.robot}-{config.model}{kind}-s{config.seed}")
        folder = out.parent / f"{out.name}-run"
        refuse_overwrite(folder, config)
        model = build_model(config.model, robot.layout, contact_options(config, robot, fixed)).to(device)
        lineage = start_from(config, model, fixed)
        data, val, sources = load_mixed(config.data, config.more, robot)
        run = prepare(config, robot, model, data, val, folder, place, device, sources)
        say(
            place,
            f"{config.model}: {model.parameter_count():,} parameters, {len(run.train.starts):,} windows, {device}",
        )
        folder.mkdir(parents=True, exist_ok=True)
        train(run)
        if place.main:
            finish(run, robot, data, out, lineage, sources)
    return out


def contact_options(
    config: TrainDynamicsConfig, robot: RobotDescription, fixed: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The model's options, with what robot and data say where the command does not: contacts, or free motion.

    Args:
        config: Options of the command.
        robot: Says how many variable rows there may be, and names the links.
        fixed: Links of the data's fixed contact rows; empty for variable rows. Fixed rows are not pooled.

    Raises:
        FlashNerdError: For a number of rows that the fixed contacts of the data do not have.
    """
    options = dict(config.options)
    if robot.coupling and config.model == "flashnerd":
        # Free motion is that of rigid links first of all, and its state says all there is to know.
        options = {"prior": "rigid", "span": 1} | options
    if robot.contacts is None:
        return options
    options.setdefault("sensed", Sensed(robot.layout, len(robot.links)).size)
    capacity = options.setdefault("rows_capacity", len(fixed) or robot.contacts.capacity)
    if fixed and capacity not in (0, len(fixed)):
        raise FlashNerdError(
            f"options.rows_capacity is {capacity}, but data={config.data} has {len(fixed)} fixed contact rows: "
            f"type options.rows_capacity={len(fixed)}, or 0 for a model without contact rows."
        )
    if fixed:
        options.setdefault("slots", 0)
    options.setdefault("links", len(robot.links))
    return options


def start_from(config: TrainDynamicsConfig, model: DynamicsModel, fixed: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Take the weights and statistics of ``init``, if given.

    Args:
        config: Options of the command.
        model: Where they go.
        fixed: Links of the data's fixed contact rows; empty for variable rows.

    Returns:
        Hashes of the bundles that the model descends from, oldest first.

    Raises:
        FlashNerdError: When the bundle is of another model, or takes other contact rows than the data have.
    """
    if not config.init:
        return ()
    from flashnerd_ext.bundle.same_kind import check_contact_rows, check_model_config
    from flashnerd_ext.bundle.store import load_bundle

    bundle = load_bundle(config.init)
    if bundle.model.rows_capacity:
        check_contact_rows(bundle.card.contacts, fixed, f"init={config.init}", f"data={config.data}")
    check_model_config(bundle.card, config.model, model.config)
    model.load_state_dict(bundle.model.state_dict())
    return (*bundle.card.lineage, bundle.hash)


def refuse_overwrite(folder: Path, config: TrainDynamicsConfig) -> None:
    """A finished or interrupted run is not overwritten by accident."""
    if not config.resume and (folder / NAME).exists():
        raise FlashNerdError(
            f"{folder} holds a checkpoint already: type resume=true to go on with it, another out=, or delete it."
        )


def prepare(
    config: TrainDynamicsConfig,
    robot: RobotDescription,
    model: DynamicsModel,
    data: Trajectories,
    val: Trajectories,
    folder: Path,
    place: Ranks,
    device: torch.device,
    sources: Sources | None = None,
) -> Run:
    """Windows, statistics, the affine start and the loss; ``sources`` says which data set each trajectory is of."""
    integrator = Integrator(robot.layout, robot.dt, robot.inner_steps, model.kinematic_prior)
    length = config.train.window
    if config.train.multistep > 1 and model.rows_capacity:
        raise FlashNerdError(
            f"train.multistep is {config.train.multistep}, but contacts of predicted states cannot be found while "
            "training: type train.multistep=0, or options.rows_capacity=0 for a model without contact rows."
        )
    sensed = Sensed(robot.layout, len(robot.links)) if model.sensed else None

    def windows(part: Trajectories, size: int) -> Windows:
        return make_windows(
            robot.layout, integrator, part.joint_q, part.joint_qd, part.actuation, part.valid, size,
            part.extra, model.rows_capacity > 0, sensed,
        )  # fmt: skip

    train_windows = windows(data, max(length, config.train.multistep))
    train_windows.length = length
    val_windows = windows(val, length)
    if config.train.mirror and robot.mirror is not None and config.train.recipe == "flashnerd":
        fixed = data.meta.get("fixed", ()) if model.rows_capacity else ()
        train_windows.mirror = MirroredBatch(robot, integrator, sensed, tuple(fixed))
    base = slice(None)
    if sources is not None:
        train_windows.mix(torch.from_numpy(sources.train), sources.shares)
        val_windows.mix(torch.from_numpy(sources.val), sources.shares)
        base = slice(0, int((sources.train == 0).sum()))
    rows = torch.nonzero(torch.from_numpy(data.valid).flatten()).squeeze(1)
    chosen = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(config.seed))[:STATISTICS_ROWS]]
    if isinstance(model, FlashNerd) and model.prior is not None and not config.init:
        model.prior.cpu()
        say(
            place,
            f"rigid prior: leaves {identify(model.prior, robot, data, rows, config.seed):.2e} of the accelerations",
        )
        model.prior.to(device)
    frames, targets = train_windows.frames[chosen].to(device), train_windows.targets[chosen].to(device)
    explained = model.explained(frames)
    if explained is not None:
        targets = targets - explained
    if not config.init:
        fit_normalisation(model, frames, targets)
    if config.train.recipe == "flashnerd":
        if isinstance(model, FlashNerd) and not config.init:
            fit_affine(model, frames, targets)
        train_windows.emphasise(model.frame_norm.mean.cpu(), model.frame_norm.std.cpu(), config.train.emphasis)
    # The metric's unit is that of the base data, so that errors before and after a mix compare.
    spread = state_std(robot.layout, data.joint_q[base], data.joint_qd[base], data.valid[base])
    position, velocity = increment_std(robot.layout, spread)
    loss = StateLoss(
        integrator,
        torch.from_numpy(position).float().to(device),
        torch.from_numpy(velocity).float().to(device),
        equal=config.train.recipe == "nerd",
        out_std=model.out_norm.std.float().to(device),
        sensed_weight=config.train.sensed_weight,
        power=config.train.power,
    )
    return Run(config, model, loss, train_windows, val_windows, folder, place, device)


def identify(prior: RigidPrior, robot: RobotDescription, data: Trajectories, rows: torch.Tensor, seed: int) -> float:
    """Fit the rigid prior to some of the valid steps ``rows`` (flat indices); what it leaves of the accelerations.

    Raises:
        FlashNerdError: When the data set does not say where the robot's joints are.
    """
    if not data.meta.get("chain"):
        raise FlashNerdError(
            f"options.prior is 'rigid', but {data.meta.get('folder')} has no chain, which says where the joints are: "
            "make the data set anew with scripts/dataset.py, or type options.prior=none."
        )
    chain = Chain.from_dict(data.meta["chain"], robot.layout.num_joints)
    chosen = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))[:ROWS]].numpy()
    trajectory, step = np.divmod(chosen, data.valid.shape[1])

    def at(values: np.ndarray, later: int = 0) -> torch.Tensor:
        return torch.from_numpy(np.asarray(values[trajectory, step + later], dtype=np.float64))

    q, qd = at(data.joint_q), at(data.joint_qd)
    condition = torch.from_numpy(conditions_of(data)[trajectory, step].astype(np.float64))
    frames = encode_frame(robot.layout, q, qd, at(data.actuation), condition)
    prior.dt.fill_(robot.dt)
    return fit_rigid(prior, chain, frames, (at(data.joint_qd, 1) - qd) / robot.dt)


def finish(
    run: Run,
    robot: RobotDescription,
    data: Trajectories,
    out: Path,
    lineage: Sequence[str] = (),
    sources: Sources | None = None,
) -> None:
    """Measure on test data, save the bundle and the history, say where they are."""
    from flashnerd_ext.bundle.make import envelope, make_card
    from flashnerd_ext.bundle.store import save_bundle

    config = run.config
    valid = data.valid
    stride = max(1, int(valid.sum()) // 2_000_000)
    card_envelope = envelope(
        robot.layout,
        data.joint_q[:, :-1][valid][::stride],
        data.joint_qd[:, :-1][valid][::stride],
        data.actuation[valid][::stride],
        conditions_of(data)[valid][::stride],
        np.concatenate((data.joint_q[:, 1:], data.joint_qd[:, 1:]), -1)[valid][::stride] if robot.coupling else None,
    )
    model = run.model.cpu().eval()
    measured = measure(config, robot, model)
    measured |= {"val_one_step": run.best, "train_minutes": run.seconds / 60, "train_updates": float(run.total)}
    card = make_card(
        robot=robot,
        model=model,
        envelope=card_envelope,
        engine=str(data.meta.get("engine", "unknown")),
        asset_key=str(data.meta.get("asset_key", f"{robot.name}@unknown")),
        physical=physical_of(robot),
        seed=config.seed,
        data=data_cards(config, data, sources),
        measured=measured,
        lineage=lineage,
        fixed=data.meta.get("fixed", ()),
        detector=str(data.meta.get("fixed_detector", "")),
        coupling=coupling_of(robot),
    )
    bundle = save_bundle(out, model, card)
    write_json(run.folder / "history.json", {"history": run.history, "machine": machine_facts(), "measured": measured})
    shown = "  ".join(f"{name} {value:.3g}" for name, value in measured.items())
    print(f"{shown}\nbundle {out} ({bundle.hash[:12]}), log and checkpoint {run.folder}")


def data_cards(config: TrainDynamicsConfig, data: Trajectories, sources: Sources | None) -> list[DataCard]:
    """A record of each data set that was trained on."""
    from flashnerd_ext.bundle.make import data_card

    if sources is None:
        return [data_card(config.data, [int(data.meta.get("seed", 0))], len(data.valid), int(data.valid.sum()))]
    cards = []
    for number, (folder, seed) in enumerate(zip(sources.folders, sources.seeds, strict=True)):
        mine = data.valid[sources.train == number]
        cards.append(data_card(folder, [seed], len(mine), int(mine.sum())))
    return cards


def conditions_of(data: Trajectories) -> np.ndarray:
    """Conditions of every step, [n, T, C]; C may be 0."""
    count, steps = data.valid.shape
    condition = data.extra.get("condition", np.zeros((count, 0), np.float32))
    return np.broadcast_to(condition[:, None], (count, steps, condition.shape[1]))


def measure(config: TrainDynamicsConfig, robot: RobotDescription, model: DynamicsModel) -> dict[str, float]:
    """Rollout errors on the test split, which nothing above has seen; it chooses nothing."""
    if config.rollouts < 1:
        return {}
    from flashnerd_ext.data.dataset import load_trajectories
    from flashnerd_ext.evaluation.dynamics import make_test_set, roll_out
    from flashnerd_ext.evaluation.predictors import make_detector, model_predictor
    from flashnerd_ext.evaluation.rollout_error import HORIZONS

    data = load_trajectories(config.data, "test", robot)
    horizons = [horizon for horizon in HORIZONS if horizon <= data.valid.shape[1]]
    test = make_test_set(data, robot.layout, horizons, rollouts=config.rollouts, all_frames=0, seed=0)
    detector = make_detector(Path(config.data)) if model.rows_capacity else None
    errors = roll_out(model_predictor(model, robot.dt, robot.inner_steps, detector=detector), test, batch=1024)[
        "initial"
    ]
    measured = {f"E{horizon}": errors.at(horizon).mean for horizon in horizons}
    # JSON has no infinity: a model that blew up gets a figure that nobody mistakes for an error of this world.
    measured = {name: value if math.isfinite(value) else 1e9 for name, value in measured.items()}
    return measured | {"evaluated_trajectories": float(len(test.windows["initial"].start))}


def coupling_of(robot: RobotDescription) -> CouplingCard | None:
    """The card's section of coupled mode; ``None`` for a robot of learned mode."""
    if not robot.coupling:
        return None
    from flashnerd_ext.bundle.coupling import CouplingCard

    joints = robot.layout.joint_names
    return CouplingCard(
        label=robot.coupling,
        integrator="euler",
        # The data engines give a robot no passive damping and the armature of its description.
        damping=dict.fromkeys(joints, 0.0),
        armature={name: robot.armature.get(name, 0.0) for name in joints},
    )


def physical_of(robot: RobotDescription) -> PhysicalCard:
    """Masses, inertias and limits of the robot's asset; unknown on a machine that trains without Newton."""
    from flashnerd_ext.bundle.make import UNKNOWN_PHYSICAL

    if find_spec("newton") is None:
        return UNKNOWN_PHYSICAL
    from flashnerd_ext.bundle.facts import physical_of_asset
    from flashnerd_ext.data.engines.export import robot_usd

    return physical_of_asset(robot_usd(robot))


def say(place: Ranks, text: str) -> None:
    """Print on the main process."""
    if place.main:
        print(text, flush=True)
