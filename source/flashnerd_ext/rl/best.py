"""``best.pt`` of a run: the policy with the highest mean return of the last 100 episodes.

Where a training is refreshed, the simulator's score decides in its place (:mod:`flashnerd_ext.rl.refresh.loop`):
returns in a learned world flatter a policy that has found its faults. The run's manifest says which of the two it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flashnerd_ext.rl.manifest import MANIFEST, read_manifest, update_manifest
from flashnerd_ext.rl.selectors import BEST

EPISODES = 100
"""Episodes that a mean is taken over, all of them ended since the training's stage began."""


class Returns(deque):  # type: ignore[type-arg]
    """rsl_rl's buffer of returns, which also counts what went into it."""

    def __init__(self, values: Iterable[float] = ()) -> None:
        super().__init__(maxlen=EPISODES)
        self.added = 0
        self.extend(values)

    def extend(self, values: Iterable[float]) -> None:
        """Take the returns of ended episodes."""
        values = list(values)
        self.added += len(values)
        super().extend(values)


class BestByReturn:
    """Keeps ``best.pt`` while a runner trains.

    A stage of a training schedule changes what a return is worth, so the policies of a later stage always replace those
    of an earlier one.

    Args:
        runner: Ours (:mod:`flashnerd_ext.rl.runner`); its logger's ``log`` is wrapped.
        physics: Preset that it trains in, for the manifest.
    """

    def __init__(self, runner: Any, physics: str) -> None:
        self.runner, self.measure = runner, f"mean return of {EPISODES} episodes in {physics}"
        self.value: float | None = None
        self.iteration: int | None = None
        self._stage, self._since = stage_of(runner.alg), 0
        runner.logger.rewbuffer = Returns(runner.logger.rewbuffer)
        log = runner.logger.log

        def logged(*arguments: Any, **named: Any) -> None:
            log(*arguments, **named)
            self.after(int(named["it"]))

        runner.logger.log = logged

    def after(self, iteration: int) -> bool:
        """Look at the returns after an iteration; returns whether its policy became the best."""
        returns = self.runner.logger.rewbuffer
        stage = stage_of(self.runner.alg)
        if stage != self._stage:
            self._stage, self._since, self.value = stage, returns.added, None
        if returns.added - self._since < EPISODES or self.runner.logger.writer is None:
            return False
        value = sum(returns) / len(returns)
        if self.value is not None and not value > self.value:
            return False
        self.value, self.iteration = value, iteration
        run = Path(self.runner.logger.log_dir)
        self.runner.write(run / BEST)
        if (run / MANIFEST).is_file():
            update_manifest(run, best_facts(run / BEST, iteration, value, self.measure))
        return True


def best_facts(path: Path, iteration: int, value: float, measure: str) -> dict[str, str]:
    """What the manifest says of a run's best checkpoint."""
    return {
        "best": str(path),
        "best_iteration": str(iteration),
        "best_return": f"{value:.6g}",
        "best_by": measure,
    }


def best_line(run: Path) -> str | None:
    """How ``best.pt`` of a run was chosen, or None where the manifest does not say."""
    facts = read_manifest(run)
    if "best_by" not in facts:
        return None
    return (
        f"{run / BEST} is of iteration {facts['best_iteration']}, chosen by the {facts['best_by']} "
        f"({facts['best_return']})"
    )


def stage_of(algorithm: Any) -> int:
    """Number of the training schedule's stage in force; 0 without a schedule."""
    followed = getattr(algorithm, "_followed", None)
    return getattr(followed, "number", None) or 0
