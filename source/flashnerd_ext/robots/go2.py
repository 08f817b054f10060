"""Unitree Go2 as the stock velocity task on flat ground simulates it.

DC motors (``isaaclab_assets`` UNITREE_GO2_CFG: 25 N m/rad, 0.5 N m s/rad) run as Newton actuators
(``sim.use_newton_actuators``): the torque is computed once a simulation step of 5 ms and held over its two solver
steps. No armature, no joint friction.
"""

from __future__ import annotations

from flashnerd_ext.model.layout import Drive, StateLayout, Stops
from flashnerd_ext.robots.description import ContactDescription, Mirror, RobotDescription, per_joint

_LEGS = ("FL", "FR", "RL", "RR")
_JOINTS = tuple(f"{leg}_{part}_joint" for leg in _LEGS for part in ("hip", "thigh", "calf"))
_CALVES = tuple(f"{leg}_calf_joint" for leg in _LEGS)
_EFFORT = per_joint(_JOINTS, {".*_hip_joint": 23.7, ".*_thigh_joint": 23.7, ".*_calf_joint": 45.43})
_SPEED = per_joint(_JOINTS, {".*_hip_joint": 30.1, ".*_thigh_joint": 30.1, ".*_calf_joint": 15.7})

GO2 = RobotDescription(
    name="go2",
    layout=StateLayout(
        joint_names=_JOINTS,
        joint_kinds=("revolute",) * 12,
        floating_base=True,
        actuated=_JOINTS,
        drive=Drive(
            (25.0,) * 12,
            (0.5,) * 12,
            tuple(_EFFORT.values()),
            saturation=tuple(_EFFORT.values()),
            velocity_limit=tuple(_SPEED.values()),
        ),
        conditions=("base_mass", "base_com_x", "base_com_y", "base_com_z"),
        stops=Stops(_CALVES, (-2.7227,) * 4, (-0.83776,) * 4, reach=0.02),
    ),
    asset_path="Isaac/IsaacLab/Robots/Unitree/Go2/go2.usd",
    sim_dt=0.005,
    decimation=4,
    substeps=2,
    actuation="target",
    effort_limit=_EFFORT,
    position_limit=per_joint(
        _JOINTS,
        {
            ".*_hip_joint": (-1.0472, 1.0472),
            "F._thigh_joint": (-1.5708, 3.4907),
            "R._thigh_joint": (-0.5236, 4.5379),
            ".*_calf_joint": (-2.7227, -0.83776),
        },
    ),
    default_joint_q=per_joint(
        _JOINTS,
        {
            ".L_hip_joint": 0.1,
            ".R_hip_joint": -0.1,
            "F._thigh_joint": 0.8,
            "R._thigh_joint": 1.0,
            ".*_calf_joint": -1.5,
        },
    ),
    base_height=0.4,
    stand_height=0.3252,
    action_scale=0.25,
    links=("base", *(f"{leg}_{part}" for leg in _LEGS for part in ("hip", "thigh", "calf", "foot"))),
    contacts=ContactDescription(
        capacity=12,
        gap=0.03,
        feet=tuple(f"{leg}_foot" for leg in _LEGS),
        friction=(0.4, 1.25),
        ke=160_000.0,
        kd=1_100.0,
        fixed=(*(f"{leg}_{part}" for part in ("foot", "calf", "thigh") for leg in _LEGS), "base"),
    ),
    # The stock task's events: base mass within a factor of 1.25, centre of mass +-(5, 5, 1) cm; with a margin.
    condition_range={
        "base_mass": (-0.25, 0.3),
        "base_com_x": (-0.06, 0.06),
        "base_com_y": (-0.06, 0.06),
        "base_com_z": (-0.02, 0.02),
    },
    mirror=Mirror(("L_", "R_"), (".*_hip_joint",)),
    tasks=("Isaac-Velocity-Flat-UnitreeGo2", "FlashNeRD-Velocity-Flat-Go2"),
)
