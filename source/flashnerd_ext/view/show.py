"""Opens a comparison in every viewer that a running environment has."""

from __future__ import annotations

from typing import Any

from flashnerd_ext.view.comparison import Comparison


def compare(env: Any, mode: str = "policy", engine: str = "mujoco_c") -> Comparison:
    """Put the simulator's robots beside the learned ones of an environment, and draw both in its viewers.

    Args:
        env: Isaac Lab's environment (unwrapped) with 2 P worlds, made of a configuration that went through
            :func:`flashnerd_ext.view.comparison.prepare`.
        mode: See :data:`flashnerd_ext.view.ghost.MODES`.
        engine: What steps the ghosts.
    """
    from flashnerd_ext.view.overlay import Overlay
    from flashnerd_ext.view.panel import Panel

    comparison = Comparison(env, mode, engine)
    for visualizer in env.sim.visualizers:
        viewer = getattr(visualizer, "_viewer", None)
        if viewer is None:
            continue
        filmed = hasattr(visualizer, "look_at")
        Overlay(viewer, comparison, scalars=not filmed)
        if filmed:
            visualizer.look_at(range(comparison.pairs), follow=comparison.layout.floating_base)
            ghost, height = comparison.ghost, visualizer.cfg.window_height
            visualizer.beside = Panel(comparison.history, ghost.mode, ghost.rows_drawn, height).draw
    return comparison
