"""The short past of every world: rings of keys and values, and an age a world.

Slot ``t mod S`` takes the newest pair and the oldest is overwritten; nothing is shifted. A pair older than its
world's age is masked, so that a reset of a world is ``age = 0``. Values are cleared as well: a masked weight is an
exact zero, but 0 x NaN is NaN.
"""

from __future__ import annotations

import torch
from torch import Tensor


class RingCache:
    """Keys and values of L blocks over the last S frames, for B worlds.

    Attributes:
        keys, values: Shape [L, S, B, H, width / H].
        age: Frames each world has seen since its reset, at most S - 1, int32 [B].
        slot: Ring position that the next frame takes, int64 [1]; on the device, so that a captured graph can use it.
    """

    def __init__(
        self,
        blocks: int,
        span: int,
        batch: int,
        heads: int,
        head_size: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        shape = (blocks, span, batch, heads, head_size)
        self.span = span
        self.keys = torch.zeros(shape, device=device, dtype=dtype)
        self.values = torch.zeros(shape, device=device, dtype=dtype)
        self.age = torch.zeros(batch, device=device, dtype=torch.int32)
        self.slot = torch.zeros(1, device=device, dtype=torch.int64)
        self._slots = torch.arange(span, device=device)

    def lags(self) -> Tensor:
        """Lag [frames] of each slot once the newest frame is in; a permutation of 0..S-1, int64 [S]."""
        return torch.remainder(self.slot - self._slots, self.span)

    def visible(self, lags: Tensor) -> Tensor:
        """Which slots each world may look at, boolean [S, B]."""
        return lags[:, None] <= self.age[None, :]

    def advance(self) -> None:
        """Count the newest frame; called once a model step, after the last block."""
        self.age.add_(1).clamp_(max=self.span - 1)
        self.slot.add_(1).remainder_(self.span)

    def reset(self, mask: Tensor | None = None) -> None:
        """Forget the past of the worlds in ``mask`` (boolean [B]); ``None`` means all. Others stay bit-identical."""
        if mask is None:
            self.age.zero_()
            self.keys.zero_()
            self.values.zero_()
            return
        self.age.masked_fill_(mask, 0)
        wide = mask[None, None, :, None, None]
        self.keys.masked_fill_(wide, 0.0)
        self.values.masked_fill_(wide, 0.0)

    @property
    def nbytes(self) -> int:
        """Memory held [bytes]."""
        return sum(t.numel() * t.element_size() for t in (self.keys, self.values, self.age, self.slot))


class WindowCache:
    """The last T raw frames of B worlds, left-aligned until full: what a windowed transformer recomputes from.

    Attributes:
        frames: Shape [B, T, F]; behind a frame may stand what its contacts add to it.
        age: Frames each world has seen since its reset, at most T, int32 [B].
    """

    def __init__(
        self,
        window: int,
        batch: int,
        frame_size: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.window = window
        self.frames = torch.zeros((batch, window, frame_size), device=device, dtype=dtype)
        self.age = torch.zeros(batch, device=device, dtype=torch.int32)
        self._places = torch.arange(window, device=device)

    def push(self, frame: Tensor) -> Tensor:
        """Store ``frame`` [B, F] and return the place of the newest frame of each world, int64 [B]."""
        full = (self.age >= self.window)[:, None, None]
        shifted = torch.cat((self.frames[:, 1:], self.frames[:, -1:]), 1)
        place = self.age.clamp(max=self.window - 1).to(torch.int64)
        here = (self._places[None, :] == place[:, None])[..., None]
        kept = torch.where(full, shifted, self.frames)
        self.frames.copy_(torch.where(here, frame[:, None].to(kept.dtype), kept))
        self.age.add_(1).clamp_(max=self.window)
        return place

    def reset(self, mask: Tensor | None = None) -> None:
        """Forget the past of the worlds in ``mask`` (boolean [B]); ``None`` means all."""
        if mask is None:
            self.age.zero_()
            self.frames.zero_()
            return
        self.age.masked_fill_(mask, 0)
        self.frames.masked_fill_(mask[:, None, None], 0.0)

    @property
    def nbytes(self) -> int:
        """Memory held [bytes]."""
        return sum(t.numel() * t.element_size() for t in (self.frames, self.age))


Cache = RingCache | WindowCache
