"""Rerun recordings that hold the motion.

Isaac Lab's recorder leaves an empty file for two reasons. Newton's viewer opens the file and then connects to a server,
which replaces the file as the one place where data goes; and unless history is kept every transform is logged as
static, so that only the last one would be left. Here the server has a stream of its own, the data goes to both places,
and history is kept.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from isaaclab.scene_data import SceneDataProvider
from isaaclab_visualizers.newton_adapter import apply_viewer_visible_worlds
from isaaclab_visualizers.rerun.rerun_visualizer import RerunVisualizer

from flashnerd_ext.view.rerun_cfg import MotionRerunVisualizerCfg

rr: Any = import_module("rerun")
"""Optional: ``pip install flashnerd-ext[rerun]``."""


class MotionRerunVisualizer(RerunVisualizer):
    """:class:`RerunVisualizer` that records what it shows."""

    cfg: MotionRerunVisualizerCfg  # pyright: ignore[reportIncompatibleVariableOverride]
    _server: Any = None

    def initialize(self, scene_data_provider: SceneDataProvider) -> None:
        """Start the viewer; with ``cfg.record_to_rrd`` everything also goes to that file."""
        path = self.cfg.record_to_rrd
        if self._is_initialized or path is None:
            super().initialize(scene_data_provider)
            return
        self.cfg.keep_historical_data = True
        # The parent finds a server at its port and connects to it as a client.
        self._server = rr.RecordingStream(f"{self.cfg.app_id}-server")
        address = rr.serve_grpc(grpc_port=self.cfg.grpc_port, recording=self._server)
        rr.serve_web_viewer(web_port=self.cfg.web_port, connect_to=address, open_browser=self.cfg.open_browser)
        self.cfg.record_to_rrd = None
        try:
            super().initialize(scene_data_provider)
        finally:
            self.cfg.record_to_rrd = path
        assert self._viewer is not None and self.backend is not None
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        blueprint = self._viewer._get_blueprint()
        rr.set_sinks(rr.GrpcSink(address), rr.FileSink(path), default_blueprint=blueprint)
        # What the model looks like was logged before the file was there.
        self._viewer.set_model(self.backend.model)
        apply_viewer_visible_worlds(
            self._viewer,
            env_ids=self._env_ids,
            max_visible_envs=self.cfg.max_visible_envs,
            num_envs=scene_data_provider.num_envs,
        )
        self._viewer.set_world_offsets((0.0, 0.0, 0.0))

    def close(self) -> None:
        """Write what is still on its way to the file, and close."""
        if self._is_closed:
            return
        recording = rr.get_data_recording()
        if recording is not None:
            recording.flush()
        super().close()
        self._server = None
