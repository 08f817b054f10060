"""A training schedule: command ranges, reward weights and learner settings of the first iterations of a training only.

It belongs to the training and not to the task (``agent.algorithm.stages``, see :mod:`.scheduled_ppo`): playing,
evaluating, recording and refreshing see the task's own commands and rewards, and a resumed training goes on where it
was, since the iteration, which checkpoints hold, says which stage it is in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flashnerd_ext.errors import FlashNerdError, nearest

KEY = "algorithm.stages"
KEYS = ("until", "commands", "rewards", "algorithm")


@dataclass(frozen=True)
class Stage:
    """What differs from the task before an iteration.

    Attributes:
        until: First iteration that it does not hold for.
        commands: Field of the velocity command's ranges, or ``rel_standing_envs``, -> its value.
        rewards: Reward term -> its weight.
        algorithm: Number that the learner reads at each update (``entropy_coef``, ``desired_kl``) -> its value.
    """

    until: int
    commands: Mapping[str, Any] = field(default_factory=dict)
    rewards: Mapping[str, float] = field(default_factory=dict)
    algorithm: Mapping[str, float] = field(default_factory=dict)


def parse(value: Any) -> list[Stage]:
    """Stages from an agent configuration.

    Args:
        value: A list of mappings with the keys of :data:`KEYS`; empty or ``None`` is no schedule.

    Raises:
        FlashNerdError: Names what does not fit.
    """
    stages: list[Stage] = []
    for number, item in enumerate(value or []):
        name = f"agent.{KEY}[{number}]"
        if not isinstance(item, Mapping):
            raise FlashNerdError(f"{name} is {item!r}, but a mapping with {', '.join(KEYS)} is needed.")
        for key in item:
            if key not in KEYS:
                raise FlashNerdError(f"{name} has '{key}', which is no part of a stage: {nearest(str(key), KEYS)}")
        until, before = item.get("until"), stages[-1].until if stages else 0
        if not isinstance(until, int) or isinstance(until, bool) or until <= before:
            raise FlashNerdError(f"{name}.until is {until!r}, but an iteration above {before} is needed.")
        commands, rewards, algorithm = (dict(item.get(key) or {}) for key in KEYS[1:])
        for key, value in [*((f"rewards.{k}", v) for k, v in rewards.items()),
                           *((f"algorithm.{k}", v) for k, v in algorithm.items())]:  # fmt: skip
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise FlashNerdError(f"{name}.{key} is {value!r}, but a finite number is needed.")
        stages.append(Stage(until, commands, rewards, algorithm))
    return stages


class Schedule:
    """Applies stages to a running environment.

    Args:
        stages: In the order of their ends.
        env: Isaac Lab's own environment.
        algorithm: The learner, rsl_rl's PPO.

    Raises:
        FlashNerdError: Where a stage names what the environment or the learner does not have.
    """

    def __init__(self, stages: Sequence[Stage], env: Any, algorithm: Any = None) -> None:
        self.stages = list(stages)
        self._algorithm = algorithm
        self.number: int | None = None  # of the stage in force; len(stages) is the task itself
        self._rewards: Any = env.reward_manager
        self._command: Any = _velocity(env) if any(stage.commands for stage in stages) else None
        self._own_commands = {name: self._read(name) for stage in stages for name in stage.commands}
        self._own_rewards = {name: self._term(name).weight for stage in stages for name in stage.rewards}
        self._own_algorithm = {name: self._setting(name) for stage in stages for name in stage.algorithm}

    def at(self, iteration: int) -> int:
        """Number of the stage that an iteration belongs to."""
        return next((i for i, stage in enumerate(self.stages) if iteration < stage.until), len(self.stages))

    def apply(self, iteration: int) -> bool:
        """Put the stage of an iteration in force; returns whether anything changed.

        Commands in force stay until they are drawn anew, as the task draws them.
        """
        number = self.at(iteration)
        if number == self.number:
            return False
        self.number = number
        stage = self.stages[number] if number < len(self.stages) else Stage(0)
        for name, value in {**self._own_commands, **stage.commands}.items():
            self._write(name, value)
        for name, weight in {**self._own_rewards, **stage.rewards}.items():
            self._term(name).weight = float(weight)
        for name, value in {**self._own_algorithm, **stage.algorithm}.items():
            setattr(self._algorithm, name, value)
        return True

    def describe(self) -> str:
        """The stage in force in one line."""
        number = self.number
        if number is None or number >= len(self.stages):
            return "schedule: the task's own commands and rewards from here on"
        stage = self.stages[number]
        parts = [f"{name} {value}" for name, value in {**stage.commands, **stage.rewards, **stage.algorithm}.items()]
        return f"schedule: until iteration {stage.until}: {', '.join(parts) or 'the task itself'}"

    def _setting(self, name: str) -> float:
        value = getattr(self._algorithm, name, None)
        if isinstance(value, bool) or not isinstance(value, int | float):
            known = [key for key, found in vars(self._algorithm).items() if isinstance(found, float)]
            raise FlashNerdError(
                f"agent.{KEY} sets '{name}', which is no number of the learner: {nearest(name, known)}"
            )
        return value

    def _term(self, name: str) -> Any:
        known = self._rewards.active_terms
        if name not in known:
            raise FlashNerdError(f"agent.{KEY} weighs the reward '{name}', which is no term: {nearest(name, known)}")
        return self._rewards.get_term_cfg(name)

    def _holder(self, name: str) -> Any:
        cfg = self._command.cfg
        holder = cfg if name == "rel_standing_envs" else cfg.ranges
        known = [*vars(cfg.ranges), "rel_standing_envs"]
        if name not in known:
            raise FlashNerdError(f"agent.{KEY} sets the command '{name}', which is none: {nearest(name, known)}")
        return holder

    def _read(self, name: str) -> Any:
        return getattr(self._holder(name), name)

    def _write(self, name: str, value: Any) -> None:
        setattr(self._holder(name), name, tuple(value) if isinstance(value, list) else value)


def _velocity(env: Any) -> Any:
    from flashnerd_ext.rl.record.commands import velocity_term

    term = velocity_term(env)
    if term is None:
        raise FlashNerdError(f"agent.{KEY} sets commands, but the task has no velocity command: leave them out.")
    return term
