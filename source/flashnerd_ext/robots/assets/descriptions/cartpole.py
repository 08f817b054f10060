"""CartPole: newton's flattened copy of Isaac Lab's own asset, given a default prim, masses and colours."""

from flashnerd_ext.robots.assets.description import Source, UsdRobot

DESCRIPTION = UsdRobot(
    name="cartpole",
    source=Source("newton", "newton/examples/assets/cartpole_single_pendulum.usda", "Apache-2.0"),
    outputs=("Isaac/IsaacLab/Robots/Classic/Cartpole/cartpole.usd",),
    root="/cartpole",
    joints=("slider_to_cart", "cart_to_pole"),
    colors={"slider": (0.35, 0.37, 0.40), "cart": (0.10, 0.35, 0.65), "pole": (0.90, 0.42, 0.08)},
)
