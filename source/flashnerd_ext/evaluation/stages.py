"""Where the time of an environment step under learned physics goes, stage by stage.

Each stage of the solver is timed in the running environment; what is left of the physics manager's step and of the
environment's step (managers, observations, rewards) makes two more bars, so that the sum is the whole step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from flashnerd_ext.evaluation.palette import GRID, INK, MUTED
from flashnerd_ext.files import atomic_save

STAGES = {
    "contacts": ("contact_stage", "rows"),
    "read state": ("frame", "read"),
    "guard": ("guard", "record"),
    "model": ("stream", "advance"),
    "guard after": ("guard", "hold"),
    "write and FK": ("write", "write"),
    "sensed values": ("sensors", "end"),
    "contact sensors": ("sensors", "publish"),
}
"""Stage -> attribute of the solver and its method. ``contact_stage.rows`` runs before and after a step; both count."""


class StageClock:
    """Times the stages of a learned solver while it is active.

    Attributes:
        seconds: Stage -> time inside it [s].
    """

    def __init__(self, solver: Any, wait: Callable[[], None]) -> None:
        self._solver, self._wait = solver, wait
        self.seconds = dict.fromkeys(STAGES, 0.0)

    @contextmanager
    def active(self) -> Iterator[StageClock]:
        """Wrap every stage, and put it back afterwards."""
        with ExitStack() as stack:
            for name, (part, method) in STAGES.items():
                stack.enter_context(self._wrapped(name, getattr(self._solver, part), method))
            yield self

    @contextmanager
    def _wrapped(self, name: str, owner: Any, method: str) -> Iterator[None]:
        original = getattr(owner, method)

        def timed(*arguments: Any, **named: Any) -> Any:
            self._wait()
            start = time.perf_counter()
            try:
                return original(*arguments, **named)
            finally:
                self._wait()
                self.seconds[name] += time.perf_counter() - start

        setattr(owner, method, timed)
        try:
            yield
        finally:
            delattr(owner, method)


def breakdown(measured: Mapping[str, Any]) -> dict[str, float]:
    """Milliseconds a step of every stage, then of the rest of the physics and of the environment.

    Args:
        measured: Answer of an ``env_worker`` to a request with ``stages``.
    """
    steps = max(int(measured["steps"]), 1)
    stages = {name: 1e3 * seconds / steps for name, seconds in measured["stages"].items()}
    physics, wall = (1e3 * measured[key] / steps for key in ("physics", "wall"))
    return {**stages, "rest of physics": physics - sum(stages.values()), "rest of the environment": wall - physics}


def table(parts: Mapping[int, Mapping[str, float]]) -> str:
    """Text table: one row a stage, one column a number of environments, in ms and per cent."""
    counts = list(parts)
    names = list(parts[counts[0]])
    lines = ["".join([f"{'stage':<26}", *(f"{f'{count:,} envs':>20}" for count in counts)])]
    lines.append("-" * len(lines[0]))
    for name in names:
        cells = []
        for count in counts:
            total = sum(parts[count].values())
            cells.append(f"{parts[count][name]:>11.3f} ms {100 * parts[count][name] / total:>4.0f} %")
        lines.append(f"{name:<26}" + "".join(f"{cell:>20}" for cell in cells))
    lines.append(f"{'whole step':<26}" + "".join(f"{sum(parts[count].values()):>13.3f} ms     " for count in counts))
    return "\n".join(lines)


def plot(path: Path, parts: Mapping[int, Mapping[str, float]], title: str) -> Path:
    """Bar chart, one group of horizontal bars a number of environments."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 1.2 + 2.6 * len(parts)), dpi=100, layout="constrained", facecolor="white")
    axes: Any = figure.subplots(len(parts), 1, squeeze=False)
    for axis, (count, stages) in zip(axes[:, 0], parts.items(), strict=True):
        names = list(stages)[::-1]
        values = [stages[name] for name in names]
        axis.barh(names, values, color=["#b8b8b8" if name.startswith("rest") else "#2f6db5" for name in names])
        for place, value in enumerate(values):
            axis.text(value, place, f" {value:.2f}", va="center", color=INK, fontsize=8)
        axis.set_xlabel(f"{count:,} environments: ms a control step, {sum(values):.1f} in all", color=MUTED)
        axis.grid(axis="x", color=GRID)
        axis.set_axisbelow(True)
        for side in ("top", "right"):
            axis.spines[side].set_visible(False)
    figure.suptitle(title, color=INK)
    return atomic_save(path, lambda temporary: figure.savefig(temporary, format="png"))
