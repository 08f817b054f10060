"""Unitree G1 with 29 joints and rubber hands, with the gains of Isaac Lab's G1_29DOF_CFG.

No stock task on flat ground has it (its whole-body tasks load the asset server's hands and policies): solver settings,
contact and events are those of the stock velocity task of G1. Legs and ankles are DC motors, evaluated once a
simulation step; waist and arms are implicit, integrated by the solver.
"""

from __future__ import annotations

from flashnerd_ext.model.layout import Drive, StateLayout
from flashnerd_ext.robots.description import ContactDescription, RobotDescription, per_joint

_SIDES = ("left", "right")
_LEG = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
_WAIST = ("waist_yaw", "waist_roll", "waist_pitch")
_ARM = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll", "wrist_pitch", "wrist_yaw")
_PARTS = (
    *(f"{side}_{part}" for side in _SIDES for part in _LEG),
    *_WAIST,
    *(f"{side}_{part}" for side in _SIDES for part in _ARM),
)
_JOINTS = tuple(f"{part}_joint" for part in _PARTS)
_ARMS = r".*_(?:shoulder_\w+|elbow|wrist_\w+)_joint"
_NEVER = 1e6
"""Stall torque and speed limit of drives that are clamped only: a motor curve that never binds."""

_STIFFNESS = per_joint(
    _JOINTS,
    {
        ".*_hip_.*": 100.0,
        ".*_knee_joint": 200.0,
        ".*_ankle_.*": 20.0,
        "waist_.*": 5000.0,
        _ARMS: 3000.0,
    },
)
_DAMPING = per_joint(
    _JOINTS,
    {
        ".*_hip_.*": 2.5,
        ".*_knee_joint": 5.0,
        ".*_ankle_pitch_joint": 0.2,
        ".*_ankle_roll_joint": 0.1,
        "waist_.*": 5.0,
        _ARMS: 10.0,
    },
)
# The motors' own clamp, and the joints' limits in force, which are the URDF's where a motor drives them.
_MOTOR_EFFORT = per_joint(
    _JOINTS,
    {
        ".*_hip_.*": 88.0,
        ".*_knee_joint": 139.0,
        ".*_ankle_.*": 50.0,
        "waist_yaw_joint": 88.0,
        "waist_(?:roll|pitch)_joint": 50.0,
        _ARMS: 300.0,
    },
)
_EFFORT = _MOTOR_EFFORT | per_joint(
    _JOINTS[:12],
    {".*_hip_(?:pitch|yaw)_joint": 88.0, ".*_hip_roll_joint": 139.0, ".*_knee_joint": 139.0, ".*_ankle_.*": 35.0},
)
_SATURATION = per_joint(_JOINTS, {".*_hip_.*|.*_knee_joint": 180.0, ".*_ankle_.*": 80.0, f"waist_.*|{_ARMS}": _NEVER})
_SPEED = per_joint(
    _JOINTS, {".*_hip_.*": 32.0, ".*_knee_joint": 20.0, ".*_ankle_.*": 37.0, f"waist_.*|{_ARMS}": _NEVER}
)
_IMPLICIT = _JOINTS[12:]

G1_29 = RobotDescription(
    name="g1_29",
    layout=StateLayout(
        joint_names=_JOINTS,
        joint_kinds=("revolute",) * 29,
        floating_base=True,
        actuated=_JOINTS,
        drive=Drive(
            tuple(_STIFFNESS.values()),
            tuple(_DAMPING.values()),
            tuple(_MOTOR_EFFORT.values()),
            saturation=tuple(_SATURATION.values()),
            velocity_limit=tuple(_SPEED.values()),
        ),
        conditions=("mass:torso_link",),
    ),
    asset_path="FlashNeRD/Robots/Unitree/G1/g1_29dof.usd",
    sim_dt=0.005,
    decimation=4,
    substeps=2,
    actuation="target",
    effort_limit=_EFFORT,
    joint_stiffness={name: _STIFFNESS[name] for name in _IMPLICIT},
    joint_damping={name: _DAMPING[name] for name in _IMPLICIT},
    position_limit=per_joint(
        _JOINTS,
        {
            ".*_hip_pitch_joint": (-2.5307, 2.8798),
            "left_hip_roll_joint": (-0.5236, 2.9671),
            "right_hip_roll_joint": (-2.9671, 0.5236),
            ".*_hip_yaw_joint": (-2.7576, 2.7576),
            ".*_knee_joint": (-0.087267, 2.8798),
            ".*_ankle_pitch_joint": (-0.87267, 0.5236),
            ".*_ankle_roll_joint": (-0.2618, 0.2618),
            "waist_yaw_joint": (-2.618, 2.618),
            "waist_(?:roll|pitch)_joint": (-0.52, 0.52),
            ".*_shoulder_pitch_joint": (-3.0892, 2.6704),
            "left_shoulder_roll_joint": (-1.5882, 2.2515),
            "right_shoulder_roll_joint": (-2.2515, 1.5882),
            ".*_shoulder_yaw_joint": (-2.618, 2.618),
            ".*_elbow_joint": (-1.0472, 2.0944),
            ".*_wrist_roll_joint": (-1.9722, 1.9722),
            ".*_wrist_(?:pitch|yaw)_joint": (-1.6144, 1.6144),
        },
    ),
    base_link="pelvis",
    default_joint_q={
        **{f"{side}_hip_pitch_joint": -0.1 for side in _SIDES},
        **{f"{side}_knee_joint": 0.3 for side in _SIDES},
        **{f"{side}_ankle_pitch_joint": -0.2 for side in _SIDES},
    },
    base_height=0.75,
    stand_height=0.784,
    action_scale=0.5,
    armature=per_joint(_JOINTS, {".*_(?:hip|ankle)_.*|.*_knee_joint": 0.03, f"waist_.*|{_ARMS}": 0.001}),
    links=(
        "pelvis",
        *(f"{part}_link" if part != "waist_pitch" else "torso_link" for part in _PARTS),
    ),
    contacts=ContactDescription(
        capacity=16,
        gap=0.03,
        feet=tuple(f"{side}_ankle_roll_link" for side in _SIDES),
        friction=(0.4, 1.25),
        ke=160_000.0,
        kd=1_100.0,
        # The thigh's shape is on hip_yaw, the hand's on wrist_yaw.
        fixed=(
            *(f"{side}_{part}_link" for part in ("ankle_roll", "knee", "hip_yaw", "wrist_yaw") for side in _SIDES),
            "pelvis",
            "torso_link",
        ),
    ),
    condition_range={"mass:torso_link": (-0.25, 0.3)},
)
