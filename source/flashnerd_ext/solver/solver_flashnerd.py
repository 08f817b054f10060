"""The learned solver: what one step consists of, as the list of its stages."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
import warp as wp
from newton import StateFlags

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.solver.conditions import ConditionStage
from flashnerd_ext.solver.dump import GuardDump
from flashnerd_ext.solver.engine_stepper import EngineStepper
from flashnerd_ext.solver.frame import FrameStage
from flashnerd_ext.solver.guard import GuardStage, card_bounds
from flashnerd_ext.solver.learned_base import LearnedSolver
from flashnerd_ext.solver.mapping import map_state, root_bodies
from flashnerd_ext.solver.sensors import SensorStage
from flashnerd_ext.solver.stream import StreamStage
from flashnerd_ext.solver.terrain_contacts import contact_stage
from flashnerd_ext.solver.write import WriteStage

if TYPE_CHECKING:
    from newton import Contacts, Control, Model, State

    from flashnerd_ext.bundle.store import Bundle
    from flashnerd_ext.model.stepper import Stepper


class SolverFlashNerd(LearnedSolver):
    """Newton solver of the learned mode: it steps one robot a world with a model alone.

    It is a :class:`~newton.solvers.SolverMuJoCo` so that viewers, exporters and Isaac Lab's type checks find the
    analytical model beside it; the learned step neither pushes state to MuJoCo nor detects contacts nor solves a
    constraint.

    Not supported in this mode, and said once where it is met: external wrenches (``State.body_f``), objects that the
    robot moves, physical properties that change after the bundle was checked.

    Args:
        model: Finalised Newton model with one articulation a world.
        bundle: The learned dynamics.
        stepper: Runs the bundle's model for all worlds.
        guard_margin: Share of the training envelope's width by which states may leave it.
        guard_history: Steps kept for the guard's dump.
        strict: Refuse what has no effect, instead of saying so once.
        mujoco: Arguments of :class:`~newton.solvers.SolverMuJoCo`.
    """

    def __init__(
        self,
        model: Model,
        bundle: Bundle,
        stepper: Stepper | EngineStepper,
        *,
        guard_margin: float = 0.25,
        guard_history: int = 16,
        strict: bool = False,
        **mujoco: Any,
    ) -> None:
        super().__init__(model, bundle, strict=strict, **mujoco)
        card = bundle.card
        if stepper.num_worlds != max(model.world_count, 1):
            raise FlashNerdError(
                f"the stepper has {stepper.num_worlds} worlds, but the simulation {model.world_count}: make it so."
            )
        self._look_again = True
        with torch.inference_mode(False):
            columns = map_state(model, card.layout, card.name, self.torch_device)
            self.contact_stage = contact_stage(card, model, self.torch_device)
            sim_steps = max(1, round(card.dt / card.simulation.sim_dt))
            mass: Any = model.body_mass
            weight = math.hypot(*card.simulation.gravity) * float(mass.numpy().sum()) / columns.worlds
            self.sensors = SensorStage(
                card.layout, self.contact_stage, stepper.model.sensed, card.dt, sim_steps, weight
            )
            self.frame = FrameStage(columns, card.actuation.kind == "target", self.torch_device)
            self.stream = StreamStage(stepper, self.torch_device)
            self.guard = GuardStage(
                card_bounds(card, guard_margin), columns.worlds, len(columns.u), guard_history, self.torch_device
            )
            self.conditions = ConditionStage(
                card, model, torch.from_numpy(root_bodies(model)).to(self.torch_device), stepper.condition,
                self.notices,
            )  # fmt: skip
        self.write = WriteStage(model, self.frame)

    def step(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, state_in: State, state_out: State, control: Control, contacts: Contacts | None, dt: float
    ) -> None:
        """One model step: ``dt`` must be the model's step [s]; every world's stream advances by one frame."""
        if not math.isclose(dt, self.bundle.card.dt, rel_tol=1e-5):
            raise FlashNerdError(
                f"the solver was asked to step {dt:.6g} s, but the bundle '{self.bundle.card.name}' steps "
                f"{self.bundle.card.dt:.6g} s: step it at that rate."
            )
        frame, stream, guard = self.frame, self.stream, self.guard
        with torch.inference_mode(), self._on_warp_stream():
            frame.read(state_in, control, stream.forget)
            if self._look_again and isinstance(stream.stepper, EngineStepper):
                stream.stepper.friction.copy_(self.contact_stage.friction())
            # Rows of the others are those that the last step ended with.
            rows = self.contact_stage.rows(state_in, None if self._look_again else frame.changed)
            self._look_again = not self.sensors.capacity
            self.sensors.start(frame.joint_q, frame.joint_qd)
            guard.record(frame.state, frame.actuation)
            joint_q, joint_qd = stream.advance(frame.joint_q, frame.joint_qd, frame.actuation, rows)
            guard.hold(frame.state, frame.good, joint_q, joint_qd)
            # A held world's cache may hold what is not finite; its next frame is its first.
            stream.forget.logical_or_(guard.failed)
            self.write.write(state_out, frame.joint_q, frame.joint_qd)
            self._last_state = state_out
            if self.sensors.capacity:
                self.contact_stage.rows(state_out, count=False)
                self.sensors.end(
                    frame.joint_q, frame.joint_qd, frame.actuation, stream.stepper.condition, stream.stepper.sensed,
                    guard.failed,
                )  # fmt: skip
        self._step += 1

    def reset(self, state: State, world_mask: wp.array | None = None, flags: StateFlags | int | None = None) -> None:
        """With state flags reset as :class:`~newton.solvers.SolverMuJoCo` does; those worlds forget their past.

        Isaac Lab calls this with ``flags=0`` before it steps whenever anything in a world was written, pushes and
        writes to other objects included, and with empty masks. What that means for the past is decided by what was
        written (:mod:`flashnerd_ext.solver.stream`), so there is nothing to do then; the analytical solver's buffers
        are not used.
        """
        flags_value = int(StateFlags.ALL if flags is None else flags)
        if not flags_value:
            return
        super().reset(state, world_mask, flags)
        if world_mask is None:
            self.stream.forget_worlds(None)
        else:
            self.stream.forget.logical_or_(wp.to_torch(world_mask)[: len(self.stream.forget)])

    def environment_reset(self, env_ids: torch.Tensor | list[int] | slice | None) -> None:
        """An environment begins a new episode in these worlds: their past and their guard marks are dropped."""
        self.stream.forget_worlds(env_ids)
        self.guard.cleared(env_ids)
        if self.drives is not None:
            self.drives.look_again()

    @property
    def ended(self) -> torch.Tensor:
        return self.guard.pending

    def notify_model_changed(self, flags: int) -> None:
        """Properties changed: the analytical model beside follows, and conditions that the bundle knows."""
        super().notify_model_changed(flags)
        self._look_again = True  # friction may be another

    def update_contacts(self, contacts: Contacts, state: State | None = None) -> None:
        """Let contact sensors read what the model predicted, or 0 where it predicts no forces."""
        self.sensors.publish(contacts)

    def publish_torque(self, control: Any) -> None:
        """Write the torques of the last simulation step where commanded efforts stand, for whoever reports them."""
        if self.sensors.capacity:
            self.frame.views(self._last_state, control).joint_f.index_copy_(1, self.frame.map.u, self.sensors.torque)

    def report(self, dump: GuardDump) -> None:
        """Report failures of the last model step and contacts without a row; where the host waits for flags.

        Raises:
            FlashNerdError: Where contacts were dropped and that is refused.
        """
        super().report(dump)
        # MuJoCo C finds its contacts itself.
        if not isinstance(self.stream.stepper, EngineStepper):
            self.contact_stage.report(self.notices)
