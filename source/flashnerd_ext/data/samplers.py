"""The registry of samplers: where trajectories start and what actuates them.

A sampler draws initial states and returns a policy, a function of time and state, so that feedback is as easy as
noise. A robot's module registers its samplers and states the mixture of each split; scripts take other mixtures
with ``samplers=[NAME:WEIGHT,...]``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import numpy as np

from flashnerd_ext.errors import FlashNerdError, nearest

Policy = Callable[[int, np.ndarray, np.ndarray], np.ndarray]
"""(step, joint_q [N, nq], joint_qd [N, nv]) -> actuation [N, nu]."""

SPLITS = ("train", "val", "test", "balance")
"""``balance`` is a second test split: what a trained policy does, which only short horizons can predict."""


@dataclass(frozen=True)
class Sampler:
    """``draw(rng, count, steps)`` -> joint_q [count, nq], joint_qd [count, nv] and the policy of those worlds.

    ``weight`` (per split) makes up the default mixture.
    """

    robot: str
    name: str
    text: str
    weight: dict[str, float]
    draw: Callable[[np.random.Generator, int, int], tuple[np.ndarray, np.ndarray, Policy]]


@dataclass(frozen=True)
class SplitSize:
    """Trajectories in a split and the steps in each."""

    trajectories: int
    steps: int


@dataclass(frozen=True)
class DataPlan:
    """How large a robot's data set is unless a command says otherwise.

    Attributes:
        splits: Size of every split, with 0 trajectories where the robot has none.
        shard: Trajectories in a shard; one takes about 10 s, so that progress shows and little is lost.
    """

    splits: dict[str, SplitSize]
    shard: int


_REGISTRY: dict[str, dict[str, Sampler]] = {}
_PLANS: dict[str, DataPlan] = {}
_OWN: dict[str, object] = {}
"""Robots of the user's own whose samplers are registered, as they were read."""
_MODULES = {
    "cartpole": "flashnerd_ext.data.cartpole",
    "anymal_c": "flashnerd_ext.data.quadruped",
    "go2": "flashnerd_ext.data.quadruped",
    "g1": "flashnerd_ext.data.biped",
    "g1_29": "flashnerd_ext.data.biped",
    "ant": "flashnerd_ext.data.ant",
    "franka": "flashnerd_ext.data.arm",
    "franka_reach": "flashnerd_ext.data.arm",
    "allegro": "flashnerd_ext.data.hand",
}
"""Robot -> module that registers its samplers; adding a robot adds a line. Robots of the user's own name a plan."""


def sampler(robot: str, name: str, text: str, train: float, test: float, balance: float = 0.0) -> Callable:
    """Register a sampler with its weights in the splits; ``test`` is also val's."""

    def register(draw: Callable) -> Callable:
        weight = {"train": train, "val": test, "test": test, "balance": balance}
        _REGISTRY.setdefault(robot, {})[name] = Sampler(robot, name, text, weight, draw)
        return draw

    return register


def default_plan(robot: str, shard: int, **splits: SplitSize) -> None:
    """State how large a robot's data set is unless a command says otherwise; splits left out are empty."""
    _PLANS[robot] = DataPlan({name: splits.get(name, SplitSize(0, splits["test"].steps)) for name in SPLITS}, shard)


def plan_of(robot: str) -> DataPlan:
    """A robot's default plan.

    Raises:
        FlashNerdError: When the robot has no samplers.
    """
    samplers_of(robot)
    return _PLANS[robot]


def samplers_of(robot: str) -> dict[str, Sampler]:
    """The samplers of a robot, in the order of their ids (the ``sampler`` column of a shard).

    Raises:
        FlashNerdError: When the robot has none.
    """
    if robot in _MODULES:
        import_module(_MODULES[robot])
    elif not _register_own(robot):
        raise FlashNerdError(f"robot is '{robot}', which has no samplers: {nearest(robot, _MODULES)}")
    return _REGISTRY[robot]


def _register_own(robot: str) -> bool:
    """Register the samplers of a robot of the user's own, as its file says at this moment; whether there is one."""
    from flashnerd_ext.robots.own import find_own

    own = find_own(robot)
    if own is not None and _OWN.get(robot) is not own:
        from flashnerd_ext.data.own import register

        _REGISTRY.pop(robot, None)
        register(own)
        _OWN[robot] = own
    return own is not None


def mixture(robot: str, split: str, overrides: dict[str, float] | None = None) -> np.ndarray:
    """Share of each sampler in a split, summing to 1, in the order of :func:`samplers_of`.

    ``overrides`` (name -> weight) replaces the whole mixture; names left out get none.

    Raises:
        FlashNerdError: For an unknown sampler, a negative weight, or weights that are all zero.
    """
    known = samplers_of(robot)
    if overrides:
        for name, weight in overrides.items():
            if name not in known:
                raise FlashNerdError(
                    f"samplers names '{name}', which robot={robot} does not have: {nearest(name, known)}"
                )
            if not np.isfinite(weight) or weight < 0:
                raise FlashNerdError(f"samplers gives {name} the weight {weight}, but a weight of 0 or more is needed.")
        weights = np.array([overrides.get(name, 0.0) for name in known])
    else:
        weights = np.array([item.weight[split] for item in known.values()])
    if not overrides and weights.sum() <= 0:
        raise FlashNerdError(
            f"robot={robot} has no samplers for the split '{split}', but trajectories of it are wanted: type {split}=0."
        )
    if weights.sum() <= 0:
        raise FlashNerdError("samplers gives every weight as 0, but one above 0 is needed: type samplers=[NAME:1].")
    return weights / weights.sum()


def counts(shares: np.ndarray, total: int) -> np.ndarray:
    """Whole numbers that sum to ``total`` and are nearest to the shares (largest remainder)."""
    exact = shares * total
    whole = np.floor(exact).astype(int)
    order = np.argsort(-(exact - whole), kind="stable")
    whole[order[: total - whole.sum()]] += 1
    return whole
