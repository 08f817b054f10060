"""One call a control step: frame, model, integrator, for a fixed number of worlds.

What a simulator backend and a rollout run. Buffers are static and the cache is updated in place, so that the step can
be compiled and, on a GPU, captured.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.contacts import ContactRows
from flashnerd_ext.model.frame import encode_frame
from flashnerd_ext.model.integrate import Integrator


class Stepper:
    """Steps ``num_worlds`` robots.

    Args:
        model: A trained model; it is put in evaluation mode.
        dt: Model time step [s].
        inner_steps: Simulator steps in one model step.
        num_worlds: Worlds N.
        device: Where everything lives; the model is moved there.
        compiled: Compile the step with torch.compile; falls back to eager with one warning where that fails.
        dtype: Dtype of states and frames.
    """

    def __init__(
        self,
        model: DynamicsModel,
        dt: float,
        inner_steps: int,
        num_worlds: int,
        device: torch.device | str = "cpu",
        compiled: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.model = model.to(device).eval()
        self.integrator = Integrator(model.layout, dt, inner_steps, model.kinematic_prior)
        self.cache = model.init_cache(num_worlds, device)
        self.num_worlds, self.device, self.dtype = num_worlds, torch.device(device), dtype
        self.frame = torch.zeros((num_worlds, model.frame_size), device=device, dtype=dtype)
        # Deviations of each world from the nominal robot, in the order of layout.conditions; written in place.
        self.condition = torch.zeros((num_worlds, len(model.layout.conditions)), device=device, dtype=dtype)
        # The last prediction after the increments: what sensors read.
        self.sensed = torch.zeros((num_worlds, model.sensed), device=device, dtype=dtype)
        self._advance = torch.compile(self._advance_eager, dynamic=False) if compiled else self._advance_eager
        self.compiled = compiled

    def _predict(self, joint_q: Tensor, joint_qd: Tensor, actuation: Tensor, rows: ContactRows | None) -> Tensor:
        """One frame through the model: its outputs [N, O]."""
        self.frame.copy_(encode_frame(self.model.layout, joint_q, joint_qd, actuation, self.condition))
        out = self.model.step(self.frame, self.cache, rows)
        if self.model.sensed:
            self.sensed.copy_(out[..., -self.model.sensed :])
        return out

    def _advance_eager(self, joint_q: Tensor, joint_qd: Tensor, actuation: Tensor, rows: ContactRows | None) -> Any:
        return self.integrator.apply(joint_q, joint_qd, self._predict(joint_q, joint_qd, actuation, rows))

    @torch.no_grad()
    def step(
        self, joint_q: Tensor, joint_qd: Tensor, actuation: Tensor, rows: ContactRows | None = None
    ) -> tuple[Tensor, Tensor]:
        """Next ``(joint_q [N, nq], joint_qd [N, nv])``; the frame used stays readable in ``self.frame`` [N, F]."""
        return self._run(joint_q, joint_qd, actuation, rows)

    def _run(self, joint_q: Tensor, joint_qd: Tensor, actuation: Tensor, rows: ContactRows | None) -> Any:
        if self.compiled:
            try:
                return self._advance(joint_q, joint_qd, actuation, rows)
            except Exception as error:  # torch.compile needs a C++ compiler, and says so in many ways
                if type(error).__module__.partition(".")[0] != "torch":
                    raise
                warnings.warn(f"the step could not be compiled and runs eagerly: {error}".split("\n")[0], stacklevel=2)
                self.compiled, self._advance = False, self._advance_eager
        return self._advance(joint_q, joint_qd, actuation, rows)

    def reset(self, mask: Tensor | None = None) -> None:
        """Forget the past of the worlds in ``mask`` (boolean [N]); ``None`` means all."""
        self.cache.reset(mask)
