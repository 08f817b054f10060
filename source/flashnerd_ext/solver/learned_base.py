"""What both modes share: a MuJoCo Warp solver with a streaming model beside it, its guard, its notices, its resets."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import torch
import warp as wp
from newton import ModelFlags
from newton.solvers import SolverMuJoCo

from flashnerd_ext.solver.dump import GuardDump
from flashnerd_ext.solver.integrate import ModelClock
from flashnerd_ext.solver.notices import Notices

if TYPE_CHECKING:
    from newton import Model

    from flashnerd_ext.bundle.store import Bundle
    from flashnerd_ext.physics.drives import DriveWatch
    from flashnerd_ext.solver.conditions import ConditionStage
    from flashnerd_ext.solver.frame import FrameStage
    from flashnerd_ext.solver.guard import GuardStage
    from flashnerd_ext.solver.stream import StreamStage


class LearnedSolver(SolverMuJoCo):
    """A :class:`SolverMuJoCo` that a learned model takes part in; subclasses say how.

    Attributes:
        frame, stream, guard, conditions: The stages, one row for each learned robot; made by the subclass.
        clock: How model steps fit into the simulation's; set by the manager.
        dump: Writes what the guard held; set by the manager.
        drives: Watches motors that the model has learned; set by the manager where it has.

    Args:
        model: Finalised Newton model.
        bundle: The learned dynamics.
        strict: Refuse what has no effect, instead of saying so once.
        mujoco: Arguments of :class:`SolverMuJoCo`.
    """

    frame: FrameStage
    stream: StreamStage
    guard: GuardStage
    conditions: ConditionStage

    def __init__(self, model: Model, bundle: Bundle, *, strict: bool = False, **mujoco: Any) -> None:
        super().__init__(model, **mujoco)
        self.bundle = bundle
        self.torch_device = torch.device(wp.device_to_torch(model.device))
        self.clock: ModelClock | None = None
        self.dump: GuardDump | None = None
        self.drives: DriveWatch | None = None
        self.notices = Notices(strict)

    @property
    @abstractmethod
    def ended(self) -> torch.Tensor:
        """Worlds whose episode the guard ends, boolean [W]."""

    @abstractmethod
    def environment_reset(self, env_ids: torch.Tensor | list[int] | slice | None) -> None:
        """An environment begins a new episode in these worlds: their past and their guard marks are dropped."""

    def notify_model_changed(self, flags: int) -> None:
        """Properties changed: the analytical model follows, and conditions that the bundle knows."""
        super().notify_model_changed(flags)
        # The parent calls this while it is being built, when there is nothing to update yet.
        conditions: ConditionStage | None = getattr(self, "conditions", None)
        if conditions is not None and int(flags) & int(ModelFlags.BODY_INERTIAL_PROPERTIES):
            conditions.update()

    def report(self, dump: GuardDump) -> None:
        """Report failures of the last model step; where the host waits for flags."""
        if bool(self.guard.failed.any()):
            dump.report(self.guard, self.stream.steps, self.frame.good)

    @property
    def nbytes(self) -> int:
        """Memory of cache, guard and history [bytes]; constant after construction."""
        return self.stream.stepper.cache.nbytes + self.guard.nbytes

    def _on_warp_stream(self) -> contextlib.AbstractContextManager[Any]:
        # Torch and Warp must queue their work in one order. Written with care; untested on a GPU.
        if self.torch_device.type != "cuda":
            return contextlib.nullcontext()
        return torch.cuda.stream(wp.stream_to_torch(wp.get_stream(self.model.device)))
