"""Unitree G1 with 37 joints as the stock velocity task on flat ground simulates it.

Its drives are implicit (``isaaclab_assets`` G1_MINIMAL_CFG): the solver integrates them, so that gains stand in
``joint_stiffness`` and ``joint_damping`` too. The task resets to 0.74 m, which is 4 cm inside the ground and throws the
robot up; data start where the soles touch. Two ankles of 20 N m/rad cannot balance 34 kg, so that without a policy the
robot topples within a second. The stock event scales the mass of ``torso_link``; the root link is ``pelvis``.
"""

from __future__ import annotations

from flashnerd_ext.model.layout import Drive, StateLayout
from flashnerd_ext.robots.description import ContactDescription, Mirror, RobotDescription, per_joint

_SIDES = ("left", "right")
_LEG = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
_ARM = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow_pitch", "elbow_roll")
_FINGERS = ("five", "six", "three", "four", "zero", "one", "two")


def _named(ending: str, torso: str) -> tuple[str, ...]:
    """Joints or links in Newton's order: both legs, the torso, then arm and fingers of each side."""
    legs = tuple(f"{side}_{part}_{ending}" for side in _SIDES for part in _LEG)
    return (*legs, torso, *(f"{side}_{part}_{ending}" for side in _SIDES for part in (*_ARM, *_FINGERS)))


_JOINTS = _named("joint", "torso_joint")
_HANDS = "|".join(_FINGERS)
_ARMS = rf".*_(?:shoulder_\w+|elbow_\w+|{_HANDS})_joint"
_STIFFNESS = per_joint(
    _JOINTS,
    {
        ".*_hip_(?:yaw|roll)_joint": 150.0,
        ".*_hip_pitch_joint|.*_knee_joint|torso_joint": 200.0,
        ".*_ankle_.*": 20.0,
        _ARMS: 40.0,
    },
)
_DAMPING = per_joint(_JOINTS, {".*_hip_.*|.*_knee_joint|torso_joint": 5.0, ".*_ankle_.*": 2.0, _ARMS: 10.0})
_EFFORT = per_joint(_JOINTS, {".*_ankle_.*": 20.0, r"(?!.*_ankle_).*": 300.0})

G1 = RobotDescription(
    name="g1",
    layout=StateLayout(
        joint_names=_JOINTS,
        joint_kinds=("revolute",) * 37,
        floating_base=True,
        actuated=_JOINTS,
        drive=Drive(tuple(_STIFFNESS.values()), tuple(_DAMPING.values()), tuple(_EFFORT.values())),
        conditions=("mass:torso_link",),
    ),
    asset_path="Isaac/IsaacLab/Robots/Unitree/G1/g1_minimal.usd",
    sim_dt=0.005,
    decimation=4,
    substeps=2,
    actuation="target",
    effort_limit=_EFFORT,
    joint_stiffness=_STIFFNESS,
    joint_damping=_DAMPING,
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
            "torso_joint": (-2.618, 2.618),
            ".*_shoulder_pitch_joint": (-3.0892, 2.6704),
            "left_shoulder_roll_joint": (-1.5882, 2.2515),
            "right_shoulder_roll_joint": (-2.2515, 1.5882),
            ".*_shoulder_yaw_joint": (-2.618, 2.618),
            ".*_elbow_pitch_joint": (-1.0472, 2.0944),
            ".*_elbow_roll_joint": (-1.9722, 1.9722),
            "left_(?:five|three)_joint": (-1.5708, 0.0),
            "left_(?:six|four)_joint": (-1.7453, 0.0),
            "right_(?:five|three)_joint": (0.0, 1.5708),
            "right_(?:six|four)_joint": (0.0, 1.7453),
            ".*_zero_joint": (-1.0472, 1.0472),
            "left_one_joint": (-0.61087, 1.0472),
            "right_one_joint": (-1.0472, 0.61087),
            "left_two_joint": (0.0, 1.7453),
            "right_two_joint": (-1.7453, 0.0),
        },
    ),
    base_link="pelvis",
    default_joint_q={
        **{f"{side}_hip_pitch_joint": -0.2 for side in _SIDES},
        **{f"{side}_knee_joint": 0.42 for side in _SIDES},
        **{f"{side}_ankle_pitch_joint": -0.23 for side in _SIDES},
        **{f"{side}_elbow_pitch_joint": 0.87 for side in _SIDES},
        **{f"{side}_shoulder_pitch_joint": 0.35 for side in _SIDES},
        "left_shoulder_roll_joint": 0.16,
        "right_shoulder_roll_joint": -0.16,
        "left_one_joint": 1.0,
        "right_one_joint": -1.0,
        "left_two_joint": 0.52,
        "right_two_joint": -0.52,
    },
    base_height=0.74,
    stand_height=0.7784,
    action_scale=0.5,
    armature=per_joint(_JOINTS, {rf".*_(?:{_HANDS})_joint": 0.001, rf"(?!.*_(?:{_HANDS})_joint).*": 0.01}),
    links=("pelvis", *_named("link", "torso_link")),
    contacts=ContactDescription(
        capacity=16,
        gap=0.03,
        feet=tuple(f"{side}_ankle_roll_link" for side in _SIDES),
        friction=(0.4, 1.25),
        ke=160_000.0,
        kd=1_100.0,
        # The thigh's shape is on hip_yaw, the forearm's with the hand on elbow_roll.
        fixed=(
            *(f"{side}_{part}_link" for part in ("ankle_roll", "knee", "hip_yaw", "elbow_roll") for side in _SIDES),
            "pelvis",
            "torso_link",
        ),
    ),
    # The stock task's event: mass of the torso within a factor of 1.25; with a margin.
    condition_range={"mass:torso_link": (-0.25, 0.3)},
    mirror=Mirror(("left", "right"), (".*_(?:roll|yaw)_joint", "torso_joint", f".*_(?:{_HANDS})_joint")),
    tasks=("Isaac-Velocity-Flat-G1", "FlashNeRD-Velocity-Flat-G1"),
)
