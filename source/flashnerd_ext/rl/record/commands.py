"""Bins of velocity commands, and a way to make each world draw its commands from one bin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from flashnerd_ext.data.samplers import counts
from flashnerd_ext.errors import FlashNerdError, nearest

BINS = ("stand", "turn", "forward", "backward", "left", "right")
OTHER = "task"
"""Bin of tasks that have no velocity command."""
SLOW = 0.1
"""Commands below this are standing [m/s, rad/s]."""
_DRAWS = 256


def bins_of(command: np.ndarray) -> np.ndarray:
    """Index into :data:`BINS` of commands [N, 3] (forward and left [m/s], turn [rad/s] to the left), int64 [N]."""
    x, y, turn = command.T
    speed = np.hypot(x, y)
    along = np.where(x >= 0, BINS.index("forward"), BINS.index("backward"))
    across = np.where(y >= 0, BINS.index("left"), BINS.index("right"))
    bins = np.where(np.abs(x) >= np.abs(y), along, across)
    bins = np.where(np.abs(turn) > speed, BINS.index("turn"), bins)
    return np.where((speed < SLOW) & (np.abs(turn) < SLOW), BINS.index("stand"), bins)


def velocity_term(env: Any) -> Any | None:
    """The velocity command term of an environment (Isaac Lab's own), or ``None``."""
    manager: Any = getattr(env, "command_manager", None)
    if manager is None:
        return None
    for name in manager.active_terms:
        term = manager.get_term(name)
        if hasattr(term, "vel_command_b"):
            return term
    return None


def check_bins(bins: Mapping[str, float]) -> None:
    """Refuse unknown bins and shares that are no shares.

    Raises:
        FlashNerdError: Names the first one.
    """
    for name, share in bins.items():
        if name not in BINS:
            raise FlashNerdError(f"bins names '{name}', which is not a bin of commands: {nearest(name, BINS)}")
        if not np.isfinite(share) or share < 0:
            raise FlashNerdError(f"bins.{name} is {share}, but a share of 0 or more is needed.")
    if bins and sum(bins.values()) <= 0:
        raise FlashNerdError("bins gives every share as 0, but one above 0 is needed: type bins={forward: 1}.")


def assign(bins: Mapping[str, float], groups: np.ndarray) -> np.ndarray:
    """Bin of each world, so that every group of worlds has the shares; int64 [N], -1 for the task's own commands.

    Args:
        bins: Bin -> share; empty leaves the task's own commands.
        groups: Group of each world, [N].
    """
    chosen = np.full(len(groups), -1)
    if not bins:
        return chosen
    shares = np.array(list(bins.values()), float)
    for group in np.unique(groups):
        worlds = np.flatnonzero(groups == group)
        each = counts(shares / shares.sum(), len(worlds))
        chosen[worlds] = np.repeat([BINS.index(name) for name in bins], each)
    return chosen


def force_bins(term: Any, bins: Sequence[int] | np.ndarray) -> Any:
    """Let worlds draw their commands within their bin from the term's own ranges; returns a function that undoes it.

    Args:
        term: From :func:`velocity_term`.
        bins: Bin of each world, -1 for the term's own draws.

    Raises:
        FlashNerdError: Where the term's ranges do not reach a bin.
    """
    wanted = torch.as_tensor(np.asarray(bins), device=term.device)
    pools = {int(number): _pool(term, int(number)) for number in np.unique(bins) if number >= 0}
    original = term._resample_command

    def resample(env_ids: Any) -> None:
        original(env_ids)
        ids = torch.arange(term.num_envs, device=term.device)[env_ids]
        for number, pool in pools.items():
            mine = ids[wanted[ids] == number]
            if not len(mine):
                continue
            term.vel_command_b[mine] = pool[torch.randint(len(pool), (len(mine),), device=term.device)]
            # A heading target would turn the command into another bin's.
            term.is_heading_env[mine] = False
            term.is_standing_env[mine] = BINS[number] == "stand"

    term._resample_command = resample

    def undo() -> None:
        term._resample_command = original

    return undo


def reachable(term: Any) -> list[str]:
    """Bins that the term's ranges reach; standing always."""
    return [name for number, name in enumerate(BINS) if len(_draws(term, number))]


def _draws(term: Any, number: int) -> np.ndarray:
    """Commands of a bin, [M, 3]: the same ones whatever the seed."""
    if BINS[number] == "stand":
        return np.zeros((1, 3))
    low, high = np.array(_limits(term)).T
    drawn = np.random.default_rng(0).uniform(low, high, (40 * _DRAWS, 3))
    if BINS[number] == "turn":
        drawn[:, :2] *= 0.2
    return drawn[bins_of(drawn) == number][:_DRAWS]


def _limits(term: Any) -> list[list[float]]:
    ranges = term.cfg.ranges
    return [[float(x) for x in pair] for pair in (ranges.lin_vel_x, ranges.lin_vel_y, ranges.ang_vel_z)]


def _pool(term: Any, number: int) -> torch.Tensor:
    found = _draws(term, number)
    if not len(found):
        raise FlashNerdError(
            f"bins names {BINS[number]}, but the task's command ranges {_limits(term)} never give it: leave it out."
        )
    return torch.tensor(found, dtype=torch.float32, device=term.device)
