"""Runs a task on given actions and writes what robot and object did; a process has one simulation.

``python -m flashnerd_ext.rl.objects.child SPEC.json``. Lines that begin with ``PROGRESS`` are for the parent.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.errors import FlashNerdError, cli_main
from flashnerd_ext.files import atomic_save
from flashnerd_ext.rl.children import PROGRESS
from flashnerd_ext.rl.objects.actions import sequences
from flashnerd_ext.rl.objects.shown import Shown
from flashnerd_ext.rl.simulation import Simulation, open_specified

NUDGE = 1e-6
"""Spread of what the disturbed simulator adds to joint positions at the start [rad or m]: its own noise floor."""


def main() -> int:
    """Do what the specification says."""
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    shown = Shown(spec["shown"]) if spec.get("shown") else None
    simulation = open_specified(spec, **({} if shown is None else {"adjust": shown.adjust}))
    try:
        found = roll(simulation, spec, shown)
        if shown is not None:
            shown.save()
        # The parent takes this file for the sign that all is there.
        atomic_save(Path(spec["result"]), lambda path: np.savez(path, allow_pickle=False, **found))
    finally:
        simulation.close()
    return 0


def roll(
    simulation: Simulation, spec: dict[str, Any], each: Callable[[Any], None] | None = None
) -> dict[str, np.ndarray]:
    """Steps the task.

    Args:
        simulation: Of the task.
        spec: ``object``, ``actions``, ``steps``, ``seed`` and ``nudge``, see :mod:`flashnerd_ext.rl.objects.program`.
        each: Called with the environment (unwrapped) after each control step.

    Returns:
        ``pose`` of the object in its world before each step and after the last [T + 1, N, 7] (x, y, z [m], quaternion
        x, y, z, w), ``force`` on it, the size of what all contacts do to it together [T, N] in N, ``ended`` whether an
        episode ended in a step other than by its length [T, N], ``joint_q`` at the start [N, J], ``steps`` of the
        model and its ``fallen_back`` ones.
    """
    import torch

    from flashnerd_ext.physics.environment import running_solver
    from flashnerd_ext.runtime import seed_everything

    unwrapped, steps = simulation.unwrapped, int(spec["steps"])
    thing = _object(unwrapped, spec["object"])
    robot = unwrapped.scene["robot"]
    touched = _Touch(unwrapped, thing)
    manager = unwrapped.action_manager
    joints = [name for term in manager.active_terms for name in getattr(manager.get_term(term), "_joint_names", ())]
    if len(joints) != manager.total_action_dim:
        joints = [f"action_{i}" for i in range(manager.total_action_dim)]
    actions = sequences(spec["actions"], joints, unwrapped.num_envs, steps, float(unwrapped.step_dt), spec["seed"])
    poses, forces, ended = [], [], []
    with torch.inference_mode():
        unwrapped.seed(spec["seed"])
        seed_everything(spec["seed"])
        simulation.env.reset()
        start = robot.data.joint_pos.torch.clone()
        if spec["nudge"]:
            noise = torch.from_numpy(np.random.default_rng(spec["seed"]).normal(size=tuple(start.shape)) * NUDGE)
            robot.write_joint_position_to_sim_index(position=start + noise.to(start))
        poses.append(_pose(unwrapped, thing))
        for t in range(steps):
            simulation.env.step(torch.from_numpy(actions[t]).to(unwrapped.device))
            poses.append(_pose(unwrapped, thing))
            forces.append(touched())
            ended.append(unwrapped.reset_terminated.cpu().numpy().copy())
            if each is not None:
                each(unwrapped)
            print(PROGRESS, t + 1, flush=True)
    solver: Any = running_solver()
    return {
        "pose": np.stack(poses),
        "force": np.stack(forces),
        "ended": np.stack(ended).astype(bool),
        "joint_q": start.cpu().numpy(),
        "dt": np.array(float(unwrapped.step_dt)),
        "steps": np.array(0 if solver is None else int(solver.stream.steps)),
        "fallen_back": np.array(0 if solver is None else int(solver.guard.total.sum())),
    }


def _object(env: Any, name: str) -> Any:
    known = list(env.scene.rigid_objects)
    if name not in known:
        raise FlashNerdError(f"object is '{name}', but the task's rigid objects are {', '.join(known) or 'none'}.")
    return env.scene[name]


def _pose(env: Any, thing: Any) -> np.ndarray:
    pose = thing.data.root_link_pose_w.torch.clone()
    pose[:, :3] -= env.scene.env_origins
    return pose.cpu().numpy()


class _Touch:
    """Size of the force that contacts do to an object, from MuJoCo Warp's constraint forces on its free joint."""

    def __init__(self, env: Any, thing: Any) -> None:
        from isaaclab_newton.physics import NewtonManager

        solver: Any = NewtonManager._solver
        if not hasattr(solver, "mjw_data"):
            raise FlashNerdError(
                "the physics has no MuJoCo Warp solver, from which contact forces are read: type a preset of Newton."
            )
        model = solver.model
        tail = thing.cfg.prim_path.rsplit("/", 1)[-1]
        child, labels = model.joint_child.numpy(), list(model.body_label)
        per_world = int(model.joint_count) // max(int(model.world_count), 1)
        found = [j for j in range(per_world) if tail in labels[int(child[j])].split("/")]
        if not found:
            raise FlashNerdError(f"the object {tail} has no joint in the simulation, so that it cannot be followed.")
        self._first = int(solver.mj_qd_start.numpy()[found[0]])
        self._solver = solver

    def __call__(self) -> np.ndarray:
        forces = self._solver.mjw_data.qfrc_constraint.numpy()
        return np.linalg.norm(forces[:, self._first : self._first + 3], axis=-1)


if __name__ == "__main__":
    cli_main(main)
