"""The solver of coupled mode: MuJoCo Warp's own, with learned free motion for the robots of the card."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp
from mujoco_warp import IntegratorType
from newton import ModelFlags, StateFlags

from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.model.free import FreeStepper
from flashnerd_ext.solver.conditions import ConditionStage
from flashnerd_ext.solver.coupled import COUPLINGS, CoupledStep
from flashnerd_ext.solver.coupled_labels import RunningFacts, refuse
from flashnerd_ext.solver.coupled_map import CoupledMap, map_coupled
from flashnerd_ext.solver.coupled_routes import contradictions, route_of
from flashnerd_ext.solver.coupled_rows import CoupledRows
from flashnerd_ext.solver.dump import GuardDump
from flashnerd_ext.solver.learned_base import LearnedSolver

if TYPE_CHECKING:
    from newton import Contacts, Control, Model, State

    from flashnerd_ext.bundle.store import Bundle


class SolverCoupled(CoupledRows, LearnedSolver):
    """Newton solver of the coupled mode: a model predicts the free motion of robots, MuJoCo Warp resolves the rest.

    Contacts, joint limits, joint friction and equality constraints are solved for robots and objects together, and the
    same integrator moves both; the resolved state is what the model sees next. Articulations that are not the card's,
    and all objects, are stepped as by :class:`~newton.solvers.SolverMuJoCo`.

    A robot whose prediction is not finite, or leads out of the training envelope, takes that step analytically; such
    steps are counted in ``guard.total``. Not supported, and refused: free bases, sleeping, MuJoCo on the CPU.

    Args:
        model: Finalised Newton model with the card's robot in every world, once or several times.
        bundle: Learned free motion; its card has a ``coupling`` section.
        stepper: Runs the bundle's model, a row for each learned robot.
        coupling: ``two_way``, or ``one_way`` to leave the reaction of contacts out of learned robots.
        guard_margin: Share of the training envelope's width by which predicted states may leave it.
        guard_history: Steps kept for the guard's dump.
        strict: Refuse what the model does not see, instead of saying so once.
        mujoco: Arguments of :class:`~newton.solvers.SolverMuJoCo`.
    """

    def __init__(
        self,
        model: Model,
        bundle: Bundle,
        stepper: FreeStepper,
        *,
        coupling: str = "two_way",
        guard_margin: float = 0.25,
        guard_history: int = 16,
        strict: bool = False,
        **mujoco: Any,
    ) -> None:
        card = bundle.card
        if coupling not in COUPLINGS:
            raise FlashNerdError(
                f"solver_cfg.coupling is '{coupling}', which is not known: {nearest(coupling, COUPLINGS)}"
            )
        if card.coupling is None:
            raise FlashNerdError(
                f"the bundle '{card.name}' is of learned mode, which steps a robot alone: give one whose card has a "
                "coupling section."
            )
        _refuse_options(mujoco)
        self._given_contacts = not mujoco.get("use_mujoco_contacts", True)
        super().__init__(model, bundle, strict=strict, **mujoco)
        if not self.mjw_data.njmax:
            raise FlashNerdError("solver_cfg.njmax is 0, but coupled mode resolves constraints: type njmax=300.")
        self.where: CoupledMap = map_coupled(self, card.layout, card.name, self.torch_device)
        if not isinstance(stepper, FreeStepper) or stepper.num_worlds != self.where.rows:
            raise FlashNerdError(
                f"the stepper is a {type(stepper).__name__} of {stepper.num_worlds} rows, but coupled mode needs a "
                f"FreeStepper with one for each of the {self.where.rows} learned robots: make it so."
            )
        refuse(card, contradictions(card, self.running_facts()))
        route = route_of(card.coupling.label, self.mjw_data)
        self.coupled = CoupledStep(
            self.mjw_model, self.mjw_data, self.where, route, coupling == "one_way", card.layout.actuated_joints
        )
        with torch.inference_mode(False):
            self._make_rows(self.where.state, self.where.copies, stepper, guard_margin, guard_history)
            base = torch.tensor([int(bodies[0]) for bodies in self.where.bodies], device=self.torch_device)
            self.conditions = ConditionStage(
                card, model, base, stepper.condition, self.notices, members=self.where.bodies
            )
        self._state: Any = None
        if coupling == "one_way":
            self.notices.warn(
                "one_way",
                "solver_cfg.coupling is 'one_way': learned robots do not feel what they touch, so that momentum comes "
                "out of nothing. This is for comparison only; two_way is right.",
            )

    def step(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, state_in: State, state_out: State, control: Control, contacts: Contacts, dt: float
    ) -> None:
        """One solver step: ``dt`` must be the model's step [s]; every learned robot's stream advances by one frame."""
        card = self.bundle.card
        if not math.isclose(dt, card.dt, rel_tol=1e-5):
            raise FlashNerdError(
                f"the solver was asked to step {dt:.6g} s, but the bundle '{card.name}' predicts free motion over "
                f"{card.dt:.6g} s: type env.sim.dt={card.simulation.sim_dt:.9g} "
                f"env.sim.physics.num_substeps={card.simulation.substeps}."
            )
        self._state = state_in
        self.coupled.room.given(contacts if self._given_contacts else None)
        super().step(state_in, state_out, control, contacts, dt)
        with torch.inference_mode(), self._on_warp_stream():
            self.settle(state_out)

    def _mujoco_warp_step(self) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        with torch.inference_mode(), self._on_warp_stream():
            self.coupled.order(self._predict)

    def _predict(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.predict(self._state, self.coupled.torque)

    def reset(self, state: State, world_mask: wp.array | None = None, flags: StateFlags | int | None = None) -> None:
        """Solver reset, as :class:`~newton.solvers.SolverMuJoCo` does it; with state flags the past is dropped too.

        Isaac Lab calls this with ``flags=0`` whenever anything in a world was written; what that means for the past is
        decided by what was written (:mod:`flashnerd_ext.solver.stream`).
        """
        super().reset(state, world_mask, flags)
        if not int(StateFlags.ALL if flags is None else flags):
            return
        if world_mask is None:
            self.stream.forget_worlds(None)
        else:
            self.stream.forget.logical_or_(self.rows_of(wp.to_torch(world_mask)[: self.where.worlds]))

    def notify_model_changed(self, flags: int) -> None:
        """Properties changed: the simulator's part follows; what the learned motion contains is said, or refused."""
        super().notify_model_changed(flags)
        watched = int(ModelFlags.JOINT_DOF_PROPERTIES | ModelFlags.BODY_INERTIAL_PROPERTIES)
        if getattr(self, "where", None) is not None and int(flags) & watched:
            found = contradictions(self.bundle.card, self.running_facts())
            if found:
                self.notices.say(
                    "labels",
                    f"An event changed what the bundle '{self.bundle.card.name}' has learned ({found[0]}): the learned "
                    "free motion goes on as trained. Remove the event.",
                )

    def report(self, dump: GuardDump) -> None:
        """Report robots that fell back, contacts without room, and forces that no input of the model shows.

        Raises:
            FlashNerdError: Where one of the latter is refused.
        """
        super().report(dump)
        self.coupled.room.report(self.notices)
        if len(self.bundle.card.robot.actuated) < self.bundle.card.num_joints and bool(self.coupled.unseen.any()):
            self.notices.say(
                "unseen_force",
                f"A force acts on a joint of the learned robot that the bundle '{self.bundle.card.name}' has no input "
                f"for (it has {', '.join(self.bundle.card.robot.actuated) or 'none'}): it has no effect. Train with "
                "all joints actuated.",
            )

    def running_facts(self) -> RunningFacts:
        """What the simulation says of the learned robots now."""
        model: Any = self.model
        running, where = self.mjw_model, self.where

        def joint(values: wp.array, columns: np.ndarray = where.dofs) -> np.ndarray:
            table = values.numpy()
            return np.broadcast_to(table, (where.worlds, table.shape[1]))[:, columns].reshape(where.rows, -1)

        of_dof = running.dof_jntid.numpy()[where.dofs]
        return RunningFacts(
            integrator=IntegratorType(int(running.opt.integrator)).name.lower(),
            damping=joint(running.dof_damping) + np.abs(joint_poly(running.dof_dampingpoly, where)),
            armature=joint(running.dof_armature),
            spring=joint(running.jnt_stiffness, of_dof),
            stiffness=model.joint_target_ke.numpy()[where.newton_dofs],
            gain=model.joint_target_kd.numpy()[where.newton_dofs],
            effort_limit=model.joint_effort_limit.numpy()[where.newton_dofs],
            gravity_compensation=self._gravity_compensation(),
        )

    def _gravity_compensation(self) -> tuple[dict[str, float], ...]:
        """Share of its weight that is compensated, of each link of a learned robot that has some, a table a row."""
        share = self.mjw_model.body_gravcomp.numpy()
        bodies_of: Any = self.mjc_body_to_newton
        place = bodies_of.numpy()
        share = np.broadcast_to(share, place.shape)
        of_body = {int(body): float(value) for body, value in zip(place.ravel(), share.ravel(), strict=True) if value}
        names = self.model.body_label
        return tuple(
            {names[body].rsplit("/", 1)[-1]: of_body[body] for body in map(int, bodies) if body in of_body}
            for bodies in self.where.bodies
        )


def joint_poly(values: wp.array, where: CoupledMap) -> np.ndarray:
    """Largest coefficient of damping that grows with speed, [N, nv]; the card knows none."""
    table = np.abs(values.numpy()).max(-1)
    return np.broadcast_to(table, (where.worlds, table.shape[1]))[:, where.dofs].reshape(where.rows, -1)


def _refuse_options(mujoco: dict[str, Any]) -> None:
    wanted = {"use_mujoco_cpu": False, "enable_sleeping": False, "update_data_interval": 1}
    for name, value in wanted.items():
        if mujoco.get(name, value) != value:
            raise FlashNerdError(
                f"solver_cfg.{name} is {mujoco[name]}, but coupled mode needs {value}: type "
                f"env.sim.physics.solver_cfg.{name}={str(value).lower()}."
            )
