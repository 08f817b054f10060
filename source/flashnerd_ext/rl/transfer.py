"""The table of policies trained in one physics and evaluated in another (``scripts/evaluate_policy.py``)."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import write_json
from flashnerd_ext.rl.children import PROGRESS, follow
from flashnerd_ext.rl.returns import interval, mean, ratio, resampled
from flashnerd_ext.rl.selectors import SELECTORS, select

SCHEMA = 1
MODES = ("mean", "sampled")


@dataclass
class TransferConfig:
    """Options of ``scripts/evaluate_policy.py``."""

    policies: Any = field(
        default=None,
        metadata={"help": "{NAME: CHECKPOINT or [CHECKPOINT, ...]}: trained where; a file, latest or best a seed"},
    )
    physics: list[str] = field(
        default_factory=list, metadata={"help": "presets to evaluate in; the names in policies when empty"}
    )
    bundle: str = field(default="", metadata={"help": "bundle of learned physics, name or path; the task's when empty"})
    task: str = field(default="FlashNeRD-Cartpole", metadata={"help": "task id"})
    num_envs: int = field(default=256, metadata={"help": "environments"})
    episodes: int = field(default=256, metadata={"help": "episodes of each policy, seed and mode"})
    seeds: list[int] = field(
        default_factory=lambda: [0], metadata={"help": "evaluation seeds: resets, sampled actions"}
    )
    modes: list[str] = field(default_factory=lambda: list(MODES), metadata={"help": "actions: mean, sampled or both"})
    reference: str = field(default="", metadata={"help": "physics of the ratio kept; newton_mjwarp, else the last one"})
    overrides: list[str] = field(default_factory=list, metadata={"help": "env. and agent. words for the task"})
    agent: str = field(default="rsl_rl_cfg_entry_point", metadata={"help": "agent configuration of the task"})
    device: str = field(default="", metadata={"help": "cuda:0 where there is one, else cpu"})
    jobs: int = field(default=1, metadata={"help": "simulators that run at the same time"})
    bootstrap: int = field(default=4000, metadata={"help": "draws behind each interval"})
    video: bool = field(
        default=False,
        metadata={"help": "a clip of the first policy's first seconds in each physics, beside json (or --video)"},
    )
    viz: str = field(
        default="none", metadata={"help": "newton, viser, rerun, kit or none: watch while it evaluates (or --viz NAME)"}
    )
    json: str = field(default="outputs/policies.json", metadata={"help": "result; a PNG and a log lie beside it"})


def run(config: TransferConfig) -> dict[str, Any]:
    """Evaluate every policy in every physics, print the table, and write JSON and PNG.

    Returns:
        What the JSON file holds.

    Raises:
        FlashNerdError: For options that do not fit, or a simulator that fails (with its own sentence).
    """
    policies = check(config)
    target = Path(config.json)
    target.parent.mkdir(parents=True, exist_ok=True)
    results = _simulate(config, policies, target)
    content = summarise(config, policies, results)
    write_json(target, content)
    from flashnerd_ext.rl.transfer_plot import draw

    picture = draw(content, target.with_suffix(".png"))
    print(table_text(content))
    print(f"wrote {target} and {picture}")
    return content


def check(config: TransferConfig) -> dict[str, list[str]]:
    """Check the options and fill in their defaults; returns the absolute checkpoint paths of each trained physics.

    Raises:
        FlashNerdError: One sentence for the first option that does not fit.
    """
    if not isinstance(config.policies, Mapping) or not config.policies:
        raise FlashNerdError("no policies are given: type policies='{flashnerd: PATH, newton_mjwarp: PATH}'.")
    policies: dict[str, list[str]] = {}
    for name, value in config.policies.items():
        paths = [value] if isinstance(value, str) else value
        if not isinstance(paths, Sequence) or not paths or not all(isinstance(path, str) for path in paths):
            raise FlashNerdError(f"policies.{name} is {value!r}, but a checkpoint or a list of checkpoints is needed.")
        # A selector stands for a policy that was trained where the name says.
        paths = [str(select(p, config.task, {"physics": str(name)})) if p in SELECTORS else p for p in paths]
        for path in paths:
            if not Path(path).is_file():
                raise FlashNerdError(f"policies.{name} names {path}, but there is no such file: give a model_*.pt.")
        policies[str(name)] = [str(Path(path).resolve()) for path in paths]
    config.physics = config.physics or list(policies)
    for name, value in (("num_envs", config.num_envs), ("episodes", config.episodes), ("jobs", config.jobs)):
        if value < 1:
            raise FlashNerdError(f"{name} is {value}, but at least 1 is needed: type {name}=1.")
    if config.viz != "none":
        from flashnerd_ext.view.choose import viewer_name

        viewer_name(config.viz)
        if config.jobs > 1:
            raise FlashNerdError(
                f"viz is '{config.viz}' and jobs is {config.jobs}, but one is watched at a time: type jobs=1."
            )
    if config.bootstrap < 100:
        raise FlashNerdError(f"bootstrap is {config.bootstrap}, but at least 100 is needed: type bootstrap=4000.")
    if not config.seeds:
        raise FlashNerdError("seeds is empty, but at least one is needed: type seeds=[0].")
    if not config.modes or not set(config.modes) <= set(MODES):
        raise FlashNerdError(f"modes is {config.modes}, but mean, sampled or both are needed: type modes=[mean].")
    known = [*config.physics]
    if not config.reference:
        config.reference = "newton_mjwarp" if "newton_mjwarp" in known else known[-1]
    if config.reference not in known:
        raise FlashNerdError(f"reference is '{config.reference}', but it must be one of physics={known}.")
    return policies


def _simulate(config: TransferConfig, policies: Mapping[str, list[str]], target: Path) -> dict[str, dict[str, Any]]:
    from tqdm import tqdm

    paths = list(dict.fromkeys(path for group in policies.values() for path in group))
    total = len(config.physics) * len(paths) * len(config.seeds) * len(config.modes)
    with (
        tempfile.TemporaryDirectory(prefix="flashnerd-policies-") as folder,
        tqdm(total=total, unit="run", desc="policies", disable=None) as bar,
        ThreadPoolExecutor(config.jobs) as pool,
    ):
        tasks = [
            pool.submit(_worker, config, name, paths, Path(folder), target.with_suffix(f".{name}.log"), bar)
            for name in config.physics
        ]
        return dict(zip(config.physics, [task.result() for task in tasks], strict=True))


def _worker(config: TransferConfig, physics: str, paths: list[str], folder: Path, log: Path, bar: Any) -> Any:
    from flashnerd_ext.rl.command import default_device

    result = folder / f"{physics}.json"
    spec = {
        "task": config.task,
        "agent": config.agent,
        "physics": physics,
        "bundle": config.bundle,
        "overrides": list(config.overrides),
        "num_envs": config.num_envs,
        "episodes": config.episodes,
        "seeds": list(config.seeds),
        "modes": list(config.modes),
        "device": config.device or default_device(),
        "policies": paths,
        "result": str(result),
        "viz": config.viz,
        "clip": str(Path(config.json).with_suffix(f".{physics}.mp4").resolve()) if config.video else "",
    }
    request = folder / f"{physics}-spec.json"
    write_json(request, spec)
    command = [sys.executable, "-m", "flashnerd_ext.rl.rollouts", str(request)]

    def progress(line: str) -> bool:
        mine = line.startswith(PROGRESS)
        bar.update(int(mine))
        return mine

    well, said = follow(command, log, progress)
    if not well or not result.is_file():
        raise FlashNerdError(f"the evaluation in {physics} failed: {said}; its log is {log}.")
    return json.loads(result.read_text(encoding="utf-8"))


def summarise(
    config: TransferConfig, policies: Mapping[str, list[str]], results: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Cells, intervals and ratios from the episodes of each simulator.

    Args:
        config: Checked options.
        policies: Trained physics -> checkpoint paths.
        results: Evaluated physics -> what :func:`flashnerd_ext.rl.rollouts.evaluate` returned.
    """
    from flashnerd_ext.runtime import git_revision, machine_facts

    generator = np.random.default_rng(0)
    cells, kept = [], {}
    for mode in config.modes:
        returns: dict[tuple[str, str], list[np.ndarray]] = {}
        for trained, paths in policies.items():
            for evaluated in config.physics:
                runs = [_runs(results[evaluated], path, mode) for path in paths]
                values = [np.array([v for item in group for v in item["returns"]]) for group in runs]
                returns[trained, evaluated] = values
                survived = [np.mean([v for item in group for v in item["survived"]]) for group in runs]
                lengths = [np.mean([v for item in group for v in item["lengths"]]) for group in runs]
                samples = resampled(values, config.bootstrap, generator)
                cells.append(
                    {
                        "trained": trained,
                        "evaluated": evaluated,
                        "mode": mode,
                        "return": mean(values),
                        "interval": list(interval(samples)),
                        "survival": float(np.mean(survived)),
                        "length": float(np.mean(lengths)),
                        "episodes": sum(len(item) for item in values),
                        "policies": [
                            {"return": float(v.mean()), "survival": float(s)}
                            for v, s in zip(values, survived, strict=True)
                        ],
                    }
                )
        kept[mode] = _kept(config, list(policies), returns, generator)
    first = next(iter(results.values()))
    return {
        "schema_version": SCHEMA,
        "task": config.task,
        "num_envs": config.num_envs,
        "seeds": list(config.seeds),
        "dt": first["dt"],
        "max_steps": first["max_steps"],
        "physics": {name: result["facts"] for name, result in results.items()},
        "policies": {name: list(paths) for name, paths in policies.items()},
        "cells": cells,
        "reference": config.reference,
        "kept": kept,
        "command": " ".join(sys.argv),
        "revision": git_revision(),
        "machine": machine_facts(),
    }


def _runs(result: Mapping[str, Any], path: str, mode: str) -> list[Mapping[str, Any]]:
    return [item for item in result["runs"] if item["policy"] == path and item["mode"] == mode]


def _kept(
    config: TransferConfig,
    trained: Sequence[str],
    returns: Mapping[tuple[str, str], list[np.ndarray]],
    generator: np.random.Generator,
) -> dict[str, Any]:
    """Share of the reference-trained return that each other policy reaches in the reference physics."""
    shares: dict[str, Any] = {}
    if config.reference not in trained:
        return shares
    below = returns[config.reference, config.reference]
    for name in trained:
        if name != config.reference:
            found = ratio(returns[name, config.reference], below, config.bootstrap, generator)
            shares[name] = None if found is None else {"ratio": found[0], "interval": list(found[1])}
    return shares


def table_text(content: Mapping[str, Any]) -> str:
    """The table as text: rows are where a policy was trained, columns where it was evaluated."""
    columns = list(content["physics"])
    lines = []
    for mode in dict.fromkeys(cell["mode"] for cell in content["cells"]):
        lines += ["", f"{content['task']}, {mode} actions: mean return [95 % interval], survival"]
        lines.append(f"{'trained in':<18}" + "".join(f"{'evaluated in ' + name:<38}" for name in columns))
        for trained in content["policies"]:
            row = f"{trained:<18}"
            for evaluated in columns:
                cell = next(
                    cell
                    for cell in content["cells"]
                    if (cell["trained"], cell["evaluated"], cell["mode"]) == (trained, evaluated, mode)
                )
                low, high = cell["interval"]
                row += f"{cell['return']:8.3f} [{low:.3f}, {high:.3f}]  {cell['survival']:6.1%}".ljust(38)
            lines.append(row)
        for name, share in content["kept"].get(mode, {}).items():
            reference = content["reference"]
            if share is None:
                lines.append(f"kept in {reference}: no share, since the {reference}-trained return is not positive.")
            else:
                low, high = share["interval"]
                lines.append(
                    f"kept: trained in {name}, in {reference}: {share['ratio']:.1%} [{low:.1%}, {high:.1%}] of the "
                    f"{reference}-trained return."
                )
    return "\n".join(lines[1:])
