"""Rollouts inside a loss: gradients to commands, initial state, conditions and weights.

The past is a value here, not a ring that is written in place, so that it is part of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils import checkpoint as recomputing

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.contacts import ContactRows
from flashnerd_ext.model.frame import encode_frame
from flashnerd_ext.model.free import FreeIntegrator
from flashnerd_ext.model.inputs import check_inputs
from flashnerd_ext.model.integrate import Integrator

if TYPE_CHECKING:
    from flashnerd_ext.bundle.store import Bundle

Contacts = Callable[[Any, Any], ContactRows]
"""``(joint_q [N, nq], joint_qd [N, nv]) -> ContactRows`` with leading shape [N], called before each step."""
State = tuple[Tensor, Tensor]
"""``joint_q`` and ``joint_qd``."""

_WEIGHTS = {torch.float32: (torch.float32, torch.bfloat16, torch.float16), torch.float64: (torch.float64,)}
"""Dtypes of weights that go with each dtype of states."""


def differentiable_rollout(
    model: Bundle | DynamicsModel,
    joint_q: Tensor,
    joint_qd: Tensor,
    actuation: Tensor,
    dt: float | None = None,
    *,
    inner_steps: int | None = None,
    free_motion: bool = False,
    contacts: Contacts | None = None,
    condition: Tensor | None = None,
    checkpoint: int = 0,
) -> tuple[Tensor, Tensor]:
    """Step a model from initial states with an empty past, and keep the graph.

    Gradients reach every input that requires them, and every weight that does: a loaded bundle's weights are frozen
    until ``bundle.model.requires_grad_(True)``. The values are those of :func:`flashnerd_ext.rollout` and of
    :class:`flashnerd_ext.model.stepper.Stepper` to rounding.

    Args:
        model: A bundle, or a model together with ``dt`` and ``inner_steps``.
        joint_q: Initial coordinates in Newton's conventions [m or rad; a free base is position and quaternion
            x, y, z, w], shape [N, nq].
        joint_qd: Initial velocities, shape [N, nv]; a free base's are COM linear and angular in the world frame.
        actuation: Efforts [N or N m] or position targets [m or rad], shape [T, N, nu], T at least 1; each is held for
            one model step. In free motion the torque on every joint.
        dt: Model time step [s]; only with a model.
        inner_steps: Simulator steps in one model step; only with a model. 1 in free motion.
        free_motion: Only with a model; a bundle says it in its card. The velocity changes by the label times dt and
            the position by the new velocity times dt, without contacts and limits (coupled mode).
        contacts: Gives the contact rows of a state, for a model that takes them. Gradients flow through the rows as
            far as the function keeps them in torch; which contacts there are is outside of the graph. With
            ``checkpoint`` it is called a second time, and must give the same.
        condition: Deviations of each world from the nominal robot in the order of ``layout.conditions``, shape [N, C];
            nominal by default.
        checkpoint: So many steps at a time are computed again in the backward pass in place of kept, which costs one
            more forward pass; about the square root of T keeps the least. 0 keeps all: memory grows by the same amount
            with each step.

    Returns:
        ``joint_q`` [T + 1, N, nq] and ``joint_qd`` [T + 1, N, nv], the initial state first, in the inputs' dtype. A
        state that diverges stays as it is: check ``isfinite``.

    Raises:
        FlashNerdError: When a shape, dtype or option does not fit, or contact rows are needed and not given.
    """
    tensors = {"joint_q": joint_q, "joint_qd": joint_qd, "actuation": actuation}
    if condition is not None:
        tensors["condition"] = condition
    _check_kinds(tensors)
    network, integrator = _prepared(model, joint_q.dtype, dt, inner_steps, free_motion)
    check_inputs(network.layout, tensors, "the model's layout (bundle.card.robot)")
    _check_network(network, joint_q, contacts)
    if not len(actuation):
        raise FlashNerdError("actuation has 0 steps, but at least 1 is needed: pass it with shape [T, N, nu].")
    if isinstance(checkpoint, bool) or not isinstance(checkpoint, int) or checkpoint < 0:
        raise FlashNerdError(f"checkpoint is {checkpoint!r}, but 0 or a number of steps is needed: pass checkpoint=0.")

    def advance(state: State, past: Any, commands: Tensor) -> tuple[list[State], Any]:
        """A few steps; ``past`` is what the model remembers."""
        states: list[State] = []
        for command in commands:
            rows = contacts(*state) if contacts is not None else None
            frame = encode_frame(network.layout, *state, command, condition)
            out, past = network.recall(frame, past, rows)
            state = integrator.apply(*state, out)
            states.append(state)
        return states, past

    states: list[State] = [(joint_q, joint_qd)]
    past: Any = None
    for commands in actuation.split(checkpoint or len(actuation)):
        if checkpoint and torch.is_grad_enabled():
            more, past = recomputing.checkpoint(  # pyright: ignore[reportGeneralTypeIssues]
                advance, states[-1], past, commands, use_reentrant=False, preserve_rng_state=False
            )
        else:
            more, past = advance(states[-1], past, commands)
        states += more
    return torch.stack([state[0] for state in states]), torch.stack([state[1] for state in states])


def _prepared(
    model: Bundle | DynamicsModel, dtype: torch.dtype, dt: float | None, inner_steps: int | None, free_motion: bool
) -> tuple[DynamicsModel, Integrator]:
    """The network in the precision of the states, and what turns its predictions into states."""
    if isinstance(model, DynamicsModel):
        steps = 1 if free_motion and inner_steps is None else inner_steps
        if dt is None or steps is None:
            name = "dt" if dt is None else "inner_steps"
            raise FlashNerdError(
                f"{name} is None, but a model alone does not say its time step and the simulator steps in it: "
                "pass dt= and inner_steps=, or a bundle."
            )
        if not dt > 0 or steps < 1 or (free_motion and steps != 1):
            raise FlashNerdError(
                f"dt is {dt} and inner_steps is {steps}, but a positive time and "
                f"{'1 step in free motion' if free_motion else 'at least 1 step'} are needed: pass the model's own."
            )
        if free_motion and model.layout.floating_base:
            raise FlashNerdError(
                "free_motion is True, but the robot has a free base, and free motion is that of a fixed one: "
                "leave free_motion out."
            )
        kind = FreeIntegrator if free_motion else Integrator
        return model, kind(model.layout, dt, steps, model.kinematic_prior)
    if dt is not None or inner_steps is not None or free_motion:
        raise FlashNerdError(
            "dt, inner_steps or free_motion is given together with a bundle, whose card says them: leave them out."
        )
    network = model.model
    if dtype == torch.float64 and network.compute_dtype != dtype:
        if any(weight.requires_grad for weight in network.parameters()):
            # bundle.double() is a copy: gradients would end in weights that nobody sees.
            raise FlashNerdError(
                f"joint_q is torch.float64, but the bundle's weights, which require grad, are {network.compute_dtype}: "
                "type bundle.model.double(), or pass float32 inputs."
            )
        network = model.double()
    return network, integrator_of(model, network)


def integrator_of(bundle: Bundle, model: DynamicsModel) -> Integrator:
    """What turns a bundle's predictions into states, of learned mode or of free motion, as its card says."""
    card = bundle.card
    kind = Integrator if card.coupling is None else FreeIntegrator
    return kind(card.layout, card.dt, card.simulation.inner_steps, model.kinematic_prior)


def _check_kinds(tensors: dict[str, Tensor]) -> None:
    first = tensors["joint_q"]
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise FlashNerdError(
                f"{name} is of type {type(value).__name__}, but a torch tensor is needed: pass torch.as_tensor({name})."
            )
        if value.dtype not in _WEIGHTS or value.dtype != first.dtype:
            raise FlashNerdError(
                f"{name} has dtype {value.dtype}, but float32 or float64, one for all inputs, is needed: "
                f"pass {name}.to(torch.float32) and the others likewise."
            )


def _check_network(network: DynamicsModel, joint_q: Tensor, contacts: Contacts | None) -> None:
    weight = next(network.parameters())
    if weight.device != joint_q.device:
        raise FlashNerdError(
            f"joint_q is on {joint_q.device}, but the model is on {weight.device}: move one of them, e.g. with "
            f".to({str(joint_q.device)!r})."
        )
    if weight.dtype not in _WEIGHTS[joint_q.dtype]:
        raise FlashNerdError(
            f"joint_q is {joint_q.dtype}, but the model's weights are {weight.dtype}: "
            f"type model.to({joint_q.dtype}), or pass inputs of its dtype."
        )
    if network.rows_capacity and contacts is None:
        raise FlashNerdError(
            f"the model takes {network.rows_capacity} contact rows a robot, but contacts is None, and contacts of "
            "predicted states are found outside of torch: pass contacts=, a function of (joint_q, joint_qd) that gives "
            "ContactRows, or take a robot without contacts."
        )
    if contacts is not None and not network.rows_capacity:
        raise FlashNerdError("contacts is given, but the model takes no contact rows: leave contacts out.")
