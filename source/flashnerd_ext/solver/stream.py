"""Stage 2: the stream of frames through the model, one frame a model step, and what is forgotten when.

What the past of a world is allowed to be:

- An environment reset clears it (the articulation's ``reset`` says which worlds).
- A written position clears it, whoever wrote it: no motion leads from the past to the new place.
- A written velocity (a push) keeps it; the next frame shows the new velocity.
- A world that the guard held starts anew, since its cache may hold what was not finite.
- Everything else that Isaac Lab calls a solver reset (writes to another object of the world, empty masks) keeps it.

Other worlds are bit-identical whatever happens to one of them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

import torch
from torch import Tensor

from flashnerd_ext.bundle.store import Bundle
from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.contacts import ContactRows
from flashnerd_ext.model.free import FreeStepper
from flashnerd_ext.model.registry import MODELS, build_model
from flashnerd_ext.model.stepper import Stepper
from flashnerd_ext.robots.registry import get_robot
from flashnerd_ext.solver.engine_stepper import ENGINE, EngineStepper

COMPILE_FROM = 512
"""Worlds from which on ``compile="auto"`` compiles: below, a run of minutes does not earn the wait back."""
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}


def make_stepper(
    bundle: Bundle,
    num_worlds: int,
    device: torch.device | str,
    *,
    architecture: str = "",
    dtype: str = "float32",
    compiled: bool = False,
) -> Stepper | EngineStepper:
    """A stepper for a bundle's model.

    Args:
        bundle: The loaded bundle.
        num_worlds: Worlds N.
        device: The simulation's device.
        architecture: Run the weights in another implementation of the same function, e.g. ``nerd_optimized`` for a
            ``nerd`` bundle; ``mujoco_c`` leaves the weights out and steps the simulator that the bundle was learned
            from; empty takes the card's.
        dtype: Dtype of the model's matrices; states stay float32.
        compiled: Compile the step.

    Raises:
        FlashNerdError: When a name is unknown or the weights do not fit the other implementation.
    """
    if dtype not in DTYPES:
        raise FlashNerdError(f"solver_cfg.dtype is '{dtype}', which is not known: {nearest(dtype, DTYPES)}")
    # Buffers made in inference mode could not be updated outside of it.
    if architecture == ENGINE:
        with torch.inference_mode(False):
            return EngineStepper(get_robot(bundle.card.robot.name), num_worlds, device)
    with torch.inference_mode(False):
        model = bundle.model if not architecture else _convert(bundle, architecture)
        if DTYPES[dtype] != model.compute_dtype:
            model = model.set_compute_dtype(DTYPES[dtype])
        simulation = bundle.card.simulation
        kind = Stepper if bundle.card.coupling is None else FreeStepper
        return kind(model, simulation.dt, simulation.inner_steps, num_worlds, device, compiled)


def wants_compiled(choice: str, num_worlds: int, device: torch.device | str) -> bool:
    """Whether the step is compiled, for ``solver_cfg.compile``.

    Raises:
        FlashNerdError: For a choice that is not known.
    """
    choices = ("auto", "always", "never")
    if choice not in choices:
        raise FlashNerdError(f"solver_cfg.compile is '{choice}', which is not known: {nearest(str(choice), choices)}")
    if choice != "auto":
        return choice == "always"
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    return torch.device(device).type == "cpu" and num_worlds >= COMPILE_FROM and compiler is not None


def _convert(bundle: Bundle, architecture: str) -> DynamicsModel:
    have = bundle.card.model
    if architecture == have.name:
        return bundle.model
    if architecture not in MODELS:
        raise FlashNerdError(
            f"solver_cfg.model is '{architecture}', which is not known: {nearest(architecture, [*MODELS, ENGINE])}"
        )
    try:
        model = build_model(architecture, bundle.card.layout, have.config)
        model.load_state_dict(bundle.model.state_dict())
    except (FlashNerdError, RuntimeError):
        raise FlashNerdError(
            f"solver_cfg.model is '{architecture}', but the bundle '{bundle.card.name}' holds weights of '{have.name}' "
            f"that do not fit it: give a bundle of that kind with env.sim.physics.solver_cfg.bundle=NAME_OR_PATH."
        ) from None
    return model.eval().requires_grad_(False)


class StreamStage:
    """Advances the model once a model step.

    Args:
        stepper: Holds model, cache and integrator.
        device: The simulation's device.

    Attributes:
        forget: Worlds whose past is dropped before the next frame, boolean [N].
        steps: Model steps so far.
    """

    def __init__(self, stepper: Stepper | EngineStepper, device: torch.device | str) -> None:
        self.stepper = stepper
        self.forget = torch.ones(stepper.num_worlds, dtype=torch.bool, device=device)
        self.steps = 0
        self._on_cpu = torch.device(device).type == "cpu"

    def forget_worlds(self, env_ids: Tensor | Sequence[int] | slice | None = None) -> None:
        """Mark worlds (all with ``None``) whose past ends here; takes effect with the next frame."""
        if env_ids is None:
            self.forget.fill_(True)
        elif isinstance(env_ids, Tensor) and env_ids.dtype != torch.bool:
            self.forget.index_fill_(0, env_ids.to(self.forget.device, torch.int64), True)
        else:
            self.forget[env_ids] = True

    def advance(
        self, joint_q: Tensor, joint_qd: Tensor, actuation: Tensor, rows: ContactRows | None = None
    ) -> tuple[Tensor, Tensor]:
        """Predicted ``(joint_q [N, nq], joint_qd [N, nv])``; advances every world's stream by exactly one frame."""
        self._begin()
        return self.stepper.step(joint_q, joint_qd, actuation, rows)

    def accelerate(self, joint_q: Tensor, joint_qd: Tensor, actuation: Tensor) -> Tensor:
        """Predicted accelerations of free motion [N, nv], with a :class:`~flashnerd_ext.model.free.FreeStepper`;
        advances every world's stream by exactly one frame."""
        self._begin()
        assert isinstance(self.stepper, FreeStepper)
        return self.stepper.accelerate(joint_q, joint_qd, actuation)

    def _begin(self) -> None:
        """Forget what is to be forgotten, and count the frame."""
        # On a CPU the question costs nothing and spares the pass over the cache; on a GPU it would be a wait.
        if not self._on_cpu or bool(self.forget.any()):
            self.stepper.reset(self.forget)
            self.forget.zero_()
        self.steps += 1
