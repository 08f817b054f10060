"""Left and right exchanged: each recorded window is a second one.

Where a robot is its own mirror image, so are its dynamics, and what was recorded of one side is true of the other.
Frames, targets and contact rows are linear in this sense: every column of the image is a column of the original, with
the same or the other sign. Which one is found by looking: random states and their images are encoded, so that nothing
here repeats what a frame holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.contacts import ROW_SIZE, ContactRows
from flashnerd_ext.model.frame import encode_frame
from flashnerd_ext.robots.description import RobotDescription, inertial_condition

if TYPE_CHECKING:
    from flashnerd_ext.model.integrate import Integrator
    from flashnerd_ext.model.sensed import Sensed

PROBES = 64
"""Random states that tell the columns apart."""
INSTEAD = "train.mirror=false"


class Reflection:
    """States of a robot and their mirror images, in Newton's conventions.

    Args:
        robot: With a :class:`~flashnerd_ext.robots.description.Mirror`.

    Raises:
        FlashNerdError: Where the mirror gives a joint or link no image, or the robot has none.
    """

    def __init__(self, robot: RobotDescription) -> None:
        if robot.mirror is None or not robot.layout.floating_base:
            raise FlashNerdError(
                f"robot={robot.name} has no left and right: give its description a mirror, or type train.mirror=false."
            )
        layout, mirror = robot.layout, robot.mirror
        self.joints = mirror.images(layout.joint_names, "joint", INSTEAD)
        self.links = mirror.images(robot.links, "link", INSTEAD)
        self.signs = torch.tensor(mirror.signs(layout.joint_names), dtype=torch.float64)
        self.inputs = mirror.images(layout.actuated, "actuated joint", INSTEAD)
        self.input_signs = self.signs[list(layout.actuated_joints)]
        self.conditions, self.condition_signs = _conditions(layout.conditions, mirror.image)

    def joint_q(self, joint_q: Tensor) -> Tensor:
        """Image of positions [..., nq]."""
        return torch.cat((_polar(joint_q[..., :3]), _axial(joint_q[..., 3:6]), joint_q[..., 6:7],
                          joint_q[..., 7:][..., self.joints] * self.signs), -1)  # fmt: skip

    def joint_qd(self, joint_qd: Tensor) -> Tensor:
        """Image of velocities [..., nv]."""
        return torch.cat((_polar(joint_qd[..., :3]), _axial(joint_qd[..., 3:6]),
                          joint_qd[..., 6:][..., self.joints] * self.signs), -1)  # fmt: skip

    def actuation(self, actuation: Tensor) -> Tensor:
        """Image of targets, efforts or torques [..., nu]."""
        return actuation[..., self.inputs] * self.input_signs

    def condition(self, condition: Tensor) -> Tensor:
        """Image of conditions [..., C]."""
        return condition[..., self.conditions] * self.condition_signs

    def force(self, force: Tensor) -> Tensor:
        """Image of forces on the links [..., L, 3]."""
        return _polar(force[..., self.links, :])


@dataclass(frozen=True)
class Columns:
    """Each column of an image is column ``index`` of the original times ``sign``."""

    index: Tensor
    sign: Tensor

    def __call__(self, values: Tensor) -> Tensor:
        return values[..., self.index] * self.sign


class MirroredBatch:
    """Mirrors some windows of a batch.

    Args:
        robot: With a mirror.
        integrator: Says what the targets are.
        sensed: What the model predicts for sensors; ``None`` for nothing.
        fixed: Links of fixed contact rows, whose order is kept; empty for variable rows.

    Raises:
        FlashNerdError: Where an image is not made of the original's columns.
    """

    def __init__(
        self, robot: RobotDescription, integrator: Integrator, sensed: Sensed | None, fixed: tuple[str, ...] = ()
    ) -> None:
        layout, image = robot.layout, Reflection(robot)
        generator = torch.Generator().manual_seed(0)

        def random(*size: int) -> Tensor:
            return torch.randn(PROBES, *size, generator=generator, dtype=torch.float64)

        def state() -> tuple[Tensor, Tensor]:
            # Joints beyond any stop and within, so that no column is the same everywhere.
            q = 2.0 * random(layout.nq)
            q[:, 3:7] /= q[:, 3:7].norm(dim=-1, keepdim=True)
            return q, 10.0 * random(layout.nv)

        (q, qd), (next_q, next_qd) = state(), state()
        u, condition = random(layout.nu), random(len(layout.conditions)) if layout.conditions else None
        image_condition = None if condition is None else image.condition(condition)
        mirrored = (image.joint_q(q), image.joint_qd(qd))
        self.frames = match(
            encode_frame(layout, q, qd, u, condition),
            encode_frame(layout, *mirrored, image.actuation(u), image_condition),
            "frame",
        )
        target = integrator.target(q, qd, next_q, next_qd)
        target_image = integrator.target(*mirrored, image.joint_q(next_q), image.joint_qd(next_qd))
        if sensed is not None:
            force, torque = random(sensed.links, 3), random(layout.nu)
            target = torch.cat((target, sensed.pack(q, force, torque)), -1)
            seen = sensed.pack(mirrored[0], image.force(force), image.actuation(torque))
            target_image = torch.cat((target_image, seen), -1)
        self.targets = match(target, target_image, "target")
        sign = torch.ones(ROW_SIZE)
        sign[[1, 4, 8]] = -1.0  # y of point, normal and velocity.
        self.row_sign, self.links = sign, torch.tensor(image.links)
        assert robot.mirror is not None
        self.order = robot.mirror.images(fixed, "fixed link", INSTEAD) if fixed else []

    def __call__(
        self, flip: Tensor, frames: Tensor, targets: Tensor, rows: ContactRows | None
    ) -> tuple[Tensor, Tensor, ContactRows | None]:
        """Frames [B, T, F], targets [B, T, O] and rows [B, T, K, ...], mirrored where ``flip`` [B]."""
        pick = flip[:, None, None]
        return (
            torch.where(pick, self.frames(frames), frames),
            torch.where(pick, self.targets(targets), targets),
            None if rows is None else self.rows(flip, rows),
        )

    def rows(self, flip: Tensor, rows: ContactRows) -> ContactRows:
        """Contact rows [B, T, K, ...] with the windows where ``flip`` [B] mirrored."""
        features, link, used = rows.features * self.row_sign, self.links[rows.link.clamp_min(0)], rows.used
        link = torch.where(used, link, rows.link)
        if self.order:
            features, link, used = features[:, :, self.order], link[:, :, self.order], used[:, :, self.order]
        pick = flip[:, None, None]
        return ContactRows(
            torch.where(pick[..., None], features, rows.features),
            torch.where(pick, link, rows.link),
            torch.where(pick, used, rows.used),
        )


def match(original: Tensor, image: Tensor, what: str) -> Columns:
    """Which column of ``original`` [n, F] each column of ``image`` [n, F] is, up to its sign.

    Raises:
        FlashNerdError: Where a column is none of them.
    """
    scale = original.abs().amax(0).clamp_min(1e-9)
    # Distance of every column of the image from every column of the original, and from its negative.
    same, opposite = (((image[:, :, None] - x[:, None, :]) / scale).abs().amax(0).min(1) for x in (original, -original))
    turned = opposite.values < same.values
    found = torch.where(turned, opposite.values, same.values)
    columns = torch.where(turned, opposite.indices, same.indices)
    signs = 1.0 - 2.0 * turned.double()
    if float(found.max()) > 1e-6:
        raise FlashNerdError(
            f"column {int(found.argmax())} of the {what} has no image in the mirror: check the robot's mirror (sides, "
            "turned), or type train.mirror=false."
        )
    return Columns(columns, signs.float())


def _conditions(names: tuple[str, ...], image) -> tuple[list[int], Tensor]:
    """Image of each condition, and its sign: a centre of mass moves to the other side."""
    index, signs = [], []
    for name in names:
        found = inertial_condition(name)
        prefix, colon, link = name.partition(":")
        other = f"{prefix}:{image(link)}" if colon else name
        if other not in names:
            raise FlashNerdError(
                f"the mirror image of condition {name} is {other}, which is not among the robot's conditions: add it, "
                "or type train.mirror=false."
            )
        index.append(names.index(other))
        signs.append(-1.0 if found is not None and found[0] == "com_y" else 1.0)
    return index, torch.tensor(signs, dtype=torch.float64)


def _polar(vector: Tensor) -> Tensor:
    return vector * vector.new_tensor([1.0, -1.0, 1.0])


def _axial(vector: Tensor) -> Tensor:
    return vector * vector.new_tensor([-1.0, 1.0, -1.0])
