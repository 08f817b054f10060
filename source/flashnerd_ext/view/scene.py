"""Robots that stand where they are put: a Newton model of 2 P worlds, without Isaac Lab and without physics.

For rollouts that were computed before, and for portraits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashnerd_ext.robots.description import RobotDescription

Array = NDArray[Any]


class Scene:
    """Copies of a robot, the first half solid and the others ghosts.

    Args:
        robot: Which.
        pairs: Solid robots P.
        ghosts: Whether each has a ghost.
        spacing: Between pairs [m]; 0 takes 1.6 times the robot's reach.
        ground: Whether there is a floor.

    Attributes:
        model: The Newton model.
        reach: Largest distance of a visible point of the robot from its base [m], in the pose of the asset.
    """

    def __init__(
        self, robot: RobotDescription, pairs: int, ghosts: bool = True, spacing: float = 0.0, ground: bool = True
    ) -> None:
        import newton
        import warp as wp

        from flashnerd_ext.data.engines.export import robot_usd

        wp.config.quiet = True
        self.robot, self.pairs = robot, pairs
        height = 2.0 if robot.contacts is None else robot.base_height
        single = newton.ModelBuilder(up_axis=newton.Axis.Z)
        place = wp.transform(wp.vec3(0.0, 0.0, height), wp.quat(*robot.base_quat))
        single.add_usd(robot_usd(robot), xform=place)
        builder = newton.ModelBuilder(up_axis=newton.Axis.Z)
        if ground:
            builder.add_ground_plane()
        for _ in range(2 * pairs if ghosts else pairs):
            builder.add_world(single)
        # Newton's arrays may be None by their types.
        self.model: Any = builder.finalize(device="cpu")
        self.state: Any = self.model.state()
        self._count = 2 * pairs if ghosts else pairs
        newton.eval_fk(self.model, self.model.joint_q, self.model.joint_qd, self.state)
        bodies = self.state.body_q.numpy()[: max(1, self.model.body_count // self._count), :3]
        self.reach = max(0.35, float(np.linalg.norm(bodies - bodies.mean(0), axis=1).max()) + 0.25)
        side = math.ceil(math.sqrt(pairs))
        step = spacing or 1.6 * self.reach * 2.0
        grid = np.array([[(i % side) * step, (i // side) * step, 0.0] for i in range(pairs)], np.float32)
        self.offsets = np.concatenate([grid, grid])[: self._count] if ghosts else grid
        if ghosts:
            from flashnerd_ext.view.overlay import mark_ghosts

            mark_ghosts(self.model, self.model.shape_world.numpy() >= pairs)

    def put(self, joint_q: Array) -> None:
        """Bring the robots to joint_q [worlds, nq], the ghosts' after the others'."""
        import newton

        self.model.joint_q.assign(joint_q.astype(np.float32).ravel())
        newton.eval_fk(self.model, self.model.joint_q, self.model.joint_qd, self.state)

    def show(self, viewer: Any) -> None:
        """Give the model to a Newton viewer."""
        import warp as wp

        viewer.set_model(self.model)
        viewer.world_offsets = wp.array(self.offsets, dtype=wp.vec3, device=viewer.device)

    def draw(self, viewer: Any, time: float) -> None:
        """One frame of a viewer that :meth:`show` was called for."""
        viewer.begin_frame(time)
        viewer.log_state(self.state)
        viewer.end_frame()

    def middle(self) -> tuple[Array, Array]:
        """Corners of the box around the solid robots as they stand [m]."""
        bodies = self.state.body_q.numpy()[:, :3]
        worlds = self.model.body_world.numpy()
        points = bodies + self.offsets[np.maximum(worlds, 0)]
        mine = points[worlds < self.pairs]
        return mine.min(0), mine.max(0)


def open_gl(width: int, height: int) -> Any:
    """Newton's GL viewer, off screen."""
    import pyglet

    pyglet.options["headless"] = True
    from newton.viewer import ViewerGL

    return ViewerGL(width=width, height=height, headless=True)


def aim(viewer: Any, low: Array, high: Array, direction: Array, width: int, height: int, margin: float = 0.35) -> None:
    """Let a GL viewer show the box between two corners [m], seen from ``direction``."""
    from pyglet.math import Vec3

    from flashnerd_ext.rl.framing import frame_box

    viewer.camera.fov = 40.0
    eye, target = frame_box(low - margin, high + margin, direction, math.radians(40.0), width / height)
    viewer.camera.pos = Vec3(*eye)
    viewer.camera.look_at(target)


def portrait(robot: RobotDescription, viewer: Any, width: int, height: int) -> tuple[Array, dict[str, Any]]:
    """A picture of a robot, and what it says of its visuals.

    Args:
        robot: Which; it stands in its default pose.
        viewer: Of :func:`open_gl`, with this size.
        width, height: Of the picture [pixels].

    Returns:
        The picture, uint8 [height, width, 3]; and ``shapes`` (visible ones), ``links`` without any visible shape,
        ``colors`` (how many different), and ``grey``, the share of visible shapes whose colour has no hue.
    """
    from newton import ShapeFlags

    scene = Scene(robot, 1, ghosts=False)
    joint_q = scene.model.joint_q.numpy()[None].copy()
    joint_q[0, robot.layout.q0 :] = robot.default_q
    if robot.layout.floating_base:
        joint_q[0, 2] = robot.stand_height or robot.base_height
    scene.put(joint_q)
    scene.show(viewer)
    low, high = scene.middle()
    aim(viewer, low, high, np.array([1.0, -0.8, 0.45]), width, height, 0.12 if scene.reach < 0.5 else 0.3)
    scene.draw(viewer, 0.0)
    picture = np.array(viewer.get_frame().numpy(), copy=True)
    flags, body = scene.model.shape_flags.numpy(), scene.model.shape_body.numpy()
    visible = ((flags & int(ShapeFlags.VISIBLE)) != 0) & (scene.model.shape_world.numpy() >= 0)
    colors = scene.model.shape_color.numpy()[visible]
    names = [label.rsplit("/", 1)[-1] for label in scene.model.body_label]
    bare = [name for i, name in enumerate(names) if not (visible & (body == i)).any()]
    return picture, {
        "shapes": int(visible.sum()),
        "links": bare,
        "colors": len({tuple(np.round(color, 2)) for color in colors}),
        "grey": float((np.ptp(colors, axis=1) < 0.05).mean()) if len(colors) else 1.0,
    }
