"""ANYmal-C on rough ground: the stock MDP with the DC motors that Isaac Lab ships, in learned or analytical physics.

As on flat ground (:mod:`.anymal_c_env_cfg`) but for what follows from the terrain: the generator's triangle mesh needs
Newton's own collision pipeline in the analytical physics (MuJoCo's detector would take its convex hull), and there are
fewer tiles, so that a CPU starts with it. The learned physics finds its contacts itself.
"""

from __future__ import annotations

import copy

import isaaclab.sim as sim_utils
from isaaclab.terrains.config.rough import ROUGH_TERRAINS_CFG
from isaaclab.utils import configclass, replace
from isaaclab_newton.physics import NewtonCfg
from isaaclab_tasks.contrib.velocity.config.anymal_c.rough_env_cfg import AnymalCRoughEnvCfg

from ..physics_preset import physics_preset
from .anymal_c_env_cfg import DC_LEGS


def _analytical() -> NewtonCfg:
    """The stock rough task's MuJoCo Warp settings, with the friction that the flat task and the data have."""
    physics = copy.deepcopy(AnymalCRoughEnvCfg().sim.physics.newton_mjwarp)  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    physics.solver_cfg.cone, physics.solver_cfg.impratio = "elliptic", 100.0
    return physics


_ANALYTICAL = _analytical()
TERRAIN = replace(copy.deepcopy(ROUGH_TERRAINS_CFG), num_rows=3, num_cols=5, border_width=4.0)
"""The stock tiles, 15 of them in place of 200."""


@configclass
class FlashNerdAnymalCRoughEnvCfg(AnymalCRoughEnvCfg):
    """``FlashNeRD-Velocity-Rough-AnymalC``: the stock task's MDP with DC motors and fewer tiles."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scene.num_envs = 512
        self.scene.robot = replace(self.scene.robot, actuators={"legs": DC_LEGS})
        self.scene.terrain.terrain_generator = copy.deepcopy(TERRAIN)
        self.scene.terrain.terrain_generator.curriculum = True
        # The stock material lies on the asset server.
        self.scene.terrain.visual_material = sim_utils.PreviewSurfaceCfg(diffuse_color=(0.32, 0.36, 0.34))
        self.sim.use_newton_actuators = True
        # A preset stands in for the configuration until it is resolved.
        self.sim.physics = physics_preset(_ANALYTICAL)  # pyright: ignore[reportAttributeAccessIssue]
