"""Franka Panda with its hand as the stock task Isaac-Lift-Franka simulates it, for coupled mode.

The model gives the arm's free motion at the solver's step: joint accelerations from the torque on every joint, before
contacts, joint limits, joint friction and the mimic constraint of the fingers, which stay the simulator's. So what a
task's drives are does not matter to it; those here (``isaaclab_tasks`` FRANKA_PANDA_LIFT_CFG) shape the data. Armature
does matter: Lift sets it, Isaac-Reach-Franka takes that of the asset.

The base stands upright, so that the angle of the first joint, about the vertical, changes nothing.
"""

from __future__ import annotations

import dataclasses

from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.robots.description import RobotDescription, per_joint

_ARM = tuple(f"panda_joint{number}" for number in range(1, 8))
_FINGERS = ("panda_finger_joint1", "panda_finger_joint2")
_JOINTS = (*_ARM, *_FINGERS)

FRANKA = RobotDescription(
    name="franka",
    layout=StateLayout(
        joint_names=_JOINTS,
        joint_kinds=("revolute",) * 7 + ("prismatic",) * 2,
        actuated=_JOINTS,
        position_free=("panda_joint1",),
        conditions=("mass:panda_hand",),
    ),
    asset_path="Isaac/IsaacLab/Robots/FrankaEmika/franka_panda.usda",
    sim_dt=1.0 / 120.0,
    decimation=4,
    substeps=2,
    coupling="qacc_smooth",
    effort_limit=per_joint(
        _JOINTS,
        {
            "panda_joint[1-4]": 87.0,
            "panda_joint[5-7]": 12.0,
            "panda_finger_joint1": 70.0,
            "panda_finger_joint2": 1.0,
        },
    ),
    joint_stiffness=per_joint(
        _JOINTS,
        {
            "panda_joint[1-4]": 600.0,
            "panda_joint5": 250.0,
            "panda_joint6": 150.0,
            "panda_joint7": 50.0,
            "panda_finger_joint1": 350.0,
            "panda_finger_joint2": 0.0,
        },
    ),
    joint_damping=per_joint(
        _JOINTS,
        {
            "panda_joint[1-4]": 50.0,
            "panda_joint5": 30.0,
            "panda_joint6": 25.0,
            "panda_joint7": 15.0,
            "panda_finger_joint1": 175.0,
            "panda_finger_joint2": 0.0,
        },
    ),
    position_limit=per_joint(
        _JOINTS,
        {
            "panda_joint[1357]": (-2.8973, 2.8973),
            "panda_joint2": (-1.7628, 1.7628),
            "panda_joint4": (-3.0718, -0.0698),
            "panda_joint6": (-0.0175, 3.7525),
            "panda_finger_joint[12]": (0.0, 0.04),
        },
    ),
    base_link="panda_link0",
    default_joint_q={
        "panda_joint2": -0.569,
        "panda_joint4": -2.810,
        "panda_joint6": 3.037,
        "panda_joint7": 0.741,
        "panda_finger_joint1": 0.04,
        "panda_finger_joint2": 0.04,
    },
    action_scale=0.1,
    armature=per_joint(
        _JOINTS,
        {
            "panda_joint[12]": 0.6057,
            "panda_joint[34]": 0.4625,
            "panda_joint[567]": 0.2055,
            "panda_finger_joint[12]": 0.1,
        },
    ),
    links=(*(f"panda_link{number}" for number in range(8)), "panda_hand", "panda_leftfinger", "panda_rightfinger"),
    # The hand weighs 0.73 kg: from a lighter one to a tool of 1.8 kg bolted to it. What it grasps is another body.
    condition_range={"mass:panda_hand": (-0.2, 2.5)},
    tasks=("Isaac-Lift-Franka", "FlashNeRD-Lift-Cube-Franka"),
)

FRANKA_REACH = dataclasses.replace(
    FRANKA,
    name="franka_reach",
    effort_limit=FRANKA.effort_limit | dict.fromkeys(_FINGERS, 200.0),
    # The stiffness is our asset's, which stands in for what the stock file says.
    joint_stiffness=dict.fromkeys(_ARM, 400.0) | {"panda_finger_joint1": 2000.0, "panda_finger_joint2": 0.0},
    joint_damping=dict(zip(_ARM, (40.0, 60.0, 35.0, 60.0, 15.0, 15.0, 12.0), strict=True))
    | {"panda_finger_joint1": 100.0, "panda_finger_joint2": 0.0},
    armature=dict.fromkeys(_JOINTS, 0.1),
    action_scale=0.5,
    tasks=("Isaac-Reach-Franka",),
)
"""The same arm with the armature of its asset, as stock tasks have it that set none."""
