"""What the samplers of legged robots share: starts about the default pose, and actuation in units of the action scale.

Actuation: joint position targets [rad] around the default pose, or torques [N m]. A fresh PPO policy is white noise of
the action scale; a trained one moves with a rhythm of 1 to 3 Hz. Bases start a bit above or in the ground: the writer
raises those in the ground until they touch it, so that about half of the robots start on their feet.
"""

from __future__ import annotations

import numpy as np

from flashnerd_ext.data.samplers import Policy
from flashnerd_ext.robots.description import RobotDescription

Rng = np.random.Generator
Start = tuple[np.ndarray, np.ndarray]


def spread(rng: Rng, low: float, high: float, shape: tuple[int, ...]) -> np.ndarray:
    """Log-uniform numbers."""
    return np.exp(rng.uniform(np.log(low), np.log(high), shape))


def quaternion(rotation: np.ndarray) -> np.ndarray:
    """Unit quaternions (x, y, z, w) [N, 4] of rotation vectors [N, 3]."""
    angle = np.linalg.norm(rotation, axis=1, keepdims=True)
    axis = rotation / np.maximum(angle, 1e-12)
    return np.concatenate([axis * np.sin(angle / 2), np.cos(angle / 2)], 1)


def yawed(rng: Rng, quat: np.ndarray) -> np.ndarray:
    """The same after a random turn about the vertical."""
    half = rng.uniform(-np.pi, np.pi, len(quat)) / 2
    z, w = np.sin(half), np.cos(half)
    x2, y2, z2, w2 = quat.T
    return np.stack([w * x2 - z * y2, w * y2 + z * x2, w * z2 + z * w2, w * w2 - z * z2], 1)


def _upright_axis(quat: np.ndarray) -> np.ndarray:
    """The body's z axis in the world frame [N, 3]."""
    x, y, z, w = quat.T
    return np.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)], 1)


class Legged:
    """Starts and policies of one robot."""

    def __init__(self, robot: RobotDescription) -> None:
        self.robot, self.joints = robot, robot.layout.num_joints
        self.default, self.scale = np.array(robot.default_q), robot.action_scale
        self.centre = self.default if robot.actuation == "target" else np.zeros(self.joints)
        limits = [robot.position_limit.get(name, (-np.inf, np.inf)) for name in robot.layout.joint_names]
        self.low, self.high = (np.array([limit[i] for limit in limits]) for i in (0, 1))

    # -- starts -----------------------------------------------------------------------------------------------------

    def at_rest(self, rng: Rng, count: int) -> Start:
        """In the default pose, upright, anywhere between the soles 3 cm in the ground and 6 cm above it."""
        q, qd = np.zeros((count, 7 + self.joints)), np.zeros((count, 6 + self.joints))
        q[:, 2] = self.robot.stand_height + rng.uniform(-0.03, 0.06, count)
        q[:, 3:7] = yawed(rng, quaternion(np.zeros((count, 3))))
        q[:, 7:] = self.default
        return q, qd

    def upright(self, rng: Rng, count: int, tilt: float, pose: float, speed: float) -> Start:
        """About the default pose: tilt and pose spreads [rad], speeds as a share of 1 m/s, 1.5 rad/s and 4 rad/s."""
        q, qd = self.at_rest(rng, count)
        q[:, 3:7] = yawed(rng, quaternion(rng.normal(size=(count, 3)) * np.array([tilt, tilt, 0.0])))
        q[:, 7:] = self.within(self.default + rng.normal(size=(count, self.joints)) * pose)
        qd[:, :3] = rng.normal(size=(count, 3)) * np.array([1.0, 0.7, 0.4]) * speed
        qd[:, 3:6] = rng.normal(size=(count, 3)) * 1.5 * speed
        qd[:, 6:] = rng.normal(size=(count, self.joints)) * 4.0 * speed
        return q, qd

    def reset(self, rng: Rng, count: int, scale: tuple[float, float]) -> Start:
        """As the stock velocity tasks reset: any yaw, +-0.5 m/s and rad/s, the default pose times ``scale``."""
        q, qd = self.at_rest(rng, count)
        q[:, 2] = max(self.robot.base_height, self.robot.stand_height)
        q[:, 7:] = self.within(self.default * rng.uniform(*scale, (count, self.joints)))
        qd[:, :6] = rng.uniform(-0.5, 0.5, (count, 6))
        return q, qd

    def anyhow(self, rng: Rng, count: int, low: float = 0.3, high: float = 1.3) -> Start:
        """Any orientation, thrown from ``low`` to ``high`` standing heights."""
        q, qd = self.upright(rng, count, 0.0, 0.5, 1.0)
        rotation = rng.normal(size=(count, 3))
        rotation *= (rng.uniform(0.0, np.pi, count) / np.linalg.norm(rotation, axis=1))[:, None]
        q[:, 3:7] = yawed(rng, quaternion(rotation))
        q[:, 2] = self.robot.stand_height * rng.uniform(low, high, count)
        return q, qd

    def leaning(self, rng: Rng, count: int, low: float, high: float, pose: float, speed: float) -> Start:
        """Tilted by ``low`` to ``high`` [rad] in any direction about the feet, with the speeds of a toppling body."""
        q, qd = self.upright(rng, count, 0.0, pose, speed)
        tilt, way = rng.uniform(low, high, count), rng.uniform(-np.pi, np.pi, count)
        q[:, 3:7] = yawed(rng, quaternion(tilt[:, None] * np.stack([np.cos(way), np.sin(way), 0.0 * way], 1)))
        height = self.robot.stand_height * np.cos(tilt)
        q[:, 2] = height + rng.uniform(-0.08, 0.05, count)
        # Toppling about the feet: the base moves along its tilt as it turns; in the world's frame, like the angle.
        rate = rng.normal(0.4, 0.6, count) * np.sqrt(0.1 + 9.81 / self.robot.stand_height * tilt)
        up = _upright_axis(q[:, 3:7])
        axis = np.stack([-up[:, 1], up[:, 0], np.zeros(count)], 1)
        axis /= np.maximum(np.linalg.norm(axis, axis=1, keepdims=True), 1e-9)
        qd[:, 3:6] += rate[:, None] * axis
        qd[:, :3] += rate[:, None] * np.cross(axis, up * self.robot.stand_height)
        return q, qd

    def within(self, joints: np.ndarray) -> np.ndarray:
        """Joint positions [N, J] clamped to the robot's limits."""
        return np.clip(joints, self.low, self.high)

    # -- policies ---------------------------------------------------------------------------------------------------

    def hold(self, rng: Rng, count: int, sigma: float) -> Policy:
        """A constant command."""
        command = self.centre + rng.normal(size=(count, self.joints)) * self.scale * sigma
        return lambda t, q, qd: command

    def white(self, rng: Rng, count: int, steps: int, low: float, high: float) -> Policy:
        """White noise as an exploring policy makes it, in units of the action scale."""
        sigma = spread(rng, low, high, (count, 1)) * self.scale
        noise = rng.normal(size=(steps, count, self.joints)) * sigma
        return lambda t, q, qd: self.centre + noise[t]

    def smooth(self, rng: Rng, count: int, steps: int, low: float, high: float) -> Policy:
        """Correlated noise with time constants of 0.04 to 0.6 s."""
        keep = np.exp(-self.robot.dt / spread(rng, 0.04, 0.6, (count, 1)))
        sigma = spread(rng, low, high, (count, 1)) * self.scale
        values, level = np.empty((steps, count, self.joints)), rng.normal(size=(count, self.joints))
        for t in range(steps):
            values[t] = level * sigma
            level = keep * level + np.sqrt(1 - keep**2) * rng.normal(size=(count, self.joints))
        return lambda t, q, qd: self.centre + values[t]


def mixed(rng: Rng, first: Start, second: Start, share: float) -> Start:
    """Each world from ``first`` with that probability, else from ``second``."""
    take = rng.random(len(first[0])) < share
    return tuple(np.where(take[:, None], a, b) for a, b in zip(first, second, strict=True))  # type: ignore[return-value]
