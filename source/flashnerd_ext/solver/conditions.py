"""What differs from world to world: read from the simulation's model, as deviations from the robot of the asset.

Events that randomise the base's mass or centre of mass are honoured this way, whenever they happen: the next frame of
that world shows the new value. Values beyond the training data are clamped, counted and said once.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import torch
import warp as wp
from torch import Tensor

if TYPE_CHECKING:
    from flashnerd_ext.bundle.card import Card

logger = logging.getLogger(__name__)
INERTIAL = ("base_mass", "base_com_x", "base_com_y", "base_com_z")
"""Conditions that follow from the base's inertial properties."""


class ConditionStage:
    """Keeps the model's condition inputs up to date.

    Args:
        card: Names the conditions and their range in the training data.
        model: Finalised Newton model, still with the asset's own properties.
        base: Index of each world's root body, int64 [N].
        values: The stepper's buffer [N, C], written in place.

    Attributes:
        clamped: Worlds whose conditions lie outside of the training data, as of the last update.
    """

    def __init__(self, card: Card, model: Any, base: Tensor, values: Tensor) -> None:
        self.names, self._name, self._model, self._base, self._values = (
            card.robot.conditions, card.name, model, base, values,
        )  # fmt: skip
        self.clamped = 0
        self._warned = False
        if not self.names:
            return
        ranges = card.envelope.frame
        place = [ranges.names.index(f"condition.{name}") for name in self.names]
        self._low = torch.tensor([ranges.min[i] for i in place], device=values.device)
        self._high = torch.tensor([ranges.max[i] for i in place], device=values.device)
        self._mass, self._com = self._read(model.body_mass).clone(), self._read(model.body_com).clone()

    @property
    def covers_inertia(self) -> bool:
        """Whether a change of the base's mass and centre of mass reaches the model."""
        return set(INERTIAL) <= set(self.names)

    def _read(self, array: Any) -> Tensor:
        return wp.to_torch(array, requires_grad=False)[self._base]

    def update(self) -> None:
        """Take the base's present mass and centre of mass over."""
        if not self.names:
            return
        mass, com = self._read(self._model.body_mass), self._read(self._model.body_com)
        found = {"base_mass": mass / self._mass - 1.0}
        found |= {f"base_com_{axis}": com[:, i] - self._com[:, i] for i, axis in enumerate("xyz")}
        zero = torch.zeros_like(self._mass)
        values = torch.stack([found.get(name, zero) for name in self.names], 1)
        inside = torch.clamp(values, self._low, self._high)
        beyond = ((values - inside).abs() > 1e-3).any(1)
        self.clamped = int(beyond.sum())
        self._values.copy_(inside)
        if self.clamped and not self._warned:
            self._warned = True
            worst = int((values - inside).abs().amax(1).argmax())
            which = int((values - inside)[worst].abs().argmax())
            logger.warning(
                "%d worlds have a %s beyond the training data of the bundle '%s' (world %d: %.4g, known are %.4g to "
                "%.4g): it is clamped there. Narrow the event's range, or train on a wider one.",
                self.clamped, self.names[which], self._name, worst, float(values[worst, which]),
                float(self._low[which]), float(self._high[which]),
            )  # fmt: skip
