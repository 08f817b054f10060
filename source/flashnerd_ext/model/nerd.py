"""The baselines: NeRD's causal transformer over a window that is recomputed each step, and a faster form of it.

Both hold the same weights and compute the same function. ``nerd`` does it plainly: all window positions through all
layers. ``nerd_optimized`` computes the last layer and the head for the newest frame only and uses fused attention;
compiling it is up to the caller, as for every model.

Contact rows are encoded once, when their frame arrives, and added to the frame's embedding. What they add does not
depend on later frames, so the window keeps it beside the raw frame and recomputes all the rest.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.cache import WindowCache
from flashnerd_ext.model.contacts import ContactEncoder, ContactRows, check_contact_options, need_rows
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
    rows_capacity: int = 0
    """Contact rows K of a robot; 0 for a robot that touches nothing."""
    slots: int = 4
    """Pooled contact slots M; 0 for fixed contacts."""
    links: int = 1
    """Links that can touch."""

    def __post_init__(self) -> None:
        for name in ("width", "layers", "heads", "window", "head_hidden"):
            if int(getattr(self, name)) < 1:
                raise FlashNerdError(f"options.{name} is {getattr(self, name)}, but at least 1 is needed.")
        check_contact_options(self.rows_capacity, self.slots, self.links)
        if self.width % self.heads:
            raise FlashNerdError(
                f"options.width is {self.width}, which is not a multiple of options.heads={self.heads}: "
                f"type options.heads={next(h for h in range(self.heads, 0, -1) if self.width % h == 0)}."
            )

    def stored(self) -> dict[str, Any]:
        """Options as cards keep them: without those of contacts where there are none, as cards were before them."""
        options = asdict(self)
        if not self.rows_capacity:
            for name in ("rows_capacity", "slots", "links"):
                options.pop(name)
        return options


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
        super().__init__(layout, config.stored(), config.window, config.rows_capacity, config.sensed)
        self.options = config
        self.kinematic_prior = config.prior
        self.embed = nn.Linear(self.frame_size, config.width)
        self.position = nn.Parameter(torch.randn(config.window, config.width) * 0.02)
        self.layers = nn.ModuleList(_Layer(config.width, config.heads) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Sequential(
            nn.Linear(config.width, config.head_hidden), nn.ReLU(), nn.Linear(config.head_hidden, self.out_size)
        )
        # Last, so that a model without contacts draws the weights that it always drew.
        self.contacts = (
            ContactEncoder(config.width, config.links, config.slots, config.rows_capacity)
            if config.rows_capacity
            else None
        )

    def _blocks(self) -> list[_Layer]:
        return cast(list[_Layer], list(self.layers))

    def _touch(self, rows: ContactRows | None) -> Tensor | None:
        """What contacts add to the embedding of their frame, [..., width]; ``None`` for a model without contacts."""
        return None if self.contacts is None else self.contacts(need_rows(rows, self.rows_capacity))

    def _enter(self, frames: Tensor, touch: Tensor | None) -> Tensor:
        """Hidden vectors [B, T, width] of frames [B, T, F] at places 0 .. T - 1 of the window.

        Args:
            touch: From :meth:`_touch`, [B, T, width].
        """
        x = self.embed(self.frame_norm(frames).to(self.embed.weight.dtype)) + self.position[: frames.shape[1]]
        return x if touch is None else x + touch.to(x.dtype)

    def _leave(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        return self.out_norm.undo(self.head(self.norm(x)).to(dtype))

    def _through(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Predictions [B, T, O] of hidden vectors [B, T, width]."""
        for layer in self._blocks():
            x = layer.all_tokens(x, self.fused)
        return self._leave(x, dtype)

    def sequence(self, frames: Tensor, rows: ContactRows | None = None) -> Tensor:
        if frames.shape[1] > self.options.window:
            raise FlashNerdError(
                f"the sequence has {frames.shape[1]} frames, but this model's window is {self.options.window}: "
                f"type train.window={self.options.window} or less."
            )
        return self._through(self._enter(frames, self._touch(rows)), frames.dtype)

    def init_cache(
        self, batch: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> WindowCache:
        device = device if device is not None else self.embed.weight.device
        size = self.frame_size + (self.options.width if self.rows_capacity else 0)
        return WindowCache(self.options.window, batch, size, device, dtype or torch.float32)

    def _window(self, frame: Tensor, cache: WindowCache, rows: ContactRows | None) -> tuple[Tensor, Tensor]:
        """Put the newest frame into the window; hidden vectors of all of it [B, T, width], its place in it [B]."""
        touch = self._touch(rows)
        place = cache.push(frame if touch is None else torch.cat((frame, touch.to(frame.dtype)), -1))
        window = cache.frames.to(frame.dtype)
        if touch is None:
            return self._enter(window, None), place
        return self._enter(window[..., : self.frame_size], window[..., self.frame_size :]), place

    def step(self, frame: Tensor, cache: WindowCache, rows: ContactRows | None = None) -> Tensor:
        x, place = self._window(frame, cache, rows)
        row = torch.arange(frame.shape[0], device=frame.device)
        return self._through(x, frame.dtype)[row, place]


class NerdOptimized(Nerd):
    """The same function as :class:`Nerd`, with only the work that the newest prediction needs in its last layer."""

    name = "nerd_optimized"
    fused = True

    def step(self, frame: Tensor, cache: WindowCache, rows: ContactRows | None = None) -> Tensor:
        x, place = self._window(frame, cache, rows)
        *first, last = self._blocks()
        for layer in first:
            x = layer.all_tokens(x, fused=True)
        return self._leave(last.one_token(x, place), frame.dtype)
