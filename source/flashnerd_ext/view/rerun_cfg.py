"""Configuration of the rerun viewer whose recordings hold the motion."""

from __future__ import annotations

from isaaclab.utils import configclass
from isaaclab_visualizers.rerun import RerunVisualizerCfg


@configclass
class MotionRerunVisualizerCfg(RerunVisualizerCfg):
    """Isaac Lab's rerun viewer; ``record_to_rrd`` gives a file with the meshes and every frame's transforms."""

    class_type: type | str = "flashnerd_ext.view.rerun_recorder:MotionRerunVisualizer"
    """Visualizer implementation class."""
