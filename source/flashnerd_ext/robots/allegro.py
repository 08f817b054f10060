"""The right Allegro hand as the stock tasks Isaac-Reorient-Cube-Allegro and -Direct simulate it, for coupled mode.

The model gives the fingers' free motion at the solver's step: joint accelerations from the torque on every joint,
before contacts, joint limits and the joint friction of 0.01 N m, which stay the simulator's. The hand is bolted to the
world, palm up: gravity has one direction in it, that of the task. (The stock configuration switches the hand's gravity
off for PhysX; with Newton it acts, since that setting has no meaning there.)

There is no armature. The outer links have inertias of a few 1e-5 kg m^2, so that the drives of 3 N m/rad and 0.1 N m
s/rad move them within one solver step of 1/240 s; the simulator's implicit integration is what keeps them calm.
"""

from __future__ import annotations

from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.robots.description import RobotDescription, per_joint

_FINGERS = ("index", "middle", "ring", "thumb")
_JOINTS = tuple(f"{finger}_joint_{part}" for finger in _FINGERS for part in range(4))

ALLEGRO = RobotDescription(
    name="allegro",
    layout=StateLayout(joint_names=_JOINTS, joint_kinds=("revolute",) * 16, actuated=_JOINTS),
    asset_path="Isaac/Robots/WonikRobotics/AllegroHand/allegro_hand_instanceable.usd",
    sim_dt=1.0 / 120.0,
    decimation=4,
    substeps=2,
    coupling="qacc_smooth",
    effort_limit=dict.fromkeys(_JOINTS, 0.5),
    joint_stiffness=dict.fromkeys(_JOINTS, 3.0),
    joint_damping=dict.fromkeys(_JOINTS, 0.1),
    position_limit=per_joint(
        _JOINTS,
        {
            "(index|middle|ring)_joint_0": (-0.47, 0.47),
            "(index|middle|ring)_joint_1": (-0.196, 1.61),
            "(index|middle|ring)_joint_2": (-0.174, 1.709),
            "(index|middle|ring)_joint_3": (-0.227, 1.618),
            "thumb_joint_0": (0.263, 1.396),
            "thumb_joint_1": (-0.105, 1.163),
            "thumb_joint_2": (-0.189, 1.644),
            "thumb_joint_3": (-0.162, 1.719),
        },
    ),
    base_link="allegro_mount",
    base_quat=(0.283045, 0.683330, -0.621782, 0.257551),
    default_joint_q={"thumb_joint_0": 0.28},
    armature=dict.fromkeys(_JOINTS, 0.0),
    links=("allegro_mount", *(f"{finger}_link_{part}" for finger in _FINGERS for part in range(4))),
    tasks=(
        "Isaac-Reorient-Cube-Allegro",
        "Isaac-Reorient-Cube-Allegro-Direct",
        "FlashNeRD-Reorient-Cube-Allegro",
        "FlashNeRD-Reorient-Cube-Allegro-Reduced",
    ),
)
