"""A cube in an Allegro hand, turned to goal orientations: the stock task in learned or analytical physics."""

from __future__ import annotations

from isaaclab.utils import configclass
from isaaclab_tasks.core.reorient.config.allegro_hand.allegro_hand_manager_env_cfg import AllegroHandManagerEnvCfg

from ..physics_preset import physics_preset
from .physics import analytical

# With random actions there were 23 a world at most, of 16 worlds together.
_ANALYTICAL = analytical(AllegroHandManagerEnvCfg(), contacts=40)


@configclass
class FlashNerdReorientEnvCfg(AllegroHandManagerEnvCfg):
    """``FlashNeRD-Reorient-Cube-Allegro``: the MDP of ``Isaac-Reorient-Cube-Allegro`` with 1,024 worlds in place of
    8,192, and room for 40 contacts a world in place of 70."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scene.num_envs = 1024
        # A preset stands in for the configuration until it is resolved.
        self.sim.physics = physics_preset(_ANALYTICAL)  # pyright: ignore[reportAttributeAccessIssue]
