"""Each reward term under two physics on one motion, as rows, text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl.rewards.motion import Seen

SAME_COMMAND = 1e-3
"""Difference of commands that is rounding [m/s, rad/s]."""


@dataclass(frozen=True)
class Row:
    """One term.

    Attributes:
        term: Its name. weight: In the task.
        simulator, learned: Mean of weight times value over steps and worlds.
        difference: Of the learned mean from the simulator's [%]; ``None`` where the simulator's is 0 and the other not.
        each: Mean distance in single steps and worlds, as a share of the simulator's mean size [%].
        within: Whether the difference is within the tolerance.
    """

    term: str
    weight: float
    simulator: float
    learned: float
    difference: float | None
    each: float | None
    within: bool


def compare(simulator: Seen, learned: Seen, tolerance: float) -> list[Row]:
    """Rows of all terms whose weight is not 0.

    Args:
        tolerance: Largest difference that passes [%].

    Raises:
        FlashNerdError: Where the two are not of one task and motion.
    """
    if simulator.terms != learned.terms or simulator.rewards.shape != learned.rewards.shape:
        raise FlashNerdError(
            f"the simulator has terms {', '.join(simulator.terms)} of shape {simulator.rewards.shape}, but learned "
            f"physics {', '.join(learned.terms)} of {learned.rewards.shape}: one task and motion are needed."
        )
    apart = float(np.abs(simulator.command - learned.command).max(initial=0.0))
    if not apart < SAME_COMMAND:
        raise FlashNerdError(
            f"the commands differ by {apart:.3g} between the two physics, so that they are not one motion: leave "
            "events that draw random numbers in one physics alone out with overrides=[...]."
        )
    rows = []
    for i, term in enumerate(simulator.terms):
        if simulator.weights[i] == 0.0:
            continue
        a, b = (seen.rewards[..., i].astype(np.float64) for seen in (simulator, learned))
        difference = percent(float(b.mean() - a.mean()), float(a.mean()))
        each = percent(float(np.abs(b - a).mean()), float(np.abs(a).mean()))
        rows.append(
            Row(
                term, float(simulator.weights[i]), float(a.mean()), float(b.mean()), difference, each,
                difference is not None and abs(difference) <= tolerance,
            )
        )  # fmt: skip
    return rows


def total(rows: Sequence[Row], tolerance: float) -> Row:
    """The sum of all terms, as one more row."""
    a, b = (float(sum(getattr(row, name) for row in rows)) for name in ("simulator", "learned"))
    difference = percent(b - a, a)
    return Row("sum of all terms", 1.0, a, b, difference, None, difference is not None and abs(difference) <= tolerance)


def percent(part: float, whole: float) -> float | None:
    """``part`` in percent of the size of ``whole``; 0 where both are 0, ``None`` where only ``whole`` is."""
    if whole == 0.0:
        return 0.0 if part == 0.0 else None
    return 100.0 * part / abs(whole)


def endings(simulator: Seen, learned: Seen) -> list[dict[str, Any]]:
    """How often each termination term fired, and in how many steps the two disagree [% of steps and worlds].

    Terms that one physics has alone (the guard's) are left out.
    """
    rows = []
    for name in simulator.ends:
        if name not in learned.ends:
            continue
        a, b = (seen.ended[..., seen.ends.index(name)] for seen in (simulator, learned))
        rows.append({"term": name} | dict(zip(("simulator", "learned", "disagree"), _shares(a, b), strict=True)))
    return rows


def _shares(a: np.ndarray, b: np.ndarray) -> tuple[float, float, float]:
    return 100.0 * float(a.mean()), 100.0 * float(b.mean()), 100.0 * float((a != b).mean())


def signals(simulator: Seen, learned: Seen) -> list[dict[str, Any]]:
    """Root mean square of what terms read beside the state, under both, and of the difference."""
    rows = []
    for name, a in simulator.signals.items():
        b = learned.signals.get(name)
        if b is None or a.shape != b.shape:
            continue
        rms = [float(np.sqrt(np.mean(np.square(part.astype(np.float64))))) for part in (a, b, b - a)]
        rows.append({"signal": name, "simulator": rms[0], "learned": rms[1], "apart": rms[2]})
    return rows


def to_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """JSON-able rows."""
    return [asdict(row) for row in rows]


def text(content: dict[str, Any]) -> str:
    """The table as text, from what the JSON file holds."""
    a, b, tolerance = content["simulator"], content["learned"], content["tolerance"]
    lines = [
        f"{content['task']}: {content['steps']} steps of {content['num_envs']} worlds, the same motion in both; "
        "mean of weight times value",
        f"{'term':<26}{'weight':>10}{a:>16}{b:>16}{'difference':>12}{'each step':>11}  within {tolerance:g} %",
    ]
    for row in [*content["terms"], content["total"]]:
        lines.append(
            f"{row['term']:<26}{row['weight']:>10.3g}{row['simulator']:>16.5g}{row['learned']:>16.5g}"
            f"{_percent(row['difference']):>12}{_percent(row['each'], False):>11}  {'yes' if row['within'] else 'NO'}"
        )
    lines += ["", f"{'ends episodes [% of steps]':<36}{a:>16}{b:>16}{'disagree':>12}"]
    for row in content["endings"]:
        lines.append(f"{row['term']:<36}{row['simulator']:>16.3g}{row['learned']:>16.3g}{row['disagree']:>12.3g}")
    lines += ["", f"{'root mean square of':<36}{a:>16}{b:>16}{'apart':>12}"]
    for row in content["signals"]:
        lines.append(f"{row['signal']:<36}{row['simulator']:>16.4g}{row['learned']:>16.4g}{row['apart']:>12.3g}")
    return "\n".join(lines)


def _percent(value: float | None, sign: bool = True) -> str:
    if value is None:
        return "-"
    return f"{value:+.2f} %" if sign else f"{value:.2f} %"
