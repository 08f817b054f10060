"""Picture of a comparison: mean reward against the seconds that training took."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.evaluation.palette import GRID, INK, MUTED, color_of, label_of
from flashnerd_ext.files import atomic_save
from flashnerd_ext.rl.compare.summary import grouped, median_curve


def draw(content: Mapping[str, Any], target: Path) -> Path:
    """One colour a physics: a thin line each seed, a thick one their median, a diamond each evaluated policy.

    Args:
        content: What ``compare_training.py`` writes as JSON.
        target: PNG to write; it appears whole.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 5.6), dpi=100, layout="constrained", facecolor="white")
    axes: Any = figure.add_subplot()
    groups = grouped(content["runs"])
    names, marked = list(groups), False
    for name, runs in groups.items():
        color = color_of(name, names)
        for run in runs:
            reward = np.array(run["curve"]["reward"], float)  # None becomes NaN, which leaves a gap
            axes.plot(run["curve"]["seconds"], reward, color=color, linewidth=0.9, alpha=0.45)
            if run["evaluated"] is not None:
                marked = True
                axes.plot(
                    run["curve"]["seconds"][-1], run["evaluated"], linestyle="none", marker="D", markersize=8,
                    color=color, markeredgecolor="white", markeredgewidth=1.2, zorder=5,
                )  # fmt: skip
        axes.plot(*median_curve(runs), color=color, linewidth=2.6, label=f"trained in {label_of(name)}")
    if content["level"] is not None:
        axes.axhline(content["level"], color=MUTED, linewidth=1.0, linestyle=(0, (1, 2)))
        axes.annotate(
            f"{content['reach']:g} % of the best", (1.0, content["level"]), xycoords=("axes fraction", "data"),
            xytext=(-4, 3), textcoords="offset points", ha="right", fontsize=8.5, color=MUTED,
        )  # fmt: skip
    axes.set_xlabel("collection and learning so far [s]", color=INK)
    axes.set_ylabel("mean return of the last 100 episodes", color=INK)
    axes.set_title(f"{content['task']}: the same training in different physics", loc="left", color=INK, fontsize=13)
    axes.set_xlim(left=0.0)
    axes.grid(True, color=GRID, linewidth=0.8)
    axes.tick_params(colors=MUTED, length=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED)
    figure.legend(loc="outside upper right", ncols=len(groups), frameon=False, labelcolor=INK, fontsize=9.5)
    note = "thin: one seed; thick: median over seeds"
    if marked:
        note += f"; diamond: final policy in {label_of(content['evaluate'])}, mean actions"
    figure.supxlabel(note, x=0.01, ha="left", fontsize=8.5, color=MUTED)
    return atomic_save(target, lambda temporary: figure.savefig(temporary, format="png"))
