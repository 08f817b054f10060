"""How the backend reaches the environment that runs it: episode starts, and the guard's termination.

Stock tasks know nothing of a guard, so nothing in them can be configured for it. The backend is told the decimation by
the environment that owns it, at a point where the managers do not exist yet; there it adds one termination term to
that environment's own configuration (manager-based) or wraps that object's ``_get_dones`` (direct). Classes stay as
they are, and nothing is done where another physics backend runs.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from flashnerd_ext.solver.learned_parts import LearnedParts
    from flashnerd_ext.solver.solver_flashnerd import SolverFlashNerd

logger = logging.getLogger(__name__)

TERM = "flashnerd_guard"
"""Name of the termination term; its log entry is ``Episode_Termination/flashnerd_guard``."""


def running_solver() -> LearnedParts | None:
    """What steps the running simulation, in whichever mode and simulator, if a learned model takes part in it."""
    from flashnerd_ext.physics.physx_base import CoupledPhysxManager

    if CoupledPhysxManager.coupled is not None:
        return CoupledPhysxManager.coupled
    from isaaclab_newton.physics import NewtonManager

    from flashnerd_ext.solver.learned_base import LearnedSolver

    solver = NewtonManager._solver
    return solver if isinstance(solver, LearnedSolver) else None


def running_robot() -> SolverFlashNerd | None:
    """The solver of the running simulation where it is of learned mode, in which the model stands for the robot."""
    from flashnerd_ext.solver.solver_flashnerd import SolverFlashNerd

    solver = running_solver()
    return solver if isinstance(solver, SolverFlashNerd) else None


def guard_failed(env: Any) -> torch.Tensor:
    """Termination term: worlds that the guard held since their last reset, boolean [num_envs].

    All false under another physics backend, so that a configuration that carries the term works everywhere.
    """
    solver = running_solver()
    if solver is None:
        return torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    return solver.ended.clone()


def calling_environment() -> Any | None:
    """The environment whose method called into the physics manager, or ``None``.

    ``set_decimation`` is a class method that gets a number only; the object that calls it is found on the stack.
    """
    from isaaclab.envs import DirectMARLEnv, DirectRLEnv, ManagerBasedEnv

    frame = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, ManagerBasedEnv | DirectRLEnv | DirectMARLEnv):
            return owner
        frame = frame.f_back
    return None


def attach(env: Any) -> None:
    """Connect an environment: episode starts reach the solver, and worlds that the guard holds end their episode."""
    from isaaclab.envs import DirectRLEnv, ManagerBasedRLEnv

    for articulation in env.scene.articulations.values():
        watch_resets(articulation)
        if running_robot() is not None:
            watch_wrenches(articulation)
            watch_torque(articulation)
    if isinstance(env, ManagerBasedRLEnv):
        _add_term(env)
    elif isinstance(env, DirectRLEnv):
        _wrap_dones(env)
    else:
        logger.warning(
            "%s has no single-agent terminations, so worlds that FlashNeRD's guard holds are not ended: read "
            "flashnerd_ext.physics.environment.guard_failed(env) and end them yourself.",
            type(env).__name__,
        )


def watch_resets(articulation: Any) -> None:
    """Let ``articulation.reset`` also tell the solver; both kinds of environment call it for each new episode."""
    original = articulation.reset
    if getattr(original, "_flashnerd", False):
        return

    def reset(env_ids: Any = None, env_mask: Any = None) -> None:
        original(env_ids, env_mask)
        solver = running_solver()
        if solver is not None:
            solver.environment_reset(_selection(env_ids, env_mask))

    reset._flashnerd = True  # type: ignore[attr-defined]
    articulation.reset = reset


def watch_wrenches(articulation: Any) -> None:
    """Say once that wrenches on bodies do not act, when the first one is about to be written."""
    original = articulation.write_data_to_sim
    if getattr(original, "_flashnerd", False):
        return
    composers = [getattr(articulation, f"_{kind}_wrench_composer", None) for kind in ("instantaneous", "permanent")]
    warned = False

    def write_data_to_sim() -> None:
        nonlocal warned
        if not warned and any(composer is not None and composer.active for composer in composers):
            warned = True
            if running_robot() is not None:
                logger.warning(
                    "An external force or torque is applied to '%s', but the learned dynamics take none: it has no "
                    "effect. Push by velocity (isaaclab.envs.mdp.push_by_setting_velocity) instead.",
                    articulation.cfg.prim_path,
                )
        original()

    write_data_to_sim._flashnerd = True  # type: ignore[attr-defined]
    articulation.write_data_to_sim = write_data_to_sim


def watch_torque(articulation: Any) -> None:
    """Let ``applied_torque`` read what the model predicts, after each step.

    Isaac Lab's own actuator models compute it before the physics, once a simulation step in the simulator, but once a
    control step where the backend takes all of it: what rewards would read is the torque before the robot has moved.
    """
    original = articulation.update
    if getattr(original, "_flashnerd", False):
        return
    columns: torch.Tensor | None = None

    def update(dt: float) -> None:
        nonlocal columns
        original(dt)
        solver = running_robot()
        if solver is None or not solver.sensors.capacity or solver.bundle.card.layout.drive is None:
            return
        if columns is None:
            names = list(articulation.joint_names)
            places = [names.index(name) for name in solver.bundle.card.layout.actuated]
            columns = torch.tensor(places, device=solver.torch_device)
        import warp as wp

        applied = wp.to_torch(articulation.actuators.applied_effort.warp, requires_grad=False)
        applied.index_copy_(1, columns, solver.sensors.torque)

    update._flashnerd = True  # type: ignore[attr-defined]
    articulation.update = update


def _selection(env_ids: Any, env_mask: Any) -> Any:
    """Isaac Lab's two ways to name environments as one that indexes a tensor; the mask takes precedence there."""
    if env_mask is not None:
        import warp as wp

        return wp.to_torch(env_mask) if isinstance(env_mask, wp.array) else env_mask
    if env_ids is None or env_ids is Ellipsis or env_ids == slice(None):
        return None
    if not isinstance(env_ids, torch.Tensor | slice | list):
        import warp as wp

        return wp.to_torch(env_ids) if isinstance(env_ids, wp.array) else list(env_ids)
    return env_ids


def _add_term(env: Any) -> None:
    from isaaclab.managers import TerminationTermCfg

    term, terms = TerminationTermCfg(func=guard_failed), env.cfg.terminations
    if isinstance(terms, dict):
        terms.setdefault(TERM, term)
    elif getattr(terms, TERM, None) is None:
        setattr(terms, TERM, term)


def _wrap_dones(env: Any) -> None:
    original: Callable[[], tuple[torch.Tensor, torch.Tensor]] = env._get_dones
    if getattr(original, "_flashnerd", False):
        return

    def get_dones() -> tuple[torch.Tensor, torch.Tensor]:
        terminated, timed_out = original()
        held = guard_failed(env)
        log = env.extras.setdefault("log", {})
        log[f"Episode_Termination/{TERM}"] = held.float().mean()
        return terminated | held, timed_out

    get_dones._flashnerd = True  # type: ignore[attr-defined]
    env._get_dones = get_dones
