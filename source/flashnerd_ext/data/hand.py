"""Allegro's samplers: what a policy for cube reorientation makes the fingers do without a cube, and a margin around it.

Held over a solver step, the drives' torque of up to 0.5 N m throws an outer link at 200 rad/s. In the simulation the
implicit integration takes that back in the same step; free motion does not. Trajectories are therefore driven by what
is left of the torque over a step, and the torques that the model will be asked about, those of stiff drives at an
instant, come in the last step of short training trajectories (``kick``).
"""

from __future__ import annotations

import numpy as np

from flashnerd_ext.data.legged import Rng
from flashnerd_ext.data.manipulation import Bolted, last_step
from flashnerd_ext.data.samplers import SplitSize, default_plan, sampler
from flashnerd_ext.robots.allegro import ALLEGRO

_INERTIA = np.array([1.1e-4, 1.5e-4, 2.0e-5, 6.0e-6] * 3 + [2.9e-4, 7.8e-5, 6.1e-5, 2.1e-5])
"""Smallest inertia of each joint over 200 random poses [kg m^2]."""
_SHARE = 0.3
"""Of that inertia is taken for the drives: the joints of a finger move each other, and four drives that each stop
their own joint within one step would together throw it."""
_hand = Bolted(ALLEGRO, _INERTIA * _SHARE, margin=0.05, speed=np.full(16, 4.0))
default_plan("allegro", shard=16_384, train=SplitSize(327_680, 2), val=SplitSize(512, 100), test=SplitSize(1_024, 200))


@sampler("allegro", "waves", "smooth motions of 0.2 to 3 Hz anywhere in the range", 0.16, 0.35)
def waves(rng: Rng, count: int, steps: int):
    q, qd = _hand.anywhere(rng, count)
    targets = _hand.waves(rng, q, (0.2, 3.0), (0.03, 0.4))
    return q, qd, _hand.drive(rng, count, targets, (0.3, 3.0))


@sampler("allegro", "jumps", "targets of an exploring policy, new every control step", 0.16, 0.35)
def jumps(rng: Rng, count: int, steps: int):
    q, qd = _hand.anywhere(rng, count)
    targets = _hand.jumps(rng, q, steps, (0.02, 0.5))
    return q, qd, _hand.drive(rng, count, targets, (0.3, 3.0))


@sampler("allegro", "hold", "about the default pose or anywhere, driven to one place", 0.08, 0.20)
def hold(rng: Rng, count: int, steps: int):
    q, qd = _hand.at_rest(rng, count) if rng.random() < 0.5 else _hand.anywhere(rng, count, (0.05, 0.5))
    return q, qd, _hand.drive(rng, count, _hand.held(rng, q), (0.3, 3.0))


@sampler("allegro", "fast", "motions of 2 to 6 Hz from fast starts, with noise", 0.12, 0.10)
def fast(rng: Rng, count: int, steps: int):
    q, qd = _hand.anywhere(rng, count, (0.5, 3.0))
    drive = _hand.drive(rng, count, _hand.waves(rng, q, (2.0, 6.0), (0.05, 0.4)), (0.5, 3.0))
    return q, qd, _hand.total(drive, _hand.noise(rng, count, steps, (0.001, 0.01)))


@sampler("allegro", "coast", "hardly any torque: only to train on", 0.08, 0.00)
def coast(rng: Rng, count: int, steps: int):
    q, qd = _hand.anywhere(rng, count, (0.05, 3.0))
    return q, qd, _hand.noise(rng, count, steps, (0.001, 0.05))


@sampler(
    "allegro", "kick", "as jumps, and in the last step what stiff drives give at once: only to train on", 0.40, 0.0
)
def kick(rng: Rng, count: int, steps: int):
    q, qd = _hand.anywhere(rng, count, (0.05, 3.0))
    targets = _hand.jumps(rng, q, steps, (0.02, 0.5))
    calm, stiff = (make(rng, count, targets, (0.3, 3.0)) for make in (_hand.drive, _hand.at_once))
    return q, qd, last_step(calm, stiff, steps)
