"""Roll a trained model and let the simulator say what would come of the states that it visits.

    python scripts/visited_states.py robot=anymal_c bundle=runs/anymal_c data=data/anymal_c out=data/visited

``out`` becomes a data set. Fine-tuned on a mixture with it (train_dynamics.py init=... more='{data/visited: 0.3}'), a
model comes back from its own errors instead of running away.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashnerd_ext.cli import parse
from flashnerd_ext.data.visits import VisitPlan
from flashnerd_ext.errors import FlashNerdError, cli_main
from flashnerd_ext.training.config import option


@dataclass
class VisitConfig:
    """Options of the command."""

    robot: str = option("anymal_c", "robot of the registry; one with contacts")
    bundle: str = option("", "bundle that is rolled, name or folder; the robot's shipped one when empty")
    data: str = option("", "data set that it was trained on; data/ROBOT when empty")
    out: str = option("", "data set folder to write")
    rollouts: int = option(1024, "rollouts of the model")
    horizon: int = option(150, "steps of each")
    every: int = option(7, "steps between two labelled states of a rollout")
    length: int = option(4, "steps that the simulator takes from each")
    val: float = option(0.05, "share of the rollouts that goes into the val split")
    seed: int = option(0, "of the choice of starts and commands")
    workers: int = option(0, "threads of the simulator; 0 takes all cores")


def main() -> int:
    import os

    import numpy as np
    from tqdm import tqdm

    from flashnerd_ext.bundle.store import load_bundle
    from flashnerd_ext.data.dataset import FILE, load_trajectories
    from flashnerd_ext.data.engines.exported import ExportedModel
    from flashnerd_ext.data.engines.mujoco_c import MujocoC
    from flashnerd_ext.data.visits import visit
    from flashnerd_ext.evaluation.predictors import detector_of, model_predictor
    from flashnerd_ext.rl.record.cut import Pieces
    from flashnerd_ext.rl.record.folder import Source, write_folder
    from flashnerd_ext.robots.registry import get_robot

    config: Any = parse(VisitConfig, doc=__doc__)
    plan = VisitPlan(config.rollouts, config.horizon, config.every, config.length, seed=config.seed)
    plan.check()
    robot = get_robot(config.robot)
    if robot.contacts is None:
        raise FlashNerdError(f"robot is '{robot.name}', which touches nothing: its models need no such data.")
    if not config.out:
        raise FlashNerdError("out is empty, but a folder is needed: type out=data/visited.")
    if (Path(config.out) / FILE).exists():
        raise FlashNerdError(f"out={config.out} holds a data set already: type another out=, or delete it.")
    if not 0.0 < config.val < 1.0:
        raise FlashNerdError(f"val is {config.val}, but a share between 0 and 1 is needed: type val=0.05.")
    folder = Path(config.data or f"data/{robot.name}")
    data = load_trajectories(folder, "train", robot)
    bundle = load_bundle(config.bundle or robot.name)
    model = ExportedModel.load(folder)
    engine = MujocoC(model, config.workers or len(os.sched_getaffinity(0)))
    predict = model_predictor(bundle.model, robot.dt, robot.inner_steps, detector=detector_of([bundle], folder))
    with tqdm(total=plan.rollouts, unit=" rollouts", disable=None) as bar:

        def progress(done: int) -> None:
            bar.update(done)

        columns, owner = visit(robot, engine, predict, data, plan, progress)
    # Only rollouts that have states: an untrained model's are gone after a few steps.
    rollouts = np.random.default_rng(config.seed).permutation(np.unique(owner[columns["valid"].any(1)]))
    if len(rollouts) < 2:
        raise FlashNerdError(
            f"only {len(rollouts)} of {plan.rollouts} rollouts has states to label, but train and val need one each: "
            "type more rollouts=, or train the model longer first."
        )
    held = max(1, round(config.val * len(rollouts)))
    splits = {"train": np.sort(rollouts[held:]), "val": np.sort(rollouts[:held]), "test": np.arange(0)}
    pieces = Pieces(columns, owner, 0, 0)
    source = Source(
        "mujoco_c", engine.version, config.seed, "python scripts/visited_states.py " + shlex.join(sys.argv[1:]),
        {"visited": f"states of the bundle {bundle.card.name} ({bundle.hash[:12]})"}, {"bundle": bundle.hash},
    )  # fmt: skip
    groups = np.zeros(plan.rollouts, np.int64)
    summary = write_folder(Path(config.out), robot, model, pieces, groups, source, splits)
    for name in ("train", "val"):
        print(f"{name}: {summary['splits'][name]['valid_transitions']:,} valid transitions")
    print(f"complete: {config.out}/{FILE}")
    return 0


if __name__ == "__main__":
    cli_main(main)
