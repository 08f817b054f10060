"""Recorded trajectories as training windows that lie in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.contacts import ContactRows
from flashnerd_ext.model.frame import encode_frame
from flashnerd_ext.model.integrate import Integrator
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.sensed import Sensed

if TYPE_CHECKING:
    from flashnerd_ext.training.mirror import MirroredBatch


class Batch(NamedTuple):
    """What a model is trained on at once."""

    frames: Tensor
    """Shape [B, T, F]."""
    targets: Tensor
    """Shape [B, T, O]."""
    rows: ContactRows | None
    """Shapes [B, T, K, ...]."""


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
    condition: Tensor | None = None
    """float32 [n, C]."""
    rows: ContactRows | None = None
    """Contact rows of all frames, features float32 [n T, K, 12]; ``None`` for a robot that touches nothing."""
    cumulative: Tensor | None = None
    """Cumulative chance of each window, float64 [W]; ``None`` draws uniformly."""
    source: Tensor | None = None
    """Data set of each window, int64 [W]; ``None`` for one data set."""
    shares: tuple[float, ...] = (1.0,)
    """Share of each data set in the draws."""
    mirror: MirroredBatch | None = None
    """With it each window is a second one, left and right exchanged; its start is counted behind all frames."""

    def mix(self, source: Tensor, shares: Sequence[float]) -> None:
        """Draw from several data sets with given shares, whatever their sizes.

        Args:
            source: Data set of each trajectory, int64 [n].
            shares: Share of each data set.

        Raises:
            FlashNerdError: Where a data set has no window.
        """
        self.source, self.shares = source[self.starts // self.per_trajectory], tuple(shares)
        found = torch.bincount(self.source, minlength=len(shares))
        if not bool(found.all()):
            raise FlashNerdError(
                f"data set {int(found.argmin())} of data= and more= has no window of {self.length} valid steps: record "
                "longer trajectories, or type a smaller train.window=."
            )
        self._chances(None)

    def _chances(self, weight: Tensor | None) -> None:
        """Chances in proportion to ``weight`` [W] within each data set; ``None`` is uniform."""
        if self.source is not None:
            weight = torch.ones(len(self.starts), dtype=torch.float64) if weight is None else weight.clone()
            for number, share in enumerate(self.shares):
                mine = self.source == number
                weight[mine] *= share / weight[mine].sum()
        self.cumulative = None if weight is None else torch.cumsum(weight, 0)

    def parts(self) -> list[tuple[float, Tensor]]:
        """Share and window starts of each data set."""
        if self.source is None:
            return [(1.0, self.starts)]
        return [(share, self.starts[self.source == number]) for number, share in enumerate(self.shares)]

    def emphasise(self, mean: Tensor, std: Tensor, power: float) -> None:
        """Draw windows of unusual frames more often: chance ~ (1 + mean over features of z^2) ^ power.

        Squared errors of long rollouts are dominated by rare extreme states; seen as rarely as they occur, they are
        learned last.

        Args:
            mean, std: Statistics of frames, [F].
            power: 0 draws uniformly, 1 in proportion to the squared distance from the mean.
        """
        z = (self.frames[self.starts].double() - mean) / std
        self._chances((1.0 + z.square().mean(-1)).pow(power) if power else None)

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Flat start indices of ``count`` windows, drawn with replacement, int64 [count]; half of them mirrored."""
        if self.cumulative is None:
            starts = self.starts[torch.randint(len(self.starts), (count,), generator=generator)]
        else:
            place = torch.rand(count, generator=generator, dtype=torch.float64) * self.cumulative[-1]
            starts = self.starts[torch.searchsorted(self.cumulative, place).clamp_(max=len(self.starts) - 1)]
        if self.mirror is None:
            return starts
        return starts + len(self.frames) * torch.randint(2, (count,), generator=generator)

    def batch(self, starts: Tensor, device: torch.device | str = "cpu") -> Batch:
        """Frames, targets and contact rows of the windows at ``starts``, on ``device``."""
        index = starts[:, None] % len(self.frames) + torch.arange(self.length)
        frames, targets, rows = self.frames[index], self.targets[index], self.rows_at(index)
        if self.mirror is not None:
            frames, targets, rows = self.mirror(starts >= len(self.frames), frames, targets, rows)
        if rows is not None:
            rows = ContactRows(rows.features.to(device), rows.link.to(device), rows.used.to(device))
        return Batch(frames.to(device), targets.to(device), rows)

    def rows_at(self, index: Tensor) -> ContactRows | None:
        """Contact rows of the frames at flat indices ``index`` [...]."""
        if self.rows is None:
            return None
        return ContactRows(self.rows.features[index], self.rows.link[index].long(), self.rows.used[index])


def make_windows(
    layout: StateLayout,
    integrator: Integrator,
    joint_q: np.ndarray,
    joint_qd: np.ndarray,
    actuation: np.ndarray,
    valid: np.ndarray,
    length: int,
    extra: Mapping[str, np.ndarray] | None = None,
    contacts: bool = False,
    sensed: Sensed | None = None,
) -> Windows:
    """Windows of ``length`` frames over trajectories.

    Args:
        joint_q: float64 [n, T + 1, nq].
        joint_qd: float64 [n, T + 1, nv].
        actuation: [n, T, nu].
        valid: Boolean [n, T]; a window may not hold an invalid step.
        extra: Conditions and contact rows, as :data:`flashnerd_ext.data.dataset.EXTRA` has them.
        contacts: Whether the model takes contact rows.
        sensed: What the model predicts for sensors; ``None`` for nothing.

    Raises:
        FlashNerdError: When no window fits.
    """
    count, steps = valid.shape
    if length > steps:
        raise FlashNerdError(
            f"train.window is {length}, but trajectories have {steps} steps: type train.window={steps} or less."
        )
    extra = extra or {}
    if contacts and "rows" not in extra:
        raise FlashNerdError(
            "the model takes contact rows, but the data set has none: make it anew with scripts/dataset.py."
        )
    whole = torch.from_numpy(extra["condition"]).float() if "condition" in extra and layout.conditions else None
    pieces_f: list[Tensor] = []
    pieces_t: list[Tensor] = []
    # Differences of states are taken in float64: in float32 they would keep four digits of a small increment.
    for part in np.array_split(np.arange(count), max(1, count * steps // 500_000)):
        q, qd = torch.from_numpy(joint_q[part]), torch.from_numpy(joint_qd[part])
        act = torch.from_numpy(actuation[part]).double()
        condition = None if whole is None else whole[part].double()[:, None].expand(-1, steps, -1)
        pieces_f.append(encode_frame(layout, q[:, :-1], qd[:, :-1], act, condition).float())
        target = integrator.target(q[:, :-1], qd[:, :-1], q[:, 1:], qd[:, 1:])
        if sensed is not None:
            force, torque = (torch.from_numpy(extra[name][part]).double() for name in ("force", "torque"))
            target = torch.cat((target, sensed.pack(q[:, :-1], force, torque)), -1)
        pieces_t.append(target.float())
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
        condition=whole,
        rows=_rows(extra) if contacts else None,
    )


def _rows(extra: Mapping[str, np.ndarray]) -> ContactRows:
    link = torch.from_numpy(extra["row_link"]).flatten(0, 1)
    return ContactRows(torch.from_numpy(extra["rows"]).flatten(0, 1), link, link >= 0)
