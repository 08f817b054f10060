"""Rigid bodies beneath the network: where links are is geometry and known, how heavy they are is read off the data.

The part of free motion that rigid bodies explain is

    qdd = M(q)^-1 (tau - h(q, qd) - d qd)

with the mass matrix M and the bias forces h (Coriolis, centrifugal, gravity) of a tree of links. Both are linear in ten
numbers a link, so that these follow from trajectories in closed form (:mod:`flashnerd_ext.training.rigid_fit`), and no
number of the simulator's model enters but the tree's geometry. A black box has to multiply the sines and cosines of all
joints on the way to a link; here only what rigid bodies do not explain is left to it.

Everything is in the root frame at the root's origin (spatial vectors: angular part first), where composites are plain
sums: a link's second moment transforms as ``T J T'`` with the 4 x 4 pseudo-inertia ``J`` and the pose ``T`` of the
link (Wensing, Kim, Slotine 2018, Linear matrix inequalities for physically consistent inertial parameters). Links are
handled together, not one after the other; only their poses need ``log2`` of the tree's depth products.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.chain import Chain
from flashnerd_ext.model.frame import frame_names
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.normalizer import ExactBuffers

INERTIAL = 10
"""Numbers of a link: second moments xx, yy, zz, xy, xz, yz [kg m^2], first moments x, y, z [kg m], mass [kg]."""


class RigidPrior(ExactBuffers):
    """Joint accelerations of a tree of rigid links from a frame's features.

    Every number is a buffer: geometry from a :class:`Chain`, inertial parameters from a fit; nothing is trained.

    Args:
        layout: A robot on a fixed base, whose actuation is the torque on every joint.

    Raises:
        FlashNerdError: For another layout.

    Attributes:
        links: Inertial parameters of each link about its joint's frame, float64 [1 + C, J, 10]: nominal, then what one
            unit of each condition adds.
        armature: What rotors add to the mass matrix's diagonal [kg m^2 or kg], float64 [J].
        damping: Torque that opposes one unit of velocity [N m s/rad or N s/m], float64 [J].
        dt: Model time step [s], float64 scalar.
    """

    offset: Tensor
    axis: Tensor
    hinge: Tensor
    parent: Tensor
    above: Tensor
    gravity: Tensor
    links: Tensor
    armature: Tensor
    damping: Tensor
    dt: Tensor

    def __init__(self, layout: StateLayout) -> None:
        super().__init__()
        if layout.floating_base or layout.drive is not None or not layout.num_joints:
            raise FlashNerdError(
                "options.prior is 'rigid', but only a robot on a fixed base whose actuation is torques has a rigid "
                "prior: type options.prior=none."
            )
        joints = layout.num_joints
        self.layout, self.joints = layout, joints
        self.rounds = math.ceil(math.log2(joints)) if joints > 1 else 0
        double = torch.float64
        # Pose of each joint's frame in that of the link before it; with the joint at zero.
        self.register_buffer("offset", torch.eye(4, dtype=double).repeat(joints, 1, 1))
        self.register_buffer("axis", torch.zeros(joints, 3, dtype=double))
        self.register_buffer("hinge", torch.ones(joints, dtype=double))
        # Joint before each joint, J for the base.
        self.register_buffer("parent", torch.full((joints,), joints, dtype=torch.int64))
        # [l, j] is 1 where joint j moves link l.
        self.register_buffer("above", torch.eye(joints, dtype=double))
        self.register_buffer("gravity", torch.zeros(3, dtype=double))
        self.register_buffer("links", torch.zeros(1 + len(layout.conditions), joints, INERTIAL, dtype=double))
        self.register_buffer("armature", torch.ones(joints, dtype=double))
        self.register_buffer("damping", torch.zeros(joints, dtype=double))
        self.register_buffer("dt", torch.zeros((), dtype=double))
        places = {name: i for i, name in enumerate(frame_names(layout))}
        names = layout.joint_names
        # A joint whose position the dynamics do not depend on may as well stand at zero.
        self._sine = [places.get(f"{name}.sin") for name in names]
        self._cosine = [places.get(f"{name}.cos") for name in names]
        self._slide = [places.get(f"{name}.pos") for name in names]
        self._velocity = slice(places[f"{names[0]}.vel"], places[f"{names[0]}.vel"] + joints)
        self._torque = [places.get(f"{name}.act") for name in names]
        self._condition = slice(len(places) - len(layout.conditions), len(places))

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        parent = state_dict.get(f"{prefix}parent")
        if parent is not None and bool(((parent < 0) | (parent > self.joints)).any()):
            error_msgs.append(f"{prefix}parent has a value outside 0 .. {self.joints}: fetch the bundle again.")
            return
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def place(self, chain: Chain) -> None:
        """Take the geometry of a tree whose joints are in the layout's order."""
        self.offset.copy_(torch.tensor(chain.offset, dtype=torch.float64))
        self.axis.copy_(torch.tensor(chain.axis, dtype=torch.float64))
        self.hinge.copy_(torch.tensor(chain.hinge, dtype=torch.float64))
        self.gravity.copy_(torch.tensor(chain.gravity, dtype=torch.float64))
        parents = [self.joints if parent < 0 else parent for parent in chain.parents]
        self.parent.copy_(torch.tensor(parents))
        above = torch.eye(self.joints, dtype=torch.float64)
        for link in range(self.joints):
            joint = chain.parents[link]
            while joint >= 0:
                above[link, joint] = 1.0
                joint = chain.parents[joint]
        self.above.copy_(above)

    def forward(self, frame: Tensor) -> Tensor:
        """Accelerations [..., J] for frames [..., F], in the frame's dtype or float32, whichever is wider."""
        frame = frame if frame.dtype == torch.float64 else frame.float()
        velocity, torque, _ = self.motion(frame)
        twist, inertia = self.bodies(frame)
        bias = self.inverse(twist, velocity, torch.zeros_like(velocity), inertia)
        force = torque - bias - self.damping.to(frame.dtype) * velocity
        factor, _ = torch.linalg.cholesky_ex(self.mass(twist, inertia))
        return torch.cholesky_solve(force.unsqueeze(-1), factor).squeeze(-1)

    def bodies(self, frame: Tensor) -> tuple[Tensor, Tensor]:
        """Unit twist of each joint [..., J, 6] and pseudo-inertia of each link [..., J, 4, 4], in the root frame."""
        twist, pose = self.screws(frame)
        links = self.links.to(frame.dtype)
        body = links[0]
        if self.layout.conditions:
            body = body + torch.einsum("...c,cjk->...jk", frame[..., self._condition], links[1:])
        return twist, transform(pose, pseudo(body))

    def motion(self, frame: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Velocities [..., J], torques on all joints [..., J] and conditions [..., C] of frames."""
        zero = torch.zeros_like(frame[..., 0])
        torque = torch.stack([zero if i is None else frame[..., i] for i in self._torque], -1)
        return frame[..., self._velocity], torque, frame[..., self._condition]

    def screws(self, frame: Tensor) -> tuple[Tensor, Tensor]:
        """Unit twist of each joint [..., J, 6] and pose of each link [..., J, 4, 4], in the root frame."""
        kind = frame.dtype
        zero = torch.zeros_like(frame[..., 0])
        one = torch.ones_like(zero)
        sine = torch.stack([zero if i is None else frame[..., i] for i in self._sine], -1)[..., None, None]
        cosine = torch.stack([one if i is None else frame[..., i] for i in self._cosine], -1)[..., None, None]
        slide = torch.stack([zero if i is None else frame[..., i] for i in self._slide], -1)[..., None]
        axis, offset = self.axis.to(kind), self.offset.to(kind)
        cross = skew(axis)
        eye = torch.eye(3, dtype=kind, device=frame.device)
        # A slide has sine 0 and cosine 1, and so no rotation; a hinge has no way to slide.
        turn = eye + sine * cross + (1.0 - cosine) * (cross @ cross)
        rotation = offset[:, :3, :3] @ turn
        move = (offset[:, :3, :3] @ (slide * axis).unsqueeze(-1)).squeeze(-1) + offset[:, :3, 3]
        rotation, move = self._chained(rotation, move)
        bottom = torch.zeros_like(rotation[..., :1, :])
        corner = torch.ones_like(bottom[..., :1])
        pose = torch.cat((torch.cat((rotation, move.unsqueeze(-1)), -1), torch.cat((bottom, corner), -1)), -2)
        direction = (rotation @ axis.unsqueeze(-1)).squeeze(-1)
        hinge = self.hinge.to(kind).unsqueeze(-1)
        arm = torch.linalg.cross(move, direction)
        return torch.cat((hinge * direction, hinge * arm + (1.0 - hinge) * direction), -1), pose

    def _chained(self, rotation: Tensor, move: Tensor) -> tuple[Tensor, Tensor]:
        """Poses in the root frame from poses in the link before: each round doubles the way to the root."""
        pad = (*rotation.shape[:-3], 1)
        last = torch.eye(3, dtype=rotation.dtype, device=rotation.device).expand(*pad, 3, 3)
        parent = torch.cat((self.parent, torch.full_like(self.parent[:1], self.joints)))
        for _ in range(self.rounds):
            before_r = torch.cat((rotation, last), -3).index_select(-3, parent[:-1])
            before_p = torch.cat((move, torch.zeros_like(move[..., :1, :])), -2).index_select(-2, parent[:-1])
            move = (before_r @ move.unsqueeze(-1)).squeeze(-1) + before_p
            rotation = before_r @ rotation
            parent = parent[parent]
        return rotation, move

    def inverse(self, twist: Tensor, velocity: Tensor, acceleration: Tensor, inertia: Tensor) -> Tensor:
        """Joint torques [..., J] of a motion under gravity, without armature: Newton-Euler for all links at once.

        Args:
            twist: [..., J, 6]. velocity, acceleration: [..., J].
            inertia: Pseudo-inertia of each link in the root frame [..., J, 4, 4].
        """
        force = wrench(*self.carried(twist, velocity, acceleration), inertia)
        below = self.above.to(twist.dtype).T
        return (twist * (below @ force)).sum(-1)

    def carried(self, twist: Tensor, velocity: Tensor, acceleration: Tensor) -> tuple[Tensor, Tensor]:
        """Velocity and acceleration (that of free fall taken off) of each link [..., J, 6]."""
        above = self.above.to(twist.dtype)
        moving = above @ (twist * velocity.unsqueeze(-1))
        turned = crossed(moving, twist)
        rising = above @ (twist * acceleration.unsqueeze(-1) + turned * velocity.unsqueeze(-1))
        gravity = self.gravity.to(twist.dtype)
        return moving, rising - torch.cat((torch.zeros_like(gravity), gravity))

    def mass(self, twist: Tensor, inertia: Tensor) -> Tensor:
        """Mass matrix [..., J, J], armature included: composites below each joint, met by the twists above it."""
        above = self.above.to(twist.dtype)
        composite = (above.T @ inertia.flatten(-2)).unflatten(-1, (4, 4))
        momentum = spatial(twist, composite)
        # [j, i] with joint i above joint j, or j itself.
        lower = (momentum @ twist.transpose(-1, -2)) * above
        eye = torch.eye(self.joints, dtype=twist.dtype, device=twist.device)
        return lower + (lower * (1.0 - eye)).transpose(-1, -2) + eye * self.armature.to(twist.dtype)


def pseudo(body: Tensor) -> Tensor:
    """Pseudo-inertia [..., 4, 4] of ten inertial parameters [..., 10]: second moments, first moments, mass."""
    xx, yy, zz, xy, xz, yz, x, y, z, m = body.unbind(-1)
    rows = [(xx, xy, xz, x), (xy, yy, yz, y), (xz, yz, zz, z), (x, y, z, m)]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def transform(pose: Tensor, inertia: Tensor) -> Tensor:
    """Pseudo-inertia in the root frame [..., 4, 4]: ``T J T'``."""
    return pose @ inertia @ pose.transpose(-1, -2)


def skew(vector: Tensor) -> Tensor:
    """Matrix [..., 3, 3] of the cross product with ``vector`` [..., 3]."""
    x, y, z = vector.unbind(-1)
    zero = torch.zeros_like(x)
    rows = [(zero, -z, y), (z, zero, -x), (-y, x, zero)]
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def crossed(moving: Tensor, motion: Tensor) -> Tensor:
    """Rate of a motion vector [..., 6] that is carried along with velocity ``moving`` [..., 6]."""
    spin, speed = moving[..., :3], moving[..., 3:]
    linear = torch.linalg.cross(spin, motion[..., 3:]) + torch.linalg.cross(speed, motion[..., :3])
    return torch.cat((torch.linalg.cross(spin, motion[..., :3]), linear), -1)


def spatial(motion: Tensor, inertia: Tensor) -> Tensor:
    """Momentum, or force, [..., 6] of a motion [..., 6] of bodies with pseudo-inertia [..., 4, 4]."""
    second, first, mass = inertia[..., :3, :3], inertia[..., :3, 3], inertia[..., 3, 3:]
    spin, speed = motion[..., :3], motion[..., 3:]
    trace = second.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True)
    angular = trace * spin - (second @ spin.unsqueeze(-1)).squeeze(-1) + torch.linalg.cross(first, speed)
    return torch.cat((angular, mass * speed + torch.linalg.cross(spin, first)), -1)


def wrench(moving: Tensor, rising: Tensor, inertia: Tensor) -> Tensor:
    """Force on each link [..., 6] of its velocity and acceleration [..., 6]."""
    momentum = spatial(moving, inertia)
    spin, speed = moving[..., :3], moving[..., 3:]
    turned = torch.cat(
        (
            torch.linalg.cross(spin, momentum[..., :3]) + torch.linalg.cross(speed, momentum[..., 3:]),
            torch.linalg.cross(spin, momentum[..., 3:]),
        ),
        -1,
    )
    return spatial(rising, inertia) + turned
