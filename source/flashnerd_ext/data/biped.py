"""Samplers of G1: standing, leaning, stepping, exploring, pushed, falling and lying humanoids.

Without a policy it falls within a second, and a trained policy's states are mostly upright: so trajectories are short
and start from many states on the way, upright ones with any lean, stride and speed, and falling ones at every tilt.
Amplitudes are in units of the task's action scale.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from flashnerd_ext.data.legged import Legged, Rng, Start, spread
from flashnerd_ext.data.samplers import Policy, SplitSize, default_plan, sampler
from flashnerd_ext.robots.description import RobotDescription
from flashnerd_ext.robots.g1 import G1
from flashnerd_ext.robots.g1_29 import G1_29


class Biped(Legged):
    """A humanoid, with its strides."""

    def __init__(self, robot: RobotDescription) -> None:
        super().__init__(robot)
        names = robot.layout.joint_names
        legs = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
        self.legs = np.array([[names.index(f"{side}_{part}_joint") for part in legs] for side in ("left", "right")])
        self.arms = np.array([names.index(f"{side}_shoulder_pitch_joint") for side in ("left", "right")])
        # A body in the mirror turns the other way about the roll and yaw axes.
        self.mirror = np.array([[1.0] * 6, [1.0, -1.0, -1.0, 1.0, 1.0, -1.0]])
        # Arms and hands are many and move the body little, and stiff drives throw them at hundreds of rad/s.
        drive = robot.layout.drive
        assert drive is not None
        self.share = np.minimum(1.0, 200.0 / np.array(drive.stiffness))
        self.body = np.zeros(self.joints, bool)
        self.body[self.legs.ravel()] = True

    def striding(self, rng: Rng, count: int) -> Start:
        """Upright in the middle of a stride: legs apart and a walking speed forwards of the body."""
        q, qd = self.leaning(rng, count, 0.0, 0.2, 0.08, 0.2)
        spread_legs = rng.normal(size=(count, 1)) * 0.35
        q[:, 7 + self.legs[0]] += spread_legs * np.array([-1.0, 0.1, 0.0, 0.0, 0.6, 0.0])
        q[:, 7 + self.legs[1]] += spread_legs * np.array([1.0, 0.1, 0.0, 0.0, -0.6, 0.0])
        q[:, 7 + self.legs[:, 3]] += np.abs(rng.normal(size=(count, 2))) * 0.3
        q[:, 7:] = self.within(q[:, 7:])
        x, y, z, w = q[:, 3:7].T
        forward = np.stack([1 - 2 * (y * y + z * z), 2 * (x * y + w * z)], 1)
        qd[:, :2] += rng.uniform(-0.4, 1.4, (count, 1)) * forward
        qd[:, 5] += rng.normal(size=count) * 0.6
        return q, qd

    def stride(self, rng: Rng, count: int, noise: float) -> Policy:
        """Legs in antiphase at 0.7 to 2.5 Hz with swinging arms, or in phase; some noise and stance offset."""
        rate = spread(rng, 0.7, 2.5, (count, 1, 1)) * 2 * np.pi * self.robot.dt
        phase = np.array([0.0, np.pi])[None, :, None] * (rng.random((count, 1, 1)) > 0.15)
        swing = spread(rng, 0.1, 1.2, (count, 1, 6)) * rng.normal(size=(count, 1, 6)) * self.scale
        swing = swing * np.array([1.0, 0.3, 0.3, 1.0, 0.6, 0.3]) * (1.0 + 0.15 * rng.normal(size=(count, 2, 6)))
        lag = rng.normal(size=(count, 1, 6)) * 0.8
        start = rng.uniform(0, 2 * np.pi, (count, 1, 1))
        offset = rng.normal(size=(count, self.joints)) * 0.12 * self.scale * self.share
        arms = rng.normal(size=(count, 1)) * 0.4 * self.scale * np.array([1.0, -1.0])
        sigma = noise * self.scale * rng.random((count, 1)) ** 2 * self.share

        def policy(t: int, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
            angle = rate * t + start + phase
            target = self.default + offset + sigma * rng.normal(size=(count, self.joints))
            target[:, self.legs.ravel()] += (swing * np.sin(angle + lag) * self.mirror).reshape(count, -1)
            target[:, self.arms] += arms * np.sin(angle[:, :1, 0])
            return target

        return policy

    def quiet_arms(self, rng: Rng, count: int, policy: Policy) -> Policy:
        """The policy, with waist, arms and hands moving by a random share of it, less where drives are stiff."""
        share = np.where(self.body, 1.0, self.share * rng.random((count, 1)))
        return lambda t, q, qd: self.default + share * (policy(t, q, qd) - self.default)


def _register(robot: RobotDescription) -> None:
    biped = Biped(robot)
    default_plan(robot.name, shard=512, train=SplitSize(32_768, 24), val=SplitSize(512, 50), test=SplitSize(1_024, 100))

    def add(name: str, text: str, train: float, test: float) -> Callable:
        return sampler(robot.name, name, text, train, test)

    @add("stand", "standing on nearly constant targets, as far as the ankles hold", 0.10, 0.12)
    def stand(rng: Rng, count: int, steps: int):
        start = biped.leaning(rng, count, 0.0, 0.12, 0.06, 0.1)
        return *start, biped.quiet_arms(rng, count, biped.hold(rng, count, 0.2))

    @add("lean", "upright with any lean and pose, slow motions", 0.14, 0.12)
    def lean(rng: Rng, count: int, steps: int):
        start = biped.leaning(rng, count, 0.0, 0.5, 0.15, 0.3)
        return *start, biped.quiet_arms(rng, count, biped.smooth(rng, count, steps, 0.05, 0.6))

    @add("stride", "rhythmic legs and arms at 0.7 to 2.5 Hz, from the middle of a stride", 0.24, 0.24)
    def stride(rng: Rng, count: int, steps: int):
        return *biped.striding(rng, count), biped.stride(rng, count, 0.4)

    @add("explore", "resets and about, white noise as a fresh policy makes it", 0.16, 0.16)
    def explore(rng: Rng, count: int, steps: int):
        q, qd = biped.leaning(rng, count, 0.0, 0.3, 0.1, 0.4)
        # The stock task resets to the exact default pose with +-0.5 m/s and rad/s.
        reset_q, reset_qd = biped.reset(rng, count, (1.0, 1.0))
        take = rng.random((count, 1)) < 0.4
        start = np.where(take, reset_q, q), np.where(take, reset_qd, qd)
        return *start, biped.quiet_arms(rng, count, biped.white(rng, count, steps, 0.15, 1.2))

    @add("smooth", "correlated noise up to violent", 0.10, 0.10)
    def smooth(rng: Rng, count: int, steps: int):
        start = biped.leaning(rng, count, 0.0, 0.4, 0.25, 0.6)
        return *start, biped.quiet_arms(rng, count, biped.smooth(rng, count, steps, 0.3, 1.5))

    @add("push", "striding after a push", 0.08, 0.08)
    def push(rng: Rng, count: int, steps: int):
        q, qd = biped.striding(rng, count)
        qd[:, :2] += rng.uniform(-1.0, 1.0, (count, 2))
        return q, qd, biped.stride(rng, count, 0.3)

    @add("fall", "toppling at any tilt, with the motions of a policy that has lost", 0.12, 0.12)
    def fall(rng: Rng, count: int, steps: int):
        start = biped.leaning(rng, count, 0.4, 1.5, 0.25, 0.6)
        return *start, biped.quiet_arms(rng, count, biped.smooth(rng, count, steps, 0.1, 1.0))

    @add("lie", "thrown in any orientation from low, then lying and struggling", 0.06, 0.06)
    def lie(rng: Rng, count: int, steps: int):
        start = biped.anyhow(rng, count, 0.0, 0.6)
        return *start, biped.quiet_arms(rng, count, biped.smooth(rng, count, steps, 0.05, 1.0))


for _robot in (G1, G1_29):
    _register(_robot)
