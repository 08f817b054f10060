"""Clips without a display: Newton's GL viewer over EGL, else the Warp ray-traced camera, else a refusal up front.

Isaac Lab's own recorder drives the capture. It needs moviepy, which is not installed with it, and it only logs when a
clip fails; so the writer is ours, and every clip is checked.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.errors import FlashNerdError, one_line
from flashnerd_ext.files import atomic_save

WIDTH, HEIGHT = 960, 544
"""Frame size in pixels; multiples of 16, so that the encoder need not resize."""
SOURCES = ("auto", "newton_gl", "warp_camera")
CAMERA = "flashnerd_camera"
_FOCAL_LENGTH, _APERTURE = 24.0, 36.0
_REACH = np.array([1.0, 1.8, 0.9])
"""Half size [m] of the box around the robot's start that the Warp camera shows."""

_PROBE = """
import pyglet
pyglet.options["headless"] = True
from pyglet import gl
window = pyglet.window.Window(64, 64, visible=False)
window.switch_to()
gl.glClearColor(1.0, 0.5, 0.0, 1.0)
gl.glClear(gl.GL_COLOR_BUFFER_BIT)
pixel = (gl.GLubyte * 4)()
gl.glReadPixels(8, 8, 1, 1, gl.GL_RGBA, gl.GL_UNSIGNED_BYTE, pixel)
assert pixel[0] > 200 and pixel[2] < 50, list(pixel)
print(window.context.get_info().renderer)
"""


@dataclass(frozen=True)
class ClipFacts:
    """What a written clip shows. ``brightness`` is the mean pixel (0-255) of the middle frame; ``change`` the mean
    absolute pixel difference of the two most different sampled frames."""

    path: Path
    frames: int
    width: int
    height: int
    brightness: float
    change: float

    def problem(self) -> str | None:
        """Why the clip shows nothing, or None. A still clip is one where no pixel ever changes."""
        if self.brightness < 2.0:
            return "it is black"
        if self.frames > 1 and self.change == 0.0:
            return "its frames do not change"
        return None

    def __str__(self) -> str:
        return f"{self.path} ({self.frames} frames, {self.width} x {self.height}, brightness {self.brightness:.0f})"


written: list[ClipFacts] = []
"""Clips that this process wrote, oldest first."""


def egl_problem(timeout: float = 60.0) -> str | None:
    """Why no off-screen OpenGL window can be had here, or None. It is tried in a process of its own, since a failed
    attempt leaves pyglet unusable."""
    try:
        done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return f"it did not answer within {timeout:.0f} s"
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines()
    return one_line(lines[-1] if lines else f"exit code {done.returncode}", 160)


def choose_source(wanted: str = "auto") -> str:
    """``newton_gl`` or ``warp_camera``.

    Raises:
        FlashNerdError: Where the wanted source is unknown or does not work here.
    """
    if wanted not in SOURCES:
        raise FlashNerdError(f"--video_source is '{wanted}', but one of {', '.join(SOURCES)} is needed.")
    if wanted == "warp_camera":
        return wanted
    problem = egl_problem()
    if problem is None:
        return "newton_gl"
    advice = "install Debian's libegl1, libegl-mesa0, libgl1-mesa-dri and libgl1"
    if wanted == "newton_gl":
        raise FlashNerdError(
            f"Newton's GL viewer cannot record here ({problem}): {advice}, or type --video_source warp_camera."
        )
    print(f"no OpenGL here ({problem}); recording with the Warp camera. For the GL viewer, {advice}.")
    return "warp_camera"


def prepare(env_cfg: Any, args: Any, wanted: str = "auto", compare: bool = False) -> None:
    """Set up viewers and recording on an environment configuration, before the simulation starts.

    A recorder that the task names (``video_recorders``) is left alone, and so is a window that the user asks for,
    from which a clip is taken then.

    Args:
        env_cfg: Resolved environment configuration; visualizers and recorders are added to it.
        args: Isaac Lab's parsed arguments.
        wanted: One of :data:`SOURCES`.
        compare: Whether the second half of the worlds are ghosts, so that all are shown.

    Raises:
        FlashNerdError: Where no clip can be recorded; training has not begun.
    """
    filming = bool(getattr(args, "video", False))
    named = list(getattr(args, "visualizer", None) or [])
    if filming:
        _check_newton(env_cfg, named)
    configured: list[Any] = []
    if "rerun" in named:
        configured.append(rerun_visualizer(env_cfg, filming))
    if named and "Newton" in type(env_cfg.sim.physics).__name__:
        env_cfg.sim.physics.load_visual_shapes = True
    if filming:
        install_writer()
        if not getattr(env_cfg, "video_recorders", None) and not any(name.startswith("newton_") for name in named):
            configured += _film(env_cfg, args, wanted, compare)
            if named and configured[-1:] and configured[-1].visualizer_type == "newton_gl":
                # Isaac Lab leaves out what the command line does not name.
                args.visualizer = [*named, "newton_gl"]
    if configured:
        env_cfg.sim.visualizer_cfgs = configured


def _film(env_cfg: Any, args: Any, wanted: str, compare: bool) -> list[Any]:
    """Let a recorder take frames off screen; the viewers that it needs."""
    from isaaclab.envs.utils.video_recorder_cfg import VideoRecorderCfg

    source = choose_source(wanted)
    if compare and source != "newton_gl":
        raise FlashNerdError(
            "--compare draws transparent robots, which needs OpenGL: install Debian's libegl1, libegl-mesa0, "
            "libgl1-mesa-dri and libgl1, or type --viz viser."
        )
    # Without an open window Isaac Lab leaves visual-only shapes out, and the robots would be invisible.
    env_cfg.sim.physics.load_visual_shapes = True
    if source == "newton_gl":
        count = getattr(args, "num_envs", None) or env_cfg.scene.num_envs
        recorder = VideoRecorderCfg(source="visualizer:newton_gl", video_interval=2000)
        env_cfg.video_recorders = [recorder]
        return [gl_visualizer(env_cfg, count, list(range(count)) if compare else None)]
    setattr(env_cfg.scene, CAMERA, warp_camera(env_cfg))
    env_cfg.video_recorders = [VideoRecorderCfg(source=f"sensor:{CAMERA}:rgb", video_interval=2000)]
    return []


def _check_newton(env_cfg: Any, named: Sequence[str]) -> None:
    physics = type(env_cfg.sim.physics).__name__
    if "Newton" not in physics and "kit" not in named:
        raise FlashNerdError(
            f"clips without a display need Newton physics, but this run uses {physics}: type physics=newton_mjwarp, or "
            "--viz kit where Isaac Sim is installed."
        )


def rerun_visualizer(env_cfg: Any, record: bool) -> Any:
    """The rerun viewer; with ``record`` its recording goes to ``videos/rerun/TIME.rrd`` below the working folder."""
    from flashnerd_ext.view.rerun_cfg import MotionRerunVisualizerCfg

    path = Path("videos") / "rerun" / f"{time.strftime('%Y%m%d-%H%M%S')}.rrd"
    eye, lookat = camera_pose(env_cfg)
    if record:
        print(f"rerun recording: {path}")
    return MotionRerunVisualizerCfg(record_to_rrd=str(path) if record else None, eye=eye, lookat=lookat)


def camera_pose(env_cfg: Any) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    """Eye and target [m, world frame]: what the task's ``default_visualizer_cfg`` says, else a three-quarter view."""
    hint = getattr(env_cfg.sim, "default_visualizer_cfg", None)
    if hint is not None:
        return tuple(hint.eye), tuple(hint.lookat)
    return (4.0, -4.0, 3.0), (0.0, 0.0, 0.5)


def gl_visualizer(env_cfg: Any, num_envs: int, visible: list[int] | None = None) -> Any:
    """Newton's GL viewer, off screen, looking from the task's direction at the visible worlds: those in the middle."""
    from isaaclab_visualizers.newton import NewtonGLVisualizerCfg

    from flashnerd_ext.rl.framing import middle_block

    eye, lookat = camera_pose(env_cfg)
    return NewtonGLVisualizerCfg(
        class_type="flashnerd_ext.rl.viewer:ClipVisualizer",
        headless=True,
        window_width=WIDTH,
        window_height=HEIGHT,
        eye=eye,
        lookat=lookat,
        streaming_view=False,
        enable_markers=False,
        focal_length=20.0,
        visible_env_indices=middle_block(num_envs) if visible is None else visible,
        background_color=None,
    )


def warp_camera(env_cfg: Any) -> Any:
    """Isaac Lab's camera with Newton's Warp renderer, one a world; the recorder shows world 0."""
    import isaaclab.sim as sim_utils
    import torch
    from isaaclab.sensors import CameraCfg
    from isaaclab.utils.math import create_rotation_matrix_from_view, quat_from_matrix
    from isaaclab_newton.renderers import NewtonWarpRendererCfg

    from flashnerd_ext.rl.framing import frame_box

    eye, lookat = camera_pose(env_cfg)
    robot = next((item for item in vars(env_cfg.scene).values() if hasattr(item, "actuators")), None)
    if robot is not None:
        centre = np.array(robot.init_state.pos, dtype=float)
        vertical = 2.0 * math.atan(_APERTURE / WIDTH * HEIGHT / 2.0 / _FOCAL_LENGTH)
        direction = np.subtract(eye, lookat)
        eye, lookat = frame_box(centre - _REACH, centre + _REACH, direction, vertical, WIDTH / HEIGHT)
    rotation = create_rotation_matrix_from_view(torch.tensor([eye]), torch.tensor([lookat]), "Z")
    return CameraCfg(
        prim_path="{ENV_REGEX_NS}/FlashNerdCamera",
        offset=CameraCfg.OffsetCfg(pos=eye, rot=tuple(quat_from_matrix(rotation)[0].tolist()), convention="opengl"),
        data_types=["rgb"],
        spawn=sim_utils.PinholeCameraCfg(
            focal_length=_FOCAL_LENGTH, horizontal_aperture=_APERTURE, clipping_range=(0.05, 100.0)
        ),
        width=WIDTH // 2,
        height=HEIGHT // 2,
        renderer_cfg=NewtonWarpRendererCfg(),
    )


def install_writer() -> None:
    """Let Isaac Lab's recorder write through imageio's ffmpeg instead of moviepy."""
    from isaaclab.envs.utils import video_recorder

    video_recorder.ImageSequenceClip = Clip  # type: ignore[assignment]


class Clip:
    """The part of moviepy's ImageSequenceClip that Isaac Lab's recorder uses."""

    def __init__(self, frames: Sequence[np.ndarray], fps: int) -> None:
        self.frames, self.fps = frames, fps

    def write_videofile(self, path: str, codec: str = "libx264", **_: Any) -> None:
        """Encode the frames; see :func:`write_clip`."""
        written.append(write_clip(path, self.frames, self.fps, codec))


def write_clip(path: str | Path, frames: Sequence[np.ndarray], fps: int, codec: str = "libx264") -> ClipFacts:
    """Write uint8 frames [H, W, 3] as a video; the file appears whole.

    Returns:
        What the clip shows.
    """
    import imageio.v2 as imageio

    def save(temporary: Path) -> None:
        writer: Any
        with imageio.get_writer(temporary, fps=fps, codec=codec, quality=7, macro_block_size=1) as writer:
            for frame in frames:
                writer.append_data(np.ascontiguousarray(frame[..., :3]))

    target = atomic_save(path, save)
    return clip_facts(target, frames)


def clip_facts(path: Path, frames: Sequence[np.ndarray]) -> ClipFacts:
    """Brightness and change of frames [H, W, 3] (see :class:`ClipFacts`)."""
    height, width = frames[0].shape[:2]
    sampled = [frames[index].astype(np.int16) for index in np.linspace(0, len(frames) - 1, 8).astype(int)]
    change = max(float(np.abs(frame - sampled[0]).mean()) for frame in sampled)
    return ClipFacts(path, len(frames), width, height, float(frames[len(frames) // 2].mean()), change)


def report_clips(expected: bool) -> None:
    """Print the clips that were written, and fail where one was asked for and there is none, or it shows nothing."""
    for facts in written:
        problem = facts.problem()
        if problem is not None:
            raise FlashNerdError(f"the clip {facts.path} shows nothing: {problem}; try --video_source warp_camera.")
        print(f"clip: {facts}")
    if expected and not written:
        raise FlashNerdError(
            "no clip was written: see the recorder's message above, or try --video_source warp_camera."
        )
