"""G1, 37 joints, as the stock velocity tasks know it: made from Unitree's 43-joint model with three-fingered hands.

The stock configs name an older revision of the robot: a torso on one joint, an elbow of pitch and roll, seven numbered
finger joints a hand. Joints that it lacks are locked at zero, the others and their links take its names.
"""

from flashnerd_ext.robots.assets.description import Source, UrdfRobot

_SIDES = ("left", "right")
_FINGERS = {
    "thumb_0": "zero", "thumb_1": "one", "thumb_2": "two", "middle_0": "three", "middle_1": "four",
    "index_0": "five", "index_1": "six",
}  # fmt: skip


def _both(*names: str) -> tuple[str, ...]:
    return tuple(f"{side}_{name}_joint" for name in names for side in _SIDES)


DESCRIPTION = UrdfRobot(
    name="g1",
    source=Source(
        "example-robot-data",
        "cmeel.prefix/share/example-robot-data/robots/g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf",
        "BSD-3-Clause",
    ),
    outputs=("Isaac/IsaacLab/Robots/Unitree/G1/g1_minimal.usd",),
    root="g1",
    joints=(
        *_both("hip_pitch"),
        "torso_joint",
        *_both("hip_roll", "shoulder_pitch", "hip_yaw", "shoulder_roll", "knee", "shoulder_yaw"),
        *_both("ankle_pitch", "elbow_pitch", "ankle_roll", "elbow_roll"),
        *(f"{side}_{finger}_joint" for side in _SIDES for finger in ("zero", "three", "five")),
        *(f"{side}_{finger}_joint" for side in _SIDES for finger in ("one", "four", "six")),
        *_both("two"),
    ),
    packages={"example-robot-data": "../../.."},
    rename={
        "waist_yaw_(joint|link)": r"torso_\1",
        "torso_link": "upper_torso_link",
        r"(left|right)_elbow_(joint|link)": r"\1_elbow_pitch_\2",
        r"(left|right)_wrist_roll_(joint|link)": r"\1_elbow_roll_\2",
        **{rf"(left|right)_hand_{old}_(joint|link)": rf"\1_{new}_\2" for old, new in _FINGERS.items()},
    },
    lock=("waist_(roll|pitch)_joint", ".*_wrist_(pitch|yaw)_joint"),
    collision={
        # What can touch the ground, one shape a body beside the feet's four balls: the stock task has room for ten
        # contacts a robot. Drives of hip and ankle, shoulders and fingers lie behind their neighbours.
        ".*_(hip_pitch|hip_roll|ankle_pitch|shoulder_pitch|shoulder_roll)_link": "none",
        ".*_(zero|one|two|three|four|five|six)_link": "none",
        "pelvis|torso_link": "hull",
        ".*_(hip_yaw|knee|shoulder_yaw|elbow_pitch|elbow_roll)_link": "capsule",
    },
    hull_corners=32,
)
