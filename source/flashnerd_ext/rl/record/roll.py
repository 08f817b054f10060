"""Rolls policies in a running simulation: each world follows one policy with one noise, and all are scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.rl.record.commands import assign, force_bins, velocity_term
from flashnerd_ext.rl.record.moment import Moment
from flashnerd_ext.rl.record.scores import Episode, EpisodeBook
from flashnerd_ext.rl.record.tap import Tap
from flashnerd_ext.rl.simulation import Simulation
from flashnerd_ext.robots.description import RobotDescription


@dataclass(frozen=True)
class RollPlan:
    """What is rolled.

    Attributes:
        steps: Control steps; 0 takes one whole episode.
        seed: Of resets, commands, noise and pushes.
        noise: Exploration noise of each group of worlds, in units of the policy's own; 0 is the mean action.
        bins: Bin of commands -> share of the worlds; empty leaves the task's own commands.
        pushes: Share of the worlds whose base is pushed.
        push_every: Mean time between pushes [s].
        push_speed: Largest change of the base's horizontal velocity, each way [m/s].
    """

    steps: int
    seed: int
    noise: tuple[float, ...] = (0.0,)
    bins: Mapping[str, float] = field(default_factory=dict)
    pushes: float = 0.0
    push_every: float = 3.0
    push_speed: float = 0.8


@dataclass(frozen=True)
class Rolled:
    """What came of it.

    Attributes:
        moments: Every control step; empty where only scores were wanted.
        episodes: Scored ones.
        groups: Group of each world, index into ``labels``, [N].
        labels: (policy's index, noise) of each group.
        pushed: Which worlds were pushed, boolean [N].
        steps: Control steps.
    """

    moments: list[Moment]
    episodes: list[Episode]
    groups: np.ndarray
    labels: list[tuple[int, float]]
    pushed: np.ndarray
    steps: int


def roll(
    simulation: Simulation,
    robot: RobotDescription,
    policies: Sequence[Any],
    plan: RollPlan,
    nominal: ExportedModel | None,
) -> Rolled:
    """Roll policies from a reset.

    Args:
        simulation: Running task.
        robot: Its robot.
        policies: rsl_rl models.
        plan: See there.
        nominal: Engine model that conditions are measured against; ``None`` records nothing and only scores.
    """
    import torch

    from flashnerd_ext.runtime import seed_everything

    env, unwrapped = simulation.env, simulation.unwrapped
    labels = [(i, noise) for i in range(len(policies)) for noise in plan.noise]
    groups = np.arange(env.num_envs) % len(labels)
    rng = np.random.default_rng(plan.seed)
    pushed = rng.random(env.num_envs) < plan.pushes if robot.layout.floating_base else np.zeros(env.num_envs, bool)
    steps = plan.steps or simulation.max_steps
    book = EpisodeBook(groups, pushed, max(1, steps // simulation.max_steps), float(unwrapped.step_dt))
    term = velocity_term(unwrapped)
    undo = force_bins(term, assign(plan.bins, groups)) if term is not None and plan.bins else lambda: None
    moments: list[Moment] = []
    tap = Tap(robot, nominal)
    try:
        with torch.inference_mode():
            unwrapped.seed(plan.seed)
            seed_everything(plan.seed)
            observations, _ = env.reset()
            for policy in policies:
                policy.reset()
            for _ in range(steps):
                actions = _actions(policies, labels, groups, observations)
                _push(simulation, pushed, plan, rng)
                command = term.command.cpu().numpy().copy() if term is not None else None
                number = term.command_counter.cpu().numpy().copy() if term is not None else None
                tap.begin()
                observations, rewards, dones, _ = env.step(actions)
                state = tap.end_state()
                for policy in policies:
                    policy.reset(dones)
                book.add(
                    rewards.cpu().numpy(),
                    unwrapped.reset_terminated.cpu().numpy().astype(bool),
                    unwrapped.reset_time_outs.cpu().numpy().astype(bool),
                    state if robot.layout.floating_base else None,
                    command,
                    number,
                )
                if nominal is not None:
                    moments.append(tap.moment())
                elif book.full:
                    break
    finally:
        tap.remove()
        undo()
    return Rolled(moments, book.finish(), groups, labels, pushed, steps)


def _actions(policies: Sequence[Any], labels: list[tuple[int, float]], groups: np.ndarray, observations: Any) -> Any:
    """Each world's action: the mean of its policy, and its group's multiple of the policy's own noise."""
    import torch

    actions: Any = None
    for number, policy in enumerate(policies):
        mean = policy(observations).clone()
        noisy = any(noise > 0 for index, noise in labels if index == number)
        drawn = policy(observations, stochastic_output=True) - mean if noisy else torch.zeros_like(mean)
        actions = torch.empty_like(mean) if actions is None else actions
        for group, (index, noise) in enumerate(labels):
            if index == number:
                mine = torch.as_tensor(np.flatnonzero(groups == group), device=mean.device)
                actions[mine] = mean[mine] + noise * drawn[mine]
    return actions


def _push(simulation: Simulation, pushed: np.ndarray, plan: RollPlan, rng: np.random.Generator) -> None:
    """Change the base's velocity in some of the pushed worlds, as Isaac Lab's own push event does."""
    if not pushed.any():
        return
    import torch
    from isaaclab.envs import mdp
    from isaaclab.managers import SceneEntityCfg

    env = simulation.unwrapped
    # Drawn for all worlds, so that a world's pushes do not depend on the others'.
    now = pushed & (rng.random(len(pushed)) < float(env.step_dt) / plan.push_every)
    if not now.any():
        return
    name = next(iter(env.scene.articulations))
    reach = (-plan.push_speed, plan.push_speed)
    ids = torch.as_tensor(np.flatnonzero(now), device=env.device, dtype=torch.int32)
    mdp.push_by_setting_velocity(env, ids, {"x": reach, "y": reach}, SceneEntityCfg(name))
