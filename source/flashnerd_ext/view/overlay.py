"""What a comparison adds to a Newton viewer: transparency, colours, arrows and curves.

Every Newton viewer takes it (GL, viser, rerun, USD): colours and opacities are the model's own, arrows and scalars are
calls that all of them have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashnerd_ext.model.metric import rotate_inverse
from flashnerd_ext.view.comparison import HELD, INSIDE, OUTSIDE, Comparison

Array = NDArray[Any]

GHOST_OPACITY = 0.35
GHOST_COLOR = (0.45, 0.62, 0.85)
"""The simulator's robot is tinted in this."""
TINT = {INSIDE: (0.30, 0.65, 0.35), OUTSIDE: (0.95, 0.65, 0.10), HELD: (0.85, 0.10, 0.10)}
"""Colour of each verdict of the guard; the robot itself is tinted in it except while all is well."""
TOUCHING, NEAR = (0.90, 0.25, 0.05), (0.95, 0.80, 0.25)
"""Colours of contact rows: penetrating or touching, and within the detector's gap only."""
ARROW = 0.22
"""Length of a contact's arrow [m]; rows carry no force, so that all have one length."""
FLOOR = 10.0
"""Half side of the grid on the floor [m]."""
_BLEND, _GHOST_BLEND = 0.6, 0.7
_FREE = -1


class Overlay:
    """Draws a comparison into one viewer, whenever that viewer draws.

    Args:
        viewer: A Newton viewer with the simulation's model.
        comparison: What is drawn.
        scalars: Whether the errors go to the viewer's own plots.
    """

    def __init__(self, viewer: Any, comparison: Comparison, scalars: bool = True) -> None:
        import warp as wp

        self.viewer, self.comparison, self.scalars = viewer, comparison, scalars
        self.model = viewer.model
        worlds = self.model.shape_world.numpy()
        count = comparison.pairs
        self._pair = np.where((worlds >= 0) & (worlds < count), worlds, _FREE)
        ghosts = worlds >= count
        self._base = mark_ghosts(self.model, ghosts)
        self._drawn: Array | None = None
        self._logged = -1.0
        # Viewers that draw shapes in batches of one appearance sort them once, when they are given the model.
        visible = getattr(viewer, "_visible_worlds", None)
        viewer.set_model(self.model)
        if visible is not None:
            viewer.set_visible_worlds(visible)
        offsets = np.zeros((self.model.world_count, 3), np.float32)
        if not comparison.layout.floating_base:
            # A free base starts where its partner is; a fixed one stands in a world of its own.
            origins = comparison.env.scene.env_origins.cpu().numpy()
            offsets[count:] = origins[:count] - origins[count:]
        viewer.world_offsets = wp.array(offsets, dtype=wp.vec3, device=viewer.device)
        self._grid = self._floor() if comparison.layout.floating_base else None
        original = viewer.end_frame

        def end_frame() -> None:
            self.draw()
            original()

        viewer.end_frame = end_frame

    def draw(self) -> None:
        """Bring colours, arrows and curves up to the comparison's last moment; call within a frame."""
        history = self.comparison.history
        if not history:
            return
        if history[-1].verdict is not None:
            self._tint(history[-1].verdict)
        self._arrows()
        if self._grid is not None:
            self.viewer.log_lines("/flashnerd/floor", *self._grid, (0.62, 0.64, 0.68), width=0.004)
        if self.scalars and history[-1].time != self._logged:
            self._logged = history[-1].time
            for name, value in history[-1].errors.items():
                self.viewer.log_scalar(f"apart/{name.replace(' ', '_')}", float(np.mean(value)))

    def _floor(self) -> tuple[Any, Any]:
        """Lines a metre apart, without which one does not see that a robot moves."""
        import warp as wp

        origin = self.comparison.env.scene.env_origins[: self.comparison.pairs].cpu().numpy().mean(0).round()
        # Pieces of a metre: a viewer leaves out a line with an end behind its camera.
        along, across = (x.ravel() for x in np.meshgrid(np.arange(-FLOOR, FLOOR), np.arange(-FLOOR, FLOOR + 1.0)))
        height = np.full_like(along, 0.003)
        ends = [np.stack([along + piece, across, height], 1) for piece in (0.0, 1.0)]
        arrays = [(np.concatenate([end, end[:, [1, 0, 2]]]) + origin).astype(np.float32) for end in ends]
        starts, tips = (wp.array(x, dtype=wp.vec3, device=self.viewer.device) for x in arrays)
        return starts, tips

    def _tint(self, verdict: Array) -> None:
        if self._drawn is not None and np.array_equal(verdict, self._drawn):
            return
        colors = self._base.copy()
        for value in (OUTSIDE, HELD):
            mine = (self._pair != _FREE) & (verdict[self._pair] == value)
            colors[mine] = blend(colors[mine], TINT[value], _BLEND)
        self.model.shape_color.assign(colors)
        self._drawn = verdict.copy()

    def _arrows(self) -> None:
        import warp as wp

        found = contact_arrows(self.comparison)
        if found is None:
            return
        arrays = [wp.array(x, dtype=wp.vec3, device=self.viewer.device) if len(x) else None for x in found]
        self.viewer.log_arrows("/flashnerd/contacts", *arrays, width=0.008)


def mark_ghosts(model: Any, ghosts: Array) -> Array:
    """Make shapes (boolean [shapes]) of a Newton model transparent and tinted; the colours of all, [shapes, 3].

    Doing it again changes nothing.
    """
    opacity, colors = model.shape_opacity.numpy(), model.shape_color.numpy()
    new = ghosts & (opacity > GHOST_OPACITY)
    opacity[new] = GHOST_OPACITY
    colors[new] = blend(colors[new], GHOST_COLOR, _GHOST_BLEND)
    model.shape_opacity.assign(opacity)
    model.shape_color.assign(colors)
    return colors


def contact_arrows(comparison: Comparison) -> tuple[Array, Array, Array] | None:
    """Starts, tips and colours of the learned robots' contact rows, float32 [K, 3] each, world frame [m].

    ``None`` for a model that takes no contacts.
    """
    rows = comparison.ghost.rows
    if rows is None:
        return None
    count = comparison.pairs
    used = rows.used[:count].cpu().numpy()
    robot, _ = np.nonzero(used)
    features = rows.features[:count].cpu().numpy()[used].astype(np.float64)
    root = comparison.solver.frame.joint_q[:count].cpu().numpy()[robot].astype(np.float64)
    place, normal = (_to_world(root, features[:, i : i + 3]) for i in (0, 3))
    start = root[:, :3] + place
    color = np.where(features[:, 6:7] <= 0.0, TOUCHING, NEAR)
    return start.astype(np.float32), (start + ARROW * normal).astype(np.float32), color.astype(np.float32)


def _to_world(root: Array, vector: Array) -> Array:
    return rotate_inverse(root[:, 3:7] * np.array([-1.0, -1.0, -1.0, 1.0]), vector)


def blend(colors: Array, tint: tuple[float, float, float], share: float) -> Array:
    """Colours [..., 3] moved towards a tint by ``share``."""
    return (1.0 - share) * colors + share * np.asarray(tint, colors.dtype)
