"""Open-loop rollouts of a bundle: states and actuation in, trajectories out. Needs torch only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from flashnerd_ext.bundle.schema import show
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.contacts import ContactRows
from flashnerd_ext.model.differentiable import Contacts, integrator_of
from flashnerd_ext.model.frame import encode_frame
from flashnerd_ext.model.inputs import check_inputs
from flashnerd_ext.model.integrate import Integrator

if TYPE_CHECKING:
    from flashnerd_ext.bundle.store import Bundle


def rollout[Array: (Tensor, np.ndarray)](
    bundle: Bundle,
    joint_q: Array,
    joint_qd: Array,
    actuation: Array,
    contacts: Contacts | None = None,
    *,
    condition: Array | None = None,
    dtype: torch.dtype | None = None,
) -> tuple[Array, Array]:
    """Step a bundle's model from initial states, with an empty past and no simulator.

    Args:
        bundle: From :func:`flashnerd_ext.load_bundle`.
        joint_q: Initial coordinates, shape [N, nq], in the card's joint order and Newton's conventions
            (m, rad; a free base is position and quaternion x, y, z, w).
        joint_qd: Initial velocities, shape [N, nv]; a free base's are COM linear and angular in the world frame.
        actuation: Efforts [N or N·m] or position targets [m or rad], as the card says, shape [T, N, nu]; each is
            held for one model step of ``bundle.card.dt`` seconds.
        contacts: Gives the contact rows of a state, for robots that touch something; called with torch tensors.
        condition: Deviations of each world from the nominal robot in the order of ``card.robot.conditions``, shape
            [N, C]; nominal by default.
        dtype: ``torch.float64`` or ``torch.float32`` to compute in; by default that of ``joint_q``.

    Returns:
        ``joint_q`` [T + 1, N, nq] and ``joint_qd`` [T + 1, N, nv], the initial state first, of the kind (numpy or
        torch), dtype and device of the inputs. Where a torch input requires grad, gradients flow through the whole
        rollout; :func:`flashnerd_ext.differentiable_rollout` is for gradients to weights and long horizons. A bundle of
        coupled mode moves freely: no contacts, no limits. A state that diverges stays in the result
        as it is: check ``isfinite``.

    Raises:
        FlashNerdError: When a shape, dtype or value does not fit, in one sentence.
    """
    card = bundle.card
    arrays = {"joint_q": joint_q, "joint_qd": joint_qd, "actuation": actuation}
    as_torch = _same_kind(arrays)
    if condition is not None:
        arrays["condition"] = condition
        as_torch = _same_kind(arrays)
    tensors = {name: _tensor(name, value) for name, value in arrays.items()}
    check_inputs(card.layout, tensors, "bundle.card.robot")
    if contacts is not None and not bundle.model.rows_capacity:
        raise FlashNerdError(
            f"contacts is given, but bundle {show(card.name, 30)} takes no contact rows: leave contacts out."
        )
    if bundle.model.rows_capacity and contacts is None:
        raise FlashNerdError(
            f"bundle {show(card.name, 30)} takes {bundle.model.rows_capacity} contact rows a robot, but contacts is "
            "None: pass contacts=, a function of (joint_q, joint_qd) that gives ContactRows."
        )
    work = dtype or tensors["joint_q"].dtype
    if work not in (torch.float32, torch.float64):
        raise FlashNerdError(
            f"dtype is {show(str(work))}, but torch.float32 or torch.float64 is needed: pass one of these."
        )
    model = bundle.model if work == torch.float32 else bundle.double()
    own = next(model.parameters()).device
    if not as_torch:
        tensors = {name: value.to(own) for name, value in tensors.items()}
    device = tensors["joint_q"].device
    if own != device:
        raise FlashNerdError(
            f"joint_q is on {device}, but the bundle is on {own}: type bundle.to({str(device)!r}), or move the inputs."
        )
    inputs = {name: value.to(work) for name, value in tensors.items()}
    track = torch.is_grad_enabled() and any(value.requires_grad for value in tensors.values())
    integrator = integrator_of(bundle, model)
    advance = _Recalling(model) if track else _Streaming(model, len(joint_q), work)
    with contextlib.nullcontext() if track else torch.no_grad():
        states = list(
            _states(
                integrator,
                advance,
                inputs["joint_q"],
                inputs["joint_qd"],
                inputs["actuation"],
                contacts,
                inputs.get("condition"),
            )
        )
        q = torch.stack([state[0] for state in states]).to(tensors["joint_q"].dtype)
        qd = torch.stack([state[1] for state in states]).to(tensors["joint_qd"].dtype)
    return (q, qd) if as_torch else (q.cpu().numpy(), qd.cpu().numpy())  # type: ignore[return-value]


class _Streaming:
    """One step a frame, with the cache: fast, no gradients."""

    def __init__(self, model: Any, worlds: int, dtype: torch.dtype) -> None:
        self.model = model
        # A windowed model keeps raw frames, which must not be rounded below the state's precision.
        self.cache = model.init_cache(worlds, next(model.parameters()).device, dtype)

    def __call__(self, frame: Tensor, rows: ContactRows | None) -> Tensor:
        return self.model.step(frame, self.cache, rows)


class _Recalling:
    """The same prediction without in-place updates, so that gradients flow."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.past: Any = None

    def __call__(self, frame: Tensor, rows: ContactRows | None) -> Tensor:
        out, self.past = self.model.recall(frame, self.past, rows)
        return out


def _states(
    integrator: Integrator,
    advance: _Streaming | _Recalling,
    joint_q: Tensor,
    joint_qd: Tensor,
    actuation: Tensor,
    contacts: Contacts | None,
    condition: Tensor | None,
) -> Iterator[tuple[Tensor, Tensor]]:
    yield joint_q, joint_qd
    for command in actuation:
        rows = contacts(joint_q, joint_qd) if contacts is not None else None
        frame = encode_frame(integrator.layout, joint_q, joint_qd, command, condition)
        joint_q, joint_qd = integrator.apply(joint_q, joint_qd, advance(frame, rows))
        yield joint_q, joint_qd


def _same_kind(arrays: dict[str, Any]) -> bool:
    """True for torch, False for numpy."""
    kinds = {
        name: "torch" if isinstance(value, Tensor) else "numpy" for name, value in arrays.items() if value is not None
    }
    for name, value in arrays.items():
        if not isinstance(value, Tensor | np.ndarray):
            raise FlashNerdError(
                f"{name} is of type {type(value).__name__}, but a numpy array or torch tensor is needed: "
                f"pass np.asarray({name})."
            )
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        raise FlashNerdError(
            f"the inputs are mixed ({listed}), but one kind is needed: pass all as numpy or all as torch."
        )
    return "torch" in kinds.values()


def _tensor(name: str, value: Any) -> Tensor:
    if isinstance(value, np.ndarray):
        if value.dtype not in (np.float32, np.float64):
            raise FlashNerdError(
                f"{name} has dtype {value.dtype}, but float32 or float64 is needed: pass {name}.astype(np.float32)."
            )
        # A copy where torch cannot share memory (read-only, negative strides).
        return torch.from_numpy(np.array(value, copy=True))
    if value.dtype not in (torch.float32, torch.float64):
        raise FlashNerdError(f"{name} has dtype {value.dtype}, but float32 or float64 is needed: pass {name}.float().")
    return value
