"""What every dynamics model is to the commands that train, evaluate and run it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from flashnerd_ext.model.cache import Cache
from flashnerd_ext.model.contacts import ContactRows
from flashnerd_ext.model.frame import frame_names
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.normalizer import Normalizer


class DynamicsModel(nn.Module):
    """Frames in, predictions out; one set of weights for training (``sequence``) and simulation (``step``).

    Attributes:
        layout: The robot's coordinates.
        config: Constructor options, JSON-able.
        history: Frames that a prediction can depend on.
        kinematic_prior: Whether position outputs are residuals of the kinematic prior.
        rows_capacity: Contact rows K of a robot, 0 for none.
        sensed: Outputs after the increments, for sensors and rewards: see :class:`flashnerd_ext.model.sensed.Sensed`.
    """

    name: str = ""
    kinematic_prior: bool = True

    def __init__(
        self, layout: StateLayout, config: dict[str, Any], history: int, rows_capacity: int = 0, sensed: int = 0
    ) -> None:
        super().__init__()
        self.sensed = sensed
        self.layout, self.config, self.history, self.rows_capacity = layout, config, history, rows_capacity
        self.frame_size = len(frame_names(layout))
        self.out_size = 2 * layout.nv + sensed
        self.frame_norm = Normalizer(self.frame_size)
        self.out_norm = Normalizer(self.out_size)

    @abstractmethod
    def sequence(self, frames: Tensor, rows: ContactRows | None = None) -> Tensor:
        """Predictions [B, T, O] for frames [B, T, F] whose first one has no past."""

    @abstractmethod
    def init_cache(
        self, batch: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Cache:
        """An empty past for ``batch`` worlds."""

    @abstractmethod
    def step(self, frame: Tensor, cache: Any, rows: ContactRows | None = None) -> Tensor:
        """Prediction [B, O] for the newest frame [B, F]; advances ``cache`` in place, exactly once."""

    def recall(self, frame: Tensor, past: Any = None, rows: ContactRows | None = None) -> tuple[Tensor, Any]:
        """:meth:`step` with the past as a value: nothing is written in place, so that gradients flow through it.

        Here by :meth:`sequence` over the last ``history`` frames, whose graph is that of a whole window at each step;
        a streaming model does better.

        Args:
            frame: The newest frame, shape [B, F].
            past: What the call before returned; ``None`` is an empty past.

        Returns:
            The prediction [B, O], and the past with this frame in it.
        """
        frames, touches = past if past is not None else ((), ())
        frames, window = (*frames, frame)[-self.history :], None
        if rows is not None:
            touches = (*touches, rows)[-self.history :]
            window = ContactRows(
                *(torch.stack([getattr(t, name) for t in touches], 1) for name in ("features", "link", "used"))
            )
        return self.sequence(torch.stack(frames, 1), window)[:, -1], (frames, touches)

    def explained(self, frames: Tensor) -> Tensor | None:
        """The part of the prediction [..., O] that no weight is trained for, from frames [..., F]; ``None`` for none.

        What is fitted in closed form (statistics, affine path, readout) is fitted to the rest.
        """
        return None

    def forward(self, frames: Tensor, rows: ContactRows | None = None) -> Tensor:
        """Same as :meth:`sequence`; what data-parallel wrappers call."""
        return self.sequence(frames, rows)

    @property
    def compute_dtype(self) -> torch.dtype:
        """Dtype of the matrices; statistics stay float64, frames and predictions float32 or wider."""
        return next(self.parameters()).dtype

    def set_compute_dtype(self, dtype: torch.dtype) -> DynamicsModel:
        """Cast the parameters and return self; statistics and the affine path keep their precision."""
        for name, parameter in self.named_parameters():
            if not name.startswith("affine."):
                parameter.data = parameter.data.to(dtype)
        return self

    def parameter_count(self) -> int:
        """Number of trained weights."""
        return sum(parameter.numel() for parameter in self.parameters())
