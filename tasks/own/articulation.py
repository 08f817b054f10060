"""A robot of the user's own as Isaac Lab spawns it, whatever its task."""

from __future__ import annotations

import isaaclab.sim as sim_utils
from isaaclab.actuators import ImplicitActuatorCfg
from isaaclab.assets.articulation import ArticulationCfg
from isaaclab_newton.sim.schemas import NewtonArticulationCfg
from isaaclab_physx.sim.schemas import PhysxArticulationCfg

from flashnerd_ext.robots.own import OwnRobot


def articulation(own: OwnRobot) -> ArticulationCfg:
    """The robot with the drives, limits and default pose of its ``robot.toml``; drives are implicit."""
    robot = own.description
    touches = robot.contacts is not None and robot.contacts.self_collision
    return ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=sim_utils.UsdFileCfg(
            usd_path=robot.asset_path,
            activate_contact_sensors=robot.contacts is not None,
            articulation_props=[
                PhysxArticulationCfg(enabled_self_collisions=touches),
                NewtonArticulationCfg(self_collision_enabled=touches),
            ],
        ),
        init_state=ArticulationCfg.InitialStateCfg(
            pos=(0.0, 0.0, robot.base_height), rot=robot.base_quat, joint_pos=dict(robot.default_joint_q)
        ),
        soft_joint_pos_limit_factor=0.9,
        actuators={
            "joints": ImplicitActuatorCfg(
                joint_names_expr=list(robot.layout.joint_names),
                effort_limit_sim=dict(robot.effort_limit),
                stiffness=dict(robot.joint_stiffness),
                damping=dict(robot.joint_damping),
                armature=dict(robot.armature),
            )
        },
    )
