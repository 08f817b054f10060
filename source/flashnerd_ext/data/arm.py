"""Samplers of arms: what tasks make an arm with a gripper do, and a margin around it; torques on all joints.

Franka's following finger has no drive in the tasks, where a mimic constraint moves it; free motion has none, so that
here it gets a drive like the other's, down to a weak one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from flashnerd_ext.data.legged import Rng
from flashnerd_ext.data.manipulation import Bolted, last_step
from flashnerd_ext.data.samplers import Policy, SplitSize, default_plan, sampler
from flashnerd_ext.robots.description import RobotDescription
from flashnerd_ext.robots.franka import FRANKA, FRANKA_REACH

_OWN = np.array([0.07, 0.49, 0.04, 0.13, 0.02, 0.028, 0.006, 0.0149, 0.0149])
"""Smallest inertia of each joint over 200 random poses, without armature [kg m^2, kg]."""
_SPEED = np.array([1.0] * 7 + [0.15] * 2)
_OPEN = 0.04
"""Place of each finger in an open gripper [m]."""
_FOLLOWER = "panda_finger_joint2"


def _bolted(robot: RobotDescription) -> Bolted:
    leader = "panda_finger_joint1"
    driven = dataclasses.replace(
        robot,
        joint_stiffness=robot.joint_stiffness | {_FOLLOWER: robot.joint_stiffness[leader]},
        joint_damping=robot.joint_damping | {_FOLLOWER: robot.joint_damping[leader]},
    )
    inertia = _OWN + np.array(list(robot.armature.values()))
    # A few newtons move a finger through its 4 cm within the time of a control step or two.
    push = np.array([*list(robot.effort_limit.values())[:7], 3.0, 3.0])
    # Their range is small beside the arm's: at its pace they would hardly move.
    lively = np.array([1.0] * 7 + [4.0] * 2)
    return Bolted(driven, inertia, margin=0.05, speed=_SPEED, push=push, lively=lively)


def gripping(rng: Rng, count: int, targets: Policy) -> Policy:
    """``targets`` with the fingers told to open or to close, wherever they are: what tasks make of a gripper."""
    to = rng.choice([0.0, _OPEN], (count, 1))

    def policy(t: int, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        return np.concatenate((targets(t, q, qd)[:, :7], np.broadcast_to(to, (count, 2))), 1)

    return policy


def register(name: str, arm: Bolted, asked: Callable[[Rng, int, Policy], Policy] = lambda rng, count, to: to) -> None:
    """Samplers of a robot on a fixed base, whichever it is.

    Args:
        name: Robot that they are registered for.
        arm: Its starts and policies.
        asked: What stiff drives are told, from the targets of ``jumps``.
    """

    @sampler(name, "waves", "smooth motions of 0.1 to 1.5 Hz anywhere in the range", 0.22, 0.35)
    def waves(rng: Rng, count: int, steps: int):
        q, qd = arm.anywhere(rng, count)
        targets = arm.waves(rng, q, (0.1, 1.5), (0.02, 0.2))
        return q, qd, arm.drive(rng, count, targets, (0.1, 1.0))

    @sampler(name, "jumps", "targets of an exploring policy, new every control step", 0.22, 0.30)
    def jumps(rng: Rng, count: int, steps: int):
        q, qd = arm.anywhere(rng, count)
        targets = arm.jumps(rng, q, steps, (0.005, 0.1))
        return q, qd, arm.drive(rng, count, targets, (0.1, 1.0))

    @sampler(name, "hold", "about the default pose or anywhere, driven to one place", 0.10, 0.20)
    def hold(rng: Rng, count: int, steps: int):
        q, qd = arm.at_rest(rng, count) if rng.random() < 0.5 else arm.anywhere(rng, count, (0.05, 0.5))
        return q, qd, arm.drive(rng, count, arm.held(rng, q), (0.1, 1.0))

    @sampler(name, "fast", "motions of 1 to 4 Hz from fast starts, with noise", 0.16, 0.15)
    def fast(rng: Rng, count: int, steps: int):
        q, qd = arm.anywhere(rng, count, (0.5, 2.5))
        drive = arm.drive(rng, count, arm.waves(rng, q, (1.0, 4.0), (0.02, 0.1)), (0.1, 1.0))
        return q, qd, arm.total(drive, arm.noise(rng, count, steps, (0.02, 0.2)))

    @sampler(name, "push", "torques up to the effort limits, with a weak drive: only to train on", 0.14, 0.00)
    def push(rng: Rng, count: int, steps: int):
        q, qd = arm.anywhere(rng, count, (0.1, 2.5))
        drive = arm.drive(rng, count, arm.held(rng, q), (0.03, 0.3))
        return q, qd, arm.total(drive, arm.noise(rng, count, steps, (0.05, 0.7)))

    @sampler(name, "coast", "hardly any torque: only to train on", 0.06, 0.00)
    def coast(rng: Rng, count: int, steps: int):
        q, qd = arm.anywhere(rng, count)
        return q, qd, arm.noise(rng, count, steps, (0.001, 0.05))

    @sampler(
        name, "kick", "as jumps, and in the last step what stiff drives give at once: only to train on", 0.10, 0.00
    )
    def kick(rng: Rng, count: int, steps: int):
        q, qd = arm.anywhere(rng, count, (0.1, 2.0))
        targets = arm.jumps(rng, q, steps, (0.005, 0.1))
        calm = arm.drive(rng, count, targets, (0.1, 1.0))
        stiff = arm.at_once(rng, count, asked(rng, count, targets), (0.1, 1.0))
        return q, qd, last_step(calm, stiff, steps)


for _robot in (FRANKA, FRANKA_REACH):
    default_plan(
        _robot.name, shard=2_048, train=SplitSize(32_768, 24), val=SplitSize(512, 100), test=SplitSize(1_024, 200)
    )
    register(_robot.name, _bolted(_robot), gripping)
