"""Analytical physics of the velocity tasks: MuJoCo Warp with MuJoCo's own contact detector.

Bundles are made with that detector. The stock tasks use Newton's, which finds other points at the same pose and makes
touch-downs differ; here both physics see the same contacts, so that they can be compared.
"""

from __future__ import annotations

import copy
from typing import Any

from isaaclab_newton.physics import NewtonCfg


def analytical(stock: Any, contacts: int, constraints: int) -> NewtonCfg:
    """The stock task's MuJoCo Warp settings, with MuJoCo's own contact detector.

    Args:
        stock: Stock environment configuration, not resolved yet.
        contacts: Contacts a world, of a pool that all worlds share. On a CPU the elliptic cone's cost is that of the
            pool and not of the contacts in it: with 60 a world a step took four times as long as with 12.
        constraints: Rows of the constraint Jacobian that a world may have.
    """
    physics = copy.deepcopy(stock.sim.physics.newton_mjwarp)
    physics.solver_cfg.use_mujoco_contacts = True
    physics.solver_cfg.nconmax, physics.solver_cfg.njmax = contacts, constraints
    # Contacts in the gap do not push with this detector, so that none need be found (and kept in the pool).
    physics.default_shape_cfg.gap = 0.0
    physics.collision_cfg = None
    return physics
