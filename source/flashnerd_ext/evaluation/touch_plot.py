"""Picture of the error split by contact."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.evaluation.palette import GRID, INK, MUTED, color_of, label_of
from flashnerd_ext.evaluation.touches import HORIZONS, SPLITS
from flashnerd_ext.files import atomic_save

BAR = 0.8
"""Width of a class's bars together, of the 1 that lies between classes."""


def plot_touches(path: str | Path, models: Mapping[str, Mapping[str, Any]], title: str, note: str = "") -> Path:
    """Write a PNG of bars: a row of panels for each horizon, by link and by kind, one colour a model.

    Args:
        path: File to write (whole or not at all).
        models: Name -> ``by_touch`` of its report, all on the same rollouts; an error that is not finite has no bar.
        title: Line above the panels.
        note: Small line below them: test set, number of rollouts.
    """
    from matplotlib.figure import Figure

    first, names = next(iter(models.values())), list(models)
    splits = ("by_link", "by_kind")
    figure = Figure(figsize=(9.6, 6.4), dpi=100, layout="constrained", facecolor="white")
    panels: Any = figure.subplots(
        len(HORIZONS), len(splits), sharex="col", sharey="row", squeeze=False,
        width_ratios=[max(len(first[split]), 1) for split in splits],
    )  # fmt: skip
    width = BAR / len(names)
    for i, horizon in enumerate(HORIZONS):
        for j, split in enumerate(splits):
            axes, classes = panels[i, j], first[split]
            for k, name in enumerate(names):
                heights = [models[name][split][each]["E"][str(horizon)] for each in classes]
                places = np.arange(len(classes)) + (k - (len(names) - 1) / 2) * width
                finite = np.array([np.nan if height is None else height for height in heights], dtype=float)
                axes.bar(places, finite, width * 0.92, color=color_of(name, names), label=label_of(name))
            counts = [f"{each}\n{of['windows']:,}" for each, of in classes.items()]
            axes.set_xticks(range(len(classes)), counts)
            axes.grid(axis="y", color=GRID, linewidth=0.8)
            axes.set_axisbelow(True)
            axes.tick_params(colors=MUTED, length=3)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
            for side in ("left", "bottom"):
                axes.spines[side].set_color(MUTED)
            if i == 0:
                axes.set_title(f"by {SPLITS[split]}", loc="left", color=MUTED, fontsize=10)
        panels[i, 0].set_ylabel(f"$E_{{{horizon}}}$, std of the test data", color=INK)
    # Above the panels: bars of unknown height leave no corner of them free.
    bars = panels[0, 0].get_legend_handles_labels()
    figure.legend(*bars, loc="outside upper right", ncols=len(names), frameon=False, labelcolor=INK, fontsize=9.5)
    figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=13)
    lines = ["class: what touches where a rollout starts and a step later; below it the number of rollouts", note]
    figure.supxlabel("\n".join(line for line in lines if line), x=0.01, ha="left", fontsize=8.5, color=MUTED)
    return atomic_save(path, lambda temporary: figure.savefig(temporary, format="png"))
