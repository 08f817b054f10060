"""After the step: what sensors and rewards read beside the state, from the model's own prediction.

Contact sensors get one contact a link and world: the predicted mean force on the link over the step, as if against the
ground, where the link still touches it at the end; rewards ask whether there is a force, and the simulator says so of
its last solver step. A link that lifted off within the step has a mean force too, but a small one: so that links near
the ground and with a good part of the weight on them touch it, and others read exactly 0, whatever small number the
network gave. docs/rewards.md has what that rule is worth. Forces between links of one robot are not reported. A model
that predicts no forces leaves every sensor at exactly 0.

All three components are there, friction included. Isaac Lab splits them into normal and friction along the ground's
normal; on terrain, where a link's normal is not kept, along the vertical. There are no contact points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import warp as wp
from torch import Tensor

from flashnerd_ext.model.sensed import Sensed
from flashnerd_ext.solver.contacts import ContactStage
from flashnerd_ext.solver.late import last_torque

if TYPE_CHECKING:
    from newton import Contacts

    from flashnerd_ext.model.layout import StateLayout

TOUCH = 1.0e-3
"""A link that is nearer than this can touch [m]; a prediction is not right to the tenths of a millimetre that contacts
are deep."""
SHARE = 0.08
"""Part of the robot's weight below which a mean force is that of a link that has lifted off."""


class SensorStage:
    """Writes predicted forces where Newton's contact sensors look.

    Args:
        layout: The robot's coordinates.
        contacts: The stage that finds contacts.
        sensed: Outputs that the model predicts beside the state; 0 for none.
        dt: Model step [s]. sim_steps: Simulation steps in it.
        weight: Of a robot [N].

    Attributes:
        force: Mean contact force over the last step on each link that still touches, world frame [N], shape [N, L, 3].
        torque: Torque of each actuated joint at the last simulation step [N m], shape [N, nu]; see
            :mod:`flashnerd_ext.solver.late`.
    """

    def __init__(
        self, layout: StateLayout, contacts: ContactStage, sensed: int, dt: float, sim_steps: int, weight: float
    ) -> None:
        self._layout, self._contacts, self._least = layout, contacts, SHARE * weight
        self._dt, self._sim_steps = dt, sim_steps
        self._sensed = Sensed(layout, len(contacts.links)) if sensed else None
        worlds, device = len(contacts.found), contacts.touching.device
        self.force = torch.zeros((worlds, len(contacts.links), 3), device=device)
        self.torque = torch.zeros((worlds, layout.nu), device=device)
        self._joint_q = torch.zeros((worlds, layout.nq), device=device)
        self._joint_qd = torch.zeros((worlds, layout.nv), device=device)
        self._written: Contacts | None = None

    @property
    def capacity(self) -> int:
        """Contacts that :meth:`publish` writes."""
        return 0 if self._sensed is None else int((self._contacts.link_shape >= 0).sum())

    def start(self, joint_q: Tensor, joint_qd: Tensor) -> None:
        """Remember the state before the step, [N, nq] and [N, nv]."""
        if self._sensed is not None:
            self._joint_q.copy_(joint_q)
            self._joint_qd.copy_(joint_qd)

    def end(
        self, joint_q: Tensor, joint_qd: Tensor, actuation: Tensor, condition: Tensor, values: Tensor, held: Tensor
    ) -> None:
        """Take over a prediction.

        Args:
            joint_q, joint_qd: State at the end of the step, shapes [N, nq] and [N, nv].
            actuation: What the step was under, shape [N, nu].
            condition: Deviations of each world, shape [N, C].
            values: The model's outputs after the increments, shape [N, size].
            held: Worlds that the guard held, boolean [N]; they feel nothing.
        """
        if self._sensed is None:
            return
        forces = self._sensed.forces(self._joint_q, values)
        touching = (self._contacts.touching <= TOUCH) & (forces.norm(dim=-1) > self._least)
        keep = (touching & ~held[:, None]).unsqueeze(-1)
        # Not multiplied away: a held world's prediction may be NaN.
        self.force.copy_(torch.where(keep, forces, torch.zeros_like(self.force)))
        torque = last_torque(
            self._layout, (self._joint_q, self._joint_qd), (joint_q, joint_qd), actuation, condition,
            self._sensed.torques(values), self._dt, self._sim_steps,
        )  # fmt: skip
        self.torque.copy_(torch.where(held[:, None], torch.zeros_like(self.torque), torque))

    def publish(self, contacts: Contacts | None) -> None:
        """Fill Newton's contact buffer, of at least :attr:`capacity` contacts."""
        if contacts is None:
            return
        if self._sensed is None or contacts.force is None:
            contacts.rigid_contact_count.zero_()
            if contacts.force is not None:
                contacts.force.zero_()
            return
        if self._written is not contacts:
            self._describe(contacts)
        force = wp.to_torch(contacts.force, requires_grad=False)
        force[: self.capacity, :3] = self.force.reshape(-1, 3)[self._place]

    def _describe(self, contacts: Contacts) -> None:
        """What never changes: which shape of which link, against which ground."""
        shapes = self._contacts.link_shape.reshape(-1)
        place = np.flatnonzero(shapes >= 0)
        size = len(place)
        self._place = torch.from_numpy(place).to(self.force.device)

        def fill(array: wp.array, values: np.ndarray) -> None:
            whole = array.numpy()
            whole[:size] = values
            array.assign(whole)

        fill(contacts.rigid_contact_shape0, shapes[place].astype(np.int32))
        fill(contacts.rigid_contact_shape1, np.full(size, self._contacts.ground, np.int32))
        fill(contacts.rigid_contact_normal, np.tile(self._contacts.up.astype(np.float32), (size, 1)))
        contacts.rigid_contact_count.assign(np.array([size], np.int32))
        if contacts.force is not None:
            contacts.force.zero_()
        self._written = contacts
