"""The reorientation task made small enough for two CPU cores, so that policies can be compared without a GPU."""

from __future__ import annotations

from isaaclab.envs import mdp
from isaaclab.managers import EventTermCfg, SceneEntityCfg
from isaaclab.utils import configclass

from .commands import TurnCommandCfg
from .reorient_env_cfg import FlashNerdReorientEnvCfg

TURN = (0.8, 1.6)
"""Least and largest angle between the cube and a new goal [rad]."""
TOLERANCE = 0.6
"""Orientation error below which a goal is reached [rad]; the cube rests in the cradle 0.35 off the vertical."""
REACH = 0.5
"""How far actions of 1 move targets out of the cradle [rad]."""
CRADLE = {
    "(index|middle|ring)_joint_0": 0.0,
    "(index|middle|ring)_joint_1": 0.2,
    "(index|middle|ring)_joint_[23]": 0.3,
    "thumb_joint_0": 0.8,
    "thumb_joint_[1-3]": 0.2,
}
"""Joint positions of a slightly curled hand [rad], in which the cube rests. Stock actions of 0 are the middle of the
joints' ranges, where fingers push it over at once; out of the open hand of the stock default pose it fell in two of
four worlds."""


@configclass
class FlashNerdReorientReducedEnvCfg(FlashNerdReorientEnvCfg):
    """``FlashNeRD-Reorient-Cube-Allegro-Reduced``: as the full task, but for

    - 128 worlds in place of 1,024 (stock: 8,192);
    - goals are the cube's present orientation turned about the vertical by 0.8 to 1.6 rad, to either side; in the full
      task they are uniform over all orientations;
    - the cube starts upright, turned about the vertical by up to pi/4; in the full task it starts in any orientation;
    - a goal is reached at an error of 0.6 rad in place of 0.2;
    - the hand starts in a slightly curled pose (:data:`CRADLE`) in place of an open one, with a quarter of the stock
      noise, and an action of 1 moves targets 0.5 rad out of that pose; in the full task, to the end of a joint's range;
    - episodes take 5 s in place of 10.

    Hand, cube, physics, observations, rewards and the condition for a dropped cube are the full task's.
    """

    def __post_init__(self) -> None:
        self.goal_orientation_threshold = TOLERANCE
        goal = self.commands.object_pose
        own = {name: value for name, value in vars(goal).items() if name != "class_type"}
        self.commands.object_pose = TurnCommandCfg(**own, turn=TURN)
        super().__post_init__()
        self.scene.num_envs = 128
        self.episode_length_s = 5.0
        self.scene.robot.init_state.joint_pos = dict(CRADLE)
        self.actions.joint_pos = mdp.JointPositionActionCfg(  # pyright: ignore[reportAttributeAccessIssue]
            asset_name="robot",
            joint_names=self.actuated_joint_names,
            scale=REACH,
            use_default_offset=True,
        )
        # Of the stock preset the alternative without randomised properties, with another start of the cube.
        events = self.events.reset_only  # pyright: ignore[reportAttributeAccessIssue]
        events.reset_object = EventTermCfg(
            func=mdp.reset_root_state_uniform,
            mode="reset",
            params={
                "pose_range": {**events.reset_object.params["pose_range"], "yaw": (-0.785, 0.785)},
                "velocity_range": {},
                "asset_cfg": SceneEntityCfg("object"),
            },
        )
        events.reset_hand.params["joint_position_noise"] = 0.05
        self.events = events
