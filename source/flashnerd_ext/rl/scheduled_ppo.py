"""PPO that follows a training schedule, for rsl_rl's ``algorithm.class_name``; any runner of rsl_rl can train it."""

from __future__ import annotations

from typing import Any

from rsl_rl.algorithms import PPO

from flashnerd_ext.rl.schedule import Schedule, parse


class ScheduledPPO(PPO):
    """rsl_rl's PPO; ``stages`` are put in force while it trains.

    Nothing changes before the first sampled action: what is built to play or to export a policy sees the task itself.

    Args:
        stages: See :func:`flashnerd_ext.rl.schedule.parse`; the other arguments are rsl_rl's.
    """

    def __init__(self, *arguments: Any, stages: Any = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.stages = parse(stages)
        self.iteration = 0
        self._followed: Schedule | None = None

    @staticmethod
    def construct_algorithm(obs: Any, env: Any, cfg: dict, device: str) -> PPO:
        """Build it for an environment.

        Raises:
            FlashNerdError: Where a stage does not fit the environment.
        """
        algorithm = PPO.construct_algorithm(obs, env, cfg, device)
        if isinstance(algorithm, ScheduledPPO) and algorithm.stages:
            algorithm._followed = Schedule(algorithm.stages, env.unwrapped, algorithm)
        return algorithm

    def act(self, obs: Any) -> Any:
        """Sample actions; the first call puts the stage of the present iteration in force."""
        if self._followed is not None and self._followed.number is None:
            self._follow()
        return super().act(obs)

    def update(self) -> dict[str, float]:
        """One update, after which the next iteration's stage holds."""
        losses = super().update()
        self.iteration += 1
        self._follow()
        return losses

    def load(self, loaded_dict: dict, load_cfg: dict | None, strict: bool) -> bool:
        """Take over a checkpoint; its iteration says which stage comes next."""
        goes_on = super().load(loaded_dict, load_cfg, strict)
        if goes_on:
            self.iteration = int(loaded_dict["iter"]) + 1
        return goes_on

    def _follow(self) -> None:
        if self._followed is not None and self._followed.apply(self.iteration):
            print(self._followed.describe())
