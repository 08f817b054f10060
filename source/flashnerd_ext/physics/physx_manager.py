"""Isaac Sim's PhysX with learned free motion.

Untested: Isaac Sim cannot be had from PyPI, and neither this module nor :mod:`flashnerd_ext.solver.physx_kit` has ever
run. What they share with PhysX without Kit (:mod:`flashnerd_ext.physics.physx_base`) is tested there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from isaaclab.physics import PhysicsManager
from isaaclab_physx.physics.physx_manager import PhysxManager

from flashnerd_ext.physics.physx_base import CoupledPhysxManager, SharedState
from flashnerd_ext.solver.physx_kit import KitRobots


class PhysxFlashNerdManager(CoupledPhysxManager, PhysxManager, metaclass=SharedState):
    """:class:`PhysxManager` in which a bundle's model predicts the free motion of its robots. Untested."""

    stock = PhysxManager

    @classmethod
    def _view(cls, paths: Sequence[str]) -> KitRobots | None:
        view = KitRobots(cls.get_physics_sim_view(), paths, PhysicsManager._device)
        return view if view.paths else None

    @classmethod
    def _scene_gravity(cls) -> Sequence[float]:
        view: Any = cls.get_physics_sim_view()
        gravity = view.get_gravity()
        return gravity.x, gravity.y, gravity.z
