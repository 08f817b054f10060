"""Samplers of the user's own robots, by the plan that ``robot.toml`` names.

``walk`` takes the samplers of the four-legged robots with gaits for any number of legs, and falls for robots that
topple without a policy; ``arm`` takes those of Franka with the inertias that ``scripts/new_robot.py`` measured.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from flashnerd_ext.data import arm, quadruped
from flashnerd_ext.data.legged import Legged, Rng, spread
from flashnerd_ext.data.manipulation import Bolted
from flashnerd_ext.data.samplers import _REGISTRY, Policy, SplitSize, default_plan, sampler
from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.robots.own import OwnRobot
from flashnerd_ext.robots.own.schema import WALK

START_SPEED = 0.5
"""Spread of an arm's joint velocities at the start, in ranges of the joint a second."""
SLOWEST, FASTEST = 0.05, 1.5
"""Bounds of it [rad/s or m/s]."""


KICK = 10.0
"""Largest change of a joint's speed that a torque makes in one step, by its smallest inertia [rad/s or m/s]."""
STEPS = 5
"""Random torques of size 1 change a joint's speed by its spread at the start in so many steps."""


class Walker(Legged):
    """A robot with legs, of which only the joints of each leg are known, and which legs are in front and left."""

    def __init__(self, own: OwnRobot) -> None:
        super().__init__(own.description)
        names = own.description.layout.joint_names
        self.legs = [np.array([names.index(joint) for joint in leg]) for leg in own.data.legs]
        fore, left = (np.array(side, float) for side in (own.data.fore, own.data.left))
        # Phase of each leg [cycles]: neighbours in turn (a trot), sides, ends, all together.
        self.patterns = 0.5 * np.stack([(fore != left).astype(float), left, fore, np.zeros(len(self.legs))])
        drive = own.description.layout.drive
        assert drive is not None
        # Stiff drives of arms and heads would throw them about.
        self.share = np.minimum(1.0, np.median(drive.stiffness) * 2.0 / np.maximum(drive.stiffness, 1e-9))

    def gait(self, rng: Rng, count: int, noise: float) -> Policy:
        """Rhythmic legs at 0.8 to 3.5 Hz in a pattern or with any phases; other joints hold still but for noise.

        Each joint of a leg swings by a size of its own, the same on all legs but for a spread. Its sign is the same on
        most legs and drawn for the others, since nothing says which way joints turn.
        """
        legs, longest = len(self.legs), max(len(leg) for leg in self.legs)
        phase = self.patterns[rng.integers(0, len(self.patterns), count)]
        phase = np.where(rng.random((count, 1)) < 0.3, rng.random((count, legs)), phase)
        rate = spread(rng, 0.8, 3.5, (count, 1)) * 2 * np.pi * self.robot.dt
        swing = spread(rng, 0.1, 1.2, (count, 1, longest)) * rng.normal(size=(count, 1, longest)) * self.scale
        swing = swing * (1.0 + 0.2 * rng.normal(size=(count, legs, longest)))
        swing *= np.where(rng.random((count, legs, 1)) < 0.25, -1.0, 1.0)
        lag = rng.normal(size=(count, 1, longest)) * 0.8
        offset = rng.normal(size=(count, self.joints)) * 0.15 * self.scale * self.share
        sigma = noise * self.scale * rng.random((count, 1)) ** 2 * self.share
        start = rng.uniform(0, 2 * np.pi, (count, 1))

        def policy(t: int, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
            angle = (rate * t + start + 2 * np.pi * phase)[:, :, None] + lag
            target = self.default + offset + sigma * rng.normal(size=(count, self.joints))
            for number, leg in enumerate(self.legs):
                target[:, leg] += (swing * np.sin(angle))[:, number, : len(leg)]
            return target

        return policy


def register(own: OwnRobot) -> None:
    """Register the samplers and sizes of a robot of the user's own.

    Raises:
        FlashNerdError: When its file gives a weight to a sampler that its plan does not have.
    """
    data = own.data
    default_plan(own.name, data.shard, **{split: SplitSize(*size) for split, size in data.splits.items()})
    if data.plan == WALK:
        walker = Walker(own)
        quadruped.register(walker)
        if len(walker.legs) < 3:
            _falls(walker)
    else:
        arm.register(own.name, bolted(own))
    known = _REGISTRY[own.name]
    for name, weight in data.weights.items():
        if name not in known:
            raise FlashNerdError(
                f"data.weights in {own.folder}/robot.toml names the sampler '{name}', which the plan '{data.plan}' "
                f"does not have: {nearest(name, known)}"
            )
        known[name] = dataclasses.replace(known[name], weight={**known[name].weight, **_weights(weight)})


def _weights(weight: float) -> dict[str, float]:
    return dict.fromkeys(("train", "val", "test"), weight)


def _falls(walker: Walker) -> None:
    """Further samplers of a robot that falls over unless a policy keeps it up."""

    @sampler(walker.robot.name, "lean", "upright with any lean and pose, slow motions", 0.15, 0.15)
    def lean(rng: Rng, count: int, steps: int):
        return *walker.leaning(rng, count, 0.0, 0.5, 0.15, 0.3), walker.smooth(rng, count, steps, 0.05, 0.6)

    @sampler(walker.robot.name, "fall", "toppling at any tilt, with the motions of a policy that has lost", 0.15, 0.15)
    def fall(rng: Rng, count: int, steps: int):
        return *walker.leaning(rng, count, 0.4, 1.5, 0.25, 0.6), walker.smooth(rng, count, steps, 0.1, 1.0)


def bolted(own: OwnRobot) -> Bolted:
    """Starts and policies of a robot on a fixed base, from the inertias that its file gives."""
    robot = own.description
    inertia = np.array([own.data.inertia[name] for name in robot.layout.joint_names])
    low, high = (np.array([robot.position_limit[name][i] for name in robot.layout.joint_names]) for i in (0, 1))
    speed = np.clip(START_SPEED * (high - low), SLOWEST, FASTEST)
    effort = np.array([robot.effort_limit[name] for name in robot.layout.joint_names])
    # Motors may be far too strong for links without their rotors' inertia: a step of full torque would then say nothing
    # of any motion that a task makes, and be most of what a model sees.
    calm = np.minimum(effort, inertia * KICK / robot.dt)
    robot = dataclasses.replace(
        robot, effort_limit={n: float(e) for n, e in zip(robot.layout.joint_names, calm, strict=True)}
    )
    return Bolted(robot, inertia, margin=0.05, speed=speed, push=np.minimum(calm, inertia * speed / (STEPS * robot.dt)))
