"""The right Allegro hand: the vendor's URDF under the names of the stock config, in the frame of its mount.

The stock config places a root body ``allegro_mount``, which the URDF lacks. Its frame follows from the config's own
pose: the hand is turned so that the palm faces up and the cube lies over the middle finger, which leaves the wrist end
of the palm (95 mm behind the knuckles) as origin and a turn of 135 degrees about the fingers' direction.
"""

from flashnerd_ext.robots.assets.description import BaseFrame, Source, UrdfRobot

_FINGERS = ("index", "middle", "ring", "thumb")
_NUMBERS = [(finger, part, 4 * place + part) for place, finger in enumerate(_FINGERS) for part in range(4)]

DESCRIPTION = UrdfRobot(
    name="allegro",
    source=Source(
        "example-robot-data",
        "cmeel.prefix/share/example-robot-data/robots/allegro_hand_description/urdf/allegro_right_hand.urdf",
        "BSD",
    ),
    outputs=("Isaac/Robots/WonikRobotics/AllegroHand/allegro_hand_instanceable.usd",),
    root="allegro_hand",
    joints=tuple(f"{finger}_joint_{part}" for part in range(4) for finger in _FINGERS),
    packages={"example-robot-data": "../../.."},
    rename={
        **{rf"(joint|link)_{number}\.0": rf"{finger}_\1_{part}" for finger, part, number in _NUMBERS},
        **{rf"(joint|link)_{number}\.0_tip": rf"{finger}_\1_tip" for finger, part, number in _NUMBERS if part == 3},
    },
    base=BaseFrame("allegro_mount", (0.0, 0.0, -0.095), (0.0, 0.0, 2.356194490192345)),
    fixed_base=True,
    # A box meets the cube in up to eight points and a capsule in two; the stock task has room for 70 contacts a world
    # with 80 constraint rows.
    collision={"allegro_mount": "box", ".*": "capsule"},
    self_collision=True,
)
