"""CartPole as the stock tasks Isaac-Cartpole and Isaac-Cartpole-Direct simulate it."""

from __future__ import annotations

from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.robots.description import RobotDescription

CARTPOLE = RobotDescription(
    name="cartpole",
    layout=StateLayout(
        joint_names=("slider_to_cart", "cart_to_pole"),
        joint_kinds=("prismatic", "continuous"),
        actuated=("slider_to_cart",),
        # The rail is straight and level: away from its stops the cart's place changes nothing.
        position_free=("slider_to_cart",),
    ),
    asset_path="Isaac/IsaacLab/Robots/Classic/Cartpole/cartpole.usd",
    sim_dt=1.0 / 120.0,
    decimation=2,
    actuation="effort",
    # isaaclab_assets.robots.cartpole.CARTPOLE_CFG: joint_effort_limit 400, damping 10 on the cart's drive.
    effort_limit={"slider_to_cart": 400.0, "cart_to_pole": 400.0},
    joint_stiffness={"slider_to_cart": 0.0, "cart_to_pole": 0.0},
    joint_damping={"slider_to_cart": 10.0, "cart_to_pole": 0.0},
    position_limit={"slider_to_cart": (-4.0, 4.0)},
    valid_range={"slider_to_cart": (-3.0, 3.0)},
    tasks=("Isaac-Cartpole", "Isaac-Cartpole-Direct", "FlashNeRD-Cartpole"),
)
