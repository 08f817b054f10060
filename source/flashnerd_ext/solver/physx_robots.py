"""Learned robots as PhysX sees them: one view of all of them, read and written by the name of a quantity.

Quantities have the names of ovphysx's articulation tensors (``dof_position``, ``mass_matrix``, ...), shapes [N, ...]
over the N robots. PhysX keeps its own order of joints and links; nothing here reorders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
import warp as wp
from torch import Tensor


class PhysxRobots(Protocol):
    """A view of N articulations of the same kind.

    Attributes:
        paths: Prim path of each. dof_names, body_names: PhysX's order, the same for all.
        fixed_base: Whether the root cannot move.
        device: The simulation's device.
    """

    paths: list[str]
    dof_names: list[str]
    body_names: list[str]
    fixed_base: bool
    device: torch.device

    def read(self, what: str) -> Tensor:
        """Present values on the simulation's device; the memory is used again by the next read of that quantity."""
        ...

    def write(self, what: str, values: Tensor) -> None:
        """Write all rows."""
        ...


class OvRobots:
    """A :class:`PhysxRobots` of PhysX without Kit.

    Args:
        physx: The running ``ovphysx.PhysX``.
        paths: Prim path of each articulation, in the wanted order.
        device: The simulation's device.
    """

    def __init__(self, physx: Any, paths: Sequence[str], device: str) -> None:
        from isaaclab_ov.sim.views.ovphysx_view import OvPhysxView

        self._view = OvPhysxView(physx, prim_paths=list(paths), device=device)
        self._view.binding_for("articulation_dof_position")
        self.paths = self._view.prim_paths
        self.dof_names, self.body_names = self._view.dof_names, self._view.body_names
        self.fixed_base = self._view.is_fixed_base
        self.device = torch.device(wp.device_to_torch(wp.get_device(device)))
        self._read: dict[str, tuple[wp.array, Tensor]] = {}
        self._written: dict[str, tuple[wp.array, Tensor]] = {}

    def read(self, what: str) -> Tensor:
        if what not in self._read:
            self._read[what] = self._allocate(what)
        array, tensor = self._read[what]
        self._view.read_into(f"articulation_{what}", array)
        # Properties live on the CPU even where states do not.
        return tensor.to(self.device)

    def _allocate(self, what: str) -> tuple[wp.array, Tensor]:
        from isaaclab_ov.sim.views.ovphysx_view import is_cpu_only

        name = f"articulation_{what}"
        flags = what in ("dof_drive_type", "body_disable_gravity")
        device = "cpu" if is_cpu_only(name) else str(self.device)
        with torch.inference_mode(False):
            array = wp.zeros(
                tuple(self._view.binding_for(name).shape), dtype=wp.uint8 if flags else wp.float32, device=device
            )
            return array, wp.to_torch(array, requires_grad=False)

    def write(self, what: str, values: Tensor) -> None:
        if what not in self._written:
            self._written[what] = self._allocate(what)
        array, tensor = self._written[what]
        tensor.copy_(values)
        self._view.set_attribute(f"articulation_{what}", array)
