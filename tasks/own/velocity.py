"""The velocity task on flat ground for robots of the user's own: the stock MDP, scaled to the robot's size."""

from __future__ import annotations

from typing import Any

from isaaclab.envs import mdp
from isaaclab.managers import RewardTermCfg
from isaaclab.utils import configclass
from isaaclab_tasks.core.velocity import mdp as velocity_mdp
from isaaclab_tasks.core.velocity.config.go2.agents.rsl_rl_ppo_cfg import UnitreeGo2FlatPPORunnerCfg
from isaaclab_tasks.core.velocity.velocity_env_cfg import LocomotionVelocityRoughEnvCfg, RewardsCfg

from flashnerd_ext.robots.own import OwnRobot

from ..physics_preset import physics_preset
from ..velocity.agents.rsl_rl_ppo_cfg import mirrored, scheduled, step, walk
from ..velocity.physics import analytical
from .articulation import articulation

TORQUES, HEIGHT = 1.0, 3.0
"""Penalties of all drives at their limits, and of a base lower by its whole standing height."""
CONTACTS, CONSTRAINTS = 60, 160
"""Room for contacts a world, and for constraint rows beside four a joint."""


@configclass
class OwnRewardsCfg(RewardsCfg):
    """The stock rewards, and two that are off or small unless a robot or a schedule sets them."""

    base_height_l2: RewardTermCfg = RewardTermCfg(func=mdp.base_height_l2, weight=0.0, params={"target_height": 0.0})
    alive: RewardTermCfg = RewardTermCfg(func=mdp.is_alive, weight=0.0)


@configclass
class VelocityEnvCfg(LocomotionVelocityRoughEnvCfg):
    """The stock velocity task without a robot; :func:`velocity` sets one."""

    rewards: OwnRewardsCfg = OwnRewardsCfg()  # pyright: ignore[reportIncompatibleVariableOverride]


@configclass
class VelocityPPORunnerCfg(UnitreeGo2FlatPPORunnerCfg):
    """The stock recipe for four-legged robots; :func:`learn` sets the schedule and the robot's symmetry."""


def velocity(cfg: Any, own: OwnRobot) -> None:
    """Set a robot into the velocity task on flat ground.

    Args:
        cfg: A :class:`VelocityEnvCfg`, changed in place. It gets the presets ``newton_mjwarp``, ``flashnerd`` (the
            robot's own bundle) and ``mujoco_c``.
        own: The robot.
    """
    robot = own.description
    contacts = robot.contacts
    assert contacts is not None
    # Physics and steps.
    physics = analytical(cfg, CONTACTS, CONSTRAINTS + 4 * robot.layout.num_joints)
    physics.num_substeps = robot.substeps
    physics.default_shape_cfg.ke, physics.default_shape_cfg.kd = contacts.ke, contacts.kd
    bundle = str(own.bundle)
    cfg.sim.physics = physics_preset(physics, bundle, mujoco_c=True)
    cfg.sim.dt, cfg.decimation, cfg.sim.render_interval = robot.sim_dt, robot.decimation, robot.decimation
    cfg.scene.contact_forces.update_period = robot.sim_dt
    # Scene: the robot on a plane.
    cfg.scene.num_envs = 1024
    cfg.scene.robot = articulation(own)
    cfg.scene.terrain.terrain_type, cfg.scene.terrain.terrain_generator = "plane", None
    cfg.scene.height_scanner = cfg.observations.policy.height_scan = cfg.curriculum.terrain_levels = None
    # What names links.
    base = robot.base_link
    cfg.actions.joint_pos.scale = robot.action_scale
    cfg.rewards.feet_air_time.params["sensor_cfg"].body_names = list(contacts.feet)
    cfg.rewards.undesired_contacts = None
    cfg.terminations.base_contact.params["sensor_cfg"].body_names = base
    for name in ("add_base_mass", "base_com", "base_external_force_torque"):
        getattr(cfg.events, name).params["asset_cfg"].body_names = base
    _conditions(cfg, robot.condition_range)
    # What goes with the robot's size.
    for axis, span in zip(("lin_vel_x", "lin_vel_y", "ang_vel_z"), own.task.speed, strict=False):
        setattr(cfg.commands.base_velocity.ranges, axis, span)
    cfg.rewards.dof_torques_l2.weight = -TORQUES / sum(limit**2 for limit in robot.effort_limit.values())
    cfg.rewards.base_height_l2.weight = -HEIGHT / robot.stand_height**2
    cfg.rewards.base_height_l2.params["target_height"] = robot.stand_height
    cfg.rewards.flat_orientation_l2.weight = -2.5
    cfg.rewards.feet_air_time.weight = 0.25
    if len(contacts.feet) == 2:
        cfg.rewards.feet_air_time.func = velocity_mdp.feet_air_time_positive_biped
        cfg.rewards.feet_air_time.params["threshold"] = 0.4
        cfg.rewards.lin_vel_z_l2.weight = -0.2
        cfg.events.reset_robot_joints.params["position_range"] = (1.0, 1.0)


def _conditions(cfg: Any, ranges: dict[str, tuple[float, float]]) -> None:
    """Keep the stock events within what the data cover; an event that they do not know at all is left out."""
    low, high = ranges.get("base_mass", (0.0, 0.0))
    cfg.events.add_base_mass.params["mass_distribution_params"] = (max(1 / 1.25, 1.0 + low), min(1.25, 1.0 + high))
    if low == high:
        cfg.events.add_base_mass = None
    stock = cfg.events.base_com.params["com_range"]
    shifts = {axis: ranges.get(f"base_com_{axis}", (0.0, 0.0)) for axis in "xyz"}
    cfg.events.base_com.params["com_range"] = {
        axis: (max(stock[axis][0], 0.8 * low), min(stock[axis][1], 0.8 * high)) for axis, (low, high) in shifts.items()
    }
    if all(low == high for low, high in shifts.values()):
        cfg.events.base_com = None


def learn(agent: Any, own: OwnRobot) -> None:
    """Set the training of a walking robot: a schedule from easy to the task, and left and right exchanged.

    Args:
        agent: A :class:`VelocityPPORunnerCfg`, changed in place.
        own: The robot.
    """
    contacts = own.description.contacts
    assert contacts is not None
    agent.algorithm = scheduled(agent.algorithm, step() if len(contacts.feet) == 2 else walk({}))
    agent.algorithm.num_mini_batches = 6
    if len(contacts.feet) == 2:
        # With all of the noise a robot on two legs falls at once.
        agent.actor.distribution_cfg.init_std = 0.5
    if own.description.mirror is not None:
        mirrored(agent.algorithm)
    agent.experiment_name = f"flashnerd_{own.name}_flat"
