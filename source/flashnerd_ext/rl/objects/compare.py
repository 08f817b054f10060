"""What two runs have in common: drops, where the object went, what contacts did to it; bootstrap over worlds.

Worlds are paired: each has the same start and the same actions in every run. Hands and cubes are chaotic, so that a
pose is compared with what the simulator makes of a start that differs by a millionth of a radian.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from flashnerd_ext.rl.returns import interval

Array = np.ndarray
AFTER = 0.5
"""Time at which poses are compared [s]."""


@dataclass(frozen=True)
class Track:
    """One run; arrays as :func:`flashnerd_ext.rl.objects.child.roll` gives them."""

    pose: Array
    force: Array
    ended: Array
    joint_q: Array
    dt: float
    steps: int = 0
    fallen_back: int = 0

    @classmethod
    def load(cls, path: str) -> Track:
        """Read a child's file."""
        with np.load(path) as file:
            facts = {name: file[name] for name in file.files}
        numbers = {name: facts.pop(name).item() for name in ("dt", "steps", "fallen_back")}
        return cls(**facts, **numbers)

    @property
    def alive(self) -> Array:
        """Whether no episode of a world has ended up to and with a step, [T, N]."""
        return ~np.logical_or.accumulate(self.ended, axis=0)

    @property
    def dropped(self) -> Array:
        """Whether a world's first episode ended, 0 or 1, [N]."""
        return self.ended.any(0).astype(float)

    @property
    def lasted(self) -> Array:
        """Time until it ended, at most that of the run [s], [N]."""
        return self.alive.sum(0) * self.dt

    @property
    def mean_force(self) -> Array:
        """Mean force on the object while its first episode lasted [N], [N]."""
        alive = self.alive
        return np.where(alive, self.force, 0.0).sum(0) / np.maximum(alive.sum(0), 1)

    @property
    def peak_force(self) -> Array:
        """95th percentile of it over the same steps [N], [N]."""
        held = np.where(self.alive, self.force, np.nan)
        held[:, ~self.alive.any(0)] = 0.0
        return np.nanpercentile(held, 95, axis=0)

    def place(self, after: float = AFTER) -> tuple[Array, Array]:
        """Pose ``after`` so many seconds [N, 7], and whether the first episode still lasts then [N]."""
        step = min(round(after / self.dt), len(self.ended))
        return self.pose[step], self.alive[step - 1] if step else np.ones(self.pose.shape[1], bool)


def distance(one: Array, other: Array) -> tuple[Array, Array]:
    """Distance [m] and angle [rad] between poses [N, 7]."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    p, q = one[:, 3:], other[:, 3:]
    # Of q* p: an arc cosine would round small angles to 0.
    vector = q[:, 3:] * p[:, :3] - p[:, 3:] * q[:, :3] - np.cross(q[:, :3], p[:, :3])
    angle = 2.0 * np.arctan2(np.linalg.norm(vector, axis=-1), np.abs((p * q).sum(-1)))
    return np.linalg.norm(one[:, :3] - other[:, :3], axis=-1), angle


def moved(track: Track) -> tuple[Array, Array]:
    """How far the object is from its start :data:`AFTER` the start: [m] and [rad], [N]."""
    return distance(track.place()[0], track.pose[0])


MEASURES: dict[str, tuple[str, str]] = {
    "dropped": ("dropped", "share"),
    "lasted": ("time to drop", "s"),
    "moved": (f"moved in {AFTER:g} s", "mm"),
    "turned": (f"turned in {AFTER:g} s", "rad"),
    "force": ("contact force, mean", "N"),
    "peak": ("contact force, 95th percentile", "N"),
}
"""Name -> what it is and its unit. Time to drop is that of the run where nothing is dropped."""


def measures(track: Track) -> dict[str, Array]:
    """A number of each of :data:`MEASURES` for each world, [N]."""
    far, turned = moved(track)
    return {
        "dropped": track.dropped,
        "lasted": track.lasted,
        "moved": 1e3 * far,
        "turned": turned,
        "force": track.mean_force,
        "peak": track.peak_force,
    }


def compare(reference: Track, other: Track, rounds: int, seed: int = 0) -> dict[str, dict[str, object]]:
    """Means of a run and of the reference, and whether they agree.

    Args:
        rounds: Bootstrap draws of worlds.

    Returns:
        For each measure ``mean``, ``reference``, ``difference`` with its 95 % ``interval``, and ``agrees``: whether
        the interval holds 0.
    """
    mine, theirs = measures(other), measures(reference)
    rng, result = np.random.default_rng(seed), {}
    draws = rng.integers(0, len(mine["dropped"]), (rounds, len(mine["dropped"])))
    for name in MEASURES:
        paired = mine[name] - theirs[name]
        low, high = interval(paired[draws].mean(1))
        result[name] = {
            "mean": float(mine[name].mean()),
            "reference": float(theirs[name].mean()),
            "difference": float(paired.mean()),
            "interval": [low, high],
            "agrees": bool(low <= 0.0 <= high),
        }
    return result


def pose_error(reference: Track, other: Track, rounds: int, seed: int = 0) -> dict[str, object]:
    """Median distance and angle between the object's poses of two runs :data:`AFTER` the start, with intervals.

    Worlds whose episode ended before in either run are left out; ``worlds`` says how many remain.
    """
    (one, here), (two, there) = reference.place(), other.place()
    both = here & there
    if not both.any():
        return {"worlds": 0}
    far, turned = distance(one[both], two[both])
    draws = np.random.default_rng(seed).integers(0, len(far), (rounds, len(far)))
    result: dict[str, object] = {"worlds": int(both.sum())}
    for name, values in (("mm", 1e3 * far), ("rad", turned)):
        result[name] = float(np.median(values))
        result[f"{name}_interval"] = list(interval(np.median(values[draws], axis=1)))
    return result


def force_distance(reference: Track, other: Track, rounds: int, seed: int = 0) -> dict[str, object]:
    """Greatest distance between the distributions of the force on the object (Kolmogorov's), steps of all worlds.

    Steps of a world hang together, so that worlds are drawn and not steps: ``chance`` is what 95 % of pairs of halves
    of the reference's worlds stay below.
    """
    rng = np.random.default_rng(seed)
    alive, theirs = reference.alive, other.alive

    def of(track: Track, mask: Array, worlds: Array) -> Array:
        return np.sort(track.force[:, worlds][mask[:, worlds]])

    every = np.arange(reference.force.shape[1])
    chance = []
    for _ in range(min(rounds, 400)):
        order = rng.permutation(every)
        half = len(every) // 2
        chance.append(kolmogorov(of(reference, alive, order[:half]), of(reference, alive, order[half:])))
    # Halves have half the worlds, and so the root of two times the distance of two whole runs.
    limit = float(np.quantile(chance, 0.95) / np.sqrt(2.0))
    found = kolmogorov(of(reference, alive, every), of(other, theirs, every))
    return {"distance": found, "chance": limit, "agrees": bool(found <= limit)}


def kolmogorov(one: Array, other: Array) -> float:
    """Largest difference of two empirical distribution functions; of sorted samples."""
    if not len(one) or not len(other):
        return float(len(one) != len(other))
    at = np.concatenate((one, other))
    return float(
        np.abs(np.searchsorted(one, at, "right") / len(one) - np.searchsorted(other, at, "right") / len(other)).max()
    )


def same_start(tracks: Mapping[str, Track]) -> float:
    """Largest difference between the starts of all runs: poses [m, quaternion] and joint positions [rad or m]."""
    first = next(iter(tracks.values()))
    return max(
        max(float(np.abs(track.pose[0] - first.pose[0]).max()), float(np.abs(track.joint_q - first.joint_q).max()))
        for track in tracks.values()
    )


def part(track: Track, worlds: Array) -> Track:
    """A run of some of its worlds (boolean or indices)."""
    return Track(
        track.pose[:, worlds], track.force[:, worlds], track.ended[:, worlds], track.joint_q[worlds], track.dt,
        track.steps, track.fallen_back,
    )  # fmt: skip
