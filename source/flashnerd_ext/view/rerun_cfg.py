"""Configuration of the rerun viewer whose recordings hold the motion."""

from __future__ import annotations

from isaaclab.utils import configclass
from isaaclab_visualizers.rerun import RerunVisualizerCfg


@configclass
class MotionRerunVisualizerCfg(RerunVisualizerCfg):
    """Isaac Lab's rerun viewer; ``record_to_rrd`` gives a file with the meshes and every frame's transforms."""

    # A name that is resolved late, as in the parent.
    class_type: type | str = "flashnerd_ext.view.rerun_recorder:MotionRerunVisualizer"  # pyright: ignore
    """Visualizer implementation class."""
