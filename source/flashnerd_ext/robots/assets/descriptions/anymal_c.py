"""ANYmal-C: ANYbotics' simplified URDF. 61 of its 65 fixed links melt into their bodies, the feet stay bodies."""

from flashnerd_ext.robots.assets.description import Source, UrdfRobot

DESCRIPTION = UrdfRobot(
    name="anymal_c",
    source=Source(
        "example-robot-data",
        "cmeel.prefix/share/example-robot-data/robots/anymal_c_simple_description/urdf/anymal.urdf",
        "BSD-3-Clause",
    ),
    outputs=("Isaac/IsaacLab/Robots/ANYbotics/ANYmal-C/anymal_c.usd",),
    root="anymal",
    joints=tuple(f"{leg}_{joint}" for joint in ("HAA", "HFE", "KFE") for leg in ("LF", "RF", "LH", "RH")),
    keep=(".*_FOOT",),
    self_collision=True,  # as the stock configuration sets it, so that whoever loads the file alone simulates the same
    drop_collision=("imu_link",),  # a plate of 10 mm inside the base
    colors={
        "base|(top|bottom)_shell|.*_(hip|thigh)_fixed": (0.55, 0.04, 0.05),
        ".*_FOOT": (0.03, 0.03, 0.03),
        ".*_shank_fixed|face_.*|hatch": (0.20, 0.21, 0.22),
        ".*": (0.08, 0.08, 0.09),
    },
)
