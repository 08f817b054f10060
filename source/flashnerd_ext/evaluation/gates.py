"""Is the learned world the simulator's, or a smoother one? Statistics of motion, model against simulator.

A model can have a small rollout error and still be softer than the world: impacts damped, falls rarer, gaits slower;
a policy then learns what does not work outside. Both are started from the same states and given the same targets for
some seconds, and what is compared are not states, which chaos has parted long before, but statistics of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashnerd_ext.model.metric import metric_names, metric_state

Array = NDArray[Any]
UPRIGHT = -0.8
"""Gravity along the root's z axis below which a robot counts as upright (37 degrees of tilt)."""


@dataclass(frozen=True)
class Motion:
    """Trajectories of one kind of motion, by the simulator or by a model.

    Attributes:
        joint_q, joint_qd: Shape [T + 1, N, ...], Newton's conventions.
        depth: Distance of the deepest contact of each state [m], inf without one, shape [T + 1, N].
        slide: Mean tangential speed of the feet's touching contacts [m/s], nan without one, shape [T + 1, N].
    """

    joint_q: Array
    joint_qd: Array
    depth: Array
    slide: Array


@dataclass(frozen=True)
class Gate:
    """One statistic under both, and whether it lies within its gate."""

    name: str
    simulator: float
    model: float
    error: float
    limit: float
    unit: str

    @property
    def holds(self) -> bool:
        """Whether the error is finite and within the limit."""
        return bool(np.isfinite(self.error) and abs(self.error) <= self.limit)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; what is not finite is null."""
        values = {key: getattr(self, key) for key in ("simulator", "model", "error", "limit")}
        numbers = {key: float(value) if np.isfinite(value) else None for key, value in values.items()}
        return {"name": self.name, "unit": self.unit, "holds": self.holds, **numbers}


def observe(
    detector: Any, layout: Any, feet: Sequence[int], q: Array, qd: Array, worlds: Mapping[str, Array]
) -> Motion:
    """Contacts of trajectories [T + 1, N, ...], by the detector of the data.

    Args:
        detector: A ``RowDetector``.
        feet: Indices of the links that are meant to touch.
        worlds: ``condition`` [N, C] and ``friction`` [N].
    """
    steps, count = q.shape[:2]
    finite = np.isfinite(q).all(-1) & np.isfinite(qd).all(-1)
    flat_q, flat_qd = q.reshape(steps * count, -1).astype(np.float64), qd.reshape(steps * count, -1).astype(np.float64)
    norm = np.linalg.norm(flat_q[:, 3:7], axis=1, keepdims=True)
    flat_q[:, 3:7] /= np.where(norm > 0, norm, 1.0)
    tiled = {name: np.tile(value, (steps, *([1] * (value.ndim - 1)))) for name, value in worlds.items()}
    found = detector.rows(flat_q, flat_qd, tiled.get("friction"), tiled.get("condition"))
    used = found.link >= 0
    depth = np.where(used[:, 0], found.features[:, 0, 6], np.inf)
    touching = used & (found.features[:, :, 6] <= 0.0) & np.isin(found.link, feet)
    normal, speed = found.features[:, :, 3:6], found.features[:, :, 7:10]
    tangent = speed - (speed * normal).sum(-1, keepdims=True) * normal
    with np.errstate(invalid="ignore"):
        slide = (np.linalg.norm(tangent, axis=-1) * touching).sum(1) / touching.sum(1)
    depth = np.where(finite.reshape(-1), depth, np.nan)
    return Motion(q, qd, depth.reshape(steps, count), slide.reshape(steps, count))


def compare(layout: Any, dt: float, simulator: Mapping[str, Motion], model: Mapping[str, Motion]) -> list[Gate]:
    """All gates.

    Args:
        layout: The robot's coordinates.
        dt: Time between states [s].
        simulator: Kind of motion (``stand``, ``gait``, others) -> trajectories from the same starts.
        model: The same of the model.
    """
    kinds = list(simulator)

    def both(name: str, of: Callable[[str, Motion], float], limit: float, unit: str, relative: bool = False) -> Gate:
        values = [
            float(np.nanmean([of(kind, motions[kind]) for kind in kinds if kind in chosen]))
            for motions in (simulator, model)
        ]
        error = values[1] / values[0] - 1.0 if relative else values[1] - values[0]
        return Gate(name, values[0], values[1], error, limit, unit)

    chosen = set(kinds)
    gates = [
        both("share of robots upright", lambda k, m: upright(layout, m), 0.03, "1"),
        both("rms joint velocity", lambda k, m: rms_joint_velocity(layout, m), 0.10, "rad/s", relative=True),
        both("deepest contact, 99th percentile", lambda k, m: -1e3 * penetration(m), 2.0, "mm"),
        unfinished(simulator, model),
    ]
    if "gait" in chosen:
        slope, reached = velocity_slope(layout, simulator["gait"], model["gait"])
        gates.append(Gate("gait velocity, slope", 1.0, slope, slope - 1.0, 0.15, "1"))
        gates.append(Gate("gait velocity, rms", reached[0], reached[1], reached[1] / reached[0] - 1.0, 0.15, "m/s"))
    if "stand" in chosen:
        sim, own = simulator["stand"], model["stand"]
        at = min(round(2.0 / dt), len(sim.joint_q) - 1)
        heights = [motion.joint_q[at, :, 2] for motion in (sim, own)]
        error = 1e3 * float(np.nanmean(np.abs(heights[1] - heights[0])))
        means = [1e3 * float(np.nanmean(height)) for height in heights]
        gates.append(Gate("standing height after 2 s", means[0], means[1], error, 10.0, "mm"))
        chosen = {"stand"}
        gates.append(both("sliding of standing feet", lambda k, m: late(m.slide), 0.02, "m/s"))
        gates.append(both("drift while standing", lambda k, m: drift(m, dt), 0.05, "m/s"))
        gates.append(both("energy that appears while standing", lambda k, m: energy_gain(m), 0.05, "m"))
    return gates


def unfinished(simulator: Mapping[str, Motion], model: Mapping[str, Motion]) -> Gate:
    """Share of states that are not finite; any is too much."""

    def share(motions: Mapping[str, Motion]) -> float:
        return float(np.mean([(~np.isfinite(motion.joint_q).all(-1)).mean() for motion in motions.values()]))

    return Gate("states that are not finite", share(simulator), share(model), share(model), 0.0, "1")


def upright(layout: Any, motion: Motion) -> float:
    """Mean share of robots that are upright, over the second half of the motion."""
    gravity = _named(layout, motion, "gravity.z")
    return float(np.mean(gravity[len(gravity) // 2 :] < UPRIGHT))


def rms_joint_velocity(layout: Any, motion: Motion) -> float:
    """Root mean square over joints, robots and the second half of the motion [rad/s]."""
    half = len(motion.joint_qd) // 2
    return float(np.sqrt(np.nanmean(np.square(motion.joint_qd[half:, :, layout.v0 :], dtype=np.float64))))


def penetration(motion: Motion) -> float:
    """The depth that 1 % of the states exceed [m], negative below the ground."""
    return float(np.nanquantile(np.where(np.isinf(motion.depth), 0.0, motion.depth), 0.01))


def velocity_slope(layout: Any, simulator: Motion, model: Motion) -> tuple[float, tuple[float, float]]:
    """Slope of the model's mean horizontal velocity over the simulator's, and their rms, over robots [m/s].

    Only robots that stay upright in both: a robot on its side goes nowhere in either.
    """
    means, up = [], np.ones(simulator.joint_q.shape[1], bool)
    for motion in (simulator, model):
        x, y = (_named(layout, motion, f"root_lin_vel.{axis}") for axis in "xy")
        half = len(x) // 4
        means.append(np.stack([x[half:].mean(0), y[half:].mean(0)], 1))
        up &= (_named(layout, motion, "gravity.z")[half:] < UPRIGHT).all(0)
    if not up.any():
        return float("nan"), (float("nan"), float("nan"))
    sim, own = means[0][up], means[1][up]
    slope = float((sim * own).sum() / max(float((sim * sim).sum()), 1e-12))
    return slope, (float(np.sqrt((sim**2).sum(1).mean())), float(np.sqrt((own**2).sum(1).mean())))


def drift(motion: Motion, dt: float) -> float:
    """Mean horizontal speed of the base over the second half of the motion [m/s]."""
    half = len(motion.joint_q) // 2
    way = motion.joint_q[-1, :, :2] - motion.joint_q[half, :, :2]
    return float(np.nanmean(np.linalg.norm(way, axis=1)) / (dt * (len(motion.joint_q) - 1 - half)))


def energy_gain(motion: Motion) -> float:
    """Largest rise of the base's energy over the second half of the motion, as a height [m]; mean over robots."""
    half = len(motion.joint_q) // 2
    energy = motion.joint_q[half:, :, 2] + np.square(motion.joint_qd[half:, :, :3]).sum(-1) / (2 * 9.81)
    return float(np.nanmean(energy.max(0) - energy[0]))


def late(values: Array) -> float:
    """Mean over the second half, without gaps."""
    return float(np.nanmean(values[len(values) // 2 :]))


def _named(layout: Any, motion: Motion, name: str) -> Array:
    return metric_state(layout, motion.joint_q, motion.joint_qd)[..., metric_names(layout).index(name)]


def table(gates: Sequence[Gate]) -> str:
    """Text table of gates."""
    lines = [f"{'statistic':<36}{'simulator':>11}{'model':>11}{'error':>10}{'gate':>8}  unit"]
    lines.append("-" * len(lines[0]))
    for gate in gates:
        mark = "" if gate.holds else "  outside"
        lines.append(
            f"{gate.name:<36}{gate.simulator:>11.4g}{gate.model:>11.4g}{gate.error:>10.3g}{gate.limit:>8.3g}  "
            f"{gate.unit}{mark}"
        )
    return "\n".join(lines)
