"""Action sequences that do not depend on the state, so that every physics is given the same."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from flashnerd_ext.errors import FlashNerdError, nearest

KINDS = ("hold", "random", "turn")
"""Targets that stay; smooth noise; fingers that move in a scripted cycle."""
NOISE, CORRELATION = 0.5, 0.2
"""Spread of random actions, and their time constant [s]."""
CYCLE = 0.7
"""Cycles of the scripted motion a second [Hz]."""


def check_kinds(kinds: Sequence[str]) -> None:
    """Refuse kinds that are not known.

    Raises:
        FlashNerdError: Names the first one.
    """
    if not kinds:
        raise FlashNerdError(
            f"actions is empty, but at least one of {', '.join(KINDS)} is needed: type actions=[hold]."
        )
    for name in kinds:
        if name not in KINDS:
            raise FlashNerdError(f"actions has '{name}', which is not known: {nearest(name, KINDS)}")


def kind_of_world(kinds: Sequence[str], worlds: int) -> np.ndarray:
    """Index into ``kinds`` of each world [N]: in turn, so that each has its share of the starts."""
    return np.arange(worlds) % len(kinds)


def sequences(kinds: Sequence[str], joints: Sequence[str], worlds: int, steps: int, dt: float, seed: int) -> np.ndarray:
    """Actions float32 [T, N, A].

    Args:
        kinds: Of :data:`KINDS`.
        joints: Names behind the actions, as the task's action term has them.
        dt: Control step [s].
        seed: Of the noise.
    """
    rng = np.random.default_rng(seed)
    made = {
        "hold": np.zeros((steps, worlds, len(joints))),
        "random": _noise(rng, steps, worlds, len(joints), dt),
        "turn": np.broadcast_to(_cycle(joints, steps, dt)[:, None], (steps, worlds, len(joints))),
    }
    chosen = kind_of_world(kinds, worlds)
    actions = np.stack([made[kinds[int(chosen[world])]][:, world] for world in range(worlds)], 1)
    return actions.astype(np.float32)


def _noise(rng: np.random.Generator, steps: int, worlds: int, size: int, dt: float) -> np.ndarray:
    keep = np.exp(-dt / CORRELATION)
    level, values = rng.normal(size=(worlds, size)), np.empty((steps, worlds, size))
    for t in range(steps):
        values[t] = level
        level = keep * level + np.sqrt(1 - keep**2) * rng.normal(size=(worlds, size))
    return np.clip(NOISE * values, -1.0, 1.0)


def _cycle(joints: Sequence[str], steps: int, dt: float) -> np.ndarray:
    """Fingers swing sideways together and lift in between, the thumb against them; other joints take turns."""
    angle = 2 * np.pi * CYCLE * dt * np.arange(steps)
    columns = []
    for number, name in enumerate(joints):
        found = re.fullmatch(r"(index|middle|ring|thumb)_joint_(\d)", name)
        if found is None:
            columns.append(0.3 * np.sin(angle + number))
            continue
        side = -1.0 if found[1] == "thumb" else 1.0
        wave = {"0": np.sin(angle), "1": 0.5 * np.cos(angle), "2": 0.3 * np.cos(angle)}.get(found[2], 0 * angle)
        columns.append(0.7 * side * wave)
    return np.stack(columns, -1)
