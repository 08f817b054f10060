"""The tasks of two robots of the user's own, in a process of its own; prints one JSON object at the end.

The walker's task runs with its own bundle, the arm's is only resolved: a process holds one simulation. Usage:
``python own_robot_child.py WALK_TASK ARM_TASK`` with ``FLASHNERD_ROBOTS`` set.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from flashnerd_ext.robots.assets import activate

activate("local")

import gymnasium as gym  # noqa: E402
import torch  # noqa: E402
from isaaclab_tasks.utils import resolve_task_config  # noqa: E402

import flashnerd_tasks.own  # noqa: E402

ENVS, STEPS = 2, 3


def resolved(task: str, physics: str) -> tuple[Any, Any]:
    env, agent = resolve_task_config(task, "rsl_rl_cfg_entry_point", overrides=[f"physics={physics}"])
    env.sim.device, env.scene.num_envs, env.seed = "cpu", ENVS, 3
    return env, agent


def main() -> None:
    walk, reach = sys.argv[1:]
    imported = [name for name in sys.modules if name.startswith("flashnerd_tasks.own.robots.")]
    arm, arm_agent = resolved(reach, "flashnerd")
    cfg, agent = resolved(walk, "flashnerd")
    env: Any = gym.make(walk, cfg=cfg).unwrapped
    obs, _ = env.reset()
    robot = env.scene["robot"]
    names, start = robot.joint_names, robot.data.root_pos_w.torch[:, 2].tolist()
    finite = True
    for _ in range(STEPS):
        obs, reward, *_ = env.step(torch.zeros(env.action_space.shape))
        finite &= bool(torch.isfinite(obs["policy"]).all()) and bool(torch.isfinite(reward).all())
    from flashnerd_ext.rl.symmetry import mirror_of

    result = {
        "registered": flashnerd_tasks.own.register_own(),
        "imported_before": imported,
        "joints": names,
        "heights": start,
        "default": robot.data.default_joint_pos.torch[0].tolist(),
        "dt": env.step_dt,
        "finite": finite,
        "bundle": cfg.sim.physics.solver_cfg.bundle,
        "experiment": agent.experiment_name,
        "mirror": list(mirror_of(tuple(names)).sides),
        "arm": {
            "solver": type(arm.sim.physics.solver_cfg).__name__,
            "tip": arm.commands.ee_pose.body_name,
            "reach": [list(arm.commands.ee_pose.ranges.pos_x), list(arm.commands.ee_pose.ranges.pos_z)],
            "experiment": arm_agent.experiment_name,
        },
    }
    print("RESULT " + json.dumps(result))


if __name__ == "__main__":
    main()
