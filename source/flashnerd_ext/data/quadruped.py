"""Samplers of four-legged robots: what policies do on the ground, what goes wrong, and more violent things than either.

Every leg has three joints: abduction (positive to the left), hip (positive swings every leg the same way) and knee
(whose default says which way it bends). Amplitudes are in units of the task's action scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from flashnerd_ext.data.legged import Legged, Rng, Start, mixed, spread
from flashnerd_ext.data.samplers import Policy, SplitSize, default_plan, sampler
from flashnerd_ext.robots.anymal_c import ANYMAL_C
from flashnerd_ext.robots.description import RobotDescription
from flashnerd_ext.robots.go2 import GO2

LEGS = {"anymal_c": ("LF", "LH", "RF", "RH"), "go2": ("FL", "FR", "RL", "RR")}
"""Legs in joint order; a front leg has an F, a left one an L."""
RESET_POSE = (0.5, 1.5)
"""Factor of the default pose at a reset of the stock tasks."""


class Quadruped(Legged):
    """A four-legged robot, with its gaits."""

    def __init__(self, robot: RobotDescription) -> None:
        super().__init__(robot)
        legs = LEGS[robot.name]
        front, left = (np.array([letter in leg for leg in legs], float) for letter in "FL")
        # Phase of each leg [cycles] in a trot, a pace, a bound and a pronk.
        self.patterns = 0.5 * np.stack([(front != left).astype(float), left, front, np.zeros(4)])
        self.side = np.where(left > 0, 1.0, -1.0)
        self.bend = np.sign(self.default.reshape(4, 3)[:, 2])

    def gait(self, rng: Rng, count: int, noise: float) -> Policy:
        """Rhythmic legs: a trot, pace, bound, pronk or any phases, 0.8 to 3.5 Hz, with some noise and stance offset."""
        phase = self.patterns[rng.integers(0, len(self.patterns), count)]
        phase = np.where(rng.random((count, 1)) < 0.3, rng.random((count, 4)), phase)
        rate = spread(rng, 0.8, 3.5, (count, 1)) * 2 * np.pi * self.robot.dt
        swing = spread(rng, 0.1, 1.2, (count, 1, 3)) * rng.normal(size=(count, 1, 3)) * self.scale
        swing = swing * (1.0 + 0.2 * rng.normal(size=(count, 4, 3)))
        swing[:, :, 0] *= np.where(rng.random((count, 1)) < 0.5, self.side, 1.0)
        swing[:, :, 2] *= self.bend
        lag = rng.normal(size=(count, 1, 3)) * 0.8
        offset = rng.normal(size=(count, 4, 3)) * 0.15 * self.scale
        sigma = noise * self.scale * rng.random((count, 1)) ** 2
        start = rng.uniform(0, 2 * np.pi, (count, 1))

        def policy(t: int, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
            angle = (rate * t + start + 2 * np.pi * phase)[:, :, None] + lag
            wave = offset + swing * np.sin(angle)
            return self.default + wave.reshape(count, -1) + sigma * rng.normal(size=(count, self.joints))

        return policy


class Walking(Protocol):
    """What the samplers of the ground ask of a robot: :class:`flashnerd_ext.data.legged.Legged` and a gait."""

    robot: RobotDescription
    upright: Callable[..., Start]
    reset: Callable[..., Start]
    anyhow: Callable[..., Start]
    hold: Callable[..., Policy]
    white: Callable[..., Policy]
    smooth: Callable[..., Policy]
    gait: Callable[..., Policy]


def register(legged: Walking) -> None:
    """Samplers of a robot that stands on its feet by itself, whichever it is."""

    def add(name: str, text: str, train: float, test: float) -> Callable:
        return sampler(legged.robot.name, name, text, train, test)

    @add("stand", "standing and squatting on nearly constant targets", 0.10, 0.10)
    def stand(rng: Rng, count: int, steps: int):
        return *legged.upright(rng, count, 0.05, 0.1, 0.1), legged.hold(rng, count, 0.35)

    @add("creep", "small slow motions about the default pose", 0.12, 0.12)
    def creep(rng: Rng, count: int, steps: int):
        return *legged.upright(rng, count, 0.06, 0.1, 0.2), legged.smooth(rng, count, steps, 0.05, 0.5)

    @add("gait", "rhythmic legs at 0.8 to 3.5 Hz, with noise", 0.26, 0.24)
    def gait(rng: Rng, count: int, steps: int):
        return *legged.upright(rng, count, 0.1, 0.15, 0.5), legged.gait(rng, count, 0.5)

    @add("explore", "white noise as a fresh policy makes it, from resets or about the default pose", 0.16, 0.16)
    def explore(rng: Rng, count: int, steps: int):
        reset, about = legged.reset(rng, count, RESET_POSE), legged.upright(rng, count, 0.1, 0.15, 0.4)
        return *mixed(rng, reset, about, 0.5), legged.white(rng, count, steps, 0.15, 1.2)

    @add("smooth", "correlated noise up to violent", 0.14, 0.16)
    def smooth(rng: Rng, count: int, steps: int):
        return *legged.upright(rng, count, 0.15, 0.25, 0.6), legged.smooth(rng, count, steps, 0.3, 2.0)

    @add("push", "standing or walking after a push", 0.10, 0.10)
    def push(rng: Rng, count: int, steps: int):
        q, qd = legged.upright(rng, count, 0.15, 0.15, 0.4)
        qd[:, :2] += rng.uniform(-1.2, 1.2, (count, 2))
        return q, qd, legged.gait(rng, count, 0.3)

    @add("tumble", "thrown in any orientation, then lying and struggling", 0.12, 0.12)
    def tumble(rng: Rng, count: int, steps: int):
        return *legged.anyhow(rng, count), legged.smooth(rng, count, steps, 0.05, 1.5)


for _robot in (ANYMAL_C, GO2):
    default_plan(
        _robot.name, shard=512, train=SplitSize(16_384, 48), val=SplitSize(512, 100), test=SplitSize(1_024, 200)
    )
    register(Quadruped(_robot))
