"""Physics of the manipulation tasks: MuJoCo Warp, and the same with learned free motion of the robot (coupled mode)."""

from __future__ import annotations

import copy
from typing import Any

from isaaclab_newton.physics import NewtonCfg


def analytical(stock: Any) -> NewtonCfg:
    """The stock task's MuJoCo Warp settings, which read the state at every solver step, as coupled mode does.

    Args:
        stock: Stock environment configuration, not resolved yet.
    """
    physics = copy.deepcopy(stock.sim.physics.newton_mjwarp)
    physics.solver_cfg.update_data_interval = 1
    return physics
