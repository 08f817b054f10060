"""What a run shows of one of its worlds: a live viewer, or frames for a picture of several runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.files import atomic_save


class Shown:
    """Puts viewers on a task's configuration and takes a frame after each control step.

    Args:
        spec: ``film`` (an ``.npy`` for the frames, uint8 [T, H, W, 3]; none when empty), ``viz`` (live viewers, as
            ``--viz`` takes them), ``world``, ``size`` of a frame [pixels], ``eye`` and ``target`` of the camera in the
            world's own frame [m].
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = spec
        self.frames: list[np.ndarray] = []
        self._live = spec["viz"] not in ("", "none")
        self._due: float | None = None

    def adjust(self, env_cfg: Any) -> None:
        """Add the viewers to an environment's configuration.

        Raises:
            FlashNerdError: For viewers that cannot run here.
        """
        from flashnerd_ext.view.viewers import add_viewers

        add_viewers(env_cfg, self.spec["viz"], bool(self.spec["film"]), [self.spec["world"]])
        for viewer in env_cfg.sim.visualizer_cfgs or ():
            if self.spec["film"] and hasattr(viewer, "window_width"):
                viewer.window_width = viewer.window_height = int(self.spec["size"])

    def __call__(self, env: Any) -> None:
        """Take a frame; with a live viewer wait until the simulation's time has passed."""
        from flashnerd_ext.view.viewers import camera, picture

        if self.spec["film"]:
            if not self.frames:
                origin = env.scene.env_origins[self.spec["world"]].cpu().numpy()
                viewer: Any = camera(env)
                viewer.stand(*((origin + self.spec[name]).tolist() for name in ("eye", "target")))
            self.frames.append(picture(env))
        if self._live:
            now = time.monotonic()
            time.sleep(max(0.0, (self._due or now) - now))
            self._due = max(self._due or now, now) + float(env.step_dt)

    def save(self) -> None:
        """Write the frames, if there are any."""
        if self.frames:
            atomic_save(Path(self.spec["film"]), lambda path: np.save(path, np.stack(self.frames)))
