"""The part of a comparison's frame beside the scene: who is who, the guard's verdict, and the error over time."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashnerd_ext.evaluation.palette import GRID, INK, MUTED
from flashnerd_ext.view.comparison import VERDICTS, Moment
from flashnerd_ext.view.overlay import GHOST_COLOR, NEAR, TINT, TOUCHING

WIDTH = 320
"""Pixels; a multiple of 16, so that encoders do not rescale."""
WINDOW = 10.0
"""Time that the curves show [s]."""
FLOOR = 1e-6
"""Smaller errors are drawn here."""


class Panel:
    """Draws the panel; the figure is made once and its contents moved.

    Args:
        history: Moments of the comparison; read whenever the panel is drawn.
        mode: What the two robots have in common, see :data:`flashnerd_ext.view.ghost.MODES`.
        contacts: Whether contact rows are drawn in the scene.
        height: Of the frame [pixels].
    """

    def __init__(self, history: Collection[Moment], mode: str, contacts: bool, height: int) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D

        self.history, self._counts = history, contacts
        self.figure = Figure(figsize=(WIDTH / 100, height / 100), dpi=100, facecolor="white")
        self.canvas = FigureCanvasAgg(self.figure)
        text = self.figure.text
        marks = [
            ("learned (FlashNeRD)", {"color": INK, "linewidth": 5}),
            ("simulator (MuJoCo), a ghost", {"color": GHOST_COLOR, "linewidth": 5, "alpha": 0.7}),
        ]
        if contacts:
            marks += [
                ("contact row, touching", {"color": TOUCHING, "linewidth": 2}),
                ("contact row, near", {"color": NEAR, "linewidth": 2}),
            ]
        lines = [Line2D([], [], **style) for _, style in marks]
        self.figure.legend(
            lines, [name for name, _ in marks], loc="upper left", bbox_to_anchor=(0.0, 1.0), frameon=False, fontsize=8
        )
        told = {"policy": "each follows the same policy", "actions": "both get the same actions"}
        text(0.06, 0.795, f"Same start; {told[mode]}.", color=MUTED, fontsize=8)
        self._clock = text(0.06, 0.755, "", color=INK, fontsize=8)
        self._verdict: Any = text(
            0.06, 0.70, "", color="white", fontsize=8, bbox={"boxstyle": "round,pad=0.35", "facecolor": INK, "lw": 0}
        )
        self._axes: dict[str, Any] = {}
        self._curves: dict[str, Any] = {}

    def draw(self) -> NDArray[np.uint8]:
        """The panel as of now, uint8 [height, WIDTH, 3]."""
        history = list(self.history)
        if history:
            self._update(history)
        self.canvas.draw()
        return np.asarray(self.canvas.buffer_rgba())[..., :3].copy()

    def _update(self, history: list[Moment]) -> None:
        last = history[-1]
        if not self._axes:
            self._make_axes(list(last.errors))
        self._clock.set_text(f"{last.time:6.2f} s" + f"    contacts {int(last.contacts.sum())}" * self._counts)
        if last.verdict is not None:
            worst = int(last.verdict.max())
            self._verdict.set_text(VERDICTS[worst])
            self._verdict.get_bbox_patch().set_facecolor(TINT[worst])
        self._verdict.set_visible(last.verdict is not None)
        first = max(0.0, last.time - WINDOW)
        shown = [moment for moment in history if moment.time >= first]
        time = np.array([moment.time for moment in shown])
        for name, curve in self._curves.items():
            values = np.array([moment.errors[name].mean() for moment in shown])
            # A gap where a pair begins anew: no line should lead there.
            values[[bool(moment.restarted.any()) for moment in shown]] = np.nan
            curve.set_data(time, np.maximum(values, FLOOR))
            self._axes[name].set_xlim(first, first + WINDOW)

    def _make_axes(self, names: list[str]) -> None:
        self.figure.subplots_adjust(left=0.17, right=0.95, top=0.62, bottom=0.06, hspace=0.45)
        for place, name in enumerate(names):
            axes = self.figure.add_subplot(len(names), 1, place + 1)
            axes.set_yscale("log")
            axes.set_ylim(FLOOR, 10.0)
            axes.set_yticks([1e-6, 1e-4, 1e-2, 1.0])
            axes.set_title(f"apart: {name}", fontsize=8, color=INK, loc="left", pad=3)
            axes.grid(True, color=GRID)
            axes.tick_params(colors=MUTED, labelsize=7)
            self._axes[name] = axes
            self._curves[name] = axes.plot([], [], color=INK, linewidth=1.4)[0]
