"""Newton's GL viewer as a clip source on the CPU."""

from __future__ import annotations

import math

import numpy as np
from isaaclab_visualizers.newton.newton_visualizer import NewtonGLVisualizer

from flashnerd_ext.rl.framing import frame_box

MARGIN = 1.0
"""Room around the visible bodies' origins [m], since links are larger than points and robots move."""
ELEVATION = math.radians(22.0)
"""Steepest view; the task's own camera may look from lower."""


class ClipVisualizer(NewtonGLVisualizer):
    """Frames the visible worlds, and hands out its own copy of every frame.

    On the CPU the viewer's frame is a view of one buffer, so that a recorder which keeps frames would end with the
    last picture repeated.
    """

    def render_rgb_array(self) -> np.ndarray:
        """The current frame, uint8 [H, W, 3]."""
        return np.array(super().render_rgb_array(), copy=True)

    def _resolve_initial_camera_pose(self) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        assert self.backend is not None
        model = self.backend.model
        worlds = model.body_world.numpy()
        visible = np.isin(worlds, self._resolved_visible_env_ids or worlds) & (worlds >= 0)
        if not visible.any():
            return super()._resolve_initial_camera_pose()
        positions = model.body_q.numpy()[visible, :3]
        low, high = positions.min(axis=0) - MARGIN, positions.max(axis=0) + MARGIN
        direction = np.array(self.cfg.eye) - np.array(self.cfg.lookat)
        flat = float(np.hypot(direction[0], direction[1]))
        if flat < 1e-6:
            return super()._resolve_initial_camera_pose()
        direction[2] = min(direction[2], flat * math.tan(ELEVATION))
        vertical = math.radians(self._focal_length_to_vertical_fov_degrees())
        return frame_box(low, high, direction, vertical, self.cfg.window_width / self.cfg.window_height)
