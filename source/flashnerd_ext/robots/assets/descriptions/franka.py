"""Franka Panda with its hand: the vendor's URDF, below the scope and in the nesting that stock sensors name.

The stock file's ``Physics`` variants hold solver payloads; here they are empty, one set of numbers fits both. Of its
``Colliders`` variants ``primitives`` and ``gripper_only`` are there, ``convex_hulls`` is not. Gains that a stock config
leaves to the file (``stiffness=None``) cannot be read without the asset server: those below are Isaac Lab's own of
``FRANKA_PANDA_HIGH_PD_CFG`` for the arm and of ``FRANKA_PANDA_LEGACY_CFG`` for the leading finger. The follower has a
mimic constraint and no drive. An armature of 0.1 kg m^2 on every joint is said to be the stock file's.
"""

from flashnerd_ext.robots.assets.description import Drive, Source, UrdfRobot

DESCRIPTION = UrdfRobot(
    name="franka",
    source=Source(
        "example-robot-data",
        "cmeel.prefix/share/example-robot-data/robots/panda_description/urdf/panda.urdf",
        "Apache-2.0",
    ),
    outputs=("Isaac/IsaacLab/Robots/FrankaEmika/franka_panda.usda",),
    root="panda",
    joints=(*(f"panda_joint{number}" for number in range(1, 8)), "panda_finger_joint1", "panda_finger_joint2"),
    packages={"example-robot-data": "../../.."},
    keep=("panda_hand",),
    nested="Geometry",
    fixed_base=True,
    # Boxes leave the fingers their flat inner sides. The meshes of the arm lie within 3 cm of their capsules.
    collision={"panda_link0|panda_hand|panda_(left|right)finger": "box", ".*": "capsule"},
    drives={
        "panda_joint.*": Drive(stiffness=400.0, damping=80.0, armature=0.1),
        "panda_finger_joint1": Drive(stiffness=2000.0, damping=100.0, armature=0.1),
        "panda_finger_joint2": Drive(armature=0.1),
    },
    variants={"Physics": ("physx", "mujoco")},
    colliders={"primitives": (".*",), "gripper_only": ("panda_hand", "panda_(left|right)finger")},
    colors={
        "panda_link[0246]": (0.80, 0.81, 0.82),
        "panda_link[1357]": (0.72, 0.73, 0.75),
        "panda_(left|right)finger": (0.12, 0.12, 0.13),
        ".*": (0.55, 0.57, 0.60),
    },
)
