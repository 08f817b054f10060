"""From the free acceleration that a model predicts to the forces with which PhysX makes it.

With M of the links, armature A, Coriolis forces C, gravity G and what PhysX itself adds before contacts (drives,
viscous joint friction, wrenches on links), the force that is written is ::

    (M + A) qdd + C + G - (drive + viscous + wrenches)

Where the model gives the analytical value, that is the effort that was commanded: the prediction enters as a
difference, as in MuJoCo Warp. PhysX goes on to integrate drives and viscous friction implicitly, and resolves contacts,
limits and dry joint friction. A label that is damped already *replaces* what PhysX would add: drives and viscous
friction are set to 0 there.

What PhysX gives is not all that acts: its mass matrix has no armature, and its gravity force counts links whose gravity
is off. A free base has six rows more, at the root's centre of mass in the world frame, made by a wrench on the root
link.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.rotation import rotate
from flashnerd_ext.solver.physx_robots import PhysxRobots

_FORCE_DRIVE, _ACCELERATION_DRIVE = 1, 2


class InverseDynamics:
    """Forces of N robots; joints and links are in PhysX's order.

    Args:
        robots: The robots.
        gravity: Gives the gravity of the scene [m/s²], length 3.
        replaces: Whether predictions stand for drives and viscous friction too; these are then taken out of PhysX.

    Attributes:
        root: Degrees of freedom of the base: 0, or 6 of a free one.
        wrench: On links, of this step only, as :meth:`pull` gave it.
        torque: What acts on the joints from outside at the start of a step: efforts, drives within their limits, and
            wrenches on links [N m or N], shape [N, n].
        position, velocity: Of the joints, shape [N, n].
    """

    def __init__(self, robots: PhysxRobots, gravity: Callable[[], Sequence[float]], replaces: bool = False) -> None:
        self.robots, self._gravity, self._replaces = robots, gravity, replaces
        self.root = 0 if robots.fixed_base else 6
        rows, dofs, links = len(robots.paths), len(robots.dof_names), len(robots.body_names)
        with torch.inference_mode(False):
            self.torque = torch.zeros((rows, dofs), device=robots.device)
            self.wrench, self._lift = (torch.zeros((rows, links, 9), device=robots.device) for _ in range(2))
            self._outer = torch.zeros((rows, self.root + dofs), device=robots.device)
        self._pulled = False
        self._taken: dict[str, Tensor] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look at properties again, which events may have changed.

        Raises:
            FlashNerdError: For a drive of another kind than force.
        """
        read = self.robots.read
        kinds = read("dof_drive_type")
        self.stiffness, self.damping = self._take("dof_stiffness"), self._take("dof_damping")
        self._refuse(kinds)
        drives = (kinds == _FORCE_DRIVE).to(self.stiffness.dtype)
        self.stiffness, self.damping = self.stiffness * drives, self.damping * drives
        self.max_force = read("dof_max_force").clone()
        self.viscous = self._take("dof_friction_properties")[..., 2]
        self.dof_armature = read("dof_armature").clone()
        self.armature = torch.nn.functional.pad(self.dof_armature, (self.root, 0))
        self.mass, self.com = read("body_mass").clone(), read("body_com_pose").clone()
        self.weightless = read("body_disable_gravity") != 0
        self._some_weightless = bool(self.weightless[:, 1 if self.robots.fixed_base else 0 :].any())

    def _take(self, what: str) -> Tensor:
        """A property that the prediction contains where it replaces it: remembered, and 0 in PhysX from then on."""
        values = self.robots.read(what).clone()
        if not self._replaces:
            return values
        acting = values if what != "dof_friction_properties" else values[..., 2]
        if what in self._taken and not bool(acting.any()):
            return self._taken[what]
        self._taken[what] = values
        nothing = values.clone()
        (nothing if what != "dof_friction_properties" else nothing[..., 2]).zero_()
        self.robots.write(what, nothing)
        return values

    def _refuse(self, kinds: Tensor) -> None:
        names = self.robots.dof_names
        wrong = (kinds == _ACCELERATION_DRIVE) & ((self.stiffness != 0) | (self.damping != 0))
        if bool(wrong.any()):
            raise FlashNerdError(
                f"the drive of joint {names[int(wrong.any(0).nonzero()[0])]} is of the type acceleration, whose force "
                "is not known before the step, but a force drive is needed: set drive:angular:physics:type to force "
                "in the asset."
            )
        shaped = self.robots.read("dof_drive_model") != 0
        if bool(shaped.any()):
            raise FlashNerdError(
                f"the drive of joint {names[int(shaped.any(-1).any(0).nonzero()[0])]} has a performance envelope, "
                "which coupled mode does not follow: remove PhysxDrivePerformanceEnvelopeAPI from the asset."
            )

    def pull(self, rows: Tensor, wrench: Tensor) -> None:
        """Wrenches on links that were written to PhysX for this step.

        Args:
            rows: Robots, int64 [R]. wrench: World-frame force, torque and point of attack, shape [R, links, 9].
        """
        self.wrench.index_copy_(0, rows, wrench)
        self._pulled = True

    def read(self) -> None:
        """Look at the state, and find the forces that PhysX will add; after commands are written, before the step."""
        read = self.robots.read
        self.position, self.velocity = read("dof_position"), read("dof_velocity")
        self._effort = read("dof_actuation_force").clone()
        error = read("dof_position_target") - self.position
        drive = self.stiffness * error + self.damping * (read("dof_velocity_target") - self.velocity)
        self._drive = torch.clamp(drive, -self.max_force, self.max_force)
        self._jacobian = read("jacobian") if self._pulled or self._some_weightless else None
        self._outer.zero_()
        if self._pulled:
            self._outer.copy_(self._generalised(self.wrench))
        torch.add(self._effort, self._drive, out=self.torque)
        self.torque.add_(self._outer[:, self.root :])

    def _generalised(self, wrench: Tensor) -> Tensor:
        """``J^T w`` of wrenches on links, [N, root + n]."""
        force, torque, at = wrench.split(3, -1)
        about = torque + torch.linalg.cross(at - self.centres(), force)
        return self._transposed(torch.cat((force, about), -1))

    def _transposed(self, load: Tensor) -> Tensor:
        """``J^T f`` of forces and torques at the links' centres of mass, shape [N, links, 6]."""
        jacobian = self._jacobian
        assert jacobian is not None
        first = 1 if self.robots.fixed_base else 0
        return torch.einsum("nrd,nr->nd", jacobian, load[:, first:].reshape(len(load), -1))

    def centres(self) -> Tensor:
        """Centres of mass of the links in the world [m], shape [N, links, 3]."""
        pose = self.robots.read("link_pose")
        return pose[..., :3] + rotate(pose[..., 3:7], self.com[..., :3])

    def _weight(self) -> Tensor:
        """Forces that hold against gravity, [N, root + n]; what PhysX calls its gravity force, put right."""
        force = self.robots.read("gravity_force").clone()
        if self._some_weightless:
            load = torch.zeros((*self.mass.shape, 6), device=force.device)
            weight = torch.tensor(self._gravity(), device=force.device)
            load[..., :3] = (self.mass * self.weightless).unsqueeze(-1) * weight
            force += self._transposed(load)
        return force

    def free(self) -> Tensor:
        """PhysX's own free acceleration for what :meth:`read` found, [N, root + n]: the analytical value."""
        mass = self.robots.read("mass_matrix") + torch.diag_embed(self.armature)
        bias = self.robots.read("coriolis_and_centrifugal_force") + self._weight()
        return torch.linalg.solve(mass, self._own(True) + self._commanded() - bias)

    def _commanded(self) -> Tensor:
        return torch.nn.functional.pad(self._effort, (self.root, 0))

    def _own(self, drives: bool) -> Tensor:
        """What PhysX adds to the commanded effort before contacts, [N, root + n]."""
        own = self._outer.clone()
        if drives:
            own[:, self.root :] += self._drive - self.viscous * self.velocity
        return own

    def apply(self, acceleration: Tensor, trusted: Tensor) -> None:
        """Write the forces of this step; call :meth:`restore` after it.

        Args:
            acceleration: Free accelerations [N, root + n]; of a free base linear, of the root's centre of mass, then
                angular, both in the world frame.
            trusted: Robots that follow it, boolean [N]; others move as PhysX makes them.
        """
        read, root = self.robots.read, self.root
        force = torch.einsum("nij,nj->ni", read("mass_matrix"), acceleration)
        force += self.armature * acceleration + read("coriolis_and_centrifugal_force") + self._weight()
        force -= self._own(not self._replaces)
        analytic = self._commanded()
        if self._replaces:
            analytic[:, root:] += self._drive - self.viscous * self.velocity
        force = torch.where(trusted.unsqueeze(1), force, analytic)
        self.robots.write("dof_actuation_force", force[:, root:])
        if root:
            self._write_root(force[:, :root])

    def _write_root(self, force: Tensor) -> None:
        """A wrench at the root's centre of mass; PhysX adds it to those that were written before."""
        self._lift.zero_()
        self._lift[:, 0, :6] = force
        self._lift[:, 0, 6:] = self.centres()[:, 0]
        self.robots.write("link_wrench", self._lift)

    def restore(self) -> None:
        """After the step: efforts are again what was commanded, and wrenches have acted."""
        self.robots.write("dof_actuation_force", self._effort)
        if self._pulled:
            self.wrench.zero_()
            self._pulled = False
