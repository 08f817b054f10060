"""How much of a long rollout's error is chaos: the simulator against itself, disturbed like the model errs.

Contacts and falls amplify small differences, so that a model whose one-step error is ten times smaller need not be
much better after a hundred steps. The curves made here say what a model with that one-step error could reach at best.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.integrate import Integrator
from flashnerd_ext.training.windows import make_windows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashnerd_ext.data.engines import Engine
    from flashnerd_ext.evaluation.rollout_error import Predictor

Array = NDArray[Any]
FACTORS = (1.0, 0.3, 0.1)
"""Sizes of the disturbance, in multiples of the model's own one-step error."""


@torch.no_grad()
def one_step_error(model: DynamicsModel, dt: float, inner_steps: int, data: Any, count: int = 8192) -> Array:
    """Root mean square of the model's one-step errors, velocities [nv] then positions [nv], in the root frame.

    Args:
        data: ``Trajectories`` of recorded steps; every step is predicted from its own frame alone.
        count: Most steps that are looked at.
    """
    layout = model.layout
    integrator = Integrator(layout, dt, inner_steps, model.kinematic_prior)
    windows = make_windows(
        layout, integrator, data.joint_q, data.joint_qd, data.actuation, data.valid, 1, data.extra,
        contacts=model.rows_capacity > 0,
    )  # fmt: skip
    starts = windows.starts[:: max(1, len(windows.starts) // count)]
    frames, targets, rows = windows.batch(starts)
    size = 2 * layout.nv
    error = (model.sequence(frames, rows)[..., :size] - targets).double()
    if model.kinematic_prior:
        # A wrong velocity increment moves the position along, as the integrator says.
        error[..., layout.nv :] += dt * integrator.lead * error[..., : layout.nv]
    return error.square().mean((0, 1)).sqrt().numpy()


def disturbed_predictor(engine: Engine, layout: Any, spread: Array, seed: int = 0) -> Predictor:
    """The simulator whose state is disturbed after every step.

    Args:
        engine: Simulator that makes one model step.
        spread: Standard deviation of velocities [nv] then positions [nv], in the root frame.
    """
    shift = Integrator(layout, 0.0, 1, prior=False)

    def predict(
        joint_q: Array, joint_qd: Array, actuation: Array, extra: Mapping[str, Array] | None = None
    ) -> tuple[Array, Array]:
        rng = np.random.default_rng(seed)
        if extra:
            engine.set_worlds(extra["condition"], extra["friction"])  # type: ignore[attr-defined]
        q, qd = np.asarray(joint_q, np.float64), np.asarray(joint_qd, np.float64)
        past_q, past_qd = [q], [qd]
        for command in actuation:
            q, qd = engine.step(q, qd, np.asarray(command))
            noise = torch.from_numpy(rng.normal(size=(len(q), len(spread))) * spread)
            q, qd = (x.numpy() for x in shift.apply(torch.from_numpy(q), torch.from_numpy(qd), noise))
            past_q.append(q)
            past_qd.append(qd)
        return np.stack(past_q), np.stack(past_qd)

    return predict
