"""Measure speed: of the models alone, or of whole environments.

    python scripts/benchmark.py what=model robot=cartpole batch=[16,1024,16384] json=out/model.json
    python scripts/benchmark.py what=env task=Isaac-Cartpole num_envs=[64,1024] json=out/env.json
    python scripts/benchmark.py what=stages task=FlashNeRD-Velocity-Flat-AnymalC num_envs=[256] json=out/stages.json
    python scripts/benchmark.py what=soak task=FlashNeRD-Velocity-Flat-AnymalC num_envs=[1024] json=out/soak.json

Everything that is compared runs in turns, so that a busy machine is equally unkind to all of it.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field
from typing import Any

from flashnerd_ext.cli import parse
from flashnerd_ext.errors import FlashNerdError, cli_main, nearest


def _help(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


PARTS = 40
"""Readings of memory, and steps of the progress bar, of a soak."""
SOAK_LIMIT_S = 3600.0
"""Longest wait for one of them."""


@dataclass
class BenchmarkConfig:
    """Options of the command."""

    what: str = _help(
        "model",
        "model (networks alone), env (whole environments), stages (of learned physics), soak (long run of it)",
    )
    json: str = _help("", "file for the figures")
    rounds: int = _help(5, "turns that each gets; figures are medians over them")
    seconds: float = _help(0.5, "length of a turn [s]; at least one call or two environment steps")
    device: str = _help("cpu", "device")
    threads: int = _help(0, "threads; 0 takes OMP_NUM_THREADS, else all cores")
    robot: str = _help("cartpole", "what=model: robot's name")
    batch: list[int] = field(
        default_factory=lambda: [16, 1024, 16384], metadata={"help": "what=model: robots stepped together"}
    )
    models: list[str] = field(
        default_factory=lambda: ["flashnerd", "nerd", "nerd_optimized"], metadata={"help": "what=model: models"}
    )
    dtype: list[str] = field(
        default_factory=lambda: ["float32", "bfloat16"], metadata={"help": "what=model: precision of the matrices"}
    )
    compiled: list[bool] = field(
        default_factory=lambda: [False, True], metadata={"help": "what=model: eager (false) and torch.compile (true)"}
    )
    minutes: float = _help(10.0, "what=model: leave out further precisions and compilations after this [min]")
    equal_size: bool = _help(True, "what=model: also each at the other's width and depth")
    task: str = _help("Isaac-Cartpole", "what=env: gym id")
    num_envs: list[int] = field(default_factory=lambda: [64, 1024], metadata={"help": "what=env: environments"})
    physics: list[str] = field(
        default_factory=lambda: ["flashnerd", "newton_mjwarp"],
        metadata={"help": "what=env: physics presets, and nerd or nerd_optimized (learned, see bundles)"},
    )
    bundles: dict[str, str] = field(
        default_factory=dict, metadata={"help": "what=env: physics -> its bundle, as bundles={nerd_optimized:PATH}"}
    )
    bundle: str = _help("", "bundle whose size or physics is measured; empty takes the robot's own")
    seed: int = _help(0, "what=env: seed of the environments")
    steps: int = _help(2000, "what=soak: control steps")


def main() -> int:
    config = parse(BenchmarkConfig, doc=__doc__)
    check(config)
    content = {"model": bench_model, "env": bench_env, "stages": bench_stages, "soak": bench_soak}[config.what](config)
    if config.json:
        from flashnerd_ext.evaluation.outputs import writing
        from flashnerd_ext.files import write_json

        with writing():
            print(f"figures: {write_json(config.json, content)}")
    return 0


def check(config: BenchmarkConfig) -> None:
    """Refuse values that cannot work, one sentence each."""
    from flashnerd_ext.evaluation.outputs import check_output

    check_output("json", config.json)
    if config.what not in ("model", "env", "stages", "soak"):
        raise FlashNerdError(f"what is '{config.what}', but model, env, stages or soak is needed: type what=model.")
    if config.steps < 2:
        raise FlashNerdError(f"steps is {config.steps}, but at least 2 are needed: type steps=2000.")
    if config.rounds < 1:
        raise FlashNerdError(f"rounds is {config.rounds}, but at least 1 is needed: type rounds=5.")
    if not 0 <= config.seconds < 1e4:
        raise FlashNerdError(f"seconds is {config.seconds}, but a length of 0 s or more is needed: type seconds=0.5.")
    if not config.minutes >= 0:
        raise FlashNerdError(f"minutes is {config.minutes}, but 0 or more is needed: type minutes=10.")
    if config.threads < 0:
        raise FlashNerdError(f"threads is {config.threads}, but 0 or more is needed: type threads=1.")
    for name in ("batch", "models", "dtype", "compiled", "num_envs", "physics"):
        values = getattr(config, name)
        if not values or len(set(values)) != len(values):
            raise FlashNerdError(f"{name} is {values}, but a list of different values is needed.")
    for name in config.bundles:
        if name not in config.physics:
            raise FlashNerdError(f"bundles names '{name}', which is not in physics={config.physics}: add it there.")
    for name in config.physics:
        if name in ("nerd", "nerd_optimized") and name not in config.bundles:
            raise FlashNerdError(f"physics has '{name}', which needs a bundle: type bundles={{{name}:PATH}}.")
    for name in ("batch", "num_envs"):
        if min(getattr(config, name)) < 1:
            raise FlashNerdError(f"{name} is {getattr(config, name)}, but numbers of 1 or more are needed.")
    for dtype in config.dtype:
        if dtype not in ("float32", "bfloat16"):
            raise FlashNerdError(f"dtype has '{dtype}', but only float32 and bfloat16 are known: type dtype=[float32].")


def bench_model(config: BenchmarkConfig) -> dict[str, Any]:
    """Model-only throughput."""
    from tqdm import tqdm

    from flashnerd_ext.evaluation import throughput
    from flashnerd_ext.model.registry import MODELS
    from flashnerd_ext.robots.registry import get_robot
    from flashnerd_ext.runtime import machine_facts, set_threads

    for name in config.models:
        if name not in MODELS:
            raise FlashNerdError(f"models has '{name}', which is not known: {nearest(name, MODELS)}")
    set_threads(config.threads or None)
    check_device(config.device)
    layout = get_robot(config.robot).layout
    chosen = throughput.variants(config.models, config.equal_size, bundle_config(config))
    sizes = throughput.sizes(layout, chosen)
    before = machine_facts()
    cells = len(config.batch) * len(chosen) * len(config.dtype) * len(config.compiled)
    with tqdm(total=cells * (1 + config.rounds), unit=" turns", disable=None) as bar:

        def say(text: str) -> None:
            bar.set_description(text)
            bar.update()

        done, notes = throughput.measure(
            layout,
            chosen,
            config.batch,
            config.dtype,
            config.compiled,
            config.rounds,
            config.seconds,
            config.device,
            60.0 * config.minutes,
            say,
        )
    content = {
        "rows": [cell.row() for cell in done],
        "ratio": throughput.ratio(done, "flashnerd", "nerd_optimized", config.batch),
        "ratio_nerd": throughput.ratio(done, "flashnerd", "nerd", config.batch),
        "equal_size_ratio": {
            size: throughput.ratio(done, *pair, config.batch) for size, pair in throughput.equal_pairs(chosen).items()
        },
        "models": sizes,
        "notes": notes,
        "robot": config.robot,
        "device": config.device,
        **provenance(before),
    }
    print(throughput.table(done))
    for batch, value in content["ratio"].items():
        equal = ", ".join(
            f"{found[batch]:.1f} at {size}" for size, found in content["equal_size_ratio"].items() if batch in found
        )
        print(
            f"batch {int(batch):>6,}: FlashNeRD / Optimized NeRD = {value:.1f}"
            + (f" (equal size: {equal})" if equal else "")
        )
    for note in notes:
        print(f"note: {note}")
    return content


def bundle_config(config: BenchmarkConfig) -> dict[str, dict[str, Any]]:
    """Size of the bundle that a user would run, so that it is what gets measured; defaults where none is shipped."""
    from flashnerd_ext.bundle.store import load_bundle, shipped

    if not config.bundle and config.robot not in shipped():
        return {}
    card = load_bundle(config.bundle or config.robot).card
    if card.robot.name != config.robot:
        raise FlashNerdError(f"bundle is of robot '{card.robot.name}', but robot={config.robot} is measured.")
    names = ("nerd", "nerd_optimized") if card.model.name.startswith("nerd") else (card.model.name,)
    return {name: dict(card.model.config) for name in names}


def check_device(device: str) -> None:
    """Refuse a device that torch cannot use."""
    import torch

    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError):
        raise FlashNerdError(f"device is '{device}', which cannot be used here: type device=cpu.") from None


def bench_env(config: BenchmarkConfig) -> dict[str, Any]:
    """Environment throughput."""
    import os

    from tqdm import tqdm

    from flashnerd_ext.evaluation import env_throughput
    from flashnerd_ext.runtime import machine_facts, set_threads

    set_threads(config.threads or None)  # before the processes start: they inherit it
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    before = machine_facts()
    rows: list[dict[str, Any]] = []
    turns = len(config.num_envs) * len(config.physics) * (2 + config.rounds)
    with tqdm(total=turns, unit=" turns", disable=None) as bar:

        def say(text: str) -> None:
            bar.set_description(text)
            bar.update()

        for count in config.num_envs:
            commands = {
                name: env_throughput.worker_command(
                    config.task, name, count, config.device, config.seed, bundle_of(config, name)
                )
                for name in config.physics
            }
            results = env_throughput.measure(
                commands, count, config.rounds, config.seconds, on_gpu=config.device.startswith("cuda"), progress=say
            )
            rows += [result.row() for result in results]
    content = {
        "rows": rows,
        "ratio": env_throughput.ratios(rows, "flashnerd", "newton_mjwarp"),
        "ratios": {name: env_throughput.ratios(rows, config.physics[0], name) for name in config.physics[1:]},
        "task": config.task,
        "device": config.device,
        **provenance(before),
    }
    print(env_throughput.table(rows))
    for name, found in content["ratios"].items():
        for count, value in found.items():
            print(
                f"{int(count):>6,} environments: {config.physics[0]} is {value['env']:.2f} x {name} in the whole step, "
                f"{value['physics']:.2f} x in physics alone"
            )
    return content


def bundle_of(config: BenchmarkConfig, physics: str) -> str:
    """Bundle of one of the compared physics; empty takes the task's own, or is none."""
    return config.bundles.get(physics) or (config.bundle if physics == "flashnerd" else "")


def bench_stages(config: BenchmarkConfig) -> dict[str, Any]:
    """Time of each stage of a learned step, in the running environment."""
    from pathlib import Path

    from tqdm import tqdm

    from flashnerd_ext.evaluation import env_throughput, stages
    from flashnerd_ext.runtime import machine_facts, set_threads

    set_threads(config.threads or None)
    before = machine_facts()
    parts: dict[int, dict[str, float]] = {}
    with tqdm(total=len(config.num_envs), unit=" sizes", disable=None) as bar:
        for count in config.num_envs:
            command = env_throughput.worker_command(
                config.task, "flashnerd", count, config.device, config.seed, config.bundle
            )
            worker = env_throughput.Worker(command, "flashnerd")
            try:
                worker.ready()
                first = worker.steps(3, 1)  # compiles, and says how long a step is
                turn = max(2, round(config.seconds * first["steps"] / max(first["wall"], 1e-9)))
                runs = [worker.steps(turn, 2 + i, stages=True) for i in range(config.rounds)]
            finally:
                worker.close()
            parts[count] = env_throughput.medians([stages.breakdown(run) for run in runs])
            bar.update()
    print(stages.table(parts))
    if config.json:
        title = f"{config.task}: where a control step under learned physics goes"
        print(f"picture: {stages.plot(Path(config.json).with_suffix('.png'), parts, title)}")
    return {"stages": {str(count): part for count, part in parts.items()}, "task": config.task, **provenance(before)}


def bench_soak(config: BenchmarkConfig) -> dict[str, Any]:
    """A long run of learned physics under the task's resets, pushes and randomisation."""
    from pathlib import Path

    from tqdm import tqdm

    from flashnerd_ext.evaluation import env_throughput, soak
    from flashnerd_ext.runtime import machine_facts, set_threads

    set_threads(config.threads or None)
    before = machine_facts()
    results: dict[int, dict[str, Any]] = {}
    part = max(1, config.steps // PARTS)
    for count in config.num_envs:
        command = env_throughput.worker_command(
            config.task, "flashnerd", count, config.device, config.seed, config.bundle
        )
        worker = env_throughput.Worker(command, "flashnerd")
        try:
            worker.ready()
            worker.steps(3, 1)  # compiles: what that takes is not the run's
            runs = []
            with tqdm(total=config.steps, unit=" steps", desc=f"{count:,} environments", disable=None) as bar:
                for begin in range(0, config.steps, part):
                    size = min(part, config.steps - begin)
                    runs.append(worker.soak(size, 2 + len(runs), SOAK_LIMIT_S))
                    bar.update(size)
        finally:
            worker.close()
        results[count] = soak.joined(runs)
    print(soak.table(results))
    if config.json:
        title = f"{config.task}: {config.steps:,} control steps of learned physics"
        print(f"picture: {soak.plot(Path(config.json).with_suffix('.png'), results, title)}")
    return {"soak": {str(count): found for count, found in results.items()}, "task": config.task, **provenance(before)}


def provenance(before: dict[str, Any]) -> dict[str, Any]:
    """What has to stand beside figures so that they can be made again; load before and after."""
    import os

    from flashnerd_ext.runtime import git_revision

    load = [round(value, 2) for value in os.getloadavg()]
    machine = {**before, "load_average_after": load}
    return {
        "command": "python scripts/benchmark.py " + shlex.join(sys.argv[1:]),
        "git": git_revision(),
        "machine": machine,
    }


if __name__ == "__main__":
    cli_main(main)
