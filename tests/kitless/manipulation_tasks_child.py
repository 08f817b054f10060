"""Manipulation tasks in coupled mode, in a process of their own; prints one JSON object at the end.

Usage: ``python manipulation_tasks_child.py CASE BUNDLE OUT_FOLDER TASK...``; several tasks for ``chosen`` only.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from backend_child import answer, make, refusal, robot_of, solver_of
from coupled_child import own_value

TASKS = sys.argv[4:]
WORLDS = 4
KNOWN_STEPS, STEPS = 5, 5


def small_bank(cfg: Any) -> None:
    """The lift tasks fill a bank of resets first; a few are enough here."""
    reset = getattr(getattr(cfg, "events", None), "conditional_reset", None)
    if reset is not None:
        reset.params |= {"buffer_size_per_group": 8, "diversity_feature": None}


def command(env: Any, step: int) -> Any:
    """Actions [W, A] that differ between worlds and joints."""
    import torch

    phase = torch.arange(env.num_envs)[:, None] + 0.7 * torch.arange(env.action_space.shape[-1])[None]
    return torch.sin(phase + 0.4 * step)


def states(env: Any) -> dict[str, list[Any]]:
    found = {"q": robot_of(env).data.joint_pos.torch.tolist()}
    for name, body in env.scene.rigid_objects.items():
        found[name] = body.data.root_link_pose_w.torch.tolist()
    return found


def turn_facts(env: Any) -> dict[str, Any]:
    """Of a goal that is one turn away: its angle and axis, seen from the object as it was reset."""
    from isaaclab.utils.math import axis_angle_from_quat, quat_conjugate, quat_mul

    goal = env.command_manager.get_term("object_pose").quat_command_w
    present = env.scene["object"].data.root_quat_w.torch
    return {
        "turn": axis_angle_from_quat(quat_mul(goal, quat_conjugate(present))).tolist(),
        "start": axis_angle_from_quat(present).tolist(),
    }


def roll(*overrides: str, known: bool) -> dict[str, Any]:
    """States over some control steps; in coupled mode with the scene's own acceleration first, then with the bundle."""
    import torch
    from isaaclab.sim import SimulationContext
    from isaaclab_newton.physics import NewtonManager

    env = make(TASKS[0], WORLDS, *overrides, setup=small_bank)
    env.reset()
    facts: dict[str, Any] = {"start": states(env), "control_dt": env.step_dt, "solver_dt": NewtonManager._solver_dt}
    if TASKS[0].endswith("Reduced"):
        facts |= {"goal": turn_facts(env)}
    solver: Any = None
    bundled: Any = None
    if known:
        solver = solver_of(env)
        bundled = solver.stream.stepper.accelerate
        solver.stream.stepper.accelerate = own_value(solver)
        facts["solver"] = type(solver).__name__
        facts["rows"] = solver.where.rows
    finite, contacts, path = True, 0, []
    for i in range(KNOWN_STEPS + (STEPS if known else 0)):
        if known and i == KNOWN_STEPS:
            solver.stream.stepper.accelerate = bundled
        obs, reward, *_ = env.step(command(env, i))
        finite &= all(bool(torch.isfinite(value).all()) for value in (*obs.values(), reward))
        running: Any = NewtonManager._solver
        contacts = max(contacts, int(running.mjw_data.nacon.numpy()[0]))
        path.append(states(env))
    facts |= {"finite": finite, "contacts": contacts, "path": path, "worlds": env.num_envs}
    if known:
        facts |= {"steps": solver.stream.steps, "fallen_back": int(solver.guard.total.sum())}
    env.close()
    SimulationContext.clear_instance()
    return facts


def learned() -> dict[str, Any]:
    return roll(known=True)


def stock() -> dict[str, Any]:
    """A process of its own: the lift tasks draw numbers for what a process then keeps, so that a second environment of
    the same seed starts elsewhere."""
    return roll("physics=newton_mjwarp", known=False)


def chosen() -> dict[str, Any]:
    """The bundle that each task takes by itself; its simulation ends there."""
    from flashnerd_ext.errors import FlashNerdError
    from flashnerd_ext.physics import flashnerd_manager

    def stop(bundle: Any, *_: Any, **__: Any) -> None:
        raise FlashNerdError(bundle.card.name)

    flashnerd_manager.make_stepper = stop  # pyright: ignore[reportAttributeAccessIssue]
    return {task: refusal(task, WORLDS, "physics=flashnerd", setup=small_bank) for task in TASKS}


if __name__ == "__main__":
    answer({"learned": learned, "stock": stock, "chosen": chosen})
