"""A Franka arm lifts a cube: the stock task with one object, in learned or analytical physics."""

from __future__ import annotations

from isaaclab.utils import clone, configclass
from isaaclab_tasks.core.lift.config.franka.franka_env_cfg import FrankaLiftEnvCfg
from isaaclab_tasks.core.lift.lift_env_cfg import ObjectCfg

from ..physics_preset import physics_preset
from .physics import analytical

_ANALYTICAL = analytical(FrankaLiftEnvCfg(), contacts=100)


@configclass
class FlashNerdLiftEnvCfg(FrankaLiftEnvCfg):
    """``FlashNeRD-Lift-Cube-Franka``: the MDP of ``Isaac-Lift-Franka``, but for

    - the object: the stock cube of 5 cm (the stock preset ``cube``) in every world, in place of eight shapes;
    - gravity, which acts from the first step on in place of growing with the stock curriculum: the labels of a bundle
      contain it, and no condition tells a model of another;
    - sizes: 256 worlds in place of 4,096, room for 100 contacts a world in place of 200, and a bank of 128 resets in
      place of 1,024, which is filled before the first step.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scene.num_envs = 256
        self.scene.object.spawn = clone(ObjectCfg().cube)  # pyright: ignore[reportAttributeAccessIssue]
        self.events.variable_gravity = None  # pyright: ignore[reportAttributeAccessIssue]
        self.events.conditional_reset.params["buffer_size_per_group"] = 128
        if self.curriculum is not None:
            self.curriculum.gravity_adr = None  # pyright: ignore[reportAttributeAccessIssue]
        # A preset stands in for the configuration until it is resolved.
        self.sim.physics = physics_preset(_ANALYTICAL)  # pyright: ignore[reportAttributeAccessIssue]
