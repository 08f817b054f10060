"""Rollout error split by contact: which links touch where a rollout starts, and what the touch does there.

A link touches in a recorded frame when one of the frame's contact rows is of it and has a distance of
:data:`TOUCHING` or less; that means the same with variable and with fixed rows, but fixed rows say nothing of links
that have none. Contacts of the robot with itself make no rows, so they count nowhere.

A rollout that starts at frame t is in one class of each split, by the links that touch at t and those at t + 1:

* kind: ``none`` (nothing touches at either), ``new touch`` (some link touches at t + 1 and not at t), ``release`` (some
  link at t and not at t + 1, and no new touch) or ``steady`` (the same links at both), over all links;
* link: the group of highest rank of which a link touches at t or at t + 1, or ``none``. Feet, those of the robot's
  description, are the lowest group, so that a rollout of ``feet`` is on feet only. Other links are grouped by name,
  without leg or side: see :func:`link_groups`.

What happens between the two frames is not looked at: a foot that touches and leaves again within a step is ``none``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.evaluation.figures import mean_of, number, show, text_table

if TYPE_CHECKING:
    from flashnerd_ext.evaluation.rollout_error import RolloutErrors, Windows

DISTANCE = 6
"""Feature of a contact row that is the signed distance [m]; see :mod:`flashnerd_ext.model.contacts`."""
TOUCHING = 0.0
"""Distance down from which a row is a touch [m]."""
HORIZONS = (1, 15)
"""Horizons of the split [model steps]; every rollout of it has the longest, so that all figures are of the same ones.
"""
KINDS = ("none", "steady", "release", "new touch")
FEET = "feet"
NONE = "none"
SIDES = ("lf", "lh", "rf", "rh", "fl", "fr", "rl", "rr", "l", "r", "left", "right", "front", "back", "rear", "hind")
"""Words at the beginning of a link's name that say which of several like links it is."""
SPLITS = {"by_link": "link", "by_kind": "kind", "by_link_and_kind": "link and kind"}
"""Splits of a report, and what they are called."""


@dataclass(frozen=True)
class Touches:
    """Classes of W rollouts."""

    groups: tuple[str, ...]
    """Names of the link groups, highest rank first, then ``none``."""
    group: NDArray[np.int64]
    """Index into ``groups``, shape [W]."""
    kind: NDArray[np.int64]
    """Index into :data:`KINDS`, shape [W]."""

    def classes(self) -> dict[str, dict[str, NDArray[np.bool_]]]:
        """Split -> class -> its rollouts [W]; classes without rollouts are left out."""
        groups = {name: self.group == i for i, name in reversed(list(enumerate(self.groups)))}
        kinds = {name: self.kind == i for i, name in enumerate(KINDS)}
        both = {
            f"{group}, {kind}": mine & these
            for group, mine in groups.items()
            if group != NONE
            for kind, these in kinds.items()
        }
        splits = dict(zip(SPLITS, (groups, kinds, both), strict=True))
        return {split: {name: rows for name, rows in of.items() if rows.any()} for split, of in splits.items()}


def link_groups(links: Sequence[str], feet: Sequence[str], base: str) -> dict[str, tuple[str, ...]]:
    """Groups of a robot's links, by rank: the base first, feet last.

    A link that is no foot is called by the first word of its name that is no leg or side: ``LF_THIGH`` is of ``thigh``,
    ``left_hip_yaw_link`` of ``hip``. Between base and feet the groups have the order of their first links, which is
    outwards along each limb, as links are listed depth first.

    Args:
        links: Names in the order that contact rows count them in.
        feet: Links that are meant to touch.
        base: Root link.
    """
    found: dict[str, list[str]] = {}
    for link in sorted(links, key=lambda name: name != base):
        if link not in feet:
            words = link.lower().split("_")
            while len(words) > 1 and words[0] in SIDES:
                words = words[1:]
            found.setdefault(words[0], []).append(link)
    return {name: tuple(of) for name, of in (*found.items(), (FEET, list(feet))) if of}


def touching_links(rows: NDArray[Any], row_link: NDArray[Any], links: int) -> NDArray[np.bool_]:
    """Which links touch in each of N frames, shape [N, links].

    Args:
        rows: Contact rows, shape [N, K, 12].
        row_link: Index of each row's link, -1 where unused, shape [N, K].
        links: Number of links.
    """
    found = np.zeros((len(row_link), links), bool)
    frame, row = np.nonzero((row_link >= 0) & (rows[..., DISTANCE] <= TOUCHING))
    found[frame, row_link[frame, row]] = True
    return found


def classify(
    before: NDArray[np.bool_], after: NDArray[np.bool_], links: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> Touches:
    """Classes of W rollouts from the links that touch.

    Args:
        before: Links that touch in the frame that each rollout starts from, shape [W, L].
        after: Links that touch one step later, shape [W, L].
        links: Names of the links, length L.
        groups: See :func:`link_groups`.
    """
    new, gone = (after & ~before).any(1), (before & ~after).any(1)
    either = before | after
    none, steady, release, new_touch = range(len(KINDS))
    kind = np.select([~either.any(1), new, gone], [none, new_touch, release], steady)
    member = np.array([[link in of for link in links] for of in groups.values()])
    hit = np.stack([either[:, mine].any(1) for mine in member] + [np.ones(len(either), bool)], 1)
    return Touches((*groups, NONE), hit.argmax(1), kind)


def classify_windows(data: Any, windows: Windows, links: Sequence[str], groups: Mapping[str, Sequence[str]]) -> Touches:
    """Classes of rollouts by the contact rows of recorded trajectories.

    Args:
        data: ``Trajectories`` with the columns ``rows`` and ``row_link``.
        windows: Rollouts, of two valid steps at least: rows are recorded at the start of valid steps only.
        links: Names of the links in the order that contact rows count them in.
        groups: See :func:`link_groups`.

    Raises:
        FlashNerdError: For a shorter rollout.
    """
    if (windows.length < 2).any():
        raise FlashNerdError(
            f"a rollout has {int(windows.length.min())} valid steps, but 2 are needed to know what touches after one."
        )
    at = [(windows.trajectory, windows.start + later) for later in (0, 1)]
    touching = [touching_links(data.extra["rows"][i], data.extra["row_link"][i], len(links)) for i in at]
    return classify(touching[0], touching[1], links, groups)


def touch_report(errors: RolloutErrors, touches: Touches) -> dict[str, Any]:
    """Figures of one predictor, JSON-able: ``windows`` and for each split class -> ``E`` by horizon, ``windows``, and
    ``share``, the class's part of the sum of squared errors at horizon 1 (null where that is not finite).
    """
    first = errors.squared[:, 0]
    total = float(first.sum())
    report: dict[str, Any] = {"windows": len(first)}
    for split, classes in touches.classes().items():
        report[split] = {
            name: {
                "E": {str(h): number(errors.at(h, rows, resamples=0).mean) for h in HORIZONS},
                "windows": int(rows.sum()),
                "share": number(float(first[rows].sum()) / total) if 0.0 < total < np.inf else None,
            }
            for name, rows in classes.items()
        }
    return report


def mean_touches(seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean over seeds of reports on the same rollouts."""
    report: dict[str, Any] = {"windows": seeds[0]["windows"]}
    for split in SPLITS:
        report[split] = {
            name: {
                "E": {str(h): mean_of([seed[split][name]["E"][str(h)] for seed in seeds]) for h in HORIZONS},
                "windows": of["windows"],
                "share": mean_of([seed[split][name]["share"] for seed in seeds]),
            }
            for name, of in seeds[0][split].items()
        }
    return report


def touch_table(models: Mapping[str, Mapping[str, Any]]) -> str:
    """Text tables by link and by kind: rollouts of each class, and each model's errors and its part of the whole.

    Args:
        models: Name -> :func:`touch_report` or their mean, all on the same rollouts.
    """
    first = next(iter(models.values()))
    tables = []
    for split in ("by_link", "by_kind"):
        head = [SPLITS[split], "rollouts", "of all"]
        for name in models:
            head += [f"{name}: {f'E{HORIZONS[0]}'}", *(f"E{h}" for h in HORIZONS[1:]), "of error"]
        rows = [head]
        for name, of in first[split].items():
            row = [name, f"{of['windows']:,}", percent(of["windows"] / first["windows"])]
            for report in models.values():
                mine = report[split][name]
                row += [*(show(mine["E"][str(h)]) for h in HORIZONS), percent(mine["share"])]
            rows.append(row)
        tables.append(text_table(rows))
    return "\n\n".join(tables)


def percent(share: float | None) -> str:
    """A share as text; a dash without one."""
    return "-" if share is None else f"{100 * share:.1f} %"
