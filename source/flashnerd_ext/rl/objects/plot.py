"""Picture of the comparison: what is still held, where the object is, what contacts do to it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.files import atomic_save
from flashnerd_ext.rl.objects.compare import Track, distance

_STYLE = {
    "simulator": ("#1f1f1d", "-", "MuJoCo Warp"),
    "disturbed": ("#6f6e69", ":", "MuJoCo Warp, start 1e-6 rad off"),
    "two_way": ("#2a78d6", "--", "two-way"),
    "one_way": ("#eb6834", "-", "one-way"),
}


def draw(tracks: Mapping[str, Track], content: Mapping[str, Any], target: Path) -> Path:
    """Three panels over time: share of worlds not dropped; distance from the simulator's object; forces' distribution.

    Args:
        tracks: Runs by name.
        content: What the JSON file holds.
        target: PNG to write; it appears whole.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from flashnerd_ext.evaluation.palette import GRID, INK, MUTED

    figure, axes = plt.subplots(1, 3, figsize=(13.0, 3.8))
    reference = tracks["simulator"]
    for name, track in tracks.items():
        color, line, label = _STYLE[name]
        time = track.dt * np.arange(1, len(track.ended) + 1)
        axes[0].plot(time, track.alive.mean(1), color=color, linestyle=line, label=label)
        force = np.sort(track.force[track.alive])
        axes[2].plot(force, np.linspace(0, 1, len(force)), color=color, linestyle=line, label=label)
        if name == "simulator":
            continue
        apart = np.full(len(time), np.nan)
        for t in range(len(time)):
            both = track.alive[t] & reference.alive[t]
            if both.any():
                apart[t] = np.median(distance(track.pose[t + 1, both], reference.pose[t + 1, both])[0])
        axes[1].plot(time, np.maximum(1e3 * apart, 1e-6), color=color, linestyle=line, label=label)
    axes[0].set_ylabel("worlds that hold the object [share]")
    axes[0].set_ylim(0.0, 1.03)
    axes[1].set_ylabel("away from the simulator's, median [mm]")
    axes[1].set_yscale("log")
    axes[2].set_ylabel("share of steps below")
    axes[2].set_xlabel("contact force on the object [N]")
    axes[2].set_xscale("symlog", linthresh=0.1)
    for axis in axes[:2]:
        axis.set_xlabel("time [s]")
    for axis in axes:
        axis.grid(color=GRID)
        axis.tick_params(colors=MUTED)
    axes[0].legend(frameon=False, fontsize=8, labelcolor=INK)
    figure.suptitle(
        f"{content['task']}: {content['num_envs']} worlds, same starts and actions ({', '.join(content['actions'])})",
        fontsize=10, color=INK,
    )  # fmt: skip
    figure.tight_layout()
    path = atomic_save(target, lambda place: figure.savefig(place, dpi=130))
    plt.close(figure)
    return path
