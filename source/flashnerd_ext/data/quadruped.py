"""Samplers of four-legged robots: what policies do on the ground, what goes wrong, and more violent things than either.

Actuation: joint position targets [rad]. A fresh PPO policy is white noise of the action scale around the default pose;
a trained one walks with a rhythm of 1 to 3 Hz; between them lie creeping, stumbling, falling and lying. Speeds are the
robot's own: amplitudes are in units of the task's action scale.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flashnerd_ext.data.samplers import Policy, sampler
from flashnerd_ext.robots.anymal_c import ANYMAL_C
from flashnerd_ext.robots.description import RobotDescription

Rng = np.random.Generator
Start = tuple[np.ndarray, np.ndarray]


def _spread(rng: Rng, low: float, high: float, shape: tuple[int, ...]) -> np.ndarray:
    """Log-uniform numbers."""
    return np.exp(rng.uniform(np.log(low), np.log(high), shape))


def _quaternion(rotation: np.ndarray) -> np.ndarray:
    """Unit quaternions (x, y, z, w) [N, 4] of rotation vectors [N, 3]."""
    angle = np.linalg.norm(rotation, axis=1, keepdims=True)
    axis = rotation / np.maximum(angle, 1e-12)
    return np.concatenate([axis * np.sin(angle / 2), np.cos(angle / 2)], 1)


def _yawed(rng: Rng, quat: np.ndarray) -> np.ndarray:
    """The same after a random turn about the vertical."""
    half = rng.uniform(-np.pi, np.pi, len(quat)) / 2
    z, w = np.sin(half), np.cos(half)
    x2, y2, z2, w2 = quat.T
    return np.stack([w * x2 - z * y2, w * y2 + z * x2, w * z2 + z * w2, w * w2 - z * z2], 1)


class Legged:
    """Starts and policies of one robot."""

    def __init__(self, robot: RobotDescription) -> None:
        self.robot, self.joints = robot, robot.layout.num_joints
        self.default, self.scale = np.array(robot.default_q), robot.action_scale

    def upright(self, rng: Rng, count: int, tilt: float, pose: float, speed: float, lift: float = 0.06) -> Start:
        """About the default pose: base at most ``lift`` [m] above standing height, tilt and pose spreads [rad], speeds
        as a share of 1 m/s, 1.5 rad/s and 4 rad/s."""
        q, qd = np.zeros((count, 7 + self.joints)), np.zeros((count, 6 + self.joints))
        # Robots that are low already squat: their legs give room for the lower base.
        squat = rng.uniform(0.0, 1.0, count)
        q[:, 2] = self.robot.base_height * (0.92 + 0.0 * squat) + rng.uniform(0.0, lift, count)
        q[:, 3:7] = _yawed(rng, _quaternion(rng.normal(size=(count, 3)) * np.array([tilt, tilt, 0.0])))
        q[:, 7:] = self.default + rng.normal(size=(count, self.joints)) * pose
        qd[:, :3] = rng.normal(size=(count, 3)) * np.array([1.0, 0.7, 0.4]) * speed
        qd[:, 3:6] = rng.normal(size=(count, 3)) * 1.5 * speed
        qd[:, 6:] = rng.normal(size=(count, self.joints)) * 4.0 * speed
        return q, qd

    def anyhow(self, rng: Rng, count: int) -> Start:
        """Any orientation, thrown from low above the ground."""
        q, qd = self.upright(rng, count, 0.0, 0.5, 1.0)
        rotation = rng.normal(size=(count, 3))
        rotation *= (rng.uniform(0.0, np.pi, count) / np.linalg.norm(rotation, axis=1))[:, None]
        q[:, 3:7] = _yawed(rng, _quaternion(rotation))
        q[:, 2] = self.robot.base_height * rng.uniform(0.6, 1.3, count)
        return q, qd

    def hold(self, rng: Rng, count: int, spread: float) -> Policy:
        """A constant target around the default pose."""
        target = self.default + rng.normal(size=(count, self.joints)) * self.scale * spread
        return lambda t, q, qd: target

    def white(self, rng: Rng, count: int, steps: int, low: float, high: float) -> Policy:
        """White noise as an exploring policy makes it, in units of the action scale."""
        sigma = _spread(rng, low, high, (count, 1)) * self.scale
        noise = rng.normal(size=(steps, count, self.joints)) * sigma
        return lambda t, q, qd: self.default + noise[t]

    def smooth(self, rng: Rng, count: int, steps: int, low: float, high: float) -> Policy:
        """Correlated noise with time constants of 0.04 to 0.6 s."""
        keep = np.exp(-self.robot.dt / _spread(rng, 0.04, 0.6, (count, 1)))
        sigma = _spread(rng, low, high, (count, 1)) * self.scale
        values, level = np.empty((steps, count, self.joints)), rng.normal(size=(count, self.joints))
        for t in range(steps):
            values[t] = level * sigma
            level = keep * level + np.sqrt(1 - keep**2) * rng.normal(size=(count, self.joints))
        return lambda t, q, qd: self.default + values[t]

    def gait(self, rng: Rng, count: int, noise: float) -> Policy:
        """Rhythmic legs: a trot, pace, bound or any phases, 0.8 to 3.5 Hz, with some noise and stance offset."""
        legs = self.joints // 3
        patterns = np.array([[0, 0.5, 0.5, 0], [0, 0, 0.5, 0.5], [0, 0.5, 0, 0.5]])
        phase = patterns[rng.integers(0, len(patterns), count)]
        phase = np.where(rng.random((count, 1)) < 0.3, rng.random((count, legs)), phase)
        rate = _spread(rng, 0.8, 3.5, (count, 1)) * 2 * np.pi * self.robot.dt
        swing = _spread(rng, 0.1, 1.2, (count, 1, 3)) * rng.normal(size=(count, 1, 3)) * self.scale
        swing = swing * (1.0 + 0.2 * rng.normal(size=(count, legs, 3)))
        lag = rng.normal(size=(count, 1, 3)) * 0.8
        offset = rng.normal(size=(count, legs, 3)) * 0.15 * self.scale
        sign = np.sign(self.default.reshape(legs, 3) + 1e-9)
        sigma = noise * self.scale * rng.random((count, 1)) ** 2
        start = rng.uniform(0, 2 * np.pi, (count, 1))

        def policy(t: int, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
            angle = (rate * t + start + 2 * np.pi * phase)[:, :, None] + lag
            wave = offset + swing * np.sin(angle) * sign
            return self.default + wave.reshape(count, -1) + sigma * rng.normal(size=(count, self.joints))

        return policy


def _register(robot: RobotDescription) -> None:
    legged = Legged(robot)

    def add(name: str, text: str, train: float, test: float) -> Callable:
        return sampler(robot.name, name, text, train, test)

    @add("stand", "standing and squatting on nearly constant targets", 0.10, 0.10)
    def stand(rng: Rng, count: int, steps: int):
        return *legged.upright(rng, count, 0.05, 0.1, 0.1), legged.hold(rng, count, 0.35)

    @add("creep", "small slow motions about the default pose", 0.12, 0.12)
    def creep(rng: Rng, count: int, steps: int):
        return *legged.upright(rng, count, 0.06, 0.1, 0.2), legged.smooth(rng, count, steps, 0.05, 0.5)

    @add("gait", "rhythmic legs at 0.8 to 3.5 Hz, with noise", 0.26, 0.24)
    def gait(rng: Rng, count: int, steps: int):
        return *legged.upright(rng, count, 0.1, 0.15, 0.5), legged.gait(rng, count, 0.5)

    @add("explore", "white noise as a fresh policy makes it", 0.16, 0.16)
    def explore(rng: Rng, count: int, steps: int):
        return *legged.upright(rng, count, 0.1, 0.15, 0.4), legged.white(rng, count, steps, 0.15, 1.2)

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


_register(ANYMAL_C)
