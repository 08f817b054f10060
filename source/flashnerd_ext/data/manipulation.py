"""What the samplers of coupled robots share: starts over the whole range of the joints, and torques as drives give.

Free motion knows no joint limits, so a torque has to keep the joints near their range: a PD drive towards targets
inside of it, clamped at the effort limits. The drive of the task may be too stiff to be held over a step: where damping
times the step exceeds the joint's inertia, the simulator's implicit integration is what keeps it calm.
:meth:`Bolted.drive` therefore gives the torque that such an integration would leave over the step, by the inertia of
each joint. Targets lie about the start: at those from one end of the range to the other, motors would only saturate.
"""

from __future__ import annotations

import numpy as np

from flashnerd_ext.data.legged import Rng, Start, spread
from flashnerd_ext.data.samplers import Policy
from flashnerd_ext.robots.description import RobotDescription

Array = np.ndarray


class Bolted:
    """Starts and policies of one robot on a fixed base.

    Args:
        robot: Its limits, drives and step.
        inertia: What each joint at least has to move [kg or kg m^2], shape [J]: of the joint alone, armature included.
        margin: How far starts go beyond a joint's limits, as a share of its range.
        speed: Spread of the joints' velocities at the start [m/s or rad/s], shape [J].
        push: What random torques are measured by [N m or N], shape [J]; the effort limits by default.
        lively: How much wider and faster than the others a joint's targets move, shape [J]; 1 by default.
    """

    def __init__(
        self,
        robot: RobotDescription,
        inertia: Array,
        margin: float,
        speed: Array,
        push: Array | None = None,
        lively: Array | None = None,
    ) -> None:
        layout = robot.layout
        self.robot, self.joints, self.inertia, self.speed = robot, layout.num_joints, inertia, speed
        self.low, self.high = (np.array([robot.position_limit[name][i] for name in layout.joint_names]) for i in (0, 1))
        self.margin = margin * (self.high - self.low)
        self.effort = np.array([robot.effort_limit[name] for name in layout.joint_names])
        self.lively = np.ones(self.joints) if lively is None else lively
        self.push = self.effort if push is None else push
        self.stiffness = np.array([robot.joint_stiffness[name] for name in layout.joint_names])
        self.damping = np.array([robot.joint_damping[name] for name in layout.joint_names])

    # -- starts -----------------------------------------------------------------------------------------------------

    def anywhere(self, rng: Rng, count: int, speed: tuple[float, float] = (0.05, 1.5)) -> Start:
        """Any joint positions within limits and margin; velocities of log-uniform size in units of ``self.speed``."""
        q = rng.uniform(self.low - self.margin, self.high + self.margin, (count, self.joints))
        qd = rng.normal(size=(count, self.joints)) * self.speed * spread(rng, *speed, (count, 1))
        return q, qd

    def at_rest(self, rng: Rng, count: int) -> Start:
        """About the pose that the task resets to, at rest."""
        default = np.array(self.robot.default_q)
        q = default + rng.normal(size=(count, self.joints)) * 0.1 * (self.high - self.low)
        return np.clip(q, self.low, self.high), np.zeros((count, self.joints))

    # -- targets, each a function of the step, [N, J] -----------------------------------------------------------------

    def waves(self, rng: Rng, start: Array, rate: tuple[float, float], size: tuple[float, float]) -> Policy:
        """Targets that swing about near the start [N, J]: ``rate`` [Hz], ``size`` as a share of the range."""
        count, middle = len(start), self.near(rng, start)
        swing = spread(rng, *size, (count, self.joints)) * self.lively * (self.high - self.low)
        turn = spread(rng, *rate, (count, self.joints)) * self.lively * 2 * np.pi * self.robot.dt
        phase = rng.uniform(0, 2 * np.pi, (count, self.joints))
        return lambda t, q, qd: np.clip(middle + swing * np.sin(turn * t + phase), self.low, self.high)

    def jumps(self, rng: Rng, start: Array, steps: int, reach: tuple[float, float]) -> Policy:
        """Noise on targets as an exploring policy makes it: new every control step, about a place near the start.

        Args:
            reach: Spread of the noise as a share of the range, log-uniform.
        """
        held = self.robot.decimation * self.robot.substeps
        count, middle = len(start), self.near(rng, start)
        sigma = spread(rng, *reach, (count, 1)) * self.lively * (self.high - self.low)
        noise = rng.normal(size=(-(-steps // held), count, self.joints)) * sigma
        return lambda t, q, qd: np.clip(middle + noise[t // held], self.low, self.high)

    def held(self, rng: Rng, start: Array) -> Policy:
        """One target near the start."""
        target = self.near(rng, start)
        return lambda t, q, qd: target

    def near(self, rng: Rng, start: Array) -> Array:
        """Places in the range near the start [N, J]."""
        away = spread(rng, 0.005, 0.1, (len(start), 1)) * (self.high - self.low)
        return np.clip(start + rng.normal(size=start.shape) * away, self.low, self.high)

    # -- torques ------------------------------------------------------------------------------------------------------

    def drive(self, rng: Rng, count: int, targets: Policy, gain: tuple[float, float]) -> Policy:
        """What drives towards ``targets`` leave over a step, clamped: gains times ``gain`` (log-uniform, a joint)."""
        stiffness, damping = self._gains(rng, count, gain)
        dt = self.robot.dt
        kept = self.inertia / (self.inertia + dt * damping + dt**2 * stiffness)

        def policy(t: int, q: Array, qd: Array) -> Array:
            wanted = stiffness * (targets(t, q, qd) - q - dt * qd) - damping * qd
            return np.clip(kept * wanted, -self.effort, self.effort)

        return policy

    def _gains(self, rng: Rng, count: int, gain: tuple[float, float]) -> tuple[Array, Array]:
        shape = (count, self.joints)
        return self.stiffness * spread(rng, *gain, shape), self.damping * spread(rng, *gain, shape)

    def at_once(self, rng: Rng, count: int, targets: Policy, gain: tuple[float, float]) -> Policy:
        """What drives give at this instant, clamped, without regard to what a whole step of it does."""
        stiffness, damping = self._gains(rng, count, gain)

        def policy(t: int, q: Array, qd: Array) -> Array:
            return np.clip(stiffness * (targets(t, q, qd) - q) - damping * qd, -self.effort, self.effort)

        return policy

    def noise(self, rng: Rng, count: int, steps: int, size: tuple[float, float]) -> Policy:
        """Correlated torques, in shares of ``self.push``, with time constants of 0.01 to 0.3 s."""
        keep = np.exp(-self.robot.dt / spread(rng, 0.01, 0.3, (count, 1)))
        sigma = spread(rng, *size, (count, 1)) * self.push
        values, level = np.empty((steps, count, self.joints)), rng.normal(size=(count, self.joints))
        for t in range(steps):
            values[t] = level * sigma
            level = keep * level + np.sqrt(1 - keep**2) * rng.normal(size=(count, self.joints))
        return lambda t, q, qd: values[t]

    def total(self, *policies: Policy) -> Policy:
        """The sum of torques, clamped at the effort limits."""
        return lambda t, q, qd: np.clip(sum(policy(t, q, qd) for policy in policies), -self.effort, self.effort)


def last_step(first: Policy, last: Policy, steps: int) -> Policy:
    """``first``, and ``last`` in the last step, whose consequences are a label and nobody's start."""
    return lambda t, q, qd: last(t, q, qd) if t == steps - 1 else first(t, q, qd)
