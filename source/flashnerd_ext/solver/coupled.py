"""One step of coupled mode: the order of MuJoCo Warp's stages, with the model's free motion put in between.

``order`` is the list of the stages. It equals :func:`mujoco_warp.step` to the bit where the model gives the analytical
value, since the model enters as a difference: what the prediction adds to the analytical acceleration of learned
degrees of freedom, and the force that belongs to it. Summing forces anew for all of them drifts apart within a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import mujoco_warp as mjw
import torch
import warp as wp
from mujoco_warp._src.types import ConstraintType

from flashnerd_ext.solver.coupled_kernels import own_constraints, sum_forces, take
from flashnerd_ext.solver.coupled_overflow import OverflowStage
from flashnerd_ext.solver.coupled_routes import Buffers, Route

if TYPE_CHECKING:
    from torch import Tensor

    from flashnerd_ext.solver.coupled_map import CoupledMap

COUPLINGS = ("two_way", "one_way")
"""``one_way`` leaves the reaction of contacts out of the learned robots' motion; for comparison only."""
_FIRST_CONTACT = int(ConstraintType.CONTACT_FRICTIONLESS)


class CoupledStep:
    """Steps MuJoCo Warp with a model's free motion for some of its degrees of freedom.

    Args:
        model, data: MuJoCo Warp's.
        where: The learned robots.
        route: How labels enter.
        one_way: Leave the reaction of contacts out of learned robots; see :data:`COUPLINGS`.
        actuated: Index among a robot's joints of each actuation input.

    Attributes:
        torque: What acts on the actuated joints from outside: drives, commanded efforts and external wrenches
            [N m or N], shape [N, nu]; up to date when the prediction is asked for.
        unseen: Rows in which such a force acts on a joint without an actuation input, boolean [N].
        room: What MuJoCo Warp's buffers had no room for.
    """

    def __init__(
        self, model: Any, data: Any, where: CoupledMap, route: Route, one_way: bool, actuated: tuple[int, ...]
    ) -> None:
        self._model, self._data, self._route, self._one_way = model, data, route, one_way
        self._where, nv = where, where.dofs.shape[1]
        device = data.qvel.device
        self._force = wp.zeros_like(data.qacc)
        self._buffers = Buffers(model, data, where)
        with torch.inference_mode(False):
            columns = torch.from_numpy(where.dofs).long().to(wp.device_to_torch(device))
            rest = [i for i in range(nv) if i not in actuated]
            self._actuated, self._rest = (columns[:, list(which)].reshape(-1) for which in (actuated, rest))
            self._force_view = wp.to_torch(self._force, requires_grad=False)
            self.torque = torch.zeros((where.rows, len(actuated)), device=columns.device)
            self.unseen = torch.zeros(where.rows, dtype=torch.bool, device=columns.device)
            self.room = OverflowStage(data)

    def order(self, predict: Callable[[], tuple[Tensor, Tensor]]) -> None:
        """One step of the whole simulation.

        Args:
            predict: Gives the accelerations of learned robots [N, nv], as the route's label, and whether each robot's
                are trusted, boolean [N]; a robot whose are not is stepped analytically. It is called once.
        """
        m, d = self._model, self._data
        self.room.begin()
        mjw.fwd_position(m, d, factorize=False)
        d.sensordata.zero_()
        mjw.sensor_pos(m, d)
        self._energy(mjw.energy_pos, m.sensor_e_potential)
        mjw.fwd_velocity(m, d)
        mjw.sensor_vel(m, d)
        self._energy(mjw.energy_vel, m.sensor_e_kinetic)
        if m.callback.control and not m.opt.disableflags & mjw.DisableBit.ACTUATION:
            m.callback.control(m, d)
        mjw.fwd_actuation(m, d)
        mjw.fwd_acceleration(m, d, factorize=True)
        self._read_torque()
        self._buffers.accept(*predict())
        self._route.override(m, d, self._buffers)
        mjw.solve(m, d)
        if self._one_way:
            self._drop_reaction()
        mjw.sensor_acc(m, d)
        self._integrate()
        self.room.look()

    def _integrate(self) -> None:
        """The route's integrator, without MuJoCo Warp's line for each world and step whose buffers were too small."""
        options = self._model.opt
        loud, options.warn_overflow = options.warn_overflow, False
        try:
            self._route.integrate(self._model, self._data, self._buffers)
        finally:
            options.warn_overflow = loud

    def _energy(self, compute: Callable[[Any, Any], None], by_sensor: bool) -> None:
        m, d = self._model, self._data
        if not m.opt.enableflags & mjw.EnableBit.ENERGY:
            d.energy.zero_()
        elif not by_sensor:
            compute(m, d)

    def _read_torque(self) -> None:
        m, d = self._model, self._data
        wp.launch(sum_forces, dim=(d.nworld, m.nv), inputs=[d.qfrc_actuator, d.qfrc_applied], outputs=[self._force])
        mjw.xfrc_accumulate(m, d, self._force)
        self.torque.copy_(self._force_view.index_select(1, self._actuated).view_as(self.torque))
        if len(self._rest):
            rest = self._force_view.index_select(1, self._rest).view(self._where.rows, -1)
            torch.any(rest != 0, 1, out=self.unseen)

    def _drop_reaction(self) -> None:
        """Give learned robots the acceleration that they would have without contacts; the others keep theirs."""
        m, d, buffers = self._model, self._data, self._buffers
        efc = d.efc
        wp.launch(
            own_constraints,
            dim=buffers.dim,
            inputs=[
                buffers.dofs, _FIRST_CONTACT, m.is_sparse, d.nefc, efc.type, efc.J_rownnz, efc.J_rowadr, efc.J_colind,
                efc.J, efc.force, d.qfrc_smooth,
            ],
            outputs=[efc.Ma],
        )  # fmt: skip
        mjw.solve_m(m, d, buffers.change, efc.Ma)
        wp.launch(take, dim=buffers.dim, inputs=[buffers.dofs, buffers.change], outputs=[d.qacc])
