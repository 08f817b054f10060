"""ANYmal-C as the velocity tasks on flat ground simulate it, with the DC motors that Isaac Lab ships.

The stock task drives it with an LSTM actuator net whose weights lie on the asset server only. This description has the
DC motor that Isaac Lab ships (``isaaclab_assets`` ANYDRIVE_3_SIMPLE_ACTUATOR_CFG: 120 N m at stall, clamped at 80 N m,
none left at 7.5 rad/s) with two changes, here and in the task:

- Gains of 85 N m/rad and 2 N m s/rad in place of 40 and 5. With the shipped ones the robot's legs spread until they
  rest on the stops of the hips, it stands at 0.375 m (0.52 m now), and they follow a target with a lag of 0.125 s.
  In 11 million steps PPO learned to stand and turn, in learned physics and in MuJoCo alike.
- An armature of 0.05 kg m^2, since the URDF has none. Without it a free knee has an inertia of 0.014 kg m^2, on which a
  damping of 5 N m s/rad that is held for 5 ms turned the velocity round at every simulation step: chatter at 100 Hz,
  which is of the time step's making and not of the robot's.
"""

from __future__ import annotations

from flashnerd_ext.model.layout import Drive, StateLayout, Stops
from flashnerd_ext.robots.description import ContactDescription, Mirror, RobotDescription, per_joint

_LEGS = ("LF", "LH", "RF", "RH")
_JOINTS = tuple(f"{leg}_{joint}" for leg in _LEGS for joint in ("HAA", "HFE", "KFE"))
_HAA = tuple(f"{leg}_HAA" for leg in _LEGS)

STIFFNESS = 85.0
"""Stiffness of every motor [N m/rad]."""
DAMPING = 2.0
"""Damping of every motor [N m s/rad]."""
ARMATURE = 0.05
"""Rotor inertia seen at the joint [kg m^2]."""

ANYMAL_C = RobotDescription(
    name="anymal_c",
    layout=StateLayout(
        joint_names=_JOINTS,
        joint_kinds=("revolute",) * 12,
        floating_base=True,
        actuated=_JOINTS,
        drive=Drive(
            (STIFFNESS,) * 12, (DAMPING,) * 12, (80.0,) * 12, saturation=(120.0,) * 12, velocity_limit=(7.5,) * 12
        ),
        conditions=("base_mass", "base_com_x", "base_com_y", "base_com_z"),
        # Knees and hips turn freely; the legs are spread against their stops most of the time.
        stops=Stops(_HAA, (-0.72, -0.72, -0.49, -0.49), (0.49, 0.49, 0.72, 0.72), reach=0.02),
    ),
    asset_path="Isaac/IsaacLab/Robots/ANYbotics/ANYmal-C/anymal_c.usd",
    sim_dt=0.005,
    decimation=4,
    substeps=2,
    actuation="target",
    effort_limit=dict.fromkeys(_JOINTS, 80.0),
    position_limit=per_joint(
        _JOINTS,
        {"L._HAA": (-0.72, 0.49), "R._HAA": (-0.49, 0.72), ".*_[HK]FE": (-9.4248, 9.4248)},
    ),
    default_joint_q={
        **{f"{leg}_HFE": 0.4 if leg.endswith("F") else -0.4 for leg in _LEGS},
        **{f"{leg}_KFE": -0.8 if leg.endswith("F") else 0.8 for leg in _LEGS},
    },
    base_height=0.6,
    stand_height=0.5488,
    action_scale=0.5,
    links=("base", *(f"{leg}_{part}" for leg in _LEGS for part in ("HIP", "THIGH", "SHANK", "FOOT"))),
    armature=dict.fromkeys(_JOINTS, ARMATURE),
    contacts=ContactDescription(
        capacity=10,
        gap=0.03,
        feet=tuple(f"{leg}_FOOT" for leg in _LEGS),
        friction=(0.4, 1.25),
        ke=160_000.0,
        kd=1_100.0,
        self_collision=True,
        fixed=(*(f"{leg}_{part}" for part in ("FOOT", "SHANK", "THIGH") for leg in _LEGS), "base"),
    ),
    # The stock task's events: base mass within a factor of 1.25, centre of mass +-(5, 5, 1) cm; with a margin.
    condition_range={
        "base_mass": (-0.25, 0.3),
        "base_com_x": (-0.06, 0.06),
        "base_com_y": (-0.06, 0.06),
        "base_com_z": (-0.02, 0.02),
    },
    cone="elliptic",
    impratio=100.0,
    mirror=Mirror(("L", "R"), (".*_HAA",)),
    fore_aft=Mirror(("F_", "H_"), (".*_[HK]FE",)),
    tasks=("FlashNeRD-Velocity-Flat-AnymalC", "FlashNeRD-Velocity-Rough-AnymalC"),
)
