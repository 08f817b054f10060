"""Newton's GL viewer as a clip source on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from isaaclab_newton.physics import NewtonManager
from isaaclab_visualizers.newton.newton_visualizer import NewtonGLVisualizer

from flashnerd_ext.rl.framing import frame_box

MARGIN = 1.0
"""Room around the visible bodies' origins [m], since links are larger than points and robots move."""
FOLLOWED, STANDING = 0.4, 1.3
"""The same for robots that the camera follows, and for one that stands and reaches out [m]."""
ELEVATION = math.radians(22.0)
"""Steepest view; the task's own camera may look from lower."""
CATCH_UP = 0.15
"""Share of the way to the robots that the camera makes up with every frame."""

Pose = tuple[tuple[float, float, float], tuple[float, float, float]]
"""Eye and target [m], world frame."""


class ClipVisualizer(NewtonGLVisualizer):
    """Frames the visible worlds, and hands out its own copy of every frame.

    Attributes:
        focus: Worlds that are framed, see :meth:`look_at`; ``None`` frames all visible ones and stands still.
        pose: Where the camera stands whatever it sees, see :meth:`stand`.
        beside: Draws what stands right of the scene in every frame, uint8 [H, ., 3]; ``None`` is nothing.

    On the CPU the viewer's frame is a view of one buffer, so that a recorder which keeps frames would end with the
    last picture repeated.
    """

    focus: Sequence[int] | None = None
    pose: Pose | None = None
    beside: Callable[[], np.ndarray] | None = None
    _moves = True
    _home: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def render_rgb_array(self) -> np.ndarray:
        """The current frame, uint8 [H, W, 3]."""
        self._follow()
        frame = np.array(super().render_rgb_array(), copy=True)
        return frame if self.beside is None else np.concatenate([frame, self.beside()], axis=1)

    def look_at(self, worlds: Sequence[int], follow: bool = True) -> None:
        """Frame these worlds, and with ``follow`` move with them over the ground from now on."""
        self.focus, self._home, self._moves = list(worlds), None, follow

    def stand(self, eye: Sequence[float], target: Sequence[float]) -> None:
        """Stand at ``eye`` and look at ``target`` [m, world frame] from now on: closer than what frames robots."""
        self.pose = ((eye[0], eye[1], eye[2]), (target[0], target[1], target[2]))

    def _follow(self) -> None:
        if self.pose is not None:
            self._apply_camera_pose(self.pose)
            return
        if self.focus is None or self.backend is None:
            return
        # The simulation's own state: the viewer's copy is a frame old until it draws.
        state: Any = NewtonManager.get_state_0()
        bodies = state.body_q.numpy()[self._bodies(), :3]
        centre = bodies.mean(axis=0)
        if self._home is None:
            room = FOLLOWED if self._moves else STANDING
            eye, target = (np.array(x) for x in self._frame(bodies, room) or self._resolve_initial_camera_pose())
            self._home = (eye, target, centre)
            self._moved = np.zeros(3)
            self._apply_camera_pose((tuple(eye), tuple(target)))
        if not self._moves:
            return
        eye, target, start = self._home
        # A little behind, so that steps do not shake the picture.
        self._moved += CATCH_UP * ((centre - start) * (1.0, 1.0, 0.0) - self._moved)
        self._apply_camera_pose((tuple(eye + self._moved), tuple(target + self._moved)))

    def _bodies(self) -> np.ndarray:
        assert self.backend is not None
        worlds = self.backend.model.body_world.numpy()
        shown = self.focus if self.focus is not None else self._resolved_visible_env_ids
        return np.isin(worlds, worlds if shown is None else shown) & (worlds >= 0)

    def _resolve_initial_camera_pose(self) -> Pose:
        assert self.backend is not None
        bodies = self.backend.model.body_q.numpy()[self._bodies(), :3]
        return self._frame(bodies, MARGIN) or super()._resolve_initial_camera_pose()

    def _frame(self, bodies: np.ndarray, margin: float) -> Pose | None:
        """Camera pose that shows bodies at [B, 3] and ``margin`` around them; ``None`` without bodies or direction."""
        direction = np.array(self.cfg.eye) - np.array(self.cfg.lookat)
        flat = float(np.hypot(direction[0], direction[1]))
        if not len(bodies) or flat < 1e-6:
            return None
        direction[2] = min(direction[2], flat * math.tan(ELEVATION))
        vertical = math.radians(self._focal_length_to_vertical_fov_degrees())
        low, high = bodies.min(axis=0) - margin, bodies.max(axis=0) + margin
        return frame_box(low, high, direction, vertical, self.cfg.window_width / self.cfg.window_height)
