"""Goals that are one turn about one axis away from the object's present orientation."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from isaaclab.utils import configclass
from isaaclab.utils.math import quat_from_angle_axis, quat_mul
from isaaclab_tasks.core.reorient.mdp import ReorientCommand, ReorientCommandCfg


class TurnCommand(ReorientCommand):
    """:class:`ReorientCommand` whose goal is the object's present orientation, turned about a fixed axis of the world.

    The turn goes to either side with equal probability, by an angle that is uniform in ``cfg.turn``.
    """

    cfg: TurnCommandCfg  # pyright: ignore[reportIncompatibleVariableOverride]

    def _resample_command(self, env_ids: Sequence[int]) -> None:
        super()._resample_command(env_ids)
        present = self.object.data.root_quat_w.torch[env_ids]
        low, high = self.cfg.turn
        size = low + (high - low) * torch.rand(len(present), device=self.device)
        side = torch.where(torch.rand(len(present), device=self.device) < 0.5, -1.0, 1.0)
        axis = torch.tensor(self.cfg.axis, device=self.device).expand(len(present), 3)
        self.quat_command_w[env_ids] = quat_mul(quat_from_angle_axis(side * size, axis), present)


@configclass
class TurnCommandCfg(ReorientCommandCfg):
    """Configuration of :class:`TurnCommand`."""

    class_type: type[TurnCommand] = TurnCommand  # pyright: ignore[reportIncompatibleVariableOverride]

    axis: tuple[float, float, float] = (0.0, 0.0, 1.0)
    """Axis of the turn in the world frame."""

    turn: tuple[float, float] = (0.8, 1.6)
    """Least and largest angle of a turn [rad]."""
