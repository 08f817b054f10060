"""Picture of error over horizon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashnerd_ext.evaluation.palette import GRID, INK, MUTED, color_of, label_of
from flashnerd_ext.files import atomic_save


@dataclass(frozen=True)
class ErrorCurve:
    """What is drawn of one model."""

    mean: NDArray[np.float64]
    """E_h for h = 1..H, mean over seeds, shape [H]."""
    low: NDArray[np.float64]
    """Lower edge of the band, shape [H]."""
    high: NDArray[np.float64]
    """Upper edge of the band, shape [H]."""
    median: NDArray[np.float64]
    """Median over rollouts of their own E_h, shape [H]."""


def plot_error(
    path: str | Path,
    curves: Mapping[str, ErrorCurve],
    title: str,
    note: str = "",
    floor: NDArray[np.float64] | None = None,
    floor_label: str = "",
    paper: Mapping[str, Mapping[int, float]] | None = None,
    horizons: Sequence[int] = (),
    dt: float | None = None,
) -> Path:
    """Write a PNG of E_h over the horizon h, both axes logarithmic.

    Args:
        path: File to write (whole or not at all).
        curves: One curve a model; the band is the 5 to 95 % range over rollouts.
        title: Line above the axes.
        note: Small line below the axes: test set, number of rollouts.
        floor: E_h of the reference against itself under float32 noise, shape [H].
        floor_label: What the floor is.
        paper: Published figures, {model: {horizon: E}}, drawn as open marks.
        horizons: Horizons of the table, marked on the axis.
        dt: Model step [s]; adds seconds to the axis label.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 6.0), dpi=100, layout="constrained", facecolor="white")
    axes: Any = figure.add_subplot()
    names = list(curves)
    for name, curve in curves.items():
        steps = np.arange(1, len(curve.mean) + 1)
        color = color_of(name, names)
        axes.fill_between(steps, _positive(curve.low), _positive(curve.high), color=color, alpha=0.16, linewidth=0)
        axes.plot(steps, _positive(curve.mean), color=color, linewidth=2, label=f"{label_of(name)}: $E_H$")
        axes.plot(steps, _positive(curve.median), color=color, linewidth=1.2, linestyle=(0, (4, 2)))
    if floor is not None:
        steps = np.arange(1, len(floor) + 1)
        axes.plot(steps, _positive(floor), color=MUTED, linewidth=1.5, linestyle=(0, (1, 1.5)), label=floor_label)
    for name, marks in (paper or {}).items():
        if name in curves:
            axes.plot(
                list(marks), list(marks.values()), linestyle="none", marker="o", markersize=8, markerfacecolor="white",
                markeredgecolor=color_of(name, names), markeredgewidth=1.6, zorder=5,
                label=f"{label_of(name)}, published (other data)",
            )  # fmt: skip
    axes.set(xscale="log", yscale="log")
    longest = max((len(curve.mean) for curve in curves.values()), default=1)
    if horizons:
        axes.set_xticks(list(horizons), [str(h) for h in horizons])
        axes.minorticks_off()
    axes.set_xlim(0.93, longest * 1.08)
    seconds = f"; one step is {dt * 1000:.3g} ms" if dt else ""
    axes.set_xlabel(f"horizon H [model steps{seconds}]", color=INK)
    axes.set_ylabel("error, standard deviations of the test data", color=INK)
    axes.set_title(title, loc="left", color=INK, fontsize=13)
    axes.grid(True, which="major", color=GRID, linewidth=0.8)
    axes.tick_params(colors=MUTED, length=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED)
    axes.legend(loc="upper left", frameon=False, labelcolor=INK, fontsize=9.5)
    lines = ["solid: E_H; dashed: median rollout; band: 5 to 95 % of rollouts", note]
    figure.supxlabel("\n".join(line for line in lines if line), x=0.01, ha="left", fontsize=8.5, color=MUTED)
    return atomic_save(path, lambda temporary: figure.savefig(temporary, format="png"))


def _positive(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values that a logarithmic axis can show; others leave a gap."""
    return np.where(np.isfinite(values) & (values > 0), values, np.nan)
