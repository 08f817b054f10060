"""What coupled mode is in any simulator: frames in, accelerations out, a guard, and what is forgotten when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from flashnerd_ext.solver.frame import FrameStage
from flashnerd_ext.solver.guard import GuardStage, card_bounds
from flashnerd_ext.solver.learned_parts import LearnedParts
from flashnerd_ext.solver.stream import StreamStage

if TYPE_CHECKING:
    from flashnerd_ext.model.free import FreeStepper
    from flashnerd_ext.solver.mapping import StateMap

FALLS_BACK = "their robots take this step analytically, and the model forgets their past"
"""What the guard does in coupled mode, for its log."""


def gravity_changed(bundle: str) -> str:
    """What is said of an event that changes gravity."""
    return (
        f"An event changed gravity, but the free motion that the bundle '{bundle}' has learned is under that of its "
        "training data: it acts on objects only. Remove the event."
    )


class CoupledRows(LearnedParts):
    """The learned robots of a simulation, a row each, ordered by world; each world holds the same number of them.

    Mixed into what knows a simulator: :class:`flashnerd_ext.solver.solver_coupled.SolverCoupled` for MuJoCo Warp,
    :class:`flashnerd_ext.solver.coupled_physx.CoupledPhysx` for PhysX.
    """

    _copies: int

    def _make_rows(
        self, columns: StateMap, copies: int, stepper: FreeStepper, guard_margin: float, guard_history: int
    ) -> None:
        """Make the stages.

        Args:
            columns: Where the robots' coordinates stand in the simulation's flat arrays.
            copies: Robots in a world.
            stepper: Runs the model, a row for each robot.
            guard_margin, guard_history: As of the solver's configuration.
        """
        card, device = self.bundle.card, self.torch_device
        self._copies = copies
        self.frame = FrameStage(columns, False, device)
        self.stream = StreamStage(stepper, device)
        self.guard = GuardStage(
            card_bounds(card, guard_margin), stepper.num_worlds, card.layout.nu, guard_history, device
        )
        self._next_q, self._next_qd = torch.zeros_like(self.frame.joint_q), torch.zeros_like(self.frame.joint_qd)

    def predict(self, state: Any, torque: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Free motion of every robot over the next step; each stream advances by one frame.

        Args:
            state: Has the simulation's ``joint_q`` and ``joint_qd``.
            torque: On the joints of the layout's ``actuated`` [N m or N], shape [N, nu].

        Returns:
            Accelerations [N, nv], and which robots' can be used, boolean [N].
        """
        frame, stream, guard, dt = self.frame, self.stream, self.guard, self.bundle.card.dt
        frame.read(state, None, stream.forget)
        guard.record(frame.state, torque)
        qacc = stream.accelerate(frame.joint_q, frame.joint_qd, torque)
        torch.add(frame.joint_qd, qacc, alpha=dt, out=self._next_qd)
        torch.add(frame.joint_q, self._next_qd, alpha=dt, out=self._next_q)
        guard.check(frame.good, self._next_q, self._next_qd)
        stream.forget.logical_or_(guard.failed)
        return qacc, ~guard.failed

    def settle(self, state: Any) -> None:
        """Take over what the simulator resolved: the next frame."""
        self.frame.settle(state)
        # What the simulator itself could not resolve ends the episode, as a state that nobody can go on from.
        self.guard.pending.logical_or_(~self.frame.good)

    def environment_reset(self, env_ids: torch.Tensor | list[int] | slice | None) -> None:
        """An environment begins a new episode in these worlds: their past and their guard marks are dropped."""
        if env_ids is None:
            rows = torch.ones_like(self.guard.pending)
        else:
            worlds = torch.zeros_like(self.guard.pending).view(-1, self._copies)[:, 0].contiguous()
            if isinstance(env_ids, torch.Tensor) and env_ids.dtype != torch.bool:
                worlds.index_fill_(0, env_ids.to(worlds.device, torch.int64), True)
            else:
                worlds[env_ids] = True
            rows = self.rows_of(worlds)
        self.stream.forget.logical_or_(rows)
        self.guard.pending.logical_and_(~rows)

    def rows_of(self, worlds: torch.Tensor) -> torch.Tensor:
        """A mask of worlds [W] as one of rows [N]."""
        return worlds.repeat_interleave(self._copies)

    @property
    def ended(self) -> torch.Tensor:
        return self.guard.pending.view(-1, self._copies).any(1)
