"""Ant: newton's flattened copy of Isaac Sim's own asset."""

from flashnerd_ext.robots.assets.description import Source, UsdRobot

DESCRIPTION = UsdRobot(
    name="ant",
    source=Source("newton", "newton/examples/assets/ant.usda", "Apache-2.0"),
    outputs=("Isaac/Robots/IsaacSim/Ant/ant_instanceable.usd",),
    root="/ant",
    joints=(
        *("front_left_leg", "front_right_leg", "left_back_leg", "right_back_leg"),
        *("front_left_foot", "front_right_foot", "left_back_foot", "right_back_foot"),
    ),
    colors={"torso": (0.35, 0.16, 0.07), "default": (0.70, 0.36, 0.12)},
)
