"""Picture of the transfer table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flashnerd_ext.files import atomic_save


def draw(content: Mapping[str, Any], target: Path) -> Path:
    """Bars of mean return by evaluated physics, one colour a trained physics, one panel a kind of actions.

    Args:
        content: What ``evaluate_policy.py`` writes as JSON.
        target: PNG to write; it appears whole.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from flashnerd_ext.evaluation.palette import GRID, INK, MUTED, color_of, label_of

    modes = list(dict.fromkeys(cell["mode"] for cell in content["cells"]))
    columns, trained = list(content["physics"]), list(content["policies"])
    figure, axes = plt.subplots(1, len(modes), figsize=(4.6 * len(modes) + 0.6, 3.6), sharey=True, squeeze=False)
    width = 0.8 / len(trained)
    for axis, mode in zip(axes[0], modes, strict=True):
        for index, name in enumerate(trained):
            cells = [
                next(c for c in content["cells"] if (c["trained"], c["evaluated"], c["mode"]) == (name, column, mode))
                for column in columns
            ]
            places = [i + (index - (len(trained) - 1) / 2) * width for i in range(len(columns))]
            heights = [cell["return"] for cell in cells]
            errors = [
                [max(0.0, cell["return"] - cell["interval"][0]) for cell in cells],
                [max(0.0, cell["interval"][1] - cell["return"]) for cell in cells],
            ]
            axis.bar(places, heights, width * 0.92, color=color_of(name, trained), label=f"trained in {label_of(name)}")
            axis.errorbar(places, heights, errors, fmt="none", ecolor=INK, elinewidth=1.2, capsize=4)
            for place, height, low, high in zip(places, heights, *errors, strict=True):
                upright = height >= 0.0
                axis.annotate(
                    f"{height:.2f}",
                    (place, height + high if upright else height - low),
                    xytext=(0, 4 if upright else -4),
                    textcoords="offset points",
                    ha="center",
                    va="bottom" if upright else "top",
                    fontsize=9,
                    color=INK,
                )
        axis.set_xticks(range(len(columns)), [f"in {label_of(name)}" for name in columns], color=INK)
        axis.set_title(f"{mode} actions", fontsize=10, color=MUTED)
        axis.grid(axis="y", color=GRID)
        axis.set_axisbelow(True)
        axis.axhline(0.0, color=MUTED, linewidth=0.8)
        axis.margins(y=0.14)
        for side in ("top", "right", "left"):
            axis.spines[side].set_visible(False)
        axis.tick_params(length=0)
    axes[0][0].set_ylabel("return of an episode", color=INK)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(trained), frameon=False, fontsize=9)
    figure.suptitle(f"{content['task']}: policies moved between simulators", fontsize=11, color=INK)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    try:
        return atomic_save(target, lambda temporary: figure.savefig(temporary, dpi=150))
    finally:
        plt.close(figure)
