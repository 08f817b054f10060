"""The reorientation task made small enough for two CPU cores, so that policies can be compared without a GPU."""

from __future__ import annotations

from isaaclab.envs import mdp
from isaaclab.managers import EventTermCfg, SceneEntityCfg
from isaaclab.utils import configclass

from .commands import TurnCommandCfg
from .reorient_env_cfg import FlashNerdReorientEnvCfg

TURN = (0.8, 1.6)
"""Least and largest angle between the cube and a new goal [rad]."""
TOLERANCE = 0.4
"""Orientation error below which a goal is reached [rad]."""


@configclass
class FlashNerdReorientReducedEnvCfg(FlashNerdReorientEnvCfg):
    """``FlashNeRD-Reorient-Cube-Allegro-Reduced``: as the full task, but for

    - 128 worlds in place of 1,024 (stock: 8,192);
    - goals are the cube's present orientation turned about the vertical by 0.8 to 1.6 rad, to either side; in the full
      task they are uniform over all orientations;
    - the cube starts upright, turned about the vertical by up to pi/4; in the full task it starts in any orientation;
    - a goal is reached at an error of 0.4 rad in place of 0.2;
    - episodes take 5 s in place of 10.

    Hand, cube, physics, observations, actions, rewards and the condition for a dropped cube are the full task's.
    """

    def __post_init__(self) -> None:
        self.goal_orientation_threshold = TOLERANCE
        goal = self.commands.object_pose
        own = {name: value for name, value in vars(goal).items() if name != "class_type"}
        self.commands.object_pose = TurnCommandCfg(**own, turn=TURN)
        super().__post_init__()
        self.scene.num_envs = 128
        self.episode_length_s = 5.0
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
        self.events = events
