"""What both modes share under Newton: a MuJoCo Warp solver with a streaming model beside it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
import warp as wp
from newton import ModelFlags
from newton.solvers import SolverMuJoCo

from flashnerd_ext.solver.learned_parts import LearnedParts
from flashnerd_ext.solver.notices import Notices

if TYPE_CHECKING:
    from newton import Model

    from flashnerd_ext.bundle.store import Bundle
    from flashnerd_ext.solver.conditions import ConditionStage


class LearnedSolver(LearnedParts, SolverMuJoCo):
    """A :class:`SolverMuJoCo` that a learned model takes part in; subclasses say how.

    Args:
        model: Finalised Newton model.
        bundle: The learned dynamics.
        strict: Refuse what has no effect, instead of saying so once.
        mujoco: Arguments of :class:`SolverMuJoCo`.
    """

    def __init__(self, model: Model, bundle: Bundle, *, strict: bool = False, **mujoco: Any) -> None:
        super().__init__(model, **mujoco)
        self.bundle = bundle
        self.torch_device = torch.device(wp.device_to_torch(model.device))
        self.clock, self.dump, self.drives = None, None, None
        self.notices = Notices(strict)

    def notify_model_changed(self, flags: int) -> None:
        """Properties changed: the analytical model follows, and conditions that the bundle knows."""
        super().notify_model_changed(flags)
        # The parent calls this while it is being built, when there is nothing to update yet.
        conditions: ConditionStage | None = getattr(self, "conditions", None)
        if conditions is not None and int(flags) & int(ModelFlags.BODY_INERTIAL_PROPERTIES):
            conditions.update()

    def _on_warp_stream(self) -> contextlib.AbstractContextManager[Any]:
        # Torch and Warp must queue their work in one order. Written with care; untested on a GPU.
        if self.torch_device.type != "cuda":
            return contextlib.nullcontext()
        return torch.cuda.stream(wp.stream_to_torch(wp.get_stream(self.model.device)))
