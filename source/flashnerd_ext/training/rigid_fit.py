"""Inertial parameters of a robot's links from its motion, in closed form.

Torques are linear in inertial parameters, armature and damping, so that least squares find them. Many combinations have
no effect (a first link's mass on an upright axis); the ridge keeps them small, and what is predicted does not depend
on them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.chain import Chain
from flashnerd_ext.model.rigid import INERTIAL, RigidPrior, pseudo, transform, wrench

ROWS = 60_000
"""Frames that the fit reads."""
_CHUNK = 2_000


@torch.no_grad()
def fit_rigid(prior: RigidPrior, chain: Chain, frames: Tensor, acceleration: Tensor, ridge: float = 1e-13) -> float:
    """Set geometry and inertial parameters.

    Args:
        prior: Changed in place.
        chain: The robot's geometry.
        frames: Features float64 [n, F], at full precision: torques are differences of large terms.
        acceleration: What the robot did [m/s^2 or rad/s^2], float64 [n, J].

    Returns:
        What is left of the accelerations, as a share of their root mean square.

    Raises:
        FlashNerdError: When the mass matrix that comes out is not positive definite on these frames.
    """
    prior.place(chain)
    joints, conditions = prior.joints, len(prior.layout.conditions)
    size = acceleration.square().mean(0).sqrt().clamp_min(1e-9)
    columns = (1 + conditions) * joints * INERTIAL + 2 * joints
    gram = torch.zeros(columns, columns, dtype=torch.float64)
    moment = torch.zeros(columns, dtype=torch.float64)
    weight = 1.0 / _torque_size(prior, frames)
    for part, moved in zip(frames.split(_CHUNK), acceleration.split(_CHUNK), strict=True):
        rows = regressor(prior, part, moved) * weight[:, None]
        _, torque, _ = prior.motion(part)
        flat = rows.flatten(0, 1)
        gram += flat.T @ flat
        moment += flat.T @ (torque * weight).flatten()
    scale = gram.diagonal().sqrt()
    # What never makes a torque has a column of rounding errors, and would get any value.
    live = scale > 1e-9 * scale.max()
    scale = scale[live]
    gram = gram[live][:, live] / scale / scale[:, None]
    gram.diagonal().add_(ridge * columns)
    values = torch.zeros(columns, dtype=torch.float64)
    values[live] = torch.linalg.solve(gram, moment[live] / scale) / scale
    split = values.split([(1 + conditions) * joints * INERTIAL, joints, joints])
    prior.links.copy_(split[0].view(1 + conditions, joints, INERTIAL))
    prior.armature.copy_(split[1])
    prior.damping.copy_(split[2])
    solvable = all(
        not bool(torch.linalg.cholesky_ex(prior.mass(*prior.bodies(part))).info.any()) for part in frames.split(_CHUNK)
    )
    if not solvable:
        raise FlashNerdError(
            "options.prior is 'rigid', but the mass matrix that fits the data is not positive definite, so rigid links "
            "do not explain this robot: type options.prior=none."
        )
    left = torch.cat([prior(part) for part in frames.split(_CHUNK)]) - acceleration
    return float((left / size).square().mean().sqrt())


def regressor(prior: RigidPrior, frames: Tensor, acceleration: Tensor) -> Tensor:
    """Torque on each joint for one unit of each parameter: [n, J, P].

    Parameters are those of the links (nominal, then by condition; ten a link), armature, damping.
    """
    velocity, _, condition = prior.motion(frames)
    twist, pose = prior.screws(frames)
    moving, rising = prior.carried(twist, velocity, acceleration)
    unit = pseudo(torch.eye(INERTIAL, dtype=frames.dtype, device=frames.device))
    # [n, J, 10, 6]: force on each link by each of its own parameters.
    force = wrench(moving.unsqueeze(-2), rising.unsqueeze(-2), transform(pose.unsqueeze(-3), unit))
    # [n, J (joint), J (link), 10]
    rows = torch.einsum("njs,nlks->njlk", twist, force) * prior.above.to(frames.dtype).T[:, :, None]
    rows = rows.flatten(-2)
    by_condition = [rows * condition[:, None, c : c + 1] for c in range(condition.shape[-1])]
    return torch.cat((rows, *by_condition, torch.diag_embed(acceleration), torch.diag_embed(velocity)), -1)


def _torque_size(prior: RigidPrior, frames: Tensor) -> Tensor:
    """Root mean square of the torque on each joint [J]."""
    return prior.motion(frames)[1].square().mean(0).sqrt().clamp_min(1e-9)
