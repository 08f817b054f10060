"""``scripts/compare_training.py``: train, evaluate, summarise, draw."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashnerd_ext.evaluation.outputs import writing
from flashnerd_ext.files import atomic_write, write_json
from flashnerd_ext.rl.compare import summary
from flashnerd_ext.rl.compare.curve import read_curve
from flashnerd_ext.rl.compare.options import CompareConfig
from flashnerd_ext.rl.compare.training import Run, all_runs

SCHEMA = 1
EVALUATION = "evaluation.json"


def run(config: CompareConfig) -> dict[str, Any]:
    """Train what is missing, evaluate, and write JSON, PNG and the table.

    Returns:
        What the JSON file holds.
    """
    from flashnerd_ext.rl.compare.plot import draw

    config.check()
    runs = all_runs(config)
    curves = [read_curve(item.folder) for item in runs]
    table = evaluation(config, runs)
    entries = [
        summary.run_entry(item, curve, policy_return(table, item)) for item, curve in zip(runs, curves, strict=True)
    ]
    level = summary.level_of(entries, table, config.reach)
    content = summarise(
        config, runs, entries, table, level, [curve.reached(level) for curve in curves] if level else []
    )
    target = Path(config.json)
    with writing():
        write_json(target, content)
        atomic_write(target.with_suffix(".txt"), summary.text(content) + "\n")
        draw(content, target.with_suffix(".png"))
    print(summary.text(content))
    print(f"wrote {target}, {target.with_suffix('.txt').name} and {target.with_suffix('.png').name}")
    return content


def evaluation(config: CompareConfig, runs: Sequence[Run]) -> Mapping[str, Any] | None:
    """The transfer table of the final policies in the simulator, mean actions; ``None`` where none is wanted.

    It is kept beside the runs, and taken again while policies and options are the same.
    """
    from flashnerd_ext.rl import transfer

    if config.evaluate in ("", "none"):
        return None
    policies = {
        name: [str(item.checkpoint) for item in runs if item.physics == name]
        for name in dict.fromkeys(item.physics for item in runs)
    }
    options = transfer.TransferConfig(
        policies=policies,
        physics=[config.evaluate],
        task=config.task,
        num_envs=config.eval_envs,
        episodes=config.eval_envs,
        seeds=list(config.eval_seeds),
        modes=["mean"],
        overrides=[word for word in config.overrides if word.startswith("env.") and ".physics." not in word],
        agent=config.agent,
        device=config.device,
        json=str(config.folder / EVALUATION),
    )
    kept = _kept(Path(options.json), options)
    return kept if kept is not None else transfer.run(options)


def _kept(path: Path, options: Any) -> dict[str, Any] | None:
    """An earlier evaluation of the same policies, if no checkpoint is newer than it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        same = [content[name] == getattr(options, name) for name in ("policies", "task", "num_envs", "seeds")]
        made = path.stat().st_mtime
        newer = [p for group in options.policies.values() for p in group if Path(p).stat().st_mtime > made]
        return content if all(same) and list(content["physics"]) == options.physics and not newer else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def cell_of(table: Mapping[str, Any] | None, physics: str) -> Mapping[str, Any] | None:
    """The cell of policies that were trained in ``physics``."""
    return None if table is None else next(cell for cell in table["cells"] if cell["trained"] == physics)


def policy_return(table: Mapping[str, Any] | None, run: Run) -> float | None:
    """Mean return of one run's policy in the evaluation."""
    cell = cell_of(table, run.physics)
    if table is None or cell is None:
        return None
    return float(cell["policies"][table["policies"][run.physics].index(str(run.checkpoint))]["return"])


def summarise(
    config: CompareConfig,
    runs: Sequence[Run],
    entries: Sequence[dict[str, Any]],
    table: Mapping[str, Any] | None,
    level: float | None,
    reached: Sequence[float | None],
) -> dict[str, Any]:
    """What the JSON file holds."""
    from flashnerd_ext.runtime import git_revision, machine_facts

    times = list(reached) or [None] * len(runs)
    rows = []
    for name in dict.fromkeys(item.physics for item in runs):
        mine = [i for i, item in enumerate(runs) if item.physics == name]
        rows.append(
            summary.physics_entry(name, [entries[i] for i in mine], [times[i] for i in mine], cell_of(table, name))
        )
    return {
        "schema_version": SCHEMA,
        "task": config.task,
        "num_envs": config.num_envs,
        "max_iterations": config.max_iterations,
        "seeds": list(config.seeds),
        "bundles": dict(config.bundles),
        "refresh": config.refresh,
        "jobs": config.jobs,
        "evaluate": config.evaluate,
        "reach": config.reach,
        "level": level,
        "physics": rows,
        "runs": [entry | {"reached": value} for entry, value in zip(entries, times, strict=True)],
        "command": " ".join(sys.argv),
        "git": git_revision(),
        "machine": machine_facts(),
    }
