"""CartPole's samplers: what the stock task meets, and a margin around it.

State: cart x [m] and pole angle th [rad] (0 = upright, not wrapped). Actuation: force on the cart [N], as the stock
task applies it, that is 100 N times the action and not clamped by the 400 N effort limit.

The stock task resets to x +-1 m, +-0.5 m/s, th +-pi/4, +-pi/4 rad/s, steps at 1/60 s for at most 300 steps and ends at
|x| > 3 m; the pole may swing and spin. A fresh policy is white noise of 100 N; later ones balance with some noise,
or saturate.

A balanced pole cannot be replayed open-loop: perturbing the simulator itself by 1e-7 grows by 8e5 in 200 steps, so
that one-step errors of 1e-6 fill the whole range, whatever the model. Long balancing is therefore in the training
data and in a split of its own, ``balance``; the test split has the same states for up to 40 steps at a time
(``task_release``).
"""

from __future__ import annotations

import numpy as np

from flashnerd_ext.data.samplers import Policy, SplitSize, default_plan, sampler

Rng = np.random.Generator
PEAK = 400.0
"""Effort limit of the cart's joint [N]: the range that most samplers fill."""
BEYOND = 500.0
"""Clamp of feedback samplers [N]: the task does not clamp, so the data go past the limit."""
RESET_Q = np.array([1.0, 0.25 * np.pi])
RESET_QD = np.array([0.5, 0.25 * np.pi])
LQR = np.array([27.0, 42.6, -187.0, -41.6])
"""An LQR solution (state weights 1, 0.1, 10, 0.1; input weight 1e-3) on (x, v, th, w) [N per unit]."""

default_plan(
    "cartpole",
    shard=5_000,
    train=SplitSize(50_000, 64),
    val=SplitSize(500, 200),
    test=SplitSize(2_000, 200),
    balance=SplitSize(500, 200),
)


def _column(rng: Rng, low: float, high: float, count: int, log: bool = False) -> np.ndarray:
    """[count] numbers, uniform or log-uniform."""
    return np.exp(rng.uniform(np.log(low), np.log(high), count)) if log else rng.uniform(low, high, count)


def _reset(rng: Rng, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The stock task's reset distribution."""
    return rng.uniform(-1, 1, (count, 2)) * RESET_Q, rng.uniform(-1, 1, (count, 2)) * RESET_QD


def _wide(rng: Rng, count: int, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Anywhere on the rail, any angle, normal velocities (4 m/s and 7 rad/s at scale 1)."""
    q = np.stack([rng.uniform(-2.6, 2.6, count), rng.uniform(-np.pi, np.pi, count)], 1)
    return q, rng.normal(size=(count, 2)) * np.array([4.0, 7.0]) * scale


def _mixed(rng: Rng, count: int, share: float, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """The given share from the task's resets, the rest wide."""
    (q, qd), (wide_q, wide_qd) = _reset(rng, count), _wide(rng, count, scale)
    take = (rng.random(count) < share)[:, None]
    return np.where(take, q, wide_q), np.where(take, qd, wide_qd)


def _centring(rng: Rng, count: int, free: float) -> Policy:
    """A spring and damper that keep the cart on the rail; a ``free`` share of the worlds has none."""
    on = rng.random(count) >= free
    stiffness = np.where(on, _column(rng, 8.0, 120.0, count, log=True), 0.0)
    damping = np.where(on, _column(rng, 0.0, 25.0, count), 0.0)
    return lambda t, q, qd: (-stiffness * q[:, 0] - damping * qd[:, 0])[:, None]


def _sum(*policies: Policy) -> Policy:
    return lambda t, q, qd: np.sum([policy(t, q, qd) for policy in policies], axis=0)


def _clamp(policy: Policy, peak: float = PEAK) -> Policy:
    return lambda t, q, qd: np.clip(policy(t, q, qd), -peak, peak)


def _noise(rng: Rng, count: int, steps: int, sigma: np.ndarray) -> Policy:
    """White Gaussian noise with a standard deviation a world [N]."""
    values = rng.normal(size=(steps, count, 1)) * sigma[:, None]
    return lambda t, q, qd: values[t]


def _feedback(gains: np.ndarray) -> Policy:
    """gains [N, 4] on (x, v, th wrapped to +-pi, w)."""

    def policy(t: int, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        angle = (q[:, 1] + np.pi) % (2 * np.pi) - np.pi
        state = np.stack([q[:, 0], qd[:, 0], angle, qd[:, 1]], 1)
        return (gains * state).sum(1, keepdims=True)

    return policy


@sampler("cartpole", "task_noise", "task resets, white noise of a fresh policy (mostly 100 N, 30 to 250 N)", 0.22, 0.42)
def task_noise(rng: Rng, count: int, steps: int):
    q, qd = _reset(rng, count)
    sigma = np.where(rng.random(count) < 0.5, 100.0, _column(rng, 30.0, 250.0, count, log=True))
    return q, qd, _sum(_noise(rng, count, steps, sigma), _centring(rng, count, free=0.6))


@sampler(
    "cartpole", "task_policy", "task resets, balancing feedback with random gains, noise 0 to 150 N", 0.14, 0.00, 1.0
)
def task_policy(rng: Rng, count: int, steps: int):
    q, qd = _mixed(rng, count, 0.8, scale=0.5)
    gains = LQR * _column(rng, 0.4, 3.0, count, log=True)[:, None] * rng.uniform(0.5, 1.6, (count, 4))
    sigma = np.where(rng.random(count) < 0.25, 0.0, _column(rng, 1.0, 150.0, count, log=True))
    return q, qd, _clamp(_sum(_feedback(gains), _noise(rng, count, steps, sigma)), BEYOND)


@sampler("cartpole", "task_release", "as task_policy for 5 to 40 steps, then as task_noise", 0.06, 0.12)
def task_release(rng: Rng, count: int, steps: int):
    q, qd, balance = task_policy(rng, count, steps)
    _, _, noise = task_noise(rng, count, steps)
    until = rng.integers(5, 41, count)[:, None]
    return q, qd, lambda t, q, qd: np.where(t < until, balance(t, q, qd), noise(t, q, qd))


@sampler("cartpole", "any_feedback", "any start, random linear feedback of either sign, noise, clamped", 0.10, 0.00)
def any_feedback(rng: Rng, count: int, steps: int):
    q, qd = _mixed(rng, count, 0.5)
    gains = rng.normal(size=(count, 4)) * np.array([20.0, 15.0, 120.0, 25.0])
    sigma = _column(rng, 3.0, 200.0, count, log=True)
    return q, qd, _clamp(_sum(_feedback(gains), _noise(rng, count, steps, sigma), _centring(rng, count, 0.2)), BEYOND)


@sampler("cartpole", "smooth", "any start, correlated noise (time constants 0.05 to 1 s) up to 400 N", 0.12, 0.12)
def smooth(rng: Rng, count: int, steps: int):
    q, qd = _mixed(rng, count, 0.4)
    keep = np.exp(-1.0 / (60.0 * _column(rng, 0.05, 1.0, count, log=True)))[:, None]
    sigma = _column(rng, 5.0, 200.0, count, log=True)[:, None]
    values = np.empty((steps, count, 1))
    level = rng.normal(size=(count, 1))
    for t in range(steps):
        values[t] = level * sigma
        level = keep * level + np.sqrt(1 - keep**2) * rng.normal(size=(count, 1))
    return q, qd, _clamp(_sum(lambda t, q, qd: values[t], _centring(rng, count, 0.1)))


@sampler("cartpole", "bang_bang", "any start, constant force up to +-400 N between random switches", 0.11, 0.10)
def bang_bang(rng: Rng, count: int, steps: int):
    q, qd = _mixed(rng, count, 0.4)
    rate = 1.0 / _column(rng, 1.5, 20.0, count, log=True)
    peak = _column(rng, 30.0, PEAK, count)
    values = np.empty((steps, count))
    level = rng.choice([-1.0, 1.0], count)
    for t in range(steps):
        level = np.where(rng.random(count) < rate, -level, level)
        values[t] = level * peak
    return q, qd, _clamp(_sum(lambda t, q, qd: values[t][:, None], _centring(rng, count, 0.15)))


@sampler("cartpole", "swing_up", "any start, energy pumping and spinning with noise", 0.10, 0.10)
def swing_up(rng: Rng, count: int, steps: int):
    q, qd = _mixed(rng, count, 0.3)
    gain = _column(rng, 1.0, 30.0, count, log=True) * rng.choice([-1.0, 1.0], count, p=[0.3, 0.7])
    # Not near 4.6 J, where the pole would hang about upright: see the module's text.
    target = np.where(rng.random(count) < 0.4, _column(rng, -6.0, 1.0, count), _column(rng, 9.0, 25.0, count))

    def pump(t: int, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        # Energy of the pole about its hinge [J], 4.61 at rest upright; d/dt ~ -w cos(th) * (cart's acceleration).
        energy = 0.152 * qd[:, 1] ** 2 + 4.61 * np.cos(q[:, 1])
        return (gain * np.clip(energy - target, -8, 8) * np.sign(qd[:, 1] * np.cos(q[:, 1])))[:, None]

    noise = _noise(rng, count, steps, _column(rng, 2.0, 100.0, count, log=True))
    return q, qd, _clamp(_sum(pump, noise, _centring(rng, count, 0.0)))


@sampler("cartpole", "uniform", "wide start, force uniform in +-400 N or normal to beyond it, centred", 0.10, 0.08)
def uniform(rng: Rng, count: int, steps: int):
    q, qd = _wide(rng, count, 1.3)
    values = rng.uniform(-PEAK, PEAK, (steps, count, 1))
    tail = (rng.random(count) < 0.4)[:, None]
    values = np.where(tail, rng.normal(size=values.shape) * 300.0, values)
    return q, qd, _sum(lambda t, q, qd: values[t], _centring(rng, count, 0.2))


@sampler("cartpole", "coast", "wide start, no force or a small one", 0.05, 0.06)
def coast(rng: Rng, count: int, steps: int):
    q, qd = _wide(rng, count, 0.8)
    force = np.where(rng.random(count) < 0.4, 0.0, rng.normal(size=count) * 10.0)
    return q, qd, _sum(lambda t, q, qd: np.repeat(force[:, None], 1, 1), _centring(rng, count, 0.5))


@sampler("cartpole", "extreme", "fast spins and slides, forces far beyond the limit: only to train on", 0.14, 0.00)
def extreme(rng: Rng, count: int, steps: int):
    # Squared errors are dominated by the rare fastest states of long rollouts; here they are not rare.
    q = np.stack([rng.uniform(-1.5, 1.5, count), rng.uniform(-np.pi, np.pi, count)], 1)
    qd = rng.uniform(-1, 1, (count, 2)) * np.array([22.0, 72.0])
    sigma = _column(rng, 20.0, 350.0, count, log=True)[:, None]
    level = rng.uniform(-PEAK, PEAK, (count, 1)) * (rng.random((count, 1)) < 0.5)
    values = rng.normal(size=(steps, count, 1)) * sigma + level
    return q, qd, _sum(lambda t, q, qd: np.clip(values[t], -1300.0, 1300.0), _centring(rng, count, 0.3))
