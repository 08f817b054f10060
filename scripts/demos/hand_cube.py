"""An Allegro hand turns a cube: MuJoCo Warp beside coupled mode, two-way and one-way, same start and same actions.

    python scripts/demos/hand_cube.py --video --output outputs/demos/hand_cube

Coupled mode predicts the hand's free motion with the shipped bundle, MuJoCo Warp moves the cube and resolves what
touches. Two-way, the cube's contacts act on the hand; one-way, they do not. Fingers follow a script, so that nothing
depends on a policy. Each physics runs in a process of its own, one after the other; a live viewer (--viz) shows them in
that order. A fourth run without pictures starts a millionth of a radian off: how far that goes apart is chance. Takes
some minutes on two cores.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.errors import FlashNerdError, cli_main
from flashnerd_ext.view.stage import Options, Report, read_options

WORLDS, WORLD = 3, 0
"""Hands, and the one that is shown; the table has all."""
RUNS = {
    "simulator": ("MuJoCo Warp", "#1f1f1d", "-"),
    "two_way": ("FlashNeRD, two-way", "#2a78d6", "--"),
    "one_way": ("FlashNeRD, one-way", "#eb6834", "-"),
    "disturbed": ("MuJoCo Warp, start 1e-6 rad off", "#6f6e69", ":"),
}
"""Run -> name, colour and line."""
SHOWN = ("simulator", "two_way", "one_way")
SIZE = 416
"""Width and height of a panel [pixels]."""
EYE, TARGET = (0.26, -0.42, 0.86), (0.0, -0.13, 0.54)
"""Of the camera, in the frame of the hand's world [m]."""
NEAREST = 1e-4
"""Cubes closer than this are drawn as that close [mm]."""


def main() -> int:
    options = read_options("hand_cube", __doc__ or "", seconds=2.0)
    from flashnerd_ext.rl.objects.compare import Track, same_start
    from flashnerd_ext.rl.objects.program import SAME, ObjectsConfig, work

    begun = time.monotonic()
    config = ObjectsConfig(
        actions=["turn"], num_envs=WORLDS, seconds=options.seconds, seed=options.seed, device=options.device,
        runs=list(RUNS), json=str(options.output / "hand_cube.json"),
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="flashnerd-hand-") as name:
        folder = Path(name)
        tracks = {run: Track.load(str(work(config, run, folder, shown(options, run, folder)))) for run in RUNS}
        apart = same_start({run: track for run, track in tracks.items() if run != "disturbed"})
        if apart > SAME:
            raise FlashNerdError(f"the runs' starts differ by {apart:.3g}, so that they cannot be compared.")
        report = table(tracks)
        report.add("runs", f"{time.monotonic() - begun:.0f} s for four, one after the other")
        if options.video:
            frames = {run: np.load(folder / f"{run}.npy") for run in SHOWN}
            pictures(options, tracks, frames, report)
    report.write(options.output / "hand_cube")
    return 0


def shown(options: Options, run: str, folder: Path) -> dict[str, Any] | None:
    """What a run shows, for its process."""
    if run not in SHOWN or (not options.video and options.viz == "none"):
        return None
    film = str(folder / f"{run}.npy") if options.video else ""
    return {"film": film, "viz": options.viz, "world": WORLD, "size": SIZE, "eye": EYE, "target": TARGET}


def table(tracks: dict[str, Any]) -> Report:
    """Where the cube is, whether it was dropped, and what contacts do to it."""
    from flashnerd_ext.rl.objects.compare import AFTER, distance

    reference = tracks["simulator"]
    report = Report(
        f"Allegro hand and cube, the same start and scripted actions: {WORLDS} worlds, "
        f"{len(reference.ended) * reference.dt:.2g} s"
    )
    for run, (label, _, _) in RUNS.items():
        track = tracks[run]
        facts: dict[str, Any] = {
            "dropped_after": [float(t) if gone else None for t, gone in zip(track.lasted, track.dropped, strict=True)],
            "force_mean": track.mean_force.tolist(),
            "force_95": track.peak_force.tolist(),
            "model_steps": track.steps,
            "fallen_back": track.fallen_back,
        }
        if run != "simulator":
            (one, here), (two, there) = reference.place(), track.place()
            both = here & there
            far, turned = distance(one[both], two[both])
            facts |= {"apart_mm": (1e3 * far).tolist(), "apart_rad": turned.tolist()}
            places = ", ".join(f"{1e3 * m:.2g} mm and {a:.2g} rad" for m, a in zip(far, turned, strict=True))
            report.add(f"{label}: cube apart after {AFTER:g} s", places or "dropped before in all worlds")
        gone = [f"{t:.2f} s" for t in facts["dropped_after"] if t is not None]
        report.add(f"{label}: dropped", f"{len(gone)} of {WORLDS}" + (f", after {', '.join(gone)}" if gone else ""))
        report.add(
            f"{label}: contact force on the cube",
            f"{track.mean_force.mean():.2f} N on average, 95th percentile {track.peak_force.mean():.2f} N",
        )
        if run.endswith("_way"):
            report.add(f"{label}: steps that the guard took over", f"{track.fallen_back} of {track.steps * WORLDS}")
        report.facts[run] = facts
    return report


def pictures(options: Options, tracks: dict[str, Any], frames: dict[str, Any], report: Report) -> None:
    """Clip and picture of the shown world.

    Raises:
        FlashNerdError: Where they show nothing.
    """
    from flashnerd_ext.rl.objects.compare import distance
    from flashnerd_ext.view.side_by_side import Chart, Curve, Panel, compose

    panels, far, forces = [], [], []
    reference = tracks["simulator"]
    for run, (label, color, line) in RUNS.items():
        track = tracks[run]
        alive, together = track.alive[:, WORLD], track.alive[:, WORLD] & reference.alive[:, WORLD]
        if run in SHOWN:
            over = None if alive.all() else int(alive.argmin())
            ended = "" if over is None else f"dropped after {over * track.dt:.2f} s"
            panels.append(Panel(label, color, frames[run], over, ended))
            forces.append(Curve(label, color, line, np.where(alive, track.force[:, WORLD], np.nan)))
        if run != "simulator":
            between = 1e3 * distance(track.pose[1:, WORLD], reference.pose[1:, WORLD])[0]
            far.append(Curve(label, color, line, np.where(together, between, np.nan)))
    charts = (
        Chart("cube away from MuJoCo Warp's [mm]", far, NEAREST),
        Chart("contact force on the cube [N]", forces),
    )
    report.film(options.output / "hand_cube", compose(panels, charts, reference.dt), 1.0 / reference.dt, 0.6)


if __name__ == "__main__":
    cli_main(main)
