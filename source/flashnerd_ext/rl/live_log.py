"""What a training logs beside rsl_rl's own scalars: the guard, and where the time of an environment step goes.

The scalars go through rsl_rl's writer, so TensorBoard, Weights & Biases and any other writer get the same:

- ``FlashNeRD/guard_held``: cases of the guard in the iteration, ``FlashNeRD/guard_held_total``: since the start;
- ``FlashNeRD/fallback_share``: share of the model's steps (one a world, in coupled mode one a robot) whose prediction
  the guard refused. In coupled mode the simulator takes that step, in learned mode the world keeps its last good state
  and its episode ends;
- ``Perf/simulator_share``: share of the time of ``env.step`` spent inside the physics manager, learned or not;
- ``Perf/env_step_ms``: time of ``env.step`` [ms].

On a GPU only the first step of an iteration is timed, since timing waits for the device.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from flashnerd_ext.physics.clock import PhysicsClock, timed_physics, wait


@dataclass(frozen=True)
class GuardCount:
    """Counters of the guard: cases so far, model steps so far, rows that a step has."""

    held: int
    steps: int
    rows: int


def guard_count() -> GuardCount | None:
    """The counters of this process's learned simulation; None in analytical physics."""
    from flashnerd_ext.physics.environment import running_solver

    solver = running_solver()
    if solver is None:
        return None
    return GuardCount(int(solver.guard.total.sum()), int(solver.stream.steps), len(solver.guard.total))


def guard_scalars(before: GuardCount | None, now: GuardCount | None) -> dict[str, float]:
    """Scalars of what happened between two readings; empty in analytical physics."""
    if now is None:
        return {}
    if before is None or now.steps < before.steps:
        # The simulation was built anew, and counts from 0.
        before = GuardCount(0, 0, now.rows)
    held, steps = now.held - before.held, (now.steps - before.steps) * now.rows
    return {
        "FlashNeRD/guard_held": float(held),
        "FlashNeRD/guard_held_total": float(now.held),
        "FlashNeRD/fallback_share": held / steps if steps else 0.0,
    }


class LiveLog:
    """Watches a runner's environment, and logs after each of its iterations.

    Args:
        runner: An rsl_rl runner; its environment's ``step`` and its logger's ``log`` are wrapped.
    """

    def __init__(self, runner: Any) -> None:
        self._runner, self._device = runner, str(runner.env.unwrapped.device)
        self._stack = ExitStack()
        self._clock: PhysicsClock = self._stack.enter_context(timed_physics(runner.env.unwrapped))
        self._count = guard_count()
        self._clear()
        self._step, self._log = runner.env.step, runner.logger.log
        runner.env.step, runner.logger.log = self._timed_step, self._logged

    def close(self) -> None:
        """Take the clock and the wrappers off."""
        self._stack.close()
        self._runner.env.step, self._runner.logger.log = self._step, self._log

    def _clear(self) -> None:
        self._seconds, self._steps, self._before = 0.0, 0, self._clock.total

    def _timed_step(self, actions: Any) -> Any:
        exact = self._steps == 0 or not self._device.startswith("cuda")
        self._clock.exact = exact
        if not exact:
            return self._step(actions)
        wait(self._device)
        start = time.perf_counter()
        result = self._step(actions)
        wait(self._device)
        self._seconds += time.perf_counter() - start
        self._steps += 1
        return result

    def scalars(self) -> dict[str, float]:
        """What the last iteration came to; begins the next one."""
        now = guard_count()
        found = guard_scalars(self._count, now)
        if self._steps and self._seconds > 0:
            found["Perf/simulator_share"] = (self._clock.total - self._before) / self._seconds
            found["Perf/env_step_ms"] = 1e3 * self._seconds / self._steps
        self._count = now
        self._clear()
        return found

    def _logged(self, *arguments: Any, **named: Any) -> None:
        self._log(*arguments, **named)
        found = self.scalars()
        writer = self._runner.logger.writer
        if writer is not None:
            for name, value in found.items():
                writer.add_scalar(name, value, named["it"])
