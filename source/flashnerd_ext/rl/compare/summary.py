"""What a comparison found: figures of every run and physics, as JSON and text."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flashnerd_ext.rl.compare.curve import Curve
from flashnerd_ext.rl.compare.training import Run


def run_entry(run: Run, curve: Curve, evaluated: float | None) -> dict[str, Any]:
    """JSON-able figures and curve of one run; times in seconds."""
    return {
        "physics": run.physics,
        "seed": run.seed,
        "folder": str(run.folder),
        "iterations": len(curve.iteration),
        "final": _known(curve.final),
        "evaluated": evaluated,
        # A given run says no more than its log.
        "wall": curve.wall if run.wall is None else run.wall,
        "collection": float(curve.collection.sum()),
        "learning": float(curve.learning.sum()),
        "curve": {
            "seconds": curve.seconds.tolist(),
            "reward": [_known(float(value)) for value in curve.reward],
        },
    }


def level_of(runs: Sequence[Mapping[str, Any]], table: Mapping[str, Any] | None, reach: float) -> float | None:
    """``reach`` percent of the best physics' return; ``None`` where that is not positive, since a share of a negative
    return means nothing.

    Returns in the simulator count where policies were evaluated: a wrong world can promise any return.
    """
    found = [cell["return"] for cell in table["cells"]] if table is not None else []
    found = found or [_median([run["final"] for run in group]) for group in grouped(runs).values()]
    best = max((value for value in found if value is not None), default=0.0)
    return reach / 100.0 * best if best > 0.0 else None


def grouped(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Runs of each physics, in the order of their first one."""
    return {name: [run for run in runs if run["physics"] == name] for name in dict.fromkeys(r["physics"] for r in runs)}


def physics_entry(
    name: str, runs: Sequence[Mapping[str, Any]], reached: Sequence[float | None], cell: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Figures of one physics: medians over seeds, and how many seeds reached the level.

    Args:
        reached: Seconds to the level of each run.
        cell: Of the transfer table, with the mean return in the evaluation and its interval.
    """
    times = [value for value in reached if value is not None]
    return {
        "physics": name,
        "runs": len(runs),
        "final": _median([run["final"] for run in runs]),
        "finals": [run["final"] for run in runs],
        "evaluated": None if cell is None else cell["return"],
        "interval": None if cell is None else cell["interval"],
        "wall": _median([run["wall"] for run in runs]),
        "collection": _median([run["collection"] for run in runs]),
        "learning": _median([run["learning"] for run in runs]),
        # The median over all seeds, of which those that never came there count as never.
        "reached": statistics.median(times) if 2 * len(times) > len(runs) else None,
        "reached_runs": len(times),
    }


def median_curve(runs: Sequence[Mapping[str, Any]]) -> tuple[np.ndarray, np.ndarray]:
    """Median over runs of seconds and reward at each iteration that all of them made; NaN where no reward is known."""
    length = min(len(run["curve"]["seconds"]) for run in runs)
    seconds = np.array([run["curve"]["seconds"][:length] for run in runs])
    reward = np.array([run["curve"]["reward"][:length] for run in runs], float)  # None becomes NaN
    known = np.isfinite(reward).all(0)
    middle = np.full(length, np.nan)
    middle[known] = np.median(reward[:, known], axis=0)
    return np.median(seconds, axis=0), middle


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None


def text(content: Mapping[str, Any]) -> str:
    """The table as text, from what the JSON file holds."""
    reach, where = content["reach"], content["evaluate"]
    lines = [
        f"{content['task']}, {content['num_envs']} environments, {content['max_iterations']} iterations; medians over "
        "training seeds, times in seconds",
        f"{'trained in':<16}{'seeds':>6}{'final return':>14}{'in ' + str(where) + ' [95 % interval]':>40}"
        f"{'wall':>9}{'collection':>12}{'learning':>10}{f'to {reach:g} % of best':>20}",
    ]
    for row in content["physics"]:
        evaluated = "-"
        if row["evaluated"] is not None:
            low, high = row["interval"]
            evaluated = f"{row['evaluated']:.3f} [{low:.3f}, {high:.3f}]"
        reached = "-" if row["reached"] is None else f"{row['reached']:.1f}"
        if 0 < row["reached_runs"] < row["runs"]:
            reached += f" ({row['reached_runs']} of {row['runs']})"
        lines.append(
            f"{row['physics']:<16}{row['runs']:>6}{_shown(row['final'], 3):>14}{evaluated:>40}"
            f"{_shown(row['wall']):>9}{_shown(row['collection']):>12}{_shown(row['learning']):>10}{reached:>20}"
        )
    if content["level"] is not None:
        lines.append(f"{reach:g} % of the best return{_place(where)} is {content['level']:.3f}.")
    else:
        lines.append(f"the best return{_place(where)} is not positive, so that no share of it is asked for.")
    return "\n".join(lines)


def _place(where: str) -> str:
    return "" if where in ("", "none") else f" in {where}"


def _shown(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
