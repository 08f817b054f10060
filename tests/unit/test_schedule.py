"""A training schedule changes a running environment's commands and rewards, and gives them back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl.schedule import Schedule, parse


class _Rewards:
    def __init__(self) -> None:
        self.terms = {"alive": SimpleNamespace(weight=0.0), "feet_air_time": SimpleNamespace(weight=0.5)}
        self.active_terms = list(self.terms)

    def get_term_cfg(self, name: str) -> Any:
        return self.terms[name]


class _Commands:
    def __init__(self) -> None:
        ranges = SimpleNamespace(lin_vel_x=(-1.0, 1.0), lin_vel_y=(-1.0, 1.0))
        self.term = SimpleNamespace(vel_command_b=0, cfg=SimpleNamespace(ranges=ranges, rel_standing_envs=0.02))
        self.active_terms = ["base_velocity"]

    def get_term(self, name: str) -> Any:
        return self.term


def _env() -> Any:
    return SimpleNamespace(reward_manager=_Rewards(), command_manager=_Commands())


def _state(env: Any) -> tuple[Any, ...]:
    cfg = env.command_manager.term.cfg
    rewards = env.reward_manager.terms
    return (
        cfg.ranges.lin_vel_x,
        cfg.ranges.lin_vel_y,
        cfg.rel_standing_envs,
        rewards["alive"].weight,
        rewards["feet_air_time"].weight,
    )


TWO = [
    {"until": 10, "commands": {"lin_vel_x": [0.2, 0.6], "rel_standing_envs": 0.0}, "rewards": {"alive": 1}},
    {"until": 20, "commands": {"lin_vel_y": [-0.4, 0.4]}, "rewards": {"feet_air_time": 0.0}},
]


def test_stages_follow_each_other_and_the_task_comes_back() -> None:
    env = _env()
    own = _state(env)
    schedule = Schedule(parse(TWO), env)
    assert schedule.apply(0)
    assert _state(env) == ((0.2, 0.6), (-1.0, 1.0), 0.0, 1.0, 0.5)
    assert not schedule.apply(9)
    assert schedule.apply(10)
    # What the first stage changed and the second does not name is the task's again.
    assert _state(env) == ((-1.0, 1.0), (-0.4, 0.4), 0.02, 0.0, 0.0)
    assert schedule.apply(20)
    assert _state(env) == own
    assert "task's own" in schedule.describe()


def test_a_resumed_training_enters_the_stage_of_its_iteration() -> None:
    env = _env()
    schedule = Schedule(parse(TWO), env)
    schedule.apply(15)
    assert schedule.number == 1 and _state(env)[1] == (-0.4, 0.4)
    assert "until iteration 20" in schedule.describe()


@pytest.mark.parametrize("value", [None, []])
def test_nothing_is_no_schedule(value: Any) -> None:
    assert parse(value) == []


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (["fast"], "mapping"),
        ([{"until": 0}], "above 0"),
        ([{"until": 10}, {"until": 10}], "above 10"),
        ([{"until": True}], "iteration above 0"),
        ([{"until": 5, "comands": {}}], "did you mean commands"),
        ([{"until": 5, "rewards": {"alive": float("nan")}}], "rewards.alive is nan, but a finite"),
        ([{"until": 5, "algorithm": {"entropy_coef": "low"}}], "algorithm.entropy_coef"),
    ],
)
def test_what_does_not_fit_is_refused(value: Any, said: str) -> None:
    with pytest.raises(FlashNerdError, match=said):
        parse(value)


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        ({"until": 5, "rewards": {"alife": 1.0}}, "did you mean alive"),
        ({"until": 5, "commands": {"lin_vel_z": [0, 1]}}, "did you mean"),
    ],
)
def test_what_the_environment_lacks_is_refused(stage: dict[str, Any], said: str) -> None:
    with pytest.raises(FlashNerdError, match=said):
        Schedule(parse([stage]), _env())


def test_settings_of_the_learner_come_and_go() -> None:
    learner = SimpleNamespace(entropy_coef=0.005, desired_kl=0.01, rnd=None)
    schedule = Schedule(parse([{"until": 3, "algorithm": {"entropy_coef": 0.01}}]), _env(), learner)
    schedule.apply(0)
    assert (learner.entropy_coef, learner.desired_kl) == (0.01, 0.01)
    schedule.apply(3)
    assert learner.entropy_coef == 0.005
    for name in ("entropy_coeff", "rnd"):
        with pytest.raises(FlashNerdError, match="no number of the learner"):
            Schedule(parse([{"until": 3, "algorithm": {name: 0.1}}]), _env(), learner)


def test_commands_need_a_velocity_command() -> None:
    env = SimpleNamespace(reward_manager=_Rewards(), command_manager=None)
    Schedule(parse([{"until": 5, "rewards": {"alive": 1.0}}]), env)
    with pytest.raises(FlashNerdError, match="no velocity command"):
        Schedule(parse(TWO), env)
