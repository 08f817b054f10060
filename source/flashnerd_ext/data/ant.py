"""Ant's samplers: what the stock tasks meet, and a margin around it.

Actuation: torques [N m]; Isaac-Ant clips them at 7.5 N m, the direct task does not go far beyond. Nothing holds the
legs but 0.1 N m s/rad of damping: without torques it sinks onto its ankles.
"""

from __future__ import annotations

import numpy as np

from flashnerd_ext.data.legged import Legged, Rng, Start, mixed, spread
from flashnerd_ext.data.samplers import Policy, SplitSize, default_plan, sampler
from flashnerd_ext.robots.ant import ANT

PEAK = ANT.action_scale
"""Largest torque of the stock task [N m]."""
_ant = Legged(ANT)
default_plan("ant", shard=512, train=SplitSize(16_384, 48), val=SplitSize(512, 100), test=SplitSize(1_024, 200))


def _reset(rng: Rng, count: int) -> Start:
    """The stock task's resets: default pose +-0.2 rad, +-0.1 rad/s, dropped from 0.5 m."""
    q, qd = _ant.at_rest(rng, count)
    q[:, 2] = ANT.base_height
    q[:, 7:] = _ant.within(_ant.default + rng.uniform(-0.2, 0.2, (count, 8)))
    qd[:, 6:] = rng.uniform(-0.1, 0.1, (count, 8))
    return q, qd


def _moving(rng: Rng, count: int) -> Start:
    """In the middle of a run: any legs within their limits, speeds of a trained policy."""
    q, qd = _ant.upright(rng, count, 0.25, 0.0, 1.5)
    q[:, 7:] = rng.uniform(_ant.low, _ant.high, (count, 8))
    return q, qd


def _clip(policy: Policy, peak: float = PEAK) -> Policy:
    return lambda t, q, qd: np.clip(policy(t, q, qd), -peak, peak)


def _rhythm(rng: Rng, count: int, noise: float) -> Policy:
    """Torques at 0.8 to 4 Hz with any phase a joint, and noise."""
    rate = spread(rng, 0.8, 4.0, (count, 1)) * 2 * np.pi * ANT.dt
    phase, size = rng.uniform(0, 2 * np.pi, (count, 8)), spread(rng, 0.1, 2.0, (count, 8)) * PEAK
    sigma = noise * PEAK * rng.random((count, 1))
    return lambda t, q, qd: size * np.sin(rate * t + phase) + sigma * rng.normal(size=(count, 8))


@sampler("ant", "explore", "task resets and runs, white noise of a fresh policy, clipped", 0.30, 0.30)
def explore(rng: Rng, count: int, steps: int):
    start = mixed(rng, _reset(rng, count), _moving(rng, count), 0.5)
    return *start, _clip(_ant.white(rng, count, steps, 0.2, 1.5))


@sampler("ant", "rhythm", "running and hopping: torques at 0.8 to 4 Hz with noise", 0.26, 0.26)
def rhythm(rng: Rng, count: int, steps: int):
    start = mixed(rng, _reset(rng, count), _moving(rng, count), 0.3)
    return *start, _clip(_rhythm(rng, count, 0.5))


@sampler("ant", "smooth", "correlated torques", 0.18, 0.18)
def smooth(rng: Rng, count: int, steps: int):
    return *_moving(rng, count), _clip(_ant.smooth(rng, count, steps, 0.1, 1.5))


@sampler("ant", "coast", "nearly no torque", 0.10, 0.10)
def coast(rng: Rng, count: int, steps: int):
    return *mixed(rng, _reset(rng, count), _moving(rng, count), 0.5), _ant.hold(rng, count, 0.05)


@sampler("ant", "tumble", "thrown in any orientation, then lying and struggling", 0.16, 0.16)
def tumble(rng: Rng, count: int, steps: int):
    q, qd = _ant.anyhow(rng, count, 0.5, 2.0)
    q[:, 7:] = rng.uniform(_ant.low, _ant.high, (count, 8))
    return q, qd, _clip(_ant.smooth(rng, count, steps, 0.1, 1.5), 2 * PEAK)
