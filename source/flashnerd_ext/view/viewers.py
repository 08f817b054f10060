"""Isaac Lab's viewers by the names of ``--viz``, for simulations that our own code opens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl.video import camera_pose, choose_source, gl_visualizer, rerun_visualizer
from flashnerd_ext.view.choose import viewer_name


def add_viewers(env_cfg: Any, viz: str, film: bool, visible: list[int] | None = None) -> None:
    """Put viewers on an environment's configuration.

    Args:
        env_cfg: Resolved environment configuration.
        viz: As ``--viz`` takes it; ``none`` or empty adds no live viewer.
        film: Whether frames are taken off screen, by :func:`camera` below.
        visible: Worlds that are shown; ``None`` shows those in the middle.

    Raises:
        FlashNerdError: For viewers that cannot run here.
    """
    names = [name for name in viewer_name(viz or "none").split(",") if name != "none"]
    if film:
        if "Newton" not in type(env_cfg.sim.physics).__name__:
            raise FlashNerdError("clips need Newton physics: leave --video out, or evaluate in newton_mjwarp.")
        choose_source("newton_gl")
        names += [] if "newton_gl" in names else ["newton_gl"]
    eye, lookat = camera_pose(env_cfg)
    made: list[Any] = []
    for name in names:
        if name == "newton_gl" and film:
            made.append(gl_visualizer(env_cfg, env_cfg.scene.num_envs, visible))
        elif name == "newton_gl":
            from isaaclab_visualizers.newton import NewtonGLVisualizerCfg

            made.append(NewtonGLVisualizerCfg(eye=eye, lookat=lookat, visible_env_indices=visible))
        elif name == "viser":
            from isaaclab_visualizers.viser import ViserVisualizerCfg

            made.append(ViserVisualizerCfg(eye=eye, lookat=lookat, visible_env_indices=visible))
        elif name == "rerun":
            made.append(rerun_visualizer(env_cfg, film))
        else:
            from isaaclab_visualizers.kit import KitVisualizerCfg

            made.append(KitVisualizerCfg(eye=eye, lookat=lookat))
    if made:
        env_cfg.sim.visualizer_cfgs = made
        # Without it Isaac Lab leaves visual-only shapes out, and the robots would be invisible.
        env_cfg.sim.physics.load_visual_shapes = True


def camera(env: Any) -> Any | None:
    """The off-screen viewer of a running environment (unwrapped), or ``None``."""
    return next((viz for viz in env.sim.visualizers if hasattr(viz, "look_at")), None)


def picture(env: Any) -> Any:
    """What the off-screen viewer shows now, uint8 [H, W, 3]."""
    viewer = camera(env)
    assert viewer is not None
    if not env.sim.is_rendering:
        env.sim.forward()
    return viewer.render_rgb_array()


def film(env: Any, path: str | Path, seconds: float, stride: int = 2) -> None:
    """Let the next control steps of an environment (unwrapped) become a clip, written when they are over.

    Args:
        env: Made of a configuration that went through :func:`add_viewers` with ``film``.
        path: mp4 to write.
        seconds: Length [s of the simulation].
        stride: Every so many control steps become a frame.

    Raises:
        FlashNerdError: Where the clip shows nothing.
    """
    from flashnerd_ext.rl.video import write_clip

    original, steps, frames = env.step, max(2, round(seconds / env.step_dt)), []

    def step(action: Any) -> Any:
        nonlocal steps
        result = original(action)
        steps -= 1
        if steps % stride == 0:
            frames.append(picture(env))
        if steps == 0:
            env.step = original
            facts = write_clip(path, frames, round(1.0 / (env.step_dt * stride)))
            problem = facts.problem()
            if problem is not None:
                raise FlashNerdError(f"the clip {path} shows nothing: {problem}.")
            print(f"clip: {facts}", flush=True)
        return result

    env.step = step
