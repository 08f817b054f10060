"""Recorded trajectories as training windows that lie in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.frame import encode_frame
from flashnerd_ext.model.integrate import Integrator
from flashnerd_ext.model.layout import StateLayout


@dataclass
class Windows:
    """Frames and targets of all trajectories, flattened, with the places where a whole window fits.

    Attributes:
        frames: float32 [n T, F].
        targets: float32 [n T, O]; what the integrator turns into the recorded next state.
        starts: Flat index of each window's first frame, int64 [W].
        length: Frames in a window.
        joint_q, joint_qd, actuation: The states behind them, float32 [n, T + 1, ...], for multi-step losses.
        per_trajectory: Steps T of a trajectory.
    """

    frames: Tensor
    targets: Tensor
    starts: Tensor
    length: int
    joint_q: Tensor
    joint_qd: Tensor
    actuation: Tensor
    per_trajectory: int
    cumulative: Tensor | None = None
    """Cumulative chance of each window, float64 [W]; ``None`` draws uniformly."""

    def emphasise(self, mean: Tensor, std: Tensor, power: float) -> None:
        """Draw windows of unusual frames more often: chance ~ (1 + mean over features of z^2) ^ power.

        Squared errors of long rollouts are dominated by rare extreme states; seen as rarely as they occur, they are
        learned last.

        Args:
            mean, std: Statistics of frames, [F].
            power: 0 draws uniformly, 1 in proportion to the squared distance from the mean.
        """
        z = (self.frames[self.starts].double() - mean) / std
        self.cumulative = torch.cumsum((1.0 + z.square().mean(-1)).pow(power), 0) if power else None

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Flat start indices of ``count`` windows, drawn with replacement, int64 [count]."""
        if self.cumulative is None:
            return self.starts[torch.randint(len(self.starts), (count,), generator=generator)]
        place = torch.rand(count, generator=generator, dtype=torch.float64) * self.cumulative[-1]
        return self.starts[torch.searchsorted(self.cumulative, place).clamp_(max=len(self.starts) - 1)]

    def batch(self, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Frames [B, length, F] and targets [B, length, O] of the windows at ``starts``."""
        index = starts[:, None] + torch.arange(self.length)
        return self.frames[index], self.targets[index]


def make_windows(
    layout: StateLayout,
    integrator: Integrator,
    joint_q: np.ndarray,
    joint_qd: np.ndarray,
    actuation: np.ndarray,
    valid: np.ndarray,
    length: int,
) -> Windows:
    """Windows of ``length`` frames over trajectories.

    Args:
        joint_q: float64 [n, T + 1, nq].
        joint_qd: float64 [n, T + 1, nv].
        actuation: [n, T, nu].
        valid: Boolean [n, T]; a window may not hold an invalid step.

    Raises:
        FlashNerdError: When no window fits.
    """
    count, steps = valid.shape
    if length > steps:
        raise FlashNerdError(
            f"train.window is {length}, but trajectories have {steps} steps: type train.window={steps} or less."
        )
    pieces_f: list[Tensor] = []
    pieces_t: list[Tensor] = []
    # Differences of states are taken in float64: in float32 they would keep four digits of a small increment.
    for part in np.array_split(np.arange(count), max(1, count * steps // 500_000)):
        q, qd = torch.from_numpy(joint_q[part]), torch.from_numpy(joint_qd[part])
        act = torch.from_numpy(actuation[part]).double()
        pieces_f.append(encode_frame(layout, q[:, :-1], qd[:, :-1], act).float())
        pieces_t.append(integrator.target(q[:, :-1], qd[:, :-1], q[:, 1:], qd[:, 1:]).float())
    ok = torch.from_numpy(valid)
    fits = ok.unfold(1, length, 1).all(-1)
    trajectory, start = torch.nonzero(fits, as_tuple=True)
    if not len(start):
        raise FlashNerdError(f"no window of {length} valid steps was found: type a smaller train.window=.")
    return Windows(
        frames=torch.cat(pieces_f).flatten(0, 1),
        targets=torch.cat(pieces_t).flatten(0, 1),
        starts=trajectory * steps + start,
        length=length,
        joint_q=torch.from_numpy(joint_q).float(),
        joint_qd=torch.from_numpy(joint_qd).float(),
        actuation=torch.from_numpy(np.ascontiguousarray(actuation)).float(),
        per_trajectory=steps,
    )
