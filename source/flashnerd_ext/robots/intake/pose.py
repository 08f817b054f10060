"""Find a pose to stand in: feet below the hips, soles as at zero, height from the lowest point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.spatial.transform import Rotation

from flashnerd_ext.robots.assets.inertia import Array
from flashnerd_ext.robots.intake.choices import SOLE_FROM
from flashnerd_ext.robots.intake.probe import Probe

STRETCH = {False: 0.75, True: 0.93}
"""Height of the hips over the feet as a share of a leg's length, of robots with many legs and with two."""
SEEDS = 24
"""Starts of the search, a leg; the first is the middle of the limits."""
FREE = 1.6
"""Joints without limits are searched so far to both sides [rad]."""
DIGITS = 3


@dataclass(frozen=True)
class Leg:
    """One leg.

    Attributes:
        foot: Its foot.
        joints: From the base to the foot.
        thigh: Joint at the upper end of its longest part, below which the foot should be.
        knee: Joint at the lower end of that part.
        length: Of the longest part and what hangs on it [m].
        home: Foot in the base's frame at the zero pose [3].
    """

    foot: str
    joints: tuple[str, ...]
    thigh: str
    knee: str | None
    length: float
    home: Array


def legs_of(probe: Probe, feet: Sequence[str]) -> list[Leg]:
    """The leg of each foot."""
    probe.place(np.clip(0.0, probe.low, probe.high))
    legs = []
    for foot in feet:
        joints = probe.chain(foot)
        points = [*(probe.anchor(joint) for joint in joints), probe.centre(foot)]
        parts = [float(np.linalg.norm(b - a)) for a, b in pairwise(points)]
        # The first of parts of nearly one length: thigh and shank often have the same.
        thigh = next(i for i, part in enumerate(parts) if part > 0.8 * max(parts))
        below = joints[thigh + 1 :]
        legs.append(Leg(foot, joints, joints[thigh], below[0] if below else None, sum(parts[thigh:]), points[-1]))
    return legs


def standing_pose(probe: Probe, feet: Sequence[str]) -> dict[str, float]:
    """Joint -> position [rad or m] of a pose to stand in; joints of no leg are at 0, or at the nearest limit."""
    pose = np.clip(0.0, probe.low, probe.high)
    legs = legs_of(probe, feet)
    upright = len(legs) <= 2
    height = STRETCH[upright] * float(np.median([leg.length for leg in legs]))
    for leg in legs:
        columns = [probe.joints.index(joint) for joint in leg.joints]
        pose[columns] = _solve(probe, leg, columns, pose.copy(), height, upright)
    return {joint: round(float(value), DIGITS) + 0.0 for joint, value in zip(probe.joints, pose, strict=True)}


def _solve(probe: Probe, leg: Leg, columns: list[int], pose: Array, height: float, upright: bool) -> Array:
    from scipy.optimize import least_squares

    low, high = np.maximum(probe.low[columns], -FREE), np.minimum(probe.high[columns], FREE)
    inside = low < high
    low, high = np.where(inside, low, probe.low[columns]), np.where(inside, high, probe.high[columns])
    probe.place(pose)
    sole = probe.rotation(leg.foot)
    level = len(columns) >= SOLE_FROM

    def residuals(q: Array) -> Array:
        pose[columns] = q
        probe.place(pose)
        hip, foot = probe.anchor(leg.thigh), probe.centre(leg.foot)
        # Under the hip from the side; as far out as the leg hangs by itself.
        wanted = np.array([hip[0], leg.home[1], hip[2] - height])
        parts = [(foot - wanted) / leg.length, 0.02 * (q - np.clip(0.0, low, high))]
        if level:
            parts.append(0.5 * Rotation.from_matrix(sole.T @ probe.rotation(leg.foot)).as_rotvec())
        return np.concatenate(parts)

    rng, best, least = np.random.default_rng(0), (low + high) / 2.0, np.inf
    for number in range(SEEDS):
        start = (low + high) / 2.0 if number == 0 else rng.uniform(low, high)
        found = least_squares(residuals, np.clip(start, low + 1e-6, high - 1e-6), bounds=(low, high), max_nfev=60)
        pose[columns] = found.x
        probe.place(pose)
        cost = float(found.cost)
        if leg.knee is not None:
            # Knees of animals with four legs point back here, those of two forward, as most robots are built.
            ahead = float(probe.anchor(leg.knee)[0] - probe.anchor(leg.thigh)[0])
            cost += 0.01 * (ahead > 0.0) if not upright else 0.01 * (ahead < 0.0)
        if cost < least - 1e-9:
            best, least = found.x, cost
    return best
