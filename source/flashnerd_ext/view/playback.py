"""Rollouts that were computed before, in a Newton viewer: the model solid, the simulator a ghost."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.description import RobotDescription
from flashnerd_ext.view.comparison import Moment, differences
from flashnerd_ext.view.scene import Scene, aim, open_gl

Array = NDArray[Any]
WIDTH, HEIGHT, FPS = 960, 544, 25
PLAYED = 5.0
"""Longest clip [s]."""


def play_rollouts(
    robot: RobotDescription, reference: Array, predicted: Array, dt: float, clip: Path | None, viz: str = "none"
) -> None:
    """Show K rollouts beside each other, each with its ghost.

    Args:
        robot: Which.
        reference: Simulator's joint_q, shape [T + 1, K, nq].
        predicted: The model's, same shape; a state that is not finite stays where it last was.
        dt: Model step [s].
        clip: mp4 to write, with the error over time beside the scene; ``None`` writes none.
        viz: ``newton``, ``viser`` or ``rerun`` shows them live and in real time, until Ctrl-C.

    Raises:
        FlashNerdError: Where the clip shows nothing.
    """
    scene = Scene(robot, reference.shape[1])
    states = np.concatenate([_finite(predicted), reference], 1)
    none = np.zeros(reference.shape[1], dtype=np.int64)
    moments = [
        Moment(i * dt, differences(robot.layout, predicted[i], reference[i]), None, none, none > 0)
        for i in range(len(states))
    ]
    if clip is not None:
        _film(scene, states, moments, dt, clip)
    if viz != "none":
        _live(scene, states, dt, viz)


def _finite(states: Array) -> Array:
    states = states.copy()
    for i in range(1, len(states)):
        bad = ~np.isfinite(states[i]).all(1)
        states[i, bad] = states[i - 1, bad]
    return states


def _film(scene: Scene, states: Array, moments: list[Moment], dt: float, clip: Path) -> None:
    from flashnerd_ext.rl.video import write_clip
    from flashnerd_ext.view.panel import Panel

    shown: list[Moment] = []
    panel = Panel(shown, "actions", False, HEIGHT)
    viewer = open_gl(WIDTH, HEIGHT)
    scene.put(states[0])
    scene.show(viewer)
    # The whole way of the solid robots is in the picture.
    corners = []
    for state in states[:: max(1, len(states) // 12)]:
        scene.put(state)
        corners.append(scene.middle())
    low, high = np.min([a for a, _ in corners], 0), np.max([b for _, b in corners], 0)
    aim(viewer, low, high, np.array([1.0, -1.2, 0.55]), WIDTH, HEIGHT)
    frames, last = [], 0
    for place in np.rint(np.arange(0.0, min(PLAYED, (len(states) - 1) * dt), 1.0 / FPS) / dt).astype(int):
        shown += moments[last + 1 : place + 1]
        last = int(place)
        scene.put(states[place])
        scene.draw(viewer, place * dt)
        frames.append(np.concatenate([np.array(viewer.get_frame().numpy(), copy=True), panel.draw()], 1))
    viewer.close()
    facts = write_clip(clip, frames, FPS)
    if facts.problem() is not None:
        raise FlashNerdError(f"the clip {clip} shows nothing: {facts.problem()}.")


def _live(scene: Scene, states: Array, dt: float, viz: str) -> None:
    from newton import viewer as viewers

    made: Any = {
        "newton": lambda: viewers.ViewerGL(),
        "newton_gl": lambda: viewers.ViewerGL(),
        "viser": lambda: viewers.ViewerViser(port=8080),
        "rerun": lambda: viewers.ViewerRerun(),
    }[viz]()
    scene.put(states[0])
    scene.show(made)
    print("playing until Ctrl-C" + (": http://localhost:8080" if viz == "viser" else ""))
    try:
        while made.is_running():
            for i, state in enumerate(states):
                begun = time.monotonic()
                scene.put(state)
                scene.draw(made, i * dt)
                time.sleep(max(0.0, dt - (time.monotonic() - begun)))
    except KeyboardInterrupt:
        pass
    finally:
        made.close()
