"""One stock manipulation task on the local asset root, in a process of its own; prints one JSON object at the end.

Usage: ``python manipulation_child.py TASK PHYSICS ENVS STEPS``; PHYSICS is a preset, or empty for the task's own.
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
import warp as wp  # noqa: E402
from isaaclab.app import launch_simulation  # noqa: E402
from isaaclab_tasks.utils import resolve_task_config  # noqa: E402


def finite(values: dict[str, Any]) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in values.values())


def newton_facts(count: int) -> dict[str, Any]:
    """What Newton built, in the first world: joints and bodies of robot and object."""
    from isaaclab_newton.physics import NewtonManager

    model: Any = NewtonManager.get_model()
    solver: Any = NewtonManager._solver
    bodies, joints, dofs = (n // count for n in (model.body_count, model.joint_count, model.joint_dof_count))
    starts = model.joint_qd_start.numpy()
    moving = [j for j in range(joints) if starts[j + 1] - starts[j] == 1]
    columns = [int(starts[j]) for j in moving]
    return {
        "joints": [model.joint_label[j].rsplit("/", 1)[-1] for j in moving],
        "bodies": [label.rsplit("/", 1)[-1] for label in model.body_label[:bodies]],
        "mass": model.body_mass.numpy()[:bodies].tolist(),
        "lower": model.joint_limit_lower.numpy()[columns].tolist(),
        "upper": model.joint_limit_upper.numpy()[columns].tolist(),
        "armature": model.joint_armature.numpy()[columns].tolist(),
        "stiffness": model.joint_target_ke.numpy()[columns].tolist(),
        "damping": model.joint_target_kd.numpy()[columns].tolist(),
        "effort": model.joint_effort_limit.numpy()[columns].tolist(),
        "dofs": dofs,
        "equalities": int(solver.mj_model.neq),
        "gravcomp": float(solver.mj_model.body_gravcomp.max()),
        "solver_dt": NewtonManager._solver_dt,
    }


def main() -> None:
    task, physics, count, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    if physics == "ovphysx":
        # Isaac Lab asks for pinned memory, which Warp has none of without a CUDA driver.
        device: Any = wp.get_device("cpu")
        device.pinned_allocator = device.default_allocator
    torch.manual_seed(0)
    cfg: Any = resolve_task_config(task, "", overrides=[f"physics={physics}"] if physics else [])[0]
    if task == "Isaac-Lift-Franka":
        # Training fills a bank of 1,024 accepted resets for each of eight objects first; the configuration's own play
        # mode takes 32.
        cfg.play_mode()
    cfg.sim.device, cfg.scene.num_envs = "cpu", count
    with launch_simulation(cfg, {"device": "cpu"}):
        env = gym.make(task, cfg=cfg)
        first, _ = env.reset()
        first = {name: value.clone() for name, value in first.items()}
        good = finite(first)
        for _ in range(steps):
            obs, reward, *_ = env.step(2.0 * torch.rand(tuple(env.action_space.shape or ())) - 1.0)
            good = good and finite({**obs, "reward": reward})
        robot = env.unwrapped.scene.articulations["robot"]
        result = {
            "finite": good,
            "envs": len(first["policy"]),
            "moved": float((robot.data.joint_pos.torch - robot.data.default_joint_pos.torch).abs().max()),
            "order": list(robot.joint_names),
            "links": list(robot.body_names),
        }
        if physics == "newton_mjwarp":
            result |= newton_facts(count)
        print("RESULT " + json.dumps(result), flush=True)
        env.close()


main()
