"""Physics of the manipulation tasks: MuJoCo Warp, and the same with learned free motion of the robot (coupled mode)."""

from __future__ import annotations

import copy
from typing import Any

from isaaclab_newton.physics import NewtonCfg


def analytical(stock: Any, contacts: int) -> NewtonCfg:
    """The stock task's MuJoCo Warp settings, which read the state at every solver step, as coupled mode does.

    Args:
        stock: Stock environment configuration, not resolved yet.
        contacts: Contacts a world, of a pool that all worlds share; on a CPU its size costs time, full or not.
    """
    physics = copy.deepcopy(stock.sim.physics.newton_mjwarp)
    physics.solver_cfg.update_data_interval = 1
    physics.solver_cfg.nconmax = contacts
    return physics
