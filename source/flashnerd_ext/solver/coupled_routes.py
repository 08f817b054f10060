"""Three ways for a prediction into MuJoCo Warp's step, one for each kind of label, and what contradicts a label.

Both integrators damp what they integrate: they solve (M + h D) for the velocity, with D of passive damping and, for
implicitfast, of drives. A label that is damped already would be damped twice, so that the card's label decides:

- ``qacc_smooth``, before all damping: it replaces ``qacc_smooth``, and the stock integrator damps it as ever;
- ``dv_implicitfast``: the force that implicitfast would turn into that change of velocity replaces ``qfrc_smooth``;
- ``dv_damped``: it replaces ``qacc_smooth``, so that contacts see it, and no damping follows for learned robots.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import mujoco_warp as mjw
import torch
import warp as wp
from mujoco_warp._src.smooth import factor_solve_i

from flashnerd_ext.solver.coupled_kernels import add, advance_undamped, difference
from flashnerd_ext.solver.coupled_labels import RunningFacts, contained

if TYPE_CHECKING:
    from torch import Tensor

    from flashnerd_ext.bundle.card import Card
    from flashnerd_ext.solver.coupled_map import CoupledMap


class Buffers:
    """The prediction as Warp sees it, and scratch; made once.

    Attributes:
        dofs: Learned degrees of freedom of a world, int [L], L = C x nv.
        dim: Launch over worlds and learned degrees of freedom.
        change: Scratch [W, nv]; zero outside of ``dofs`` until something else is written.
    """

    def __init__(self, model: Any, data: Any, where: CoupledMap) -> None:
        device = data.qvel.device
        self.copies, self.of_robot = where.dofs.shape
        self.dofs = wp.array(where.dofs.reshape(-1), dtype=int, device=device)
        self.qpos_of = wp.array(where.qpos.reshape(-1), dtype=int, device=device)
        self.dim = (data.nworld, self.copies * self.of_robot)
        self.change, self.force = wp.zeros_like(data.qacc), wp.zeros_like(data.qacc)
        with torch.inference_mode(False):
            on = wp.device_to_torch(device)
            self._wanted = torch.zeros((data.nworld, self.copies * self.of_robot), device=on)
            self._trusted = torch.zeros((data.nworld, self.copies), dtype=torch.bool, device=on)
        self.wanted, self.trusted = wp.from_torch(self._wanted), wp.from_torch(self._trusted)

    def accept(self, wanted: Tensor, trusted: Tensor) -> None:
        """Take a prediction [N, nv] and whether each robot's is trusted [N]."""
        self._wanted.copy_(wanted.view_as(self._wanted))
        self._trusted.copy_(trusted.view_as(self._trusted))

    def differ(self, reference: wp.array) -> None:
        """Put prediction less ``reference`` [W, nv] into ``change``, 0 outside of ``dofs``."""
        wp.launch(
            difference,
            dim=self.dim,
            inputs=[self.dofs, self.of_robot, self.wanted, self.trusted, reference],
            outputs=[self.change],
        )

    def add(self, change: wp.array, target: wp.array) -> None:
        """Add to learned degrees of freedom of ``target`` [W, nv]."""
        wp.launch(add, dim=self.dim, inputs=[self.dofs, change], outputs=[target])


class Route(Protocol):
    """How one kind of label enters a step."""

    def override(self, m: Any, d: Any, buffers: Buffers) -> None:
        """Between ``fwd_acceleration`` and ``solve``: change learned ``qacc_smooth`` and ``qfrc_smooth``."""
        ...

    def integrate(self, m: Any, d: Any, buffers: Buffers) -> None:
        """After ``solve``: one step of the integrator."""
        ...


class SmoothRoute:
    """Labels ``qacc_smooth``."""

    def override(self, m: Any, d: Any, buffers: Buffers) -> None:
        buffers.differ(d.qacc_smooth)
        mjw.mul_m(m, d, buffers.force, buffers.change)
        buffers.add(buffers.change, d.qacc_smooth)
        buffers.add(buffers.force, d.qfrc_smooth)

    def integrate(self, m: Any, d: Any, buffers: Buffers) -> None:
        (mjw.euler if m.opt.integrator == mjw.IntegratorType.EULER else mjw.implicit)(m, d)


class ImplicitRoute(SmoothRoute):
    """Labels ``dv_implicitfast``.

    Args:
        data: MuJoCo Warp's data, whose sizes the scratch has.
    """

    def __init__(self, data: Any) -> None:
        self._matrix, self._factor = wp.zeros_like(data.M), wp.zeros_like(data.qLD)
        self._diagonal, self._stock = wp.zeros_like(data.qacc), wp.zeros_like(data.qacc)

    def override(self, m: Any, d: Any, buffers: Buffers) -> None:
        mjw.deriv_smooth_vel(m, d, self._matrix)
        factor_solve_i(m, d, self._matrix, self._factor, self._diagonal, self._stock, d.qfrc_smooth)
        buffers.differ(self._stock)
        mjw.mul_m(m, d, buffers.force, buffers.change, M=self._matrix)
        buffers.add(buffers.force, d.qfrc_smooth)
        # The undamped acceleration of that force, which is what constraints are solved against.
        mjw.solve_m(m, d, self._stock, buffers.force)
        buffers.add(self._stock, d.qacc_smooth)


class DampedRoute(SmoothRoute):
    """Labels ``dv_damped``: what is not learned is damped by the stock integrator, learned robots are not.

    Args:
        data: MuJoCo Warp's data, whose sizes the scratch has.
    """

    def __init__(self, data: Any) -> None:
        self._qpos, self._qvel = wp.zeros_like(data.qpos), wp.zeros_like(data.qvel)

    def integrate(self, m: Any, d: Any, buffers: Buffers) -> None:
        wp.copy(self._qpos, d.qpos)
        wp.copy(self._qvel, d.qvel)
        super().integrate(m, d, buffers)
        wp.launch(
            advance_undamped,
            dim=buffers.dim,
            inputs=[
                m.opt.timestep, buffers.dofs, buffers.qpos_of, buffers.of_robot, buffers.trusted, self._qpos,
                self._qvel, d.qacc,
            ],
            outputs=[d.qpos, d.qvel],
        )  # fmt: skip


def route_of(label: str, data: Any) -> Route:
    """The route of a card's label."""
    if label == "qacc_smooth":
        return SmoothRoute()
    return ImplicitRoute(data) if label == "dv_implicitfast" else DampedRoute(data)


def contradictions(card: Card, facts: RunningFacts) -> list[str]:
    """What of the running simulation is not what the card's labels were made of; a clause each, with what to type."""
    return _integrator(card, facts.integrator) + contained(card, facts)


def _integrator(card: Card, running: str) -> list[str]:
    coupling = card.coupling
    assert coupling is not None
    if running not in ("euler", "implicitfast"):
        return [
            f"the integrator is {running}, but coupled mode steps euler or implicitfast: type "
            f"env.sim.physics.solver_cfg.integrator={coupling.integrator}"
        ]
    if coupling.label == "qacc_smooth" or running == coupling.integrator:
        return []
    return [
        f"the integrator is {running}, but labels of the kind '{coupling.label}' contain the damping of "
        f"{coupling.integrator}: type env.sim.physics.solver_cfg.integrator={coupling.integrator}"
    ]
