"""Stage 3: nothing that is not finite or far outside of the training data leaves the solver.

A world whose new state fails keeps its last good state, forgets its past, is terminated by the environment under a
term of its own, and is counted; its history goes to disk (:mod:`flashnerd_ext.solver.dump`). Other worlds go on
bit-identically.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from flashnerd_ext.errors import FlashNerdError

if TYPE_CHECKING:
    from flashnerd_ext.bundle.card import Card

_WIDEST = 3.0e38
"""Stands for no bound: still below infinity, so that infinities fail."""


@dataclass(frozen=True)
class Bounds:
    """Closed interval of each state dimension, joint_q then joint_qd, shape [nq + nv] each.

    Attributes:
        names: What each dimension is called in the card.
        lower, upper: [m, rad, m/s, rad/s]; huge where a dimension is not bounded.
    """

    names: tuple[str, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]


def card_bounds(card: Card, margin: float) -> Bounds:
    """The training envelope, widened on each side by ``margin`` times its width.

    Not bounded, only checked to be finite: a free base's position and orientation (dynamics do not depend on where
    the robot stands) and the angle of continuous joints (they wind up).

    Raises:
        FlashNerdError: When the margin is negative or not a number.
    """
    if not 0.0 <= margin < 1e6:
        raise FlashNerdError(f"solver_cfg.guard_margin is {margin}, but a number from 0 up is needed: type 0.25.")
    layout, ranges = card.layout, card.envelope.state
    free = set(range(layout.q0)) | {layout.q0 + i for i, kind in enumerate(layout.joint_kinds) if kind == "continuous"}
    lower, upper = [], []
    for i, (low, high) in enumerate(zip(ranges.min, ranges.max, strict=True)):
        wide = margin * max(high - low, 1e-3)
        lower.append(-_WIDEST if i in free else low - wide)
        upper.append(_WIDEST if i in free else high + wide)
    return Bounds(ranges.names, tuple(lower), tuple(upper))


class GuardStage:
    """Holds worlds that fail; buffers are made once and written in place.

    Args:
        bounds: Allowed states.
        num_worlds: Worlds N.
        nu: Actuation inputs of a world.
        history: Steps whose states and commands are kept for the dump.
        device: The simulation's device.

    Attributes:
        failed: Worlds that failed in the last model step, boolean [N]; in coupled mode rows, one a learned robot.
        pending: Worlds that failed since their last reset, boolean [N]; the termination term reads this.
        total: Failures of each world so far, int64 [N].
        caught: Worlds that failed since the last report, boolean [N]: a control step may hold several model steps.
        rejected: What the model gave when a caught world first failed, [N, nq + nv]; of others, nothing to be read.
        sight: State and command that it was made from, [N, nq + nv + nu].
        good: Whether the state in the simulation was finite then, boolean [N].
        ago: Model steps since then, int64 [N].
    """

    def __init__(self, bounds: Bounds, num_worlds: int, nu: int, history: int, device: torch.device | str) -> None:
        if history < 1:
            raise FlashNerdError(f"solver_cfg.guard_history is {history}, but at least 1 is needed: type 16.")
        self.nu = nu
        size = len(bounds.lower)
        self._middle, self._reach = (torch.zeros(size, device=device) for _ in range(2))
        self._exempt: Tensor | None = None
        self.take(bounds)
        self._inside = torch.ones((num_worlds, size), dtype=torch.bool, device=device)
        self._ok = torch.ones(num_worlds, dtype=torch.bool, device=device)
        self.failed = torch.zeros(num_worlds, dtype=torch.bool, device=device)
        self.pending = torch.zeros_like(self.failed)
        self.total = torch.zeros(num_worlds, dtype=torch.int64, device=device)
        self._proposed = torch.zeros((num_worlds, size), device=device)
        self._distance = torch.zeros_like(self._proposed)
        self.caught, self.good = torch.zeros_like(self.failed), torch.ones_like(self.failed)
        self.rejected, self.ago = torch.zeros_like(self._proposed), torch.zeros_like(self.total)
        self.sight = torch.zeros((num_worlds, size + nu), device=device)
        self._on_cpu = torch.device(device).type == "cpu"
        self.history = torch.zeros((history, num_worlds, size + nu), device=device)
        self._slot = 0
        self.recorded = 0

    def take(self, bounds: Bounds) -> None:
        """Allow these states from now on."""
        self.bounds = bounds
        lower = torch.tensor(bounds.lower, dtype=torch.float64)
        upper = torch.tensor(bounds.upper, dtype=torch.float64)
        # One distance from the middle instead of two comparisons; NaN and infinities fail it as well.
        self._middle.copy_((lower + upper) / 2)
        self._reach.copy_((upper - lower) / 2)
        if self._exempt is not None:
            self._reach.masked_fill_(self._exempt[:, None], _WIDEST)

    def exempt(self, worlds: Tensor) -> None:
        """Hold these worlds (boolean [N]) only where they are not finite: something else than the model steps them."""
        with torch.inference_mode(False):
            self._exempt = worlds
            self._reach = self._reach.expand(len(worlds), -1).clone()
        self.take(self.bounds)

    def record(self, state: Tensor, actuation: Tensor) -> None:
        """Keep what the model is about to see: state [N, nq + nv] and actuation [N, nu]."""
        torch.cat((state, actuation), 1, out=self.history[self._slot])
        self._slot = (self._slot + 1) % len(self.history)
        self.recorded = min(self.recorded + 1, len(self.history))

    def hold(self, state: Tensor, good: Tensor, joint_q: Tensor, joint_qd: Tensor) -> None:
        """Move ``state`` [N, nq + nv] on to the prediction in worlds where that is allowed; in place.

        Args:
            state: Last good state; what leaves the solver.
            good: Worlds whose state in the simulation was finite, boolean [N].
            joint_q: Prediction [N, nq]. joint_qd: Prediction [N, nv].
        """
        self.check(good, joint_q, joint_qd)
        torch.where(self._ok[:, None], self._proposed, state, out=state)
        self.pending.logical_or_(self.failed)

    def check(self, good: Tensor, joint_q: Tensor, joint_qd: Tensor) -> None:
        """Say which worlds fail (``failed``) and count them; arguments as of :meth:`hold`."""
        dtype = self._proposed.dtype
        torch.cat((joint_q.to(dtype), joint_qd.to(dtype)), 1, out=self._proposed)
        torch.sub(self._proposed, self._middle, out=self._distance).abs_()
        torch.le(self._distance, self._reach, out=self._inside)
        torch.all(self._inside, 1, out=self._ok).logical_and_(good)
        torch.logical_not(self._ok, out=self.failed)
        self.total.add_(self.failed)
        self._catch(good)

    def _catch(self, good: Tensor) -> None:
        """Keep what led to the first failure since the last report; nothing here waits for a GPU."""
        self.ago.add_(1)
        # On a CPU the question costs nothing and spares the rest.
        if self._on_cpu and not bool(self.failed.any()):
            return
        first = self.failed & ~self.caught
        seen = self.history[(self._slot - 1) % len(self.history)]
        torch.where(first[:, None], self._proposed, self.rejected, out=self.rejected)
        torch.where(first[:, None], seen, self.sight, out=self.sight)
        torch.where(first, good, self.good, out=self.good)
        self.ago.masked_fill_(first, 0)
        self.caught.logical_or_(self.failed)

    def reported(self) -> None:
        """What was caught has been told."""
        self.caught.zero_()

    def cleared(self, env_ids: Tensor | list[int] | slice | None) -> None:
        """Worlds (all with ``None``) that the environment has reset."""
        if env_ids is None:
            self.pending.zero_()
        elif isinstance(env_ids, Tensor) and env_ids.dtype != torch.bool:
            self.pending.index_fill_(0, env_ids.to(self.pending.device, torch.int64), False)
        else:
            self.pending[env_ids] = False

    def window(self, worlds: Tensor) -> Tensor:
        """What caught worlds went through until they failed: states and commands, oldest first and what the failing
        prediction was made from last, [worlds, steps, nq + nv + nu]; NaN where that is no longer kept."""
        order = [(self._slot - self.recorded + i) % len(self.history) for i in range(self.recorded)]
        past = self.history[order][:, worlds].transpose(0, 1)
        place = torch.arange(self.recorded, device=past.device) - self.ago[worlds][:, None]
        until = past.gather(1, place.clamp(min=0)[..., None].expand_as(past))
        until.masked_fill_((place < 0)[..., None], float("nan"))
        until[:, -1] = self.sight[worlds]
        return until

    @property
    def nbytes(self) -> int:
        """Memory held [bytes]."""
        kept = (
            self._inside, self._ok, self.failed, self.pending, self.total, self._proposed, self._distance, self.caught,
            self.good, self.rejected, self.ago, self.sight,
        )  # fmt: skip
        return sum(t.numel() * t.element_size() for t in (*kept, self.history))
