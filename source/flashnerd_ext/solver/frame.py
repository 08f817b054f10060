"""Stage 1: read the simulation's state and commands into the model's order.

The solver keeps its own copy of the last state that it vouched for. What stands in the simulation now differs from it
where someone wrote: a reset, a teleport, a velocity push. This stage takes those writes over, refuses what is not
finite, and says in which worlds the past no longer leads to the present.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import warp as wp
from torch import Tensor

from flashnerd_ext.solver.mapping import StateMap

MOVED = 1e-5
"""A position that differs by more from what the solver wrote was written by someone else [m, rad or 1]; less is
rounding on the way through Isaac Lab's frames."""


@dataclass(frozen=True)
class Views:
    """Torch views onto one Newton state and control; the memory is the simulation's own.

    Attributes:
        joint_q: Shape [N, coords]. joint_qd: Shape [N, dofs].
        joint_f: Commanded generalised forces [N or N·m], shape [N, dofs].
        joint_target: Position targets [m or rad], shape [N, coords or dofs].
    """

    joint_q: Tensor
    joint_qd: Tensor
    joint_f: Tensor
    joint_target: Tensor


class FrameStage:
    """Reads state and actuation; buffers are made once and written in place.

    Args:
        state_map: Columns of the robot's coordinates.
        targets: Whether the model's actuation input is the position target, else the commanded effort.
        device: The simulation's device.

    Attributes:
        state: Last state that is known to be good, joint_q then joint_qd, float32 [N, nq + nv].
        actuation: Shape [N, nu].
        good: Worlds whose state in the simulation is finite, boolean [N].
        changed: Worlds in which the simulation's state is not, to the last bit, what the solver wrote, boolean [N].
    """

    def __init__(self, state_map: StateMap, targets: bool, device: torch.device | str) -> None:
        self.map, self.targets = state_map, targets
        self.nq, self.nv = (len(columns) // state_map.copies for columns in (state_map.q, state_map.v))
        n = state_map.worlds * state_map.copies
        self.state = torch.zeros((n, self.nq + self.nv), device=device)
        self.joint_q, self.joint_qd = self.state[:, : self.nq], self.state[:, self.nq :]
        self.actuation = torch.zeros((n, len(state_map.u)), device=device)
        self.good = torch.ones(n, dtype=torch.bool, device=device)
        self.changed = torch.ones(n, dtype=torch.bool, device=device)
        self._incoming = torch.zeros_like(self.state)
        self._views: dict[tuple[int, int], Views] = {}

    def views(self, state: Any, control: Any = None) -> Views:
        """The torch views of a state and control, made once: their buffers are written in place, never swapped."""
        key = (state.joint_q.ptr, control.joint_f.ptr if control is not None and control.joint_f is not None else 0)
        found = self._views.get(key)
        if found is None:
            # A view made in inference mode could not be written outside of it.
            with torch.inference_mode(False):
                found = Views(
                    self._view(state.joint_q),
                    self._view(state.joint_qd),
                    self._view(getattr(control, "joint_f", None)),
                    self._view(getattr(control, "joint_target_q", None)),
                )
            self._views[key] = found
        return found

    def _view(self, array: wp.array | None) -> Tensor:
        n = self.map.worlds
        if array is None:
            return self.state.new_zeros((n, self.map.dofs))
        return wp.to_torch(array, requires_grad=False).view(n, -1)

    def _gather(self, views: Views) -> None:
        """Bring what stands in the simulation into ``_incoming``, and look whether it is finite."""
        incoming = self._incoming
        if self.map.straight:
            torch.cat((views.joint_q, views.joint_qd), 1, out=incoming)
        else:
            rows = len(incoming)
            incoming[:, : self.nq].copy_(views.joint_q.index_select(1, self.map.q).view(rows, -1))
            incoming[:, self.nq :].copy_(views.joint_qd.index_select(1, self.map.v).view(rows, -1))
        torch.all(torch.isfinite(incoming), 1, out=self.good)

    def settle(self, state: Any) -> None:
        """Take over the state that the simulator itself has reached: where it is finite, nobody wrote it."""
        self._gather(self.views(state))
        torch.where(self.good[:, None], self._incoming, self.state, out=self.state)

    def read(self, state: Any, control: Any, moved: Tensor) -> None:
        """Fill ``state``, ``actuation`` and ``good`` from the simulation, on its device and without waiting for it.

        A world whose positions someone wrote since the last step is marked in ``moved``: its past does not lead
        here. A velocity alone may be pushed: the past stays, and the frame made now sees the new velocity. A state
        that is not finite is not taken over: the world keeps its last good one.

        Args:
            state: The simulation's state.
            control: Its control; ``None`` leaves the actuation as it was.
            moved: Boolean [N], or-ed into.
        """
        views, incoming = self.views(state, control), self._incoming
        self._gather(views)
        torch.any(incoming != self.state, 1, out=self.changed)
        distance = (incoming[:, : self.nq] - self.joint_q).abs_()
        moved.logical_or_((distance > MOVED).any(1))
        torch.where(self.good[:, None], incoming, self.state, out=self.state)
        if control is not None:
            if self.targets:
                # Newton keeps targets in coordinates from 1.6 on; with a free base these are one more than the dofs.
                place = self.map.u_coord if views.joint_target.shape[1] == self.map.coords else self.map.u
                torch.index_select(views.joint_target, 1, place, out=self.actuation)
            else:
                torch.index_select(views.joint_f, 1, self.map.u, out=self.actuation)
