"""Where the actions of a motion come from: a policy, or the robot's own samplers (gaits, noise, standing)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.data.samplers import Policy, counts, mixture, samplers_of
from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.rl.simulation import Simulation
from flashnerd_ext.robots.description import RobotDescription

Actions = Callable[[int, Any], Any]
"""(step, observations) -> actions of the environment, [N, A]."""


def policy_actions(simulation: Simulation, path: Path, noise: float) -> Actions:
    """Actions of a checkpoint: its mean, and ``noise`` times its own exploration noise."""
    from flashnerd_ext.rl.rollouts import load_policy

    policy = load_policy(simulation.env, simulation.agent_cfg, path)
    policy.reset()

    def actions(step: int, observations: Any) -> Any:
        mean = policy(observations).clone()
        if noise > 0:
            mean += noise * (policy(observations, stochastic_output=True) - mean)
        return mean

    return actions


def check_motions(robot: RobotDescription, motions: Sequence[str]) -> None:
    """Refuse motions that the robot's samplers do not have.

    Raises:
        FlashNerdError: Names the first one.
    """
    known = samplers_of(robot.name)
    for name in motions:
        if name not in known:
            raise FlashNerdError(
                f"motions has '{name}', which robot={robot.name} does not have: {nearest(name, known)}"
            )


def sampled_targets(robot: RobotDescription, motions: Sequence[str], worlds: int, steps: int, seed: int) -> Policy:
    """Actuation of samplers in equal shares of the worlds (with the test split's mixture when ``motions`` is empty).

    Only their policies are used: the task says where episodes start.
    """
    rng = np.random.default_rng(seed)
    share = mixture(robot.name, "test", dict.fromkeys(motions, 1.0) or None)
    parts = []
    for known, count in zip(samplers_of(robot.name).values(), counts(share, worlds), strict=True):
        if count:
            parts.append((count, known.draw(rng, count, steps)[2]))

    def targets(step: int, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        edges = np.cumsum([0] + [count for count, _ in parts])
        return np.concatenate(
            [policy(step, q[a:b], qd[a:b]) for (_, policy), a, b in zip(parts, edges, edges[1:], strict=False)]
        )

    return targets


def sampled_actions(
    simulation: Simulation, robot: RobotDescription, motions: Sequence[str], steps: int, seed: int
) -> Actions:
    """Actions that give the samplers' actuation; see :func:`sampled_targets`.

    Raises:
        FlashNerdError: Where the task's actions are not those of one joint action term.
    """
    import torch

    unwrapped = simulation.unwrapped
    manager = unwrapped.action_manager
    term = manager.get_term(manager.active_terms[0]) if len(manager.active_terms) == 1 else None
    names = list(getattr(term, "_joint_names", ()))
    if sorted(names) != sorted(robot.layout.actuated):
        raise FlashNerdError(
            f"the task's actions move {names or 'no joints that are known'}, but motions move all joints of robot="
            f"{robot.name}: give a policy with policy=PATH."
        )
    order = [robot.layout.actuated.index(name) for name in names]
    scale, offset = (_row(getattr(term, name), len(names)) for name in ("_scale", "_offset"))
    worlds = unwrapped.num_envs
    targets = sampled_targets(robot, motions, worlds, steps, seed)
    # The samplers in use have no feedback of the state, so that none is read for them.
    q, qd = np.zeros((worlds, robot.layout.nq)), np.zeros((worlds, robot.layout.nv))

    def actions(step: int, observations: Any) -> Any:
        wanted = (targets(step, q, qd)[:, order] - offset) / scale
        return torch.as_tensor(wanted, dtype=torch.float32, device=unwrapped.device)

    return actions


def _row(value: Any, size: int) -> np.ndarray:
    """A number or [N, size] tensor of an action term as [1 or N, size]."""
    numbers = np.asarray(value.cpu() if hasattr(value, "cpu") else value, float)
    return numbers if numbers.ndim == 2 else np.broadcast_to(numbers, (1, size))
