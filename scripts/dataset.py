"""Make a training data set with the analytical simulator.

    python scripts/dataset.py robot=cartpole out=data/cartpole

How many trajectories and steps a split has is the robot's own unless it is given; 0 trajectories leave a split out.
With contacts=fixed the trajectories are the same, and contact rows are those of the robot's named links.
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
    from flashnerd_ext.data.writer import SplitPlan, Writer

PATIENCE = 10.0
"""Seconds between two lines of progress where the output is not a terminal."""


def _help(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass
class DatasetConfig:
    robot: str = _help("cartpole", "robot's name")
    out: str = _help("", "folder to write; empty means data/ROBOT, or data/ROBOT_fixed for fixed contacts")
    contacts: str = _help(
        "variable", "contact rows: variable (what is near the ground) or fixed (the robot's named links, always)"
    )
    train: int | None = _help(None, "training trajectories")
    val: int | None = _help(None, "validation trajectories, kept only if valid to the end")
    test: int | None = _help(None, "test trajectories, kept only if valid to the end")
    balance: int | None = _help(None, "balancing trajectories (a second test split of some robots), kept likewise")
    train_steps: int | None = _help(None, "steps in a training trajectory")
    val_steps: int | None = _help(None, "steps in a validation trajectory")
    test_steps: int | None = _help(None, "steps in a test trajectory")
    balance_steps: int | None = _help(None, "steps in a balancing trajectory")
    terrain: str = _help("flat", "what legged robots walk on: flat, stairs, boxes, field or mixed")
    terrain_seed: int = _help(0, "decides the terrain, nothing else")
    blind: bool = _help(False, "fixed contact rows on terrain know the ground planes only, as NeRD was published")
    seed: int = _help(0, "decides every number, with the options above and engine, shard and samplers")
    engine: str = _help("mujoco_c", "mujoco_c or mujoco_warp")
    shard: int | None = _help(
        None, "trajectories in a shard; an interruption loses at most the one being written; empty is the robot's own"
    )
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


def _splits(config: DatasetConfig) -> dict[str, SplitPlan]:
    """The robot's default plan with what the command changes."""
    from flashnerd_ext.data.samplers import plan_of
    from flashnerd_ext.data.writer import SplitPlan

    splits = {}
    for name, size in plan_of(config.robot).splits.items():
        count, steps = getattr(config, name), getattr(config, f"{name}_steps")
        splits[name] = SplitPlan(
            size.trajectories if count is None else count,
            size.steps if steps is None else steps,
            # A training trajectory is used as far as it is valid; errors over a horizon need whole ones.
            complete=name != "train",
        )
    return splits


def main() -> int:
    config = parse(DatasetConfig, doc=__doc__)
    rank, world = _environment("RANK", 0), _environment("WORLD_SIZE", 1)
    local = _environment("LOCAL_WORLD_SIZE", 1)
    if rank >= world:
        raise FlashNerdError(f"RANK is {rank}, but it must be below WORLD_SIZE={world}.")

    from flashnerd_ext.data.engines import ENGINES, build_engine, load_or_export
    from flashnerd_ext.data.samplers import plan_of
    from flashnerd_ext.data.writer import Plan, Writer
    from flashnerd_ext.errors import nearest
    from flashnerd_ext.robots.description import fixed_links
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
        shard=plan_of(config.robot).shard if config.shard is None else config.shard,
        samplers=_weights(config.samplers),
        splits=_splits(config),
    )
    plan.check()
    fixed = fixed_links(robot, config.contacts)
    folder = Path(config.out or f"data/{config.robot}{'_fixed' if fixed else ''}")
    if folder.exists() and not folder.is_dir():
        raise FlashNerdError(f"out={folder} is a file, but a folder is needed.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FlashNerdError(f"out={folder} cannot be made ({error.strerror}): type another out=FOLDER.") from None

    workers = config.workers or max(1, len(os.sched_getaffinity(0)) // local)
    started = time.perf_counter()
    model = load_or_export(robot, folder, config.contacts, config.terrain, config.terrain_seed, config.blind)
    engine = build_engine(config.engine, model, workers, config.device)
    command = "python scripts/dataset.py " + shlex.join(sys.argv[1:])
    writer = Writer(folder, robot, model, engine, plan, rank, world, command)
    print(
        f"{folder}: engine {engine.name} {engine.version}, {workers} threads, model {model.hash[:12]}, "
        f"rank {rank} of {world}" + (f", {len(fixed)} fixed contacts" if fixed else ""),
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
    made, said = 0, ready
    # A bar is for terminals; a log gets a line now and then.
    with tqdm(total=wanted, unit=" transitions", unit_scale=True, disable=None) as bar:

        def progress(split: str, transitions: int, bad: int) -> None:
            nonlocal made, said
            made += transitions
            bar.set_description(split)
            bar.update(transitions)
            now = time.perf_counter()
            if bar.disable and transitions and (now - said > PATIENCE or made == transitions):
                said = now
                left = (wanted - made) * (now - ready) / made
                print(f"{split}: {made:,} of {wanted:,} transitions, about {left:.0f} s left", flush=True)
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
