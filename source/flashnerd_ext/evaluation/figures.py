"""How figures are kept in JSON and shown in a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def number(value: float) -> float | None:
    """The value, or None where JSON has no word for it."""
    return float(value) if math.isfinite(value) else None


def mean_of(values: Sequence[float | None]) -> float | None:
    """Mean over seeds; a seed without a finite figure leaves none."""
    finite = [value for value in values if value is not None]
    return float(np.mean(finite)) if values and len(finite) == len(values) else None


def show(value: float | None) -> str:
    """Three digits of a figure."""
    return "not finite" if value is None else f"{value:.3g}"


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equal length as lines, the first of them underlined; the first column is flush left, others right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True)))
             for row in rows]  # fmt: skip
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
