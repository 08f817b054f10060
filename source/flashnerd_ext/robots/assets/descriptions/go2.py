"""Go2: Unitree's URDF. Rotors, IMU and radar melt into their bodies, the feet stay bodies."""

from flashnerd_ext.robots.assets.description import Source, UrdfRobot

DESCRIPTION = UrdfRobot(
    name="go2",
    source=Source(
        "example-robot-data",
        "cmeel.prefix/share/example-robot-data/robots/go2_description/urdf/go2.urdf",
        "MPL-2.0",
    ),
    outputs=("Isaac/IsaacLab/Robots/Unitree/Go2/go2.usd",),
    root="go2",
    joints=tuple(f"{leg}_{joint}_joint" for joint in ("hip", "thigh", "calf") for leg in ("FL", "FR", "RL", "RR")),
    packages={"example-robot-data": "../../.."},
    keep=(".*_foot",),
    # The foot's mesh is a ball to within 4 mm; a sphere gives one contact point a foot instead of a ragged patch.
    collision={".*_foot": "sphere"},
    hull_corners=32,
    colors={
        ".*_foot": (0.03, 0.03, 0.03),
        ".*_(hip|calf)": (0.10, 0.10, 0.11),
        ".*": (0.62, 0.64, 0.66),
    },
)
