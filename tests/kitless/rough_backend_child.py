"""ANYmal-C's rough task in a process of its own; prints one JSON object at the end.

Usage: ``python rough_backend_child.py PHYSICS BUNDLE``; BUNDLE is not read with analytical physics.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from flashnerd_ext.robots.assets import activate

activate("local")

import gymnasium as gym  # noqa: E402
import isaaclab_tasks  # noqa: E402, F401
import torch  # noqa: E402
from isaaclab_tasks.utils import resolve_task_config  # noqa: E402

import flashnerd_tasks  # noqa: E402, F401  # pyright: ignore[reportMissingImports]

TASK, COUNT = "FlashNeRD-Velocity-Rough-AnymalC", 4


def main() -> dict[str, Any]:
    physics, bundle = sys.argv[1:3]
    overrides = [f"physics={physics}"]
    if physics == "flashnerd":
        overrides.append(f"env.sim.physics.solver_cfg.bundle={bundle}")
    cfg: Any = resolve_task_config(TASK, None, overrides=overrides)[0]
    cfg.scene.num_envs, cfg.sim.device, cfg.seed = COUNT, "cpu", 7
    generator = cfg.scene.terrain.terrain_generator
    generator.num_rows, generator.num_cols, generator.size, generator.border_width = 1, 4, (5.0, 5.0), 1.0
    # Before the generator spreads the four kinds over the columns: stairs, boxes and rough ground.
    for name in [name for name in generator.sub_terrains if name.startswith("hf_")]:
        generator.sub_terrains.pop(name)
    cfg.terminations.base_contact = None
    env: Any = gym.make(TASK, cfg=cfg).unwrapped
    env.reset()
    robot = env.scene["robot"]
    pose = robot.data.root_link_pose_w.torch.clone()
    pose[:, :3] = env.scene.env_origins + torch.tensor([0.0, 0.0, 0.5488 - 0.003])
    pose[:, 3:] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    robot.write_root_pose_to_sim_index(root_pose=pose)
    robot.write_root_velocity_to_sim_index(root_velocity=torch.zeros(COUNT, 6))
    robot.write_joint_position_to_sim_index(position=robot.data.default_joint_pos.torch.clone())
    robot.write_joint_velocity_to_sim_index(velocity=torch.zeros(COUNT, 12))
    content: dict[str, Any] = {"origins": env.scene.env_origins.tolist()}
    observations, rewards = env.step(torch.zeros(COUNT, 12))[:2]
    if physics == "flashnerd":
        from flashnerd_ext.physics.environment import running_solver

        solver: Any = running_solver()
        stage = solver.contact_stage
        # The untrained model moved it; look where it was put.
        robot.write_root_pose_to_sim_index(root_pose=pose)
        robot.write_joint_position_to_sim_index(position=robot.data.default_joint_pos.torch.clone())
        env.sim.forward()
        from isaaclab_newton.physics import NewtonManager

        rows = stage.rows(NewtonManager.backend.state_0)
        feet = [index for index, name in enumerate(stage.links) if name.endswith("FOOT")]
        at_feet = rows.used & torch.isin(rows.link, torch.tensor(feet))
        content |= {
            "stage": type(stage).__name__,
            "links": list(stage.links),
            "used": rows.used.sum(1).tolist(),
            "feet": [sorted(set(rows.link[i][at_feet[i]].tolist())) for i in range(COUNT)],
            "touching": stage.touching[:, feet].tolist(),
            "static": rows.features[..., 11][rows.used].tolist(),
            "up": rows.features[..., 5][at_feet].tolist(),
        }
    for _ in range(2):
        observations, rewards = env.step(torch.zeros(COUNT, 12))[:2]
    policy = observations["policy"]
    return content | {
        "finite": bool(torch.isfinite(policy).all() and torch.isfinite(rewards).all()),
        "observations": policy.shape[1],
        "height": (robot.data.root_pos_w.torch[:, 2] - env.scene.env_origins[:, 2]).tolist(),
    }


if __name__ == "__main__":
    print("RESULT" + json.dumps(main()))
