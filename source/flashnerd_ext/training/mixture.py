"""Several data sets as one: the base data, and what was recorded since, each with its share of the windows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from flashnerd_ext.errors import FlashNerdError

if TYPE_CHECKING:
    from flashnerd_ext.data.dataset import Trajectories


@dataclasses.dataclass(frozen=True)
class Sources:
    """Which data set each trajectory is of.

    Attributes:
        folders: Data sets, the base first.
        shares: Share of the windows that are drawn from each; they sum to 1.
        train, val: Index into ``folders`` of each trajectory, [n].
        seeds: Seed of each data set.
    """

    folders: tuple[str, ...]
    shares: tuple[float, ...]
    train: np.ndarray
    val: np.ndarray
    seeds: tuple[int, ...]


def check_shares(more: Mapping[str, float], data: str, recorded: float = 0.0, prefix: str = "") -> None:
    """Refuse shares that leave nothing for the base data.

    Args:
        more: Further data set -> its share.
        data: Base data set.
        recorded: Share that is given away besides, by the option ``share``.
        prefix: Of the options' names.

    Raises:
        FlashNerdError: Names the folder or the sum.
    """
    for folder, share in more.items():
        if not 0.0 < share < 1.0:
            raise FlashNerdError(
                f"{prefix}more gives {folder} the share {share}, but a number between 0 and 1 is needed."
            )
        if folder == data:
            raise FlashNerdError(f"{prefix}more names {folder}, which is {prefix}data= already: leave it out.")
    total = recorded + sum(more.values())
    if total >= 1.0:
        also = f"{prefix}share and " if recorded else ""
        raise FlashNerdError(
            f"{also}the shares in {prefix}more sum to {total:.3g}, but less than 1 is needed: {prefix}data={data} has "
            "the rest."
        )


def load_mixed(data: str, more: Mapping[str, float], robot: Any) -> tuple[Trajectories, Trajectories, Sources | None]:
    """Train and val split of the base data with all others behind them.

    Args:
        data: Base data set.
        more: Further data set -> share of the windows.
        robot: RobotDescription that all must be of.

    Returns:
        Train, val, and which data set each trajectory is of; ``None`` for the base alone.

    Raises:
        FlashNerdError: Where a data set is unusable or lacks a column that the base has.
    """
    from flashnerd_ext.data.dataset import load_trajectories

    folders = (data, *more)
    train, val = (_alike([load_trajectories(folder, split, robot) for folder in folders]) for split in ("train", "val"))
    if not more:
        return train[0], val[0], None
    seeds = tuple(int(part.meta.get("seed", 0)) for part in train)
    of_train, of_val = (
        np.repeat(np.arange(len(folders)), [len(part.valid) for part in parts]) for parts in (train, val)
    )
    shares = (1.0 - sum(more.values()), *more.values())
    return joined(train), joined(val), Sources(folders, shares, of_train, of_val, seeds)


def _alike(parts: list[Trajectories]) -> list[Trajectories]:
    return [parts[0], *(cut(part, parts[0].valid.shape[1]) for part in parts[1:])]


def cut(part: Trajectories, steps: int) -> Trajectories:
    """Trajectories of at most ``steps`` steps: longer ones become several, each begins where the one before ends.

    Behind short base data long ones would pad every base trajectory to their length. Windows across a cut are lost.
    """
    pieces = math.ceil(part.valid.shape[1] / steps)
    if pieces <= 1:
        return part
    columns = {name: _cut(getattr(part, name), pieces, steps, name) for name in ("joint_q", "joint_qd", "actuation")}
    extra = {name: _cut(value, pieces, steps, name) for name, value in part.extra.items()}
    valid, sampler = _cut(part.valid, pieces, steps, "valid"), _cut(part.sampler, pieces, steps, "sampler")
    return dataclasses.replace(part, **columns, valid=valid, sampler=sampler, extra=extra)


def _cut(array: np.ndarray, pieces: int, steps: int, name: str) -> np.ndarray:
    """One column, piece by piece: first pieces of all trajectories, then second ones."""
    if array.ndim == 1 or name == "condition":
        return np.concatenate([array] * pieces)
    size = steps + 1 if name in ("joint_q", "joint_qd") else steps
    return _joined([array[:, k * steps : k * steps + size] for k in range(pieces)], steps, name)


def joined(parts: list[Trajectories]) -> Trajectories:
    """Trajectories of several data sets, padded with invalid steps to the longest; the parts' arrays are let go.

    Raises:
        FlashNerdError: Where a part lacks a column that the first one has.
    """
    first, steps = parts[0], max(part.valid.shape[1] for part in parts)
    for part in parts:
        missing = [name for name in first.extra if name not in part.extra]
        if missing:
            raise FlashNerdError(
                f"{part.meta.get('folder')} lacks the column '{missing[0]}', which {first.meta.get('folder')} has: "
                "record it with scripts/record_policy.py of this version."
            )
        if part.meta.get("fixed", ()) != first.meta.get("fixed", ()):
            raise FlashNerdError(
                f"{part.meta.get('folder')} has contacts={_kind(part)} rows, but {first.meta.get('folder')} has "
                f"contacts={_kind(first)} ones{_links(part, first)}: record it with like={first.meta.get('folder')}."
            )
    # One column at a time, so that no more than one of them is in memory twice.
    extra = {name: _joined([part.extra.pop(name) for part in parts], steps, name) for name in list(first.extra)}
    names = ("joint_q", "joint_qd", "actuation", "valid")
    columns: dict[str, np.ndarray] = {}
    for name in names:
        columns[name] = _joined([getattr(part, name) for part in parts], steps, name)
        for part in parts:
            setattr(part, name, columns[name][:0])
    # Ids of samplers belong to their own data set; behind one another they stay apart.
    offsets = np.cumsum([0, *(len(part.meta.get("samplers", ())) for part in parts)])
    sampler = np.concatenate([part.sampler.astype(np.int64) + k for part, k in zip(parts, offsets, strict=False)])
    meta = first.meta | {"samplers": [name for part in parts for name in part.meta.get("samplers", ())]}
    return dataclasses.replace(first, **columns, sampler=sampler, extra=extra, meta=meta)


def _kind(part: Trajectories) -> str:
    return "fixed" if part.meta.get("fixed") else "variable"


def _links(part: Trajectories, first: Trajectories) -> str:
    return " of other links" if _kind(part) == _kind(first) else ""


def _joined(arrays: list[np.ndarray], steps: int, name: str) -> np.ndarray:
    if arrays[0].ndim == 1 or name == "condition":
        return np.concatenate(arrays)
    length = steps + 1 if name in ("joint_q", "joint_qd") else steps
    shape = (sum(len(array) for array in arrays), length, *arrays[0].shape[2:])
    whole = np.full(shape, -1 if name == "row_link" else 0, arrays[0].dtype)
    begin = 0
    for array in arrays:
        part = whole[begin : begin + len(array)]
        part[:, : array.shape[1]] = array
        if name in ("joint_q", "joint_qd") and array.shape[1] < length:
            # A state of zeros has no orientation: the last one is repeated.
            part[:, array.shape[1] :] = array[:, -1:]
        begin += len(array)
    return whole
