"""Newton's GL viewer as a clip source on the CPU."""

from __future__ import annotations

import numpy as np
from isaaclab_visualizers.newton.newton_visualizer import NewtonGLVisualizer


class ClipVisualizer(NewtonGLVisualizer):
    """Hands out its own copy of every frame.

    On the CPU the viewer's frame is a view of one buffer, so that a recorder which keeps frames would end with the
    last picture repeated.
    """

    def render_rgb_array(self) -> np.ndarray:
        """The current frame, uint8 [H, W, 3]."""
        return np.array(super().render_rgb_array(), copy=True)
