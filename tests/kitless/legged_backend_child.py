"""ANYmal-C's velocity task in learned physics, in a process of its own; prints one JSON object at the end.

The model is replaced by one that is known: the robot keeps its state, every link is pushed up with 100 N, every joint
gives 3 N m. What Isaac Lab then reads can be said beforehand. Usage: ``python legged_backend_child.py BUNDLE OUT``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from flashnerd_ext.robots.assets import activate

activate("local")

import gymnasium as gym  # noqa: E402
import isaaclab_tasks  # noqa: E402, F401
import torch  # noqa: E402
import warp as wp  # noqa: E402
from isaaclab_tasks.utils import resolve_task_config  # noqa: E402

import flashnerd_tasks  # noqa: E402, F401  # pyright: ignore[reportMissingImports]
from flashnerd_ext.physics.environment import running_solver  # noqa: E402

TASK, COUNT = "FlashNeRD-Velocity-Flat-AnymalC", 6
PUSH, TORQUE = 100.0, 3.0


def make(bundle: str, folder: Path) -> Any:
    overrides = ["physics=flashnerd", f"env.sim.physics.solver_cfg.bundle={bundle}"]
    cfg: Any = resolve_task_config(TASK, None, overrides=overrides)[0]
    cfg.scene.num_envs, cfg.sim.device, cfg.seed = COUNT, "cpu", 7
    cfg.sim.physics.solver_cfg.dump_dir = str(folder / "dumps")
    cfg.terminations.base_contact = None
    return gym.make(TASK, cfg=cfg).unwrapped


def freeze(solver: Any) -> list[dict[str, torch.Tensor]]:
    """Put the known model in place; returns the list to which each step's inputs are added."""
    stepper, seen = solver.stream.stepper, []
    links = len(solver.contact_stage.links)

    def step(joint_q: torch.Tensor, joint_qd: torch.Tensor, actuation: torch.Tensor, rows: Any) -> Any:
        seen.append(
            {"q": joint_q.clone(), "qd": joint_qd.clone(), "actuation": actuation.clone(), "used": rows.used.clone()}
        )
        # A force along gravity's opposite, in the root frame.
        from flashnerd_ext.model.rotation import rotate_inverse

        up = torch.zeros(len(joint_q), links, 3)
        up[..., 2] = PUSH
        local = rotate_inverse(joint_q[:, None, 3:7].expand(-1, links, 4), up)
        stepper.sensed.copy_(torch.cat((local.flatten(1), torch.full((len(joint_q), 12), TORQUE)), 1))
        return joint_q.clone(), joint_qd.clone()

    stepper.step = step
    return seen


def main() -> dict[str, Any]:
    env = make(sys.argv[1], Path(sys.argv[2]))
    solver: Any = running_solver()
    seen = freeze(solver)
    env.reset()
    robot, sensor = env.scene["robot"], env.scene["contact_forces"]
    # Worlds 0 to 2 stand with their feet at the ground, the others hover.
    pose = robot.data.root_link_pose_w.torch.clone()
    pose[:, 2] = torch.tensor([0.5488, 0.5488, 0.5488, 2.0, 2.0, 2.0])
    pose[:, 3:] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    robot.write_root_pose_to_sim_index(root_pose=pose)
    robot.write_root_velocity_to_sim_index(root_velocity=torch.zeros(COUNT, 6))
    robot.write_joint_position_to_sim_index(position=robot.data.default_joint_pos.torch.clone())
    robot.write_joint_velocity_to_sim_index(velocity=torch.zeros(COUNT, 12))
    actions = torch.linspace(-1, 1, COUNT * 12).reshape(COUNT, 12)
    observations, rewards = env.step(actions)[:2]
    feet = [name.endswith("FOOT") for name in sensor.body_names]
    force = sensor.data.net_forces_w.torch.clone()
    target = robot.data.default_joint_pos.torch + 0.5 * actions
    air = [sensor.data.current_air_time.torch.clone()]
    for _ in range(4):
        env.step(actions)
    air.append(sensor.data.current_air_time.torch.clone())
    torque = robot.data.applied_torque.torch.clone()
    # A push: the velocity is written, the next frame shows it.
    pushed = robot.data.root_com_vel_w.torch.clone()
    pushed[:, 0] += 0.7
    robot.write_root_velocity_to_sim_index(root_velocity=pushed)
    ages = solver.stream.stepper.cache.age.clone()
    env.step(actions)
    model = solver.model
    base = torch.from_numpy(solver.contact_stage.base)
    mass = wp.to_torch(model.body_mass)[base]
    nominal = solver.conditions._mass[base]
    return {
        "links": sensor.body_names,
        "feet": feet,
        "force": force.tolist(),
        "targets_error": float((seen[-1]["actuation"] - target).abs().max()),
        "torque": torque.tolist(),
        "air": [x.tolist() for x in air],
        "used": seen[0]["used"].sum(1).tolist(),
        "pushed": float((seen[-1]["qd"][:, 0] - pushed[:, 0]).abs().max()),
        "past_kept": bool((solver.stream.stepper.cache.age == ages).all()),
        "mass_ratio": (mass / nominal - 1).tolist(),
        "condition": solver.stream.stepper.condition.tolist(),
        "clamped": solver.conditions.clamped,
        "finite": bool(torch.isfinite(observations["policy"]).all() and torch.isfinite(rewards).all()),
        "overflow": solver.contact_stage.overflow.tolist(),
    }


if __name__ == "__main__":
    print("RESULT" + json.dumps(main()))
