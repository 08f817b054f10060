"""Configuration of the learned solver; importing it imports neither the manager nor a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from isaaclab.utils import configclass
from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg

from flashnerd_ext.errors import FlashNerdError

if TYPE_CHECKING:
    from isaaclab_newton.physics import NewtonManager


@configclass
class LearnedCfg:
    """What every simulator with a learned model in it is told."""

    bundle: str = "auto"
    """Learned dynamics: a shipped name such as ``cartpole``, or the path of a bundle folder.

    ``auto`` takes the shipped bundle whose joints are those of the robot in the scene.
    """

    model: str = ""
    """Run the bundle's weights in another implementation of the same function, e.g. ``nerd_optimized`` for a ``nerd``
    bundle; ``mujoco_c`` steps the simulator that the bundle was learned from in their place. Empty takes the one that
    the card names."""

    dtype: str = "float32"
    """Dtype of the model's matrices: ``float32`` or ``bfloat16``. States and statistics keep their precision."""

    compile: str = "auto"
    """Whether to compile the model step with torch.compile: ``always``, ``never``, or ``auto``: on a CPU with a C++
    compiler, from 512 worlds up. Compiled code is cached on disk; a step of a new size compiles once, for some tens of
    seconds. At 1,024 worlds it nearly halves the model's time; at a few worlds it is not worth the wait."""

    strict: bool = False
    """Whether what is only warned about otherwise is an error: properties that an event randomises although the model
    is not conditioned on them, differences to the card within its tolerances."""

    guard_margin: float = 0.25
    """How far a state may leave the training envelope, as a share of the envelope's width, before the world is held
    and terminated."""

    guard_history: int = 16
    """Model steps whose states and commands are kept for the guard's dump."""

    guard_dumps: int = 16
    """Dumps kept on disk; 0 writes none. Once so many were written, at most one follows every 1000 model steps."""

    dump_dir: str = ""
    """Folder of the guard's dumps. Empty takes ``flashnerd_guard`` in the run's log folder, else in ``outputs``."""


@configclass
class FlashNerdSolverCfg(LearnedCfg, MJWarpSolverCfg):
    """Configuration of FlashNeRD's learned dynamics on the Newton route.

    With a bundle of learned mode the inherited fields set up the analytical model that stands beside the learned one
    (for viewers and checks), and none of them changes a step. With one of coupled mode they are MuJoCo Warp's own: it
    resolves contacts, limits and friction.
    """

    class_type: type[NewtonManager] | str = "{DIR}.flashnerd_manager:NewtonFlashNerdManager"
    """Manager class for the learned solver."""

    solver_type: str = "flashnerd"
    """Solver type. Can be "flashnerd"."""

    coupling: str = "two_way"
    """How learned robots and what they touch act on each other, for a bundle of coupled mode: ``two_way``, or
    ``one_way`` to leave the reaction of contacts out of the robots' motion. The latter is for comparison only."""


def flashnerd_physics(base: Any = None, **changes: Any) -> NewtonCfg:
    """A fresh ``NewtonCfg`` that steps with FlashNeRD.

    Args:
        base: A Newton configuration with MuJoCo Warp, e.g. the task's ``newton_mjwarp`` preset, whose other settings
            are kept; never modified. ``None`` takes the defaults.
        changes: Fields of :class:`FlashNerdSolverCfg` that differ from their defaults.

    Raises:
        FlashNerdError: When ``base`` runs another solver than MuJoCo Warp.
    """
    solver: dict[str, Any] = {}
    outer: dict[str, Any] = {}
    if base is not None:
        if not isinstance(base, NewtonCfg) or not isinstance(base.solver_cfg, MJWarpSolverCfg):
            raise FlashNerdError(
                f"the base is {type(base).__name__}, but a NewtonCfg with MJWarpSolverCfg is needed: "
                "pass newton_mjwarp."
            )
        own = {"class_type", "solver_type"}
        solver = {key: value for key, value in vars(base.solver_cfg).items() if key not in own}
        outer = {key: value for key, value in vars(base).items() if key not in {"class_type", "solver_cfg"}}
    # The model reads every step's state and writes the next: MuJoCo's copy of it may not be older than that.
    solver["update_data_interval"] = 1
    # The learned step is not captured yet; asking for a graph would only print a warning each time.
    outer["use_cuda_graph"] = False
    return NewtonCfg(solver_cfg=FlashNerdSolverCfg(**{**solver, **changes}), **outer)
