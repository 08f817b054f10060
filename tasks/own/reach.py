"""The reach task for robots of the user's own on a fixed base: the stock MDP without its table."""

from __future__ import annotations

from typing import Any

from isaaclab.envs import mdp
from isaaclab.utils import configclass
from isaaclab_tasks.core.reach.config.ur_10.agents.rsl_rl_ppo_cfg import UR10ReachPPORunnerCfg
from isaaclab_tasks.core.reach.reach_env_cfg import ReachEnvCfg as StockReachEnvCfg
from isaaclab_tasks.utils import preset

from flashnerd_ext.physics.flashnerd_manager_cfg import flashnerd_physics
from flashnerd_ext.robots.own import OwnRobot

from ..manipulation.physics import analytical
from .articulation import articulation

CONTACTS = 40
"""Room for contacts a world."""
ROLL = 0.3
"""Commanded orientations differ so much from that of the default pose [rad]."""


@configclass
class ReachEnvCfg(StockReachEnvCfg):
    """The stock reach task without a robot; :func:`reach` sets one."""


@configclass
class ReachPPORunnerCfg(UR10ReachPPORunnerCfg):
    """The stock recipe; :func:`learn` names it after the robot."""


def reach(cfg: Any, own: OwnRobot) -> None:
    """Set a robot into the reach task.

    Args:
        cfg: A :class:`ReachEnvCfg`, changed in place. It gets the presets ``newton_mjwarp`` and ``flashnerd`` (coupled
            mode with the robot's own bundle).
        own: The robot.
    """
    robot, task = own.description, own.task
    physics = analytical(cfg, CONTACTS)
    physics.num_substeps = robot.substeps
    cfg.sim.physics = preset(
        default=physics, newton_mjwarp=physics, flashnerd=flashnerd_physics(physics, bundle=str(own.bundle))
    )
    cfg.sim.dt, cfg.decimation, cfg.sim.render_interval = robot.sim_dt, robot.decimation, robot.decimation
    cfg.scene.num_envs = 1024
    cfg.scene.robot = articulation(own)
    cfg.scene.table = None
    cfg.events.reset_robot_joints.params["position_range"] = (0.75, 1.25)
    cfg.actions.arm_action = mdp.JointPositionActionCfg(
        asset_name="robot",
        joint_names=list(robot.layout.joint_names),
        scale=robot.action_scale,
        use_default_offset=True,
    )
    cfg.rewards.end_effector_position_tracking.params["asset_cfg"].body_names = [task.tip]
    cfg.rewards.end_effector_orientation_tracking.params["asset_cfg"].body_names = [task.tip]
    cfg.commands.ee_pose.body_name = task.tip
    ranges = cfg.commands.ee_pose.ranges
    ranges.pos_x, ranges.pos_y, ranges.pos_z = task.reach
    ranges.roll, ranges.pitch, ranges.yaw = ((angle - ROLL, angle + ROLL) for angle in task.turn)


def learn(agent: Any, own: OwnRobot) -> None:
    """Name the training after the robot.

    Args:
        agent: A :class:`ReachPPORunnerCfg`, changed in place.
        own: The robot.
    """
    agent.experiment_name = f"flashnerd_{own.name}_reach"
