"""Make a training data set with the analytical simulator.

    python scripts/dataset.py robot=cartpole out=data/cartpole

Shards appear whole; stop it and run it again, and it goes on where it was. Under torchrun, or on several machines
with one shared folder, each rank writes its own shards: torchrun --nproc_per_node=2 scripts/dataset.py ...
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashnerd_ext.cli import parse
from flashnerd_ext.errors import FlashNerdError, cli_main

if TYPE_CHECKING:
    from flashnerd_ext.data.writer import Writer


def _help(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass
class DatasetConfig:
    robot: str = _help("cartpole", "robot's name")
    out: str = _help("", "folder to write; empty means data/ROBOT")
    train: int = _help(50_000, "training trajectories")
    val: int = _help(500, "validation trajectories, kept only if valid to the end")
    test: int = _help(2_000, "test trajectories, kept only if valid to the end")
    balance: int = _help(500, "balancing trajectories (a second test split), kept only if valid to the end")
    train_steps: int = _help(64, "steps in a training trajectory")
    val_steps: int = _help(200, "steps in a validation trajectory")
    test_steps: int = _help(200, "steps in a test trajectory")
    balance_steps: int = _help(200, "steps in a balancing trajectory")
    seed: int = _help(0, "decides every number, with the options above and engine, shard and samplers")
    engine: str = _help("mujoco_c", "mujoco_c or mujoco_warp")
    shard: int = _help(5_000, "trajectories in a shard; an interruption loses at most the one being written")
    samplers: list[str] = field(
        default_factory=list, metadata={"help": "mixture, for example samplers=[task_noise:1,coast:0.5]"}
    )
    workers: int = _help(0, "threads of mujoco_c; 0 takes all cores (divided among local ranks)")
    device: str = _help("cpu", "device of mujoco_warp")


def _environment(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isdigit():
        raise FlashNerdError(f"the environment variable {name} is '{text}', but a whole number is needed.")
    return int(text)


def _weights(words: list[str]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for word in words:
        name, colon, text = word.partition(":")
        try:
            weights[name.strip()] = float(text)
        except ValueError:
            colon = ""
        if not colon:
            raise FlashNerdError(f"samplers has '{word}', but NAME:WEIGHT is needed, such as [task_noise:1,coast:0.5].")
    return weights


def main() -> int:
    config = parse(DatasetConfig, doc=__doc__)
    rank, world = _environment("RANK", 0), _environment("WORLD_SIZE", 1)
    local = _environment("LOCAL_WORLD_SIZE", 1)
    if rank >= world:
        raise FlashNerdError(f"RANK is {rank}, but it must be below WORLD_SIZE={world}.")

    from flashnerd_ext.data.engines import ENGINES, build_engine, load_or_export
    from flashnerd_ext.data.writer import Plan, SplitPlan, Writer
    from flashnerd_ext.errors import nearest
    from flashnerd_ext.robots.registry import get_robot

    robot = get_robot(config.robot)
    if config.engine not in ENGINES:
        raise FlashNerdError(f"engine is '{config.engine}', which is unknown: {nearest(config.engine, ENGINES)}")
    if config.workers < 0:
        raise FlashNerdError(f"workers is {config.workers}, but 0 (all cores) or more is needed.")
    plan = Plan(
        robot=config.robot,
        seed=config.seed,
        engine=config.engine,
        shard=config.shard,
        samplers=_weights(config.samplers),
        splits={
            "train": SplitPlan(config.train, config.train_steps, complete=False),
            "val": SplitPlan(config.val, config.val_steps, complete=True),
            "test": SplitPlan(config.test, config.test_steps, complete=True),
            "balance": SplitPlan(config.balance, config.balance_steps, complete=True),
        },
    )
    plan.check()
    folder = Path(config.out or f"data/{config.robot}")
    if folder.exists() and not folder.is_dir():
        raise FlashNerdError(f"out={folder} is a file, but a folder is needed.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FlashNerdError(f"out={folder} cannot be made ({error.strerror}): type another out=FOLDER.") from None

    workers = config.workers or max(1, len(os.sched_getaffinity(0)) // local)
    started = time.perf_counter()
    model = load_or_export(robot, folder)
    engine = build_engine(config.engine, model, workers, config.device)
    command = "python scripts/dataset.py " + shlex.join(sys.argv[1:])
    writer = Writer(folder, robot, model, engine, plan, rank, world, command)
    print(
        f"{folder}: engine {engine.name} {engine.version}, {workers} threads, model {model.hash[:12]}, "
        f"rank {rank} of {world}",
        flush=True,
    )
    return _write(writer, started)


def _write(writer: Writer, started: float) -> int:
    from tqdm import tqdm

    plan = writer.plan
    ready = time.perf_counter()
    wanted = sum(
        plan.shard_size(split, index) * plan.splits[split].steps
        for split in plan.splits
        for index in range(writer.rank, plan.shards(split), writer.world)
    )
    made = 0
    with tqdm(total=wanted, unit=" transitions", unit_scale=True, disable=None) as bar:

        def progress(split: str, transitions: int, bad: int) -> None:
            nonlocal made
            made += transitions
            bar.set_description(split)
            bar.update(transitions)
            if bad:
                bar.write(f"{split}: {bad} rows are not finite; they are marked invalid.")

        try:
            summary = writer.run(progress)
        except OSError as error:
            raise FlashNerdError(
                f"{writer.folder} cannot be written ({error}): mend it and run the same command again, it goes on."
            ) from None
    seconds = time.perf_counter() - ready
    if made:
        print(
            f"{made:,} transitions in {seconds:.1f} s, {made / seconds * 60:,.0f} a minute "
            f"(start-up {ready - started:.1f} s)"
        )
    else:
        print("nothing was missing.")
    if summary is None:
        print(f"rank {writer.rank} is done; the rank that ends last writes dataset.json.")
        return 0
    for name, split in summary["splits"].items():
        print(
            f"  {name}: {split['trajectories']:,} x {split['steps']} steps, "
            f"{split['valid_transitions']:,} valid transitions, {split['bad_rows']} bad rows"
        )
    print(f"complete: {writer.folder}/dataset.json")
    return 0


if __name__ == "__main__":
    cli_main(main)
