"""A CartPole and its ghost, live in viser and recorded by rerun: ``python viewers_child.py FOLDER VISER GRPC WEB``.

It steps until stdin is closed. The ports are free ones; GRPC 0 leaves rerun out.
"""

from __future__ import annotations

import json
import math
import select
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np


def main() -> None:
    folder, viser, grpc, web = Path(sys.argv[1]), *(int(word) for word in sys.argv[2:])

    from flashnerd_ext.rl.simulation import open_simulation
    from flashnerd_ext.view.comparison import prepare
    from flashnerd_ext.view.show import compare

    def adjust(env_cfg: Any) -> None:
        from isaaclab_visualizers.viser import ViserVisualizerCfg

        prepare(env_cfg)
        env_cfg.episode_length_s = 1e4
        env_cfg.terminations.cart_out_of_bounds = None
        env_cfg.sim.physics.load_visual_shapes = True
        place: dict[str, Any] = {"eye": (6.0, 0.0, 3.0), "lookat": (0.0, 0.0, 2.0)}
        viewers: list[Any] = [ViserVisualizerCfg(port=viser, bind_address="127.0.0.1", **place)]
        if grpc:
            from flashnerd_ext.view.rerun_cfg import MotionRerunVisualizerCfg

            path = str(folder / "run.rrd")
            viewers.append(MotionRerunVisualizerCfg(record_to_rrd=path, grpc_port=grpc, web_port=web, **place))
        env_cfg.sim.visualizer_cfgs = viewers

    simulation = open_simulation("FlashNeRD-Cartpole", "flashnerd", num_envs=2, device="cpu", seed=0, adjust=adjust)
    comparison = compare(simulation.unwrapped, "actions")
    import torch

    observations, _ = simulation.env.reset()
    track: list[tuple[np.ndarray, np.ndarray]] = []
    step = 0
    with torch.inference_mode():
        while True:
            begun = time.monotonic()
            # Wide, so that two pictures differ, and pulled to the middle, so that the rail is long enough.
            place, _, speed, _ = observations["policy"][0].tolist()
            force = 90.0 * math.sin(2.0 * math.pi * step * comparison.dt / 1.7) - 60.0 * place - 25.0 * speed
            observations = simulation.env.step(torch.full((2, 1), force / 100.0))[0]
            if step < 40:
                frame = comparison.solver.frame
                track.append((frame.state.clone().numpy(), frame.actuation.clone().numpy()))
            step += 1
            if step == 45:
                print("READY", flush=True)
            if step >= 45 and select.select([sys.stdin], [], [], 0)[0]:
                break
            # Not more often than a browser that draws in software can follow.
            time.sleep(max(0.0, (comparison.dt if step < 45 else 0.08) - (time.monotonic() - begun)))
    history = list(comparison.history)
    result = {
        "steps": step,
        "restarts": int(comparison.ghost.restarts.sum()),
        "errors": [float(moment.errors["slides [m]"][0]) for moment in history[:40]],
        "replayed": replayed(track),
        "opacity": comparison.solver.model.shape_opacity.numpy().tolist(),
        "world": comparison.solver.model.shape_world.numpy().tolist(),
    }
    simulation.close()
    print("RESULT" + json.dumps(result), flush=True)


def replayed(track: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """Largest difference between the ghost's way and MuJoCo's own from the ghost's first state, same forces."""
    from flashnerd_ext.data.engines.export import export_model
    from flashnerd_ext.data.engines.mujoco_c import MujocoC
    from flashnerd_ext.robots.registry import get_robot

    engine = MujocoC(export_model(get_robot("cartpole")), 1)
    state = track[0][0][1:].astype(np.float64)
    worst = 0.0
    for (after, _), (_, action) in zip(track[1:], track[1:], strict=True):
        q, qd = engine.step(state[:, :2], state[:, 2:], action[:1].astype(np.float64))
        state = np.concatenate([q, qd], 1)
        worst = max(worst, float(np.abs(state - after[1:]).max()))
    return worst


if __name__ == "__main__":
    main()
