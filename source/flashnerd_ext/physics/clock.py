"""The time that a running task spends in its physics manager."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class PhysicsClock:
    """Adds up the time inside a physics manager's ``step``; stands in its place while it measures.

    Args:
        step: The manager's own.
        device: The simulation's; a GPU is waited for at each end, where ``exact``.

    Attributes:
        total: Time so far [s]. calls: How often ``step`` was called.
        exact: Whether the device is waited for; without it a GPU's time is that of queueing its work.
    """

    def __init__(self, step: Callable[[], None], device: str) -> None:
        self.step, self.device, self.total, self.calls, self.exact = step, device, 0.0, 0, True

    def __call__(self) -> None:
        if not self.exact:
            self.step()
            return
        wait(self.device)
        start = time.perf_counter()
        self.step()
        wait(self.device)
        self.total += time.perf_counter() - start
        self.calls += 1


def wait(device: Any) -> None:
    """Let a GPU finish; nothing on a CPU."""
    if str(device).startswith("cuda"):
        import torch

        torch.cuda.synchronize()


@contextmanager
def timed_physics(base: Any) -> Iterator[PhysicsClock]:
    """A clock in place of the manager's ``step``, as long as the context lasts.

    Args:
        base: Isaac Lab's own environment.
    """
    # The simulation context may hold the class's name, resolved at each access; a class method knows its class.
    manager = base.sim.physics_manager.step.__self__
    own = manager.__dict__.get("step")
    clock = PhysicsClock(manager.step, base.device)
    # Past the metaclass of the PhysX managers, which would put it on the stock manager: that one's step is called by
    # ours, and the clock by itself.
    type.__setattr__(manager, "step", clock)
    try:
        yield clock
    finally:
        if own is not None:
            type.__setattr__(manager, "step", own)
        else:
            type.__delattr__(manager, "step")
