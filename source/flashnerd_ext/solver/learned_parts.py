"""What a learned model brings along, whichever simulator it takes part in."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from flashnerd_ext.bundle.store import Bundle
    from flashnerd_ext.physics.drives import DriveWatch
    from flashnerd_ext.solver.conditions import ConditionStage
    from flashnerd_ext.solver.dump import GuardDump
    from flashnerd_ext.solver.frame import FrameStage
    from flashnerd_ext.solver.guard import GuardStage
    from flashnerd_ext.solver.integrate import ModelClock
    from flashnerd_ext.solver.notices import Notices
    from flashnerd_ext.solver.stream import StreamStage


class LearnedParts:
    """A streaming model beside a simulation, its guard, its notices and its resets.

    Attributes:
        bundle: The learned dynamics.
        torch_device: Where the model runs: the simulation's device.
        frame, stream, guard, conditions: The stages, one row for each learned robot; made by the subclass.
        clock: How model steps fit into the simulation's; set by the manager.
        dump: Writes what the guard held; set by the manager.
        drives: Watches motors that the model has learned; set by the manager where it has.
        notices: What is said once.
    """

    bundle: Bundle
    torch_device: torch.device
    frame: FrameStage
    stream: StreamStage
    guard: GuardStage
    conditions: ConditionStage
    clock: ModelClock | None
    dump: GuardDump | None
    drives: DriveWatch | None
    notices: Notices

    @property
    @abstractmethod
    def ended(self) -> torch.Tensor:
        """Worlds whose episode the guard ends, boolean [W]."""

    @abstractmethod
    def environment_reset(self, env_ids: torch.Tensor | list[int] | slice | None) -> None:
        """An environment begins a new episode in these worlds: their past and their guard marks are dropped."""

    def report(self, dump: GuardDump) -> None:
        """Report failures since the last report; where the host waits for flags."""
        if bool(self.guard.caught.any()):
            dump.report(self.guard, self.stream.steps)
            self.guard.reported()

    @property
    def nbytes(self) -> int:
        """Memory of cache, guard and history [bytes]; constant after construction."""
        return self.stream.stepper.cache.nbytes + self.guard.nbytes
