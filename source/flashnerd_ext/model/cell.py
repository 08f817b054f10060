"""One block: short-span attention beside a gated feed-forward branch, between two packed projections."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from flashnerd_ext.model.cache import RingCache

Pairs = tuple[Tensor, Tensor]
"""Keys and values of the last frames of one block, newest first, each [at most S, B, H, width / H]."""


class StreamBlock(nn.Module):
    """x + W_out [attention(x), silu(gate) * up], all from one packed projection of norm(x).

    Args:
        width: Hidden size d.
        heads: Attention heads; d must be a multiple.
        span: Frames S that attention sees, the newest included.
        hidden: Size of the gated branch.
        norm: ``none`` or ``rms``.
    """

    def __init__(self, width: int, heads: int, span: int, hidden: int, norm: str = "none") -> None:
        super().__init__()
        self.width, self.heads, self.span, self.hidden = width, heads, span, hidden
        self.norm = make_norm(norm, width)
        self.pack_in = nn.Linear(width, 3 * width + 2 * hidden)
        self.pack_out = nn.Linear(width + hidden, width)
        self.lag = nn.Parameter(torch.randn(span, heads, width // heads) * 0.02)

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        packed = self.pack_in(self.norm(x))
        q, k, v, gate, up = packed.split((self.width, self.width, self.width, self.hidden, self.hidden), -1)
        shape = (*x.shape[:-1], self.heads, self.width // self.heads)
        return (q * shape[-1] ** -0.5).view(shape), k.view(shape), v.view(shape), functional.silu(gate) * up

    def sequence(self, x: Tensor) -> Tensor:
        """All frames at once, x [B, T, d] -> [B, T, d]; frame t sees frames t - S + 1 .. t."""
        return x + self.pack_out(self.branches(x))

    def branches(self, x: Tensor) -> Tensor:
        """What the second projection sees, attention and gated branch side by side, [B, T, d + hidden]."""
        q, k, v, gated = self._project(x)
        time = torch.arange(x.shape[1], device=x.device)
        scores, pasts = [], []
        for lag in range(min(self.span, x.shape[1])):
            key, value = _delay(k, lag), _delay(v, lag)
            score = (q * (key + self.lag[lag])).sum(-1)
            scores.append(score.masked_fill((time < lag)[None, :, None], float("-inf")))
            pasts.append(value)
        weight = torch.softmax(torch.stack(scores), 0)
        attended = (weight.unsqueeze(-1) * torch.stack(pasts)).sum(0)
        return torch.cat((attended.flatten(-2), gated), -1)

    def step(self, x: Tensor, cache: RingCache, block: int, lags: Tensor, visible: Tensor) -> Tensor:
        """The newest frame only, x [B, d] -> [B, d]; stores its pair in ``cache``.

        Args:
            block: Index of this block in the cache.
            lags: Lag of each slot, [S]: the lag table is permuted, keys and values never move.
            visible: Slots each world may look at, [S, B].
        """
        q, k, v, gated = self._project(x)
        keys, values = cache.keys[block], cache.values[block]
        keys.index_copy_(0, cache.slot, k.unsqueeze(0).to(keys.dtype))
        values.index_copy_(0, cache.slot, v.unsqueeze(0).to(values.dtype))
        score = (q * (keys + self.lag[lags].unsqueeze(1))).sum(-1)
        weight = torch.softmax(score.masked_fill(~visible.unsqueeze(-1), float("-inf")), 0)
        attended = (weight.unsqueeze(-1) * values).sum(0)
        return x + self.pack_out(torch.cat((attended.flatten(-2), gated), -1))

    def recall(self, x: Tensor, past: Pairs | None) -> tuple[Tensor, Pairs]:
        """:meth:`step` with the past as a value, newest pair first: x [B, d] -> [B, d], and the pairs with this one."""
        q, k, v, gated = self._project(x)
        keys, values = k.unsqueeze(0), v.unsqueeze(0)
        if past is not None:
            keys = torch.cat((keys, past[0][: self.span - 1]))
            values = torch.cat((values, past[1][: self.span - 1]))
        # A pair's place is its lag, and every pair is one that may be seen: no table is permuted, nothing is masked.
        weight = torch.softmax((q * (keys + self.lag[: len(keys)].unsqueeze(1))).sum(-1), 0)
        attended = (weight.unsqueeze(-1) * values).sum(0)
        return x + self.pack_out(torch.cat((attended.flatten(-2), gated), -1)), (keys, values)


def make_norm(kind: str, width: int) -> nn.Module:
    """RMSNorm over ``width`` features, or nothing."""
    return nn.RMSNorm(width, eps=1e-6) if kind == "rms" else nn.Identity()


def _delay(value: Tensor, lag: int) -> Tensor:
    """Value [B, T, ...] moved ``lag`` frames later, zeros in front."""
    if lag == 0:
        return value
    return torch.cat((torch.zeros_like(value[:, :lag]), value[:, :-lag]), 1)
