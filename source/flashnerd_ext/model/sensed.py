"""Outputs beside the next state: what sensors and rewards read, as means over the step.

They follow the 2 nv increments in a prediction: contact force on each link [N], in the root frame at the start of the
step, three numbers a link, then the torque of each actuated joint [N m].
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.rotation import rotate, rotate_inverse


@dataclass(frozen=True)
class Sensed:
    """Packs and unpacks them.

    Attributes:
        layout: The robot's coordinates.
        links: Links whose contact force is predicted.
    """

    layout: StateLayout
    links: int

    @property
    def size(self) -> int:
        """Numbers in all."""
        return 3 * self.links + self.layout.nu

    def pack(self, joint_q: Tensor, force: Tensor, torque: Tensor) -> Tensor:
        """Targets [..., size] of forces [..., L, 3] in the world frame and torques [..., nu].

        Args:
            joint_q: State at the start of the step, shape [..., nq].
        """
        if self.layout.floating_base:
            force = rotate_inverse(joint_q[..., None, 3:7].expand(*force.shape[:-1], 4), force)
        return torch.cat((force.flatten(-2), torque), -1)

    def forces(self, joint_q: Tensor, values: Tensor) -> Tensor:
        """Forces in the world frame [..., L, 3] of predicted ``values`` [..., size]."""
        force = values[..., : 3 * self.links].unflatten(-1, (self.links, 3))
        if self.layout.floating_base:
            force = rotate(joint_q[..., None, 3:7].expand(*force.shape[:-1], 4).to(force.dtype), force)
        return force

    def torques(self, values: Tensor) -> Tensor:
        """Torques [..., nu] of predicted ``values`` [..., size]."""
        return values[..., 3 * self.links :]
