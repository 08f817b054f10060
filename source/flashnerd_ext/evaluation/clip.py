"""A clip that lays model and simulator over each other; drawn with matplotlib, so it needs neither GL nor a display."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.evaluation.palette import GRID, INK, MUTED, color_of, label_of
from flashnerd_ext.files import atomic_save
from flashnerd_ext.model.layout import StateLayout

Array = NDArray[Any]
SIMULATOR = "simulator"
WIDTH, HEIGHT = 960, 544
"""Frame size [pixels], divisible by 16 so that encoders do not rescale."""


def write_clip(
    path: str | Path,
    robot: str,
    layout: StateLayout,
    reference: Array,
    predicted: Mapping[str, Array],
    dt: float,
    fps: int = 30,
    progress: Callable[[int], object] | None = None,
) -> Path:
    """Write an mp4 or gif (by the suffix) of some rollouts.

    Args:
        path: File to write (whole or not at all).
        robot: Name of the robot; one without a drawing of its own gets its joint positions over time.
        layout: Joints of the robot.
        reference: Simulator's positions, shape [T + 1, K, nq], K panels.
        predicted: Positions of each model, same shape.
        dt: Model step [s].
        fps: Frames per second; the clip runs in real time.
        progress: Called once for each frame written.
    """
    path = Path(path)
    if path.suffix not in (".mp4", ".gif"):
        raise FlashNerdError(f"clip is '{path.name}', but a name that ends in .mp4 or .gif is needed")
    steps = np.arange(0.0, (len(reference) - 1) * dt + 1e-9, 1.0 / fps) / dt
    frames = np.minimum(np.rint(steps).astype(int), len(reference) - 1)
    scene = _SCENES.get(robot, _Joints)(layout, reference, predicted, dt)

    def images() -> Iterator[NDArray[np.uint8]]:
        for frame in frames:
            yield scene.draw(int(frame))
            if progress is not None:
                progress(1)

    return atomic_save(path, lambda temporary: _encode(temporary, images(), fps))


def _encode(path: Path, images: Iterator[NDArray[np.uint8]], fps: int) -> None:
    if path.suffix == ".gif":
        from PIL import Image

        pictures = [Image.fromarray(image).quantize(64) for image in images]
        pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=round(1000 / fps), loop=0)
        return
    import imageio_ffmpeg

    writer = imageio_ffmpeg.write_frames(
        str(path), (WIDTH, HEIGHT), fps=fps, codec="libx264", quality=8, macro_block_size=16, ffmpeg_log_level="error"
    )
    writer.send(None)
    try:
        for image in images:
            writer.send(np.ascontiguousarray(image))
    finally:
        writer.close()


class _Scene:
    """A figure that is drawn again for each frame by moving what it already holds."""

    def __init__(self, layout: StateLayout, reference: Array, predicted: Mapping[str, Array], dt: float) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.layout, self.dt = layout, dt
        self.states = {SIMULATOR: np.asarray(reference, dtype=np.float64)}
        self.states |= {name: np.asarray(q, dtype=np.float64) for name, q in predicted.items()}
        self.figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100, facecolor="white")
        self.canvas = FigureCanvasAgg(self.figure)
        self.panels = reference.shape[1]
        self.clock = self.figure.text(0.985, 0.965, "", ha="right", va="top", color=MUTED, fontsize=11)
        self.build()

    def style(self, name: str) -> dict[str, Any]:
        if name == SIMULATOR:
            return {"color": INK, "alpha": 0.30, "linewidth": 7, "solid_capstyle": "round", "zorder": 2}
        color = color_of(name, [n for n in self.states if n != SIMULATOR])
        return {"color": color, "linewidth": 2.2, "solid_capstyle": "round", "zorder": 3}

    def legend(self) -> None:
        from matplotlib.lines import Line2D

        marks = [
            Line2D([], [], **{**self.style(name), "linewidth": 6 if name == SIMULATOR else 3}) for name in self.states
        ]
        labels = ["simulator (MuJoCo)" if name == SIMULATOR else label_of(name) for name in self.states]
        self.figure.legend(
            marks, labels, loc="upper left", bbox_to_anchor=(0.01, 1.0), ncols=len(marks), frameon=False, fontsize=11
        )

    def build(self) -> None:
        raise NotImplementedError

    def update(self, frame: int) -> None:
        raise NotImplementedError

    def draw(self, frame: int) -> NDArray[np.uint8]:
        """Picture of one frame, shape [HEIGHT, WIDTH, 3]."""
        self.update(frame)
        self.clock.set_text(f"{frame * self.dt:5.2f} s   step {frame}")
        self.canvas.draw()
        return np.asarray(self.canvas.buffer_rgba())[..., :3].copy()


class _Joints(_Scene):
    """Any robot: joint positions over time, one panel a rollout, with a line that marks the present."""

    def build(self) -> None:
        first = 7 if self.layout.floating_base else 0
        columns = min(2, self.panels)
        rows = -(-self.panels // columns)
        self.figure.subplots_adjust(left=0.06, right=0.985, top=0.88, bottom=0.09, hspace=0.3, wspace=0.15)
        time = np.arange(len(self.states[SIMULATOR])) * self.dt
        self.cursors = []
        for panel in range(self.panels):
            axes = self.figure.add_subplot(rows, columns, panel + 1)
            for name, q in self.states.items():
                style = self.style(name)
                if name == SIMULATOR:
                    style["linewidth"] = 4
                else:
                    style["linewidth"] = 1.3
                axes.plot(time, q[:, panel, first:], **style)
            reference = self.states[SIMULATOR][:, panel, first:]
            margin = 0.1 * max(float(np.ptp(reference)), 1e-3)
            axes.set_ylim(float(reference.min()) - margin, float(reference.max()) + margin)
            axes.set_xlabel("time [s]", color=MUTED, fontsize=9)
            axes.grid(True, color=GRID)
            axes.tick_params(colors=MUTED, labelsize=8)
            self.cursors.append(axes.axvline(0.0, color=MUTED, linewidth=1))
        self.legend()

    def update(self, frame: int) -> None:
        for cursor in self.cursors:
            cursor.set_xdata([frame * self.dt] * 2)


class _CartPole(_Scene):
    """Carts on their rails; the pole is drawn 1 m long, upright at angle 0."""

    LENGTH, CART = 1.0, 0.25

    def build(self) -> None:
        columns = min(2, self.panels)
        rows = -(-self.panels // columns)
        self.figure.subplots_adjust(left=0.015, right=0.985, top=0.90, bottom=0.03, hspace=0.06, wspace=0.03)
        self.cart = self.layout.joint_kinds.index("prismatic")
        self.pole = next(i for i, kind in enumerate(self.layout.joint_kinds) if kind != "prismatic")
        reach = max(3.2, 1.3 + float(np.abs(self.states[SIMULATOR][..., self.cart]).max()))
        self.poles, self.carts = {}, {}
        for panel in range(self.panels):
            axes = self.figure.add_subplot(rows, columns, panel + 1)
            axes.set_xlim(-reach, reach)
            axes.set_ylim(-0.5 * reach, 0.5 * reach)
            axes.set_aspect("equal")
            axes.set_xticks([])
            axes.set_yticks([])
            for spine in axes.spines.values():
                spine.set_color(GRID)
            axes.axhline(0.0, color=GRID, linewidth=3, zorder=1)
            axes.plot([-3, -3, np.nan, 3, 3], [-0.12, 0.12, np.nan, -0.12, 0.12], color=MUTED, linewidth=1.5, zorder=1)
            for name in self.states:
                style = self.style(name)
                self.poles[name, panel] = axes.plot([], [], **style)[0]
                self.carts[name, panel] = axes.plot([], [], **style)[0]
        self.legend()

    def update(self, frame: int) -> None:
        half, height = self.CART, 0.09
        for (name, panel), pole in self.poles.items():
            x, angle = self.states[name][frame, panel, self.cart], self.states[name][frame, panel, self.pole]
            pole.set_data([x, x + self.LENGTH * np.sin(angle)], [0.0, self.LENGTH * np.cos(angle)])
            box = np.array([[-half, -height], [half, -height], [half, height], [-half, height], [-half, -height]])
            self.carts[name, panel].set_data(x + box[:, 0], box[:, 1])


_SCENES: dict[str, type[_Scene]] = {"cartpole": _CartPole}
