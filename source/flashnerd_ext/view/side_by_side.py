"""Frames of several runs next to each other, their names above and curves over time below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashnerd_ext.evaluation.palette import GRID, INK, MUTED

HEADER, STRIP = 48, 176
"""Heights of the names and of the curves [pixels]."""
DIMMED = 0.45
"""Brightness of a panel whose run is over."""
_DPI = 100


@dataclass(frozen=True)
class Panel:
    """One run's pictures.

    Attributes:
        name: Stands above them, in ``color``.
        frames: uint8 [T, H, W, 3].
        over: Index of the first frame that is no longer shown, the one before stays, dimmed; ``None`` shows all.
        ended: What happened then.
    """

    name: str
    color: str
    frames: NDArray[np.uint8]
    over: int | None = None
    ended: str = ""

    def at(self, index: int) -> NDArray[np.uint8]:
        """The picture that stands there at a frame, uint8 [H, W, 3]."""
        if self.over is None or index < self.over:
            return self.frames[index]
        return (DIMMED * self.frames[max(0, self.over - 1)]).astype(np.uint8)


@dataclass(frozen=True)
class Curve:
    """One line.

    Attributes:
        values: One a frame [T]; NaN is a gap.
    """

    name: str
    color: str
    line: str
    values: NDArray[Any]


@dataclass(frozen=True)
class Chart:
    """Curves in one pair of axes.

    Attributes:
        floor: Smaller values are drawn here on a logarithmic axis; 0 is a linear axis.
    """

    title: str
    curves: Sequence[Curve]
    floor: float = 0.0


def compose(panels: Sequence[Panel], charts: Sequence[Chart], dt: float) -> list[NDArray[np.uint8]]:
    """Whole frames, uint8 [HEADER + H + STRIP, sum of widths, 3] each.

    Args:
        panels: From left to right; all of one height and number of frames T.
        charts: Below them, from left to right.
        dt: Time between frames [s]; the first frame is at ``dt``.
    """
    width = sum(panel.frames.shape[2] for panel in panels)
    names, strip = _Names(panels, width), _Strip(charts, width, dt)
    whole = []
    for index in range(len(panels[0].frames)):
        row = np.concatenate([panel.at(index) for panel in panels], axis=1)
        whole.append(np.concatenate([names.draw(index), row, strip.draw(index)], axis=0))
    return whole


class _Sheet:
    """A figure of a size in pixels, drawn again with what it already holds."""

    def __init__(self, width: int, height: int) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.figure = Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, facecolor="white")
        self._canvas = FigureCanvasAgg(self.figure)

    def _pixels(self) -> NDArray[np.uint8]:
        self._canvas.draw()
        return np.asarray(self._canvas.buffer_rgba())[..., :3].copy()


class _Names(_Sheet):
    def __init__(self, panels: Sequence[Panel], width: int) -> None:
        super().__init__(width, HEADER)
        self.panels = panels
        self._texts, self._drawn = [], {}
        left = 0
        for panel in panels:
            place = (left + 12) / width
            self.figure.text(place, 0.5, panel.name, color=panel.color, fontsize=12, weight="bold", va="center")
            right = (left + panel.frames.shape[2] - 12) / width
            self._texts.append(self.figure.text(right, 0.5, "", color=INK, fontsize=10, va="center", ha="right"))
            left += panel.frames.shape[2]

    def draw(self, index: int) -> NDArray[np.uint8]:
        over = tuple(panel.over is not None and index >= panel.over for panel in self.panels)
        if over not in self._drawn:
            for text, panel, done in zip(self._texts, self.panels, over, strict=True):
                text.set_text(panel.ended if done else "")
            self._drawn[over] = self._pixels()
        return self._drawn[over]


class _Strip(_Sheet):
    def __init__(self, charts: Sequence[Chart], width: int, dt: float) -> None:
        super().__init__(width, STRIP)
        self.figure.subplots_adjust(left=0.05, right=0.985, top=0.84, bottom=0.2, wspace=0.14)
        self._lines: list[tuple[Any, NDArray[Any]]] = []
        for place, chart in enumerate(charts):
            axes = self.figure.add_subplot(1, len(charts), place + 1)
            axes.set_title(chart.title, fontsize=9, color=INK, loc="left", pad=4)
            axes.grid(True, color=GRID)
            axes.tick_params(colors=MUTED, labelsize=8)
            axes.set_xlabel("time [s]", fontsize=8, color=MUTED, labelpad=1)
            steps = max(len(curve.values) for curve in chart.curves)
            axes.set_xlim(0.0, steps * dt)
            known = np.concatenate([curve.values[np.isfinite(curve.values)] for curve in chart.curves])
            top = 1.1 * float(known.max(initial=0.0)) or 1.0
            if chart.floor:
                axes.set_yscale("log")
                axes.set_ylim(chart.floor, max(2.0 * top, 10.0 * chart.floor))
            else:
                axes.set_ylim(0.0, top)
            for curve in chart.curves:
                line = axes.plot([], [], color=curve.color, linestyle=curve.line, linewidth=1.5, label=curve.name)[0]
                self._lines.append((line, np.maximum(curve.values, chart.floor)))
            axes.legend(frameon=False, fontsize=7, labelcolor=INK, loc="best" if not chart.floor else "lower right")
        self.dt = dt

    def draw(self, index: int) -> NDArray[np.uint8]:
        time = self.dt * np.arange(1, index + 2)
        for line, values in self._lines:
            line.set_data(time, values[: index + 1])
        return self._pixels()
