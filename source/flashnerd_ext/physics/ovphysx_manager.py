"""PhysX without Kit, with learned free motion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import warp as wp
from isaaclab.physics import PhysicsManager
from isaaclab_ov.physics.ovphysx_manager import OvPhysxManager
from isaaclab_ov.sim.views.ovphysx_view import OvPhysxView

from flashnerd_ext.physics.physx_base import CoupledPhysxManager, SharedState
from flashnerd_ext.solver.physx_robots import OvRobots

if TYPE_CHECKING:
    from isaaclab.sim import SimulationContext


def without_pinned_memory() -> None:
    """Let Isaac Lab's ov assets be built without a CUDA driver: they ask Warp for pinned memory."""
    wp.init()
    if not wp.is_cuda_available():
        device: Any = wp.get_device("cpu")
        device.pinned_allocator = device.default_allocator


class OvPhysxFlashNerdManager(CoupledPhysxManager, OvPhysxManager, metaclass=SharedState):
    """:class:`OvPhysxManager` in which a bundle's model predicts the free motion of its robots.

    PhysX resolves contacts, limits and dry friction, and integrates; see docs/coupling.md. Isaac Lab chooses its assets
    by the first letters of this class's name.
    """

    stock = OvPhysxManager

    @classmethod
    def initialize(cls, sim_context: SimulationContext) -> None:
        """As the stock manager; on machines without a CUDA driver too."""
        without_pinned_memory()
        super().initialize(sim_context)

    @classmethod
    def _view(cls, paths: Sequence[str]) -> OvRobots | None:
        try:
            return OvRobots(cls.get_physx_instance(), paths, PhysicsManager._device)
        except OvPhysxView.AttributeUnavailable:
            return None

    @classmethod
    def _scene_gravity(cls) -> Sequence[float]:
        return cls.get_gravity()
