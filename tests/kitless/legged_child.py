"""One stock task of a legged robot on the local asset root, in a process of its own; prints one JSON object at the end.

Isaac Lab reads its asset root at import and keeps one simulation a process, so the tests start this file.
Usage: ``python legged_child.py TASK ROBOT ENVS STEPS``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from flashnerd_ext.robots.assets import activate, root

activate("local")

import gymnasium as gym  # noqa: E402
import isaaclab_tasks  # noqa: E402, F401
import numpy as np  # noqa: E402
import torch  # noqa: E402
from isaaclab_tasks.utils import resolve_task_config  # noqa: E402

from flashnerd_ext.robots.assets.descriptions import get_description  # noqa: E402
from flashnerd_ext.robots.assets.readback import Asset, read_asset  # noqa: E402


def make(task: str, count: int, actuators: dict[str, Any] | None = None) -> Any:
    cfg: Any = resolve_task_config(task, "", overrides=["physics=newton_mjwarp"])[0]
    cfg.sim.device, cfg.scene.num_envs, cfg.seed = "cpu", count, 3
    if actuators is not None:
        cfg.scene.robot.actuators = actuators
    return gym.make(task, cfg=cfg).unwrapped


def make_anymal(task: str, count: int) -> tuple[Any, str]:
    """The stock task's refusal, and the task with the DC motors that Isaac Lab ships beside the net."""
    from isaaclab.sim import SimulationContext
    from isaaclab_assets.robots.anymal import ANYDRIVE_3_SIMPLE_ACTUATOR_CFG

    refusal = ""
    try:
        make(task, count).close()
    except FileNotFoundError as error:
        refusal = str(error)
    finally:
        SimulationContext.clear_instance()
    return make(task, count, {"legs": ANYDRIVE_3_SIMPLE_ACTUATOR_CFG}), refusal


def random_steps(env: Any, steps: int) -> dict[str, Any]:
    obs, _ = env.reset()
    first, finite = obs["policy"].clone(), True
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        action = 2.0 * torch.rand(env.action_space.shape, generator=generator) - 1.0
        obs, reward, *_ = env.step(action)
        finite &= bool(torch.isfinite(obs["policy"]).all()) and bool(torch.isfinite(reward).all())
    return {"finite": finite, "moved": float((obs["policy"] - first).abs().max()), "envs": len(obs["policy"])}


def lowest_points(asset: Asset, names: list[str], poses: torch.Tensor) -> dict[str, float]:
    """Body -> height [m] of the lowest point of its balls and hulls; ``poses`` [bodies, 7], quaternion x, y, z, w."""
    from scipy.spatial.transform import Rotation

    lowest = {}
    for name, pose in zip(names, poses.numpy(), strict=True):
        heights = []
        for shape in asset.shapes[name]:
            local = np.array(shape["pose"])
            points, radius = np.array(shape.get("points", [[0.0, 0.0, 0.0]])), float(str(shape.get("radius", 0.0)))
            points = points @ local[:3, :3].T + local[:3, 3]
            if shape["type"] in ("Sphere", "Mesh"):
                heights.append(float((Rotation.from_quat(pose[3:]).apply(points) + pose[:3])[:, 2].min()) - radius)
        if heights:
            lowest[name] = min(heights)
    return lowest


def stand(env: Any, robot: Any, asset: Asset, seconds: float) -> dict[str, Any]:
    """Put every robot on its feet in the default pose, hold the default targets, and say what became of it."""
    env.reset()
    data, everyone = robot.data, torch.arange(env.num_envs, dtype=torch.int32)
    pose = data.default_root_pose.torch.clone()
    pose[:, :2] += env.scene.env_origins[:, :2]

    def write() -> None:
        robot.write_root_pose_to_sim_index(root_pose=pose, env_ids=everyone)
        robot.write_root_velocity_to_sim_index(root_velocity=torch.zeros(env.num_envs, 6), env_ids=everyone)
        robot.write_joint_state_to_sim_index(
            position=data.default_joint_pos.torch, velocity=torch.zeros_like(data.default_joint_pos.torch),
            env_ids=everyone,
        )  # fmt: skip

    write()
    lowest = lowest_points(asset, list(robot.body_names), data.body_link_pose_w.torch[0])
    feet = [name for name in lowest if lowest[name] < min(lowest.values()) + 0.02]
    pose[:, 2] -= min(lowest.values())
    write()
    start = float(pose[0, 2])
    heights, loads, others, ended = [], [], 0.0, 0
    sensor = env.scene["contact_forces"]
    on_feet = torch.tensor([name in feet for name in sensor.sensor_names])
    for _ in range(round(seconds / env.step_dt)):
        _, _, terminated, *_ = env.step(torch.zeros(env.action_space.shape))
        ended += int(terminated.sum())
        force = sensor.data.net_forces_w.torch
        heights.append(data.root_pos_w.torch[:, 2].clone())
        loads.append(force[:, :, 2].sum(1))
        others = max(others, float(force[:, ~on_feet].norm(dim=-1).max()))
    weight = env.scene["robot"].data.body_mass.torch.sum(1) * 9.81
    return {
        "feet": feet,
        "start": start,
        "heights": torch.stack(heights)[:, :].mean(1).tolist(),
        "lowest": float(torch.stack(heights).min()),
        "end": [float(heights[-1].min()), float(heights[-1].max())],
        "upright": float(-data.projected_gravity_b.torch[:, 2].max()),
        "load": float((torch.stack(loads)[-20:].mean(0) / weight).mean()),
        "others": others,
        "ended": ended,
    }


def model_facts(count: int) -> dict[str, Any]:
    """What Newton built: bodies and joints of the first world."""
    from isaaclab_newton.physics import NewtonManager

    model: Any = NewtonManager.get_model()
    bodies, joints = model.body_count // count, model.joint_count // count
    starts = model.joint_qd_start.numpy()
    moving = [index for index in range(joints) if starts[index + 1] - starts[index] == 1]
    dofs = [int(starts[index]) for index in moving]
    return {
        "bodies": [label.rsplit("/", 1)[-1] for label in model.body_label[:bodies]],
        "mass": model.body_mass.numpy()[:bodies].tolist(),
        "com": model.body_com.numpy()[:bodies].tolist(),
        "inertia": model.body_inertia.numpy()[:bodies].tolist(),
        "joints": [model.joint_label[index].rsplit("/", 1)[-1] for index in moving],
        "lower": model.joint_limit_lower.numpy()[dofs].tolist(),
        "upper": model.joint_limit_upper.numpy()[dofs].tolist(),
        "armature": model.joint_armature.numpy()[dofs].tolist(),
    }


def main() -> None:
    task, name, count, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    env, refusal = make_anymal(task, count) if name == "anymal_c" else (make(task, count), "")
    robot = env.scene["robot"]
    asset = read_asset(root.local_root() / get_description(name).outputs[0])
    result = {"refusal": refusal, "order": list(robot.joint_names), **random_steps(env, steps), **model_facts(count)}
    if "contact_forces" in env.scene.sensors:
        result["stand"] = stand(env, robot, asset, 1.0)
    print("RESULT " + json.dumps(result), flush=True)
    env.close()


main()
