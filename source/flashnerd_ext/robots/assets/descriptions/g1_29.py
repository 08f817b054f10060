"""G1, 29 joints: Unitree's model with rubber hands, below a path of our own, since no stock config loads it."""

from flashnerd_ext.robots.assets.description import Source, UrdfRobot

_SIDES = ("left", "right")


def _both(*names: str) -> tuple[str, ...]:
    return tuple(f"{side}_{name}_joint" for name in names for side in _SIDES)


DESCRIPTION = UrdfRobot(
    name="g1_29",
    source=Source(
        "example-robot-data",
        "cmeel.prefix/share/example-robot-data/robots/g1_description/urdf/g1_29dof_rev_1_0.urdf",
        "BSD-3-Clause",
    ),
    outputs=("FlashNeRD/Robots/Unitree/G1/g1_29dof.usd",),
    root="g1",
    joints=(
        *_both("hip_pitch"),
        "waist_yaw_joint",
        *_both("hip_roll"),
        "waist_roll_joint",
        *_both("hip_yaw"),
        "waist_pitch_joint",
        *_both("knee", "shoulder_pitch", "ankle_pitch", "shoulder_roll", "ankle_roll", "shoulder_yaw"),
        *_both("elbow", "wrist_roll", "wrist_pitch", "wrist_yaw"),
    ),
    packages={"example-robot-data": "../../.."},
    collision={
        # As in g1.py; here the hand is a body of its own.
        ".*_(hip_pitch|hip_roll|ankle_pitch|shoulder_pitch|shoulder_roll|wrist_roll|wrist_pitch)_link": "none",
        "pelvis|torso_link": "hull",
        ".*_(hip_yaw|knee|shoulder_yaw|elbow|wrist_yaw)_link": "capsule",
    },
    hull_corners=32,
)
