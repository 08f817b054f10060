"""How many times one measured thing is another, size by size."""

from __future__ import annotations

from collections.abc import Mapping


def quotients(above: Mapping[int, float], below: Mapping[int, float]) -> dict[str, float]:
    """``above`` over ``below`` at each size at which both were measured; sizes as JSON has them, which is text."""
    return {str(size): value / below[size] for size, value in above.items() if size in below}
