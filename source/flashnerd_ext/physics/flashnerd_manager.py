"""Newton manager whose solver is a learned model that steps once for a whole control step."""

from __future__ import annotations

import logging
from typing import Any

import torch
import warp as wp
from isaaclab.physics import PhysicsManager
from isaaclab_newton.physics import NewtonManager, NewtonMJWarpManager
from newton import Contacts, Model, ModelBuilder, ModelFlags
from newton.solvers import SolverMuJoCo

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.free import FreeStepper
from flashnerd_ext.physics.bundles import choose_bundle, wants_coupling
from flashnerd_ext.physics.drives import DriveWatch, check_drives
from flashnerd_ext.physics.environment import attach, calling_environment
from flashnerd_ext.physics.facts import check_coupled, check_simulation
from flashnerd_ext.physics.flashnerd_manager_cfg import FlashNerdSolverCfg
from flashnerd_ext.physics.startup import announce, make_dump
from flashnerd_ext.solver.coupled_map import learned_articulations
from flashnerd_ext.solver.coupled_rows import FALLS_BACK, gravity_changed
from flashnerd_ext.solver.dump import HELD
from flashnerd_ext.solver.engine_stepper import ENGINE
from flashnerd_ext.solver.integrate import ModelClock, fit_clock
from flashnerd_ext.solver.learned_base import LearnedSolver
from flashnerd_ext.solver.mapping import CLONE_REMEDY
from flashnerd_ext.solver.solver_coupled import SolverCoupled
from flashnerd_ext.solver.solver_flashnerd import SolverFlashNerd
from flashnerd_ext.solver.stream import make_stepper, wants_compiled

logger = logging.getLogger(__name__)

_NO_MARGIN = 1e5
_CHANGES = {
    ModelFlags.BODY_INERTIAL_PROPERTIES: "mass, centre of mass or inertia of a body",
    ModelFlags.SHAPE_PROPERTIES: "friction, restitution or another contact property of a shape",
    ModelFlags.JOINT_DOF_PROPERTIES: "gains, limits, friction or armature of a joint",
    ModelFlags.JOINT_PROPERTIES: "the placement of a joint",
    ModelFlags.BODY_PROPERTIES: "a property of a body",
    ModelFlags.MODEL_PROPERTIES: "gravity",
    ModelFlags.ACTUATOR_PROPERTIES: "an actuator's parameters",
    ModelFlags.TENDON_PROPERTIES: "a tendon's parameters",
    ModelFlags.CONSTRAINT_PROPERTIES: "an equality constraint",
}


class NewtonFlashNerdManager(NewtonMJWarpManager):
    """:class:`NewtonMJWarpManager` with FlashNeRD's learned dynamics in place of the analytical step.

    One model step covers one control step with the commands held (or one simulation step, for a bundle trained at
    that rate). Differences that a task can notice: explicit actuator models are evaluated once a model step, external
    wrenches and changes of physical properties have no effect (each is said once), contact sensors and joint reaction
    wrenches read 0, CUDA graphs are not used.

    With a bundle of coupled mode it is MuJoCo Warp that steps, as under its own manager, and the model predicts the
    free motion of learned robots once a solver step (:class:`flashnerd_ext.solver.solver_coupled.SolverCoupled`).
    """

    # -- construction ---------------------------------------------------------------------------------------------

    @classmethod
    def _prepare_builder_for_finalize(cls, builder: ModelBuilder) -> None:
        """Refuse a scene whose environments were not cloned, before its assets look for robots that are not there."""
        super()._prepare_builder_for_finalize(builder)
        scene = getattr(PhysicsManager._sim, "_interactive_scene", None)
        environments = 1 if scene is None else int(scene.num_envs)
        worlds, articulations = max(int(builder.world_count), 1), int(builder.articulation_count)
        if scene is None or worlds == environments == articulations:
            return
        if worlds == environments:
            # Coupled mode steps scenes with more than the robot in each world; what is wrong with the bundle, or that
            # none is shipped, is said first.
            bundle = choose_bundle(cls._solver_cfg().bundle, builder)
            if bundle.card.coupling is not None:
                return
        raise FlashNerdError(
            f"the simulation has {articulations} articulations in {worlds} worlds, but the scene has {environments} "
            f"environments, and the learned backend steps one robot in each: {CLONE_REMEDY}."
        )

    @classmethod
    def _create_solver(cls, model: Model, solver_cfg: Any) -> LearnedSolver:
        """Construct the solver of the bundle's mode; refuses a bundle that does not fit the robot in the scene."""
        bundle = choose_bundle(solver_cfg.bundle, model)
        kwargs = cls._filter_solver_kwargs(SolverMuJoCo, solver_cfg)
        kwargs.pop("ls_parallel", None)
        rows = max(int(model.world_count), 1)
        if bundle.card.coupling is not None:
            rows = max(sum(map(len, learned_articulations(model, bundle.card.robot.joint_names))), 1)
            if solver_cfg.model == ENGINE:
                raise FlashNerdError(
                    f"solver_cfg.model is '{ENGINE}', which stands for a whole robot, but the bundle "
                    f"'{bundle.card.name}' is of coupled mode: type physics=newton_mjwarp."
                )
        stepper = make_stepper(
            bundle,
            rows,
            wp.device_to_torch(model.device),
            architecture=solver_cfg.model,
            dtype=solver_cfg.dtype,
            compiled=wants_compiled(solver_cfg.compile, rows, wp.device_to_torch(model.device)),
        )
        if isinstance(stepper, FreeStepper):
            return SolverCoupled(
                model,
                bundle,
                stepper,
                coupling=solver_cfg.coupling,
                guard_margin=solver_cfg.guard_margin,
                guard_history=solver_cfg.guard_history,
                strict=solver_cfg.strict,
                **kwargs,
            )
        return SolverFlashNerd(
            model,
            bundle,
            stepper,
            # The envelope says what a model knows; the simulator itself knows everything.
            guard_margin=_NO_MARGIN if solver_cfg.model == ENGINE else solver_cfg.guard_margin,
            guard_history=solver_cfg.guard_history,
            strict=solver_cfg.strict,
            **kwargs,
        )

    @classmethod
    def _build_solver(cls, model: Model, solver_cfg: Any) -> None:
        super()._build_solver(model, solver_cfg)
        solver = cls._learned()
        mode = "coupled"
        if isinstance(solver, SolverFlashNerd):
            mode = "learned"
            # A stage of the learned solver finds contacts, whichever detector the task has for the analytical one.
            NewtonManager._needs_collision_pipeline = False
            # The learned step sees commands only; viewers must not offer to pull at bodies.
            NewtonManager._supports_rigid_body_force_input = False
        announce(solver, mode)

    @classmethod
    def _initialize_contacts(cls) -> None:
        """A contact buffer for sensors: one contact a link and world; in coupled mode the solver's own."""
        model: Any = cls.get_model()
        solver = cls._learned()
        if not isinstance(solver, SolverFlashNerd):
            super()._initialize_contacts()
            return
        NewtonManager._contacts = Contacts(
            rigid_contact_max=max(solver.sensors.capacity, 1),
            soft_contact_max=0,
            device=PhysicsManager._device,
            requested_attributes=model.get_requested_contact_attributes(),
        )

    @classmethod
    def _validate_deterministic_solver_cfg(cls, solver_cfg: Any, deterministic_mode: wp.DeterministicMode) -> None:
        """Run-to-run determinism holds on the CPU; on a GPU it is torch's to promise.

        The learned step has no atomics and no random numbers. What remains is the order of sums inside torch's matrix
        kernels, fixed on a CPU for one thread count; on a GPU ask torch.use_deterministic_algorithms.
        """
        if wants_coupling(solver_cfg.bundle, cls.get_model()):
            super()._validate_deterministic_solver_cfg(solver_cfg, deterministic_mode)
        if deterministic_mode == wp.DeterministicMode.GPU_TO_GPU:
            raise ValueError(
                "FlashNeRD cannot promise the same numbers on different GPUs, since torch chooses its kernels by the "
                "device: set NewtonCfg.deterministic_mode to 'run_to_run'."
            )

    @classmethod
    def _supports_cuda_graph_capture(cls) -> bool:
        """Not yet: the step was written for it (static buffers, no host reads), but never captured on a GPU."""
        return False

    # -- the environment's rate -------------------------------------------------------------------------------------

    @classmethod
    def set_decimation(cls, decimation: int) -> None:
        """Take the environment's decimation, check the bundle against the running simulation, and connect both."""
        # On the base class, where every reader looks; the parent would set it on this subclass and leave it there.
        NewtonManager._decimation = max(1, int(decimation))
        cls._prepare(calling_environment())

    @classmethod
    def handles_decimation(cls) -> bool:
        """Whether one :meth:`step` covers the whole control step: yes for a bundle trained at the control rate."""
        clock = cls._learned().clock
        return super().handles_decimation() or (clock is not None and clock.spans_decimation)

    @classmethod
    def _prepare(cls, env: Any | None) -> None:
        """Fit the clock, compare the simulation with the card, and set up what follows from the environment."""
        solver, cfg = cls._learned(), cls._solver_cfg()
        card, physics_dt = solver.bundle.card, cls._physics_dt()
        effect = HELD
        if isinstance(solver, SolverCoupled):
            effect = FALLS_BACK
            steps = NewtonManager._decimation * NewtonManager._num_substeps
            findings = check_coupled(card, cls.get_model(), solver.where, NewtonManager._solver_dt, steps)
            solver.clock = ModelClock(card.dt, 1)
        else:
            solver.clock = fit_clock(card, physics_dt, NewtonManager._decimation)
            findings = check_simulation(card, cls.get_model(), physics_dt, NewtonManager._decimation)
            check_drives(card, cls.get_model(), cls._adapter)
            solver.drives = DriveWatch(card, cls._adapter)
        for warning in findings.warnings:
            solver.notices.say(warning, warning)
        if findings.unchecked:
            logger.info("FlashNeRD: the card does not say, so it was not checked: %s.", ", ".join(findings.unchecked))
        solver.dump = make_dump(solver, cfg, env, effect)
        cls._settle_model_changes(solver)
        if env is not None:
            attach(env)

    @classmethod
    def _settle_model_changes(cls, solver: LearnedSolver) -> None:
        """Changes so far were checked against the card; from here on the model would not see any."""
        for change in NewtonManager._model_changes:
            solver.notify_model_changed(change)
        NewtonManager._model_changes = set()
        name = solver.bundle.card.name
        if not isinstance(solver, SolverFlashNerd):
            # All but gravity is the simulator's own, or is looked at by the solver when it hears of it.
            NewtonManager._ignored_model_changes = {int(ModelFlags.MODEL_PROPERTIES): gravity_changed(name)}
            return
        honoured = set()
        if solver.conditions.covers_inertia:
            honoured.add(ModelFlags.BODY_INERTIAL_PROPERTIES)
        if solver.contact_stage.capacity:
            honoured.add(ModelFlags.SHAPE_PROPERTIES)
        NewtonManager._ignored_model_changes = {
            int(flag): (
                f"An event changed {what}, but the bundle '{name}' is not conditioned on it: the learned dynamics go "
                "on as trained. Remove the event, or train on randomised data."
            )
            for flag, what in _CHANGES.items()
            if flag not in honoured
        }

    # -- stepping ---------------------------------------------------------------------------------------------------

    @classmethod
    def step(cls) -> None:
        """One model step: the whole control step, or one simulation step, as the bundle was trained."""
        sim = PhysicsManager._sim
        if sim is None or not sim.is_playing():
            return
        solver = cls._learned()
        if solver.clock is None:
            # No environment has announced itself (a bare simulation), or a hard reset made a new solver.
            cls._prepare(calling_environment())
        cls._refuse_changes()
        super().step()
        clock = solver.clock
        if clock is not None and not cls._is_all_graphable():
            # The parent counted one simulation step.
            PhysicsManager._sim_time += (clock.sim_steps - 1) * cls._physics_dt()

    @classmethod
    def _simulate_full(cls) -> None:
        """Newton's own actuators, then the model, as often as the control step holds model steps."""
        backend: Any = cls.backend
        solver = cls._learned()
        if not isinstance(solver, SolverFlashNerd):
            super()._simulate_full()
            return
        clock = solver.clock
        assert clock is not None
        rounds = NewtonManager._decimation // clock.sim_steps
        for i in range(rounds):
            if solver.frame.targets:
                # The model takes the targets; what rewards read as applied torque is its mean over the step.
                cls._model_step()
                solver.publish_torque(backend.control)
            elif cls._adapter is not None:
                last = i == rounds - 1
                cls._adapter.step(backend.state_0, backend.control, clock.dt, swap_state=rounds % 2 == 0 or not last)
            for callback in cls._post_actuator_callbacks:
                callback()
            if not solver.frame.targets:
                cls._model_step()
        cls._publish()

    @classmethod
    def _simulate_physics_only(cls) -> None:
        if not isinstance(cls._learned(), SolverFlashNerd):
            super()._simulate_physics_only()
            return
        cls._model_step()
        cls._publish()

    @classmethod
    def _model_step(cls) -> None:
        backend: Any = cls.backend
        state = backend.state_0
        cls._step_solver(state, state, backend.control, None, cls._learned().bundle.card.dt)
        state.clear_forces()

    @classmethod
    def _publish(cls) -> None:
        for callback in cls._post_step_callbacks:
            callback()
        cls._update_sensors(None)

    @classmethod
    def _check_solver_status(cls) -> None:
        """After the step, on the host: report what the guard held."""
        solver = cls._learned()
        if solver.dump is not None:
            solver.report(solver.dump)

    @classmethod
    def _refuse_changes(cls) -> None:
        """What an event changed since the last step, where that must not pass with a warning or without one."""
        solver = cls._learned()
        if solver.drives is not None:
            solver.drives.report(solver.notices)
        if not NewtonManager._model_changes:
            return
        model: Any = cls.get_model()
        if ModelFlags.BODY_INERTIAL_PROPERTIES in NewtonManager._model_changes:
            mass = wp.to_torch(model.body_mass)
            bad = torch.nonzero(~(mass > 0)).flatten()
            if len(bad):
                raise FlashNerdError(
                    f"the mass of {model.body_label[int(bad[0])]} is {float(mass[bad[0]]):.6g} kg, but a positive one "
                    "is needed: correct the event that randomises it."
                )
        ignored = [c for c in NewtonManager._model_changes if c in NewtonManager._ignored_model_changes]
        # The parent says these once.
        if solver.notices.strict and ignored:
            solver.notices.say("ignored", NewtonManager._ignored_model_changes[ignored[0]])

    @classmethod
    def _log_solver_debug(cls) -> None:
        """In learned mode there is no iteration whose convergence could be logged."""
        if not isinstance(cls._learned(), SolverFlashNerd):
            super()._log_solver_debug()

    @classmethod
    def _learned(cls) -> LearnedSolver:
        solver = NewtonManager._solver
        if not isinstance(solver, LearnedSolver):
            raise FlashNerdError("the FlashNeRD solver is not built yet: reset the simulation first.")
        return solver

    @classmethod
    def _solver_cfg(cls) -> FlashNerdSolverCfg:
        return PhysicsManager._cfg.solver_cfg  # type: ignore[union-attr]

    @classmethod
    def _physics_dt(cls) -> float:
        return NewtonManager._solver_dt * NewtonManager._num_substeps
