"""Draw the figures of docs/concepts.md: python scripts/setup/docs_figures.py

SVG files in docs/images/concepts, the same bytes each time. They are committed, so that a build of the site needs no
matplotlib and readers need no script from another server.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "images" / "concepts"
INK, PLAIN, LEARNED, SIMULATOR, STOP = "#263238", "#eceff1", "#bbdefb", "#dcedc8", "#ffe0b2"
Place = tuple[float, float]


def canvas(width: float, height: float) -> Axes:
    """Axes of ``width`` by ``height`` units, an inch each, on white."""
    axes = plt.figure(figsize=(width, height)).add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.axis("off")
    return axes


def box(axes: Axes, place: Place, size: Place, text: str, colour: str = PLAIN, points: float = 9.0) -> None:
    """A rounded box with its centre at ``place``."""
    corner = (place[0] - size[0] / 2, place[1] - size[1] / 2)
    axes.add_patch(
        FancyBboxPatch(
            corner, *size, boxstyle="round,pad=0,rounding_size=0.08", facecolor=colour, edgecolor=INK, linewidth=1.0
        )
    )
    axes.text(*place, text, ha="center", va="center", fontsize=points, color=INK, linespacing=1.35)


def arrow(axes: Axes, start: Place, end: Place, bend: float = 0.0, text: str = "", at: Place = (0.0, 0.0)) -> None:
    """An arrow; ``text`` stands ``at`` from its middle."""
    axes.add_patch(
        FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=11, color=INK, linewidth=1.1, shrinkA=0, shrinkB=0,
            connectionstyle=f"arc3,rad={bend}",
        )
    )  # fmt: skip
    if text:
        middle = ((start[0] + end[0]) / 2 + at[0], (start[1] + end[1]) / 2 + at[1])
        axes.text(*middle, text, ha="center", va="center", fontsize=8, color=INK, style="italic")


def note(axes: Axes, place: Place, text: str, points: float = 8.5) -> None:
    """Text without a box."""
    axes.text(*place, text, ha="center", va="center", fontsize=points, color=INK, linespacing=1.35)


def data_flow() -> Axes:
    """From the simulator to a policy and back."""
    axes = canvas(9.2, 3.5)
    size = (1.6, 0.8)
    top = (
        (1.0, "simulator\nMuJoCo, MuJoCo Warp", SIMULATOR),
        (2.8, "data set\nHDF5 shards", PLAIN),
        (4.6, "training", LEARNED),
        (6.4, "bundle\nweights and card", LEARNED),
        (8.2, "Isaac Lab task\nphysics=flashnerd", LEARNED),
    )
    for x, text, colour in top:
        box(axes, (x, 2.8), size, text, colour)
    for (x, _, _), (after, _, _) in pairwise(top):
        arrow(axes, (x + 0.8, 2.8), (after - 0.8, 2.8))
    box(axes, (8.2, 1.2), size, "policy\nrsl_rl", PLAIN)
    arrow(axes, (8.2, 2.4), (8.2, 1.6))
    box(axes, (4.6, 1.2), size, "record_policy.py\nin the simulator", SIMULATOR)
    arrow(axes, (7.4, 1.2), (5.4, 1.2), text="roll out", at=(0.0, 0.18))
    arrow(axes, (3.8, 1.35), (2.8, 2.4), bend=-0.25)
    note(axes, (2.75, 1.45), "what it visits")
    note(axes, (6.4, 2.15), "checked against\nthe running task")
    note(axes, (4.6, 0.45), "The lower way is the refresh: train.py --refresh N does it while the policy trains.")
    return axes


def cell() -> Axes:
    """One block of the model in one step."""
    axes = canvas(9.2, 3.9)
    box(axes, (0.95, 1.9), (1.4, 0.8), "newest frame\n(and contact slots)")
    box(axes, (2.7, 1.9), (1.2, 0.8), "one packed\nprojection", LEARNED)
    box(axes, (5.0, 2.5), (1.7, 0.8), "attention over\nS frames", LEARNED)
    box(axes, (5.0, 0.9), (1.7, 0.7), "silu(gate) x up", LEARNED)
    box(axes, (7.1, 1.9), (1.2, 0.8), "one packed\nprojection", LEARNED)
    box(axes, (8.55, 1.9), (0.75, 0.5), "x + ...")
    arrow(axes, (1.65, 1.9), (2.1, 1.9))
    arrow(axes, (3.3, 2.05), (4.15, 2.4), text="q, k, v", at=(-0.15, 0.2))
    arrow(axes, (3.3, 1.7), (4.15, 1.0), text="gate, up", at=(-0.25, -0.2))
    arrow(axes, (5.85, 2.4), (6.5, 2.05))
    arrow(axes, (5.85, 1.0), (6.5, 1.7))
    arrow(axes, (7.7, 1.9), (8.17, 1.9))
    for slot, text in enumerate(("t - 2", "t - 1", "t")):
        box(axes, (3.9 + 0.6 * slot, 3.5), (0.55, 0.42), text, STOP if text == "t" else PLAIN, 8)
    arrow(axes, (4.5, 3.27), (4.8, 2.92))
    note(axes, (7.35, 3.5), "ring of S keys and values a block:\nthe newest pair overwrites the oldest, nothing moves")
    note(axes, (4.6, 0.25), "A reset world forgets: pairs older than its age are masked. Here S = 3.")
    return axes


def modes() -> Axes:
    """Learned mode and coupled mode, side by side."""
    axes = canvas(9.2, 4.1)
    note(axes, (2.2, 3.85), "learned mode: one control step, one model step", 9.5)
    note(axes, (7.0, 3.85), "coupled mode: one solver step, one model step", 9.5)
    axes.plot((4.55, 4.55), (0.2, 3.95), color="#b0bec5", linewidth=1.0)
    left = (
        (3.2, "state, targets, contact rows", PLAIN),
        (2.35, "model: the whole step,\ncontact response included", LEARNED),
        (1.5, "guard", STOP),
        (0.65, "next state; contact forces\nand torques for sensors", PLAIN),
    )
    right = (
        (3.2, "state, torque on every joint", PLAIN),
        (2.35, "model: free motion,\nnothing touched", LEARNED),
        (1.5, "guard; else the analytical value", STOP),
        (0.65, "MuJoCo Warp or PhysX: contacts, limits,\nfriction, objects, integration", SIMULATOR),
    )
    for x, stack in ((2.2, left), (7.0, right)):
        for y, text, colour in stack:
            box(axes, (x, y), (3.3, 0.6), text, colour)
        for y in (2.9, 2.05, 1.2):
            arrow(axes, (x, y), (x, y - 0.25))
    arrow(axes, (3.85, 0.65), (3.85, 3.2), bend=0.28)
    arrow(axes, (8.65, 0.65), (8.65, 3.2), bend=0.28)
    return axes


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    # Letters as paths look the same everywhere; a fixed salt and no date give the same bytes each time.
    plt.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "flashnerd", "font.family": "DejaVu Sans"})
    for name, draw in (("data_flow", data_flow), ("cell", cell), ("modes", modes)):
        axes = draw()
        figure: Any = axes.figure
        figure.savefig(FOLDER / f"{name}.svg", facecolor="white", metadata={"Date": None})
        plt.close("all")
        print(FOLDER / f"{name}.svg")


if __name__ == "__main__":
    main()
