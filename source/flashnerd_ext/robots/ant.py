"""Ant as the stock tasks Isaac-Ant and Isaac-Ant-Direct simulate it.

The action times 7.5 N m is the joint's torque (Isaac-Ant clips it at that, the direct task at twice as much). The drive
has no stiffness and a damping of 0.1 N m s/rad, which the solver integrates. The torque reaches the joint as an
applied force and is not clamped by the joint's limit of 15 N m. Nothing is randomised.
"""

from __future__ import annotations

from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.robots.description import ContactDescription, RobotDescription, per_joint

_LEGS = ("front_left", "front_right", "left_back", "right_back")
_PARTS = tuple(f"{leg}_{part}" for leg in _LEGS for part in ("leg", "foot"))

ANT = RobotDescription(
    name="ant",
    layout=StateLayout(joint_names=_PARTS, joint_kinds=("revolute",) * 8, floating_base=True, actuated=_PARTS),
    asset_path="Isaac/Robots/IsaacSim/Ant/ant_instanceable.usd",
    sim_dt=1.0 / 120.0,
    decimation=2,
    actuation="effort",
    effort_limit=dict.fromkeys(_PARTS, 15.0),
    joint_stiffness=dict.fromkeys(_PARTS, 0.0),
    joint_damping=dict.fromkeys(_PARTS, 0.1),
    position_limit=per_joint(
        _PARTS,
        {
            ".*_leg": (-0.69813, 0.69813),
            "front_left_foot|right_back_foot": (0.5236, 1.7453),
            "front_right_foot|left_back_foot": (-1.7453, -0.5236),
        },
    ),
    base_link="torso",
    default_joint_q=per_joint(
        _PARTS,
        {".*_leg": 0.0, "front_left_foot|right_back_foot": 0.785398, "front_right_foot|left_back_foot": -0.785398},
    ),
    base_height=0.5,
    stand_height=0.48,
    action_scale=7.5,
    armature=dict.fromkeys(_PARTS, 0.05),
    links=("torso", *_PARTS),
    contacts=ContactDescription(
        capacity=10,
        gap=0.03,
        feet=tuple(f"{leg}_foot" for leg in _LEGS),
        friction=(0.8, 1.25),
        fixed=(*(f"{leg}_foot" for leg in _LEGS), "torso"),
    ),
    tasks=("Isaac-Ant", "Isaac-Ant-Direct"),
)
