"""ANYmal-C on flat ground: the stock MDP with the DC motors that Isaac Lab ships, in learned or analytical physics.

The stock task's LSTM actuator net lies on the asset server only. This task has ``ANYDRIVE_3_SIMPLE_ACTUATOR_CFG`` in
its place, with other gains and a rotor inertia, run by the physics backend (``use_newton_actuators``), and says so
here; everything else is the stock task's. Both physics find contacts with MuJoCo's detector, as the bundle's data did.
"""

from __future__ import annotations

from isaaclab.envs import mdp
from isaaclab.managers import RewardTermCfg
from isaaclab.utils import configclass, replace
from isaaclab_assets.robots.anymal import ANYDRIVE_3_SIMPLE_ACTUATOR_CFG
from isaaclab_tasks.contrib.velocity.config.anymal_c.flat_env_cfg import AnymalCFlatEnvCfg

from flashnerd_ext.robots.anymal_c import ARMATURE, DAMPING, STIFFNESS

from ..physics_preset import physics_preset
from .physics import analytical

_ANALYTICAL = analytical(AnymalCFlatEnvCfg(), contacts=12, constraints=120)
DC_LEGS = replace(
    ANYDRIVE_3_SIMPLE_ACTUATOR_CFG, armature=ARMATURE, stiffness={".*": STIFFNESS}, damping={".*": DAMPING}
)
"""The shipped motor with gains that carry the robot and a rotor inertia; :mod:`flashnerd_ext.robots.anymal_c` says
why."""


@configclass
class FlashNerdAnymalCFlatEnvCfg(AnymalCFlatEnvCfg):
    """``FlashNeRD-Velocity-Flat-AnymalC``: the stock task's MDP with DC motors."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.scene.num_envs = 1024
        self.scene.robot = replace(self.scene.robot, actuators={"legs": DC_LEGS})
        # Off (the stock rewards) unless a training turns it on: with it a policy that explores widely need not fall to
        # lose less.
        self.rewards.alive = RewardTermCfg(func=mdp.is_alive, weight=0.0)  # pyright: ignore[reportAttributeAccessIssue]
        self.sim.use_newton_actuators = True
        # A preset stands in for the configuration until it is resolved.
        self.sim.physics = physics_preset(_ANALYTICAL, learned_first=True, mujoco_c=True)  # pyright: ignore[reportAttributeAccessIssue]
