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
    # Round primitives touch the ground in one or two points, hulls in ragged patches. The foot's mesh is a ball of
    # 23 mm to within 4 mm; the legs' meshes stray from their capsules by at most 23 mm.
    collision={".*_foot": "sphere", ".*_(thigh|calf)": "capsule"},
    hull_corners=32,
    colors={
        ".*_foot": (0.03, 0.03, 0.03),
        ".*_(hip|calf)": (0.10, 0.10, 0.11),
        ".*": (0.62, 0.64, 0.66),
    },
)
