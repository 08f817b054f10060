"""``scripts/export_usd.py``: play a policy and write what happens as a USD stage."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashnerd_ext.errors import FlashNerdError

if TYPE_CHECKING:
    from flashnerd_ext.rl.simulation import Simulation
    from flashnerd_ext.usd.track import Track
    from flashnerd_ext.usd.write import Written

ACTIONS = ("policy", "zero", "random")


def parser(doc: str | None) -> argparse.ArgumentParser:
    """The words of ``play.py`` that make sense here, and where the file goes."""
    made = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    made.add_argument("--task", help="task id, for instance FlashNeRD-Velocity-Flat-AnymalC")
    made.add_argument("--checkpoint", help="model_*.pt, a run folder, latest or best")
    made.add_argument("--actions", choices=ACTIONS, help="policy (with --checkpoint), zero or random; in [-1, 1]")
    made.add_argument("--num_envs", type=int, default=16, help="environments that are simulated (16)")
    made.add_argument("--envs", type=int, default=0, help="environments in the file, the first ones; 0 is all")
    made.add_argument("--steps", type=int, default=250, help="environment steps (250)")
    made.add_argument("--seed", type=int, default=0, help="of resets, commands and random actions (0)")
    made.add_argument("--agent", default="rsl_rl_cfg_entry_point", help="agent configuration of the task")
    made.add_argument("--device", default="", help="cuda:0 where there is one, else cpu")
    made.add_argument("--output", default="", help=".usd, .usdc or .usda (usd/ of the policy's run, else outputs/usd/)")
    return made


def run(doc: str | None = None, argv: Sequence[str] | None = None) -> Written:
    """Play, record, write, check; returns what was written.

    Raises:
        FlashNerdError: For words that do not fit, or a file that would not stand its checks.
    """
    from flashnerd_ext.usd.write import check_output

    options, words = parser(doc).parse_known_args(list(sys.argv[1:] if argv is None else argv))
    if not options.task:
        raise FlashNerdError("no task is given: type --task FlashNeRD-Cartpole; `isaaclab list_envs` shows all ids.")
    for name, least in (("num_envs", 1), ("steps", 1), ("envs", 0), ("seed", 0)):
        if getattr(options, name) < least:
            raise FlashNerdError(f"--{name} is {getattr(options, name)}, but at least {least} is needed.")
    if options.output:
        check_output(Path(options.output))
    kind, path = chosen(options)
    simulation = _open(options, words)
    try:
        output = Path(options.output) if options.output else default_output(options.task, kind, path, simulation.facts)
        facts = {
            "task": options.task,
            **simulation.facts,
            "actions": kind if path is None else str(path),
            "seed": str(options.seed),
        }
        track = record(simulation, actions_of(simulation, kind, path, options.seed), options.steps, options.seed)
        written = _write(simulation, track, output, facts, options.envs)
    finally:
        simulation.close()
    print(text(written))
    return written


def chosen(options: argparse.Namespace) -> tuple[str, Path | None]:
    """What moves the robots: ``policy`` and its checkpoint, or ``zero`` or ``random`` and None.

    Raises:
        FlashNerdError: Where neither is named, or both are.
    """
    from flashnerd_ext.rl.record.program import checkpoints

    if options.checkpoint is None:
        if options.actions in (None, "policy"):
            raise FlashNerdError(
                "no policy is given: type --checkpoint latest (or best, or a model_*.pt), or --actions random."
            )
        return options.actions, None
    if options.actions not in (None, "policy"):
        raise FlashNerdError(f"--actions is {options.actions}, which takes no --checkpoint: leave one of them out.")
    return "policy", checkpoints(options.checkpoint, options.task)[0]


def default_output(task: str, kind: str, path: Path | None, facts: Mapping[str, str]) -> Path:
    """In the run that the policy is of, where the window in Kit finds it; without a policy below ``outputs``."""
    physics = facts["physics"]
    if path is not None:
        return path.parent / "usd" / f"{path.stem}-{physics}.usd"
    return Path("outputs") / "usd" / f"{task.split(':')[-1]}-{kind}-{physics}.usd"


def _open(options: argparse.Namespace, words: Sequence[str]) -> Simulation:
    from flashnerd_ext.rl.command import default_device
    from flashnerd_ext.rl.simulation import open_simulation

    return open_simulation(
        options.task,
        "",
        agent=options.agent,
        overrides=words,
        num_envs=options.num_envs,
        device=options.device or default_device(),
        seed=options.seed,
        graphs=False,
        play=True,
    )


def actions_of(simulation: Simulation, kind: str, path: Path | None, seed: int) -> Callable[[Any], Any]:
    """Function of observations that gives actions [N, A]."""
    import torch

    env = simulation.env
    if path is not None:
        from flashnerd_ext.rl.rollouts import load_policy

        print(f"policy: {path}")
        return load_policy(env, simulation.agent_cfg, path)
    shape = (env.num_envs, env.num_actions)
    if kind == "zero":
        nothing = torch.zeros(shape, device=env.device)
        return lambda _: nothing
    generator = torch.Generator().manual_seed(seed)
    return lambda _: (2 * torch.rand(shape, generator=generator) - 1).to(env.device)


def record(simulation: Simulation, act: Callable[[Any], Any], steps: int, seed: int) -> Track:
    """Play ``steps`` control steps from a reset; frame 0 is the reset's."""
    import numpy as np
    import torch
    from tqdm import tqdm

    from flashnerd_ext.runtime import seed_everything
    from flashnerd_ext.usd.bodies import not_recorded, scene_assets
    from flashnerd_ext.usd.track import Track

    env, base = simulation.env, simulation.unwrapped
    assets = scene_assets(base.scene, base.scene.stage)
    for name in not_recorded(base.scene):
        print(f"note: '{name}' is not rigid, and stands still in the file.")
    track = Track(tuple(path for asset in assets for path in asset.paths), float(base.step_dt))
    forget = getattr(act, "reset", lambda *_: None)
    with torch.inference_mode():
        base.seed(seed)
        seed_everything(seed)
        observations, _ = env.reset()
        forget()
        track.add(np.concatenate([asset.poses() for asset in assets]))
        for _ in tqdm(range(steps), unit="step", desc="play", disable=None):
            observations, _, dones, _ = env.step(act(observations))
            forget(dones)
            track.add(np.concatenate([asset.poses() for asset in assets]))
    return track


def _write(simulation: Simulation, track: Track, output: Path, facts: dict[str, str], envs: int) -> Written:
    from flashnerd_ext.usd.write import write_run

    base = simulation.unwrapped
    began = time.perf_counter()
    written = write_run(base.scene, base.sim.get_clone_plan(), track, output, facts, envs)
    print(f"written and checked in {time.perf_counter() - began:.1f} s")
    return written


def text(written: Written) -> str:
    """What to print at the end."""
    size = written.path.stat().st_size / 2**20
    lines = [
        f"{written.path}: {written.bodies} bodies, {written.frames} frames, {size:.1f} MiB, physics taken off "
        f"{written.rigid} rigid bodies",
        f"largest distance of a body in the file to the simulator's, first and last frame: {written.off:.1e} m",
        str(written.findings),
    ]
    if written.files:
        lines.append(f"{len(written.files)} files lie beside it in {written.files[0].parent}: keep them together.")
    return "\n".join(lines)
