"""The baselines: NeRD's causal transformer over a window that is recomputed each step, and a faster form of it.

Both hold the same weights and compute the same function. ``nerd`` does it plainly: all window positions through all
layers. ``nerd_optimized`` computes the last layer and the head for the newest frame only and uses fused attention;
compiling it is up to the caller, as for every model.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.cache import WindowCache
from flashnerd_ext.model.contacts import ContactRows
from flashnerd_ext.model.layout import StateLayout


@dataclass
class NerdConfig:
    """Options of :class:`Nerd`; the defaults are the published ones (window 10, 6 layers, 12 heads)."""

    width: int = 192
    """Hidden size."""
    layers: int = 6
    """Transformer layers."""
    heads: int = 12
    """Attention heads."""
    window: int = 10
    """Frames in the window, the newest included."""
    head_hidden: int = 64
    """Hidden size of the output MLP."""
    prior: bool = False
    """Whether position outputs are residuals of the kinematic prior; NeRD predicts whole increments."""
    sensed: int = 0
    """Outputs beside the next state, for sensors and rewards (:mod:`flashnerd_ext.model.sensed`)."""

    def __post_init__(self) -> None:
        for name in ("width", "layers", "heads", "window", "head_hidden"):
            if int(getattr(self, name)) < 1:
                raise FlashNerdError(f"options.{name} is {getattr(self, name)}, but at least 1 is needed.")
        if self.width % self.heads:
            raise FlashNerdError(
                f"options.width is {self.width}, which is not a multiple of options.heads={self.heads}: "
                f"type options.heads={next(h for h in range(self.heads, 0, -1) if self.width % h == 0)}."
            )


class _Layer(nn.Module):
    """Pre-norm transformer layer: causal self-attention, then a GELU feed-forward of four times the width."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_feed = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def _split(self, value: Tensor) -> Tensor:
        batch, time, width = value.shape
        return value.view(batch, time, self.heads, width // self.heads).transpose(1, 2)

    def feed(self, x: Tensor) -> Tensor:
        return x + self.down(functional.gelu(self.up(self.norm_feed(x))))

    def all_tokens(self, x: Tensor, fused: bool) -> Tensor:
        """x [B, T, d] -> [B, T, d] under a causal mask."""
        q, k, v = (self._split(part) for part in self.qkv(self.norm_attention(x)).chunk(3, -1))
        if fused:
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            score = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
            time = x.shape[1]
            later = torch.ones((time, time), dtype=torch.bool, device=x.device).triu(1)
            mixed = torch.softmax(score.masked_fill(later, float("-inf")), -1) @ v
        return self.feed(x + self.out(mixed.transpose(1, 2).flatten(2)))

    def one_token(self, x: Tensor, place: Tensor) -> Tensor:
        """x [B, T, d] -> [B, d], the result at ``place`` [B] of each row."""
        normed = self.norm_attention(x)
        width = x.shape[-1]
        row = torch.arange(x.shape[0], device=x.device)
        q = functional.linear(normed[row, place], self.qkv.weight[:width], self.qkv.bias[:width]).unsqueeze(1)
        k, v = functional.linear(normed, self.qkv.weight[width:], self.qkv.bias[width:]).chunk(2, -1)
        seen = torch.arange(x.shape[1], device=x.device)[None, :] <= place[:, None]
        mixed = functional.scaled_dot_product_attention(
            self._split(q), self._split(k), self._split(v), attn_mask=seen[:, None, None, :]
        )
        return self.feed(x[row, place] + self.out(mixed.transpose(1, 2).flatten(2).squeeze(1)))


class Nerd(DynamicsModel):
    """Windowed causal transformer; recomputes the whole window at every step."""

    name = "nerd"
    fused = False

    def __init__(self, layout: StateLayout, config: NerdConfig) -> None:
        super().__init__(layout, asdict(config), config.window, sensed=config.sensed)
        self.options = config
        self.kinematic_prior = config.prior
        self.embed = nn.Linear(self.frame_size, config.width)
        self.position = nn.Parameter(torch.randn(config.window, config.width) * 0.02)
        self.layers = nn.ModuleList(_Layer(config.width, config.heads) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Sequential(
            nn.Linear(config.width, config.head_hidden), nn.ReLU(), nn.Linear(config.head_hidden, self.out_size)
        )

    def _blocks(self) -> list[_Layer]:
        return cast(list[_Layer], list(self.layers))

    def _enter(self, frames: Tensor) -> Tensor:
        return self.embed(self.frame_norm(frames).to(self.embed.weight.dtype)) + self.position[: frames.shape[1]]

    def _leave(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        return self.out_norm.undo(self.head(self.norm(x)).to(dtype))

    def sequence(self, frames: Tensor, rows: ContactRows | None = None) -> Tensor:
        if frames.shape[1] > self.options.window:
            raise FlashNerdError(
                f"the sequence has {frames.shape[1]} frames, but this model's window is {self.options.window}: "
                f"type train.window={self.options.window} or less."
            )
        x = self._enter(frames)
        for layer in self._blocks():
            x = layer.all_tokens(x, self.fused)
        return self._leave(x, frames.dtype)

    def init_cache(
        self, batch: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> WindowCache:
        device = device if device is not None else self.embed.weight.device
        return WindowCache(self.options.window, batch, self.frame_size, device, dtype or torch.float32)

    def step(self, frame: Tensor, cache: WindowCache, rows: ContactRows | None = None) -> Tensor:
        place = cache.push(frame)
        row = torch.arange(frame.shape[0], device=frame.device)
        return self.sequence(cache.frames.to(frame.dtype))[row, place]


class NerdOptimized(Nerd):
    """The same function as :class:`Nerd`, with only the work that the newest prediction needs in its last layer."""

    name = "nerd_optimized"
    fused = True

    def step(self, frame: Tensor, cache: WindowCache, rows: ContactRows | None = None) -> Tensor:
        place = cache.push(frame)
        x = self._enter(cache.frames.to(frame.dtype))
        *first, last = self._blocks()
        for layer in first:
            x = layer.all_tokens(x, fused=True)
        return self._leave(last.one_token(x, place), frame.dtype)
