"""FlashNeRD: embed the newest frame, stream it through a few short-span blocks, read out beside an affine path."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.cache import RingCache
from flashnerd_ext.model.cell import StreamBlock, make_norm
from flashnerd_ext.model.contacts import ContactEncoder, ContactRows, check_contact_options, need_rows
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.normalizer import Normalizer
from flashnerd_ext.model.rigid import RigidPrior


@dataclass
class FlashNerdConfig:
    """Options of :class:`FlashNerd`."""

    width: int = 64
    """Hidden size d."""
    blocks: int = 2
    """Blocks L."""
    span: int = 3
    """Frames S that a block's attention sees; the receptive field is L (S - 1) + 1."""
    heads: int = 2
    """Attention heads."""
    hidden: int = 128
    """Size of the gated branch."""
    norm: str = "none"
    """``rms`` normalises the input of every projection. It bounds what the net sees, and dynamics grow with speed
    and force: without it the one-step error on CartPole was half as large at equal updates."""
    rows_capacity: int = 0
    """Contact rows K of a robot; 0 for a robot that touches nothing."""
    slots: int = 4
    """Pooled contact slots M; 0 for fixed contacts."""
    links: int = 1
    """Links that can touch."""
    sensed: int = 0
    """Outputs beside the next state, for sensors and rewards (:mod:`flashnerd_ext.model.sensed`)."""
    prior: str = "none"
    """``rigid`` puts a tree of rigid links beneath the network (:mod:`flashnerd_ext.model.rigid`), which then learns
    what these do not explain; for free motion of robots on a fixed base."""

    def __post_init__(self) -> None:
        for name in ("width", "blocks", "span", "heads", "hidden"):
            if int(getattr(self, name)) < 1:
                raise FlashNerdError(f"options.{name} is {getattr(self, name)}, but at least 1 is needed.")
        check_contact_options(self.rows_capacity, self.slots, self.links)
        if self.prior not in ("none", "rigid"):
            raise FlashNerdError(f"options.prior is '{self.prior}', but none or rigid is needed.")
        if self.norm not in ("none", "rms"):
            raise FlashNerdError(f"options.norm is '{self.norm}', but none or rms is needed.")
        if self.width % self.heads:
            raise FlashNerdError(
                f"options.width is {self.width}, which is not a multiple of options.heads={self.heads}: "
                f"type options.heads={next(h for h in range(self.heads, 0, -1) if self.width % h == 0)}."
            )


class FlashNerd(DynamicsModel):
    """The streaming model; see the module's text."""

    name = "flashnerd"

    def __init__(self, layout: StateLayout, config: FlashNerdConfig) -> None:
        history = config.blocks * (config.span - 1) + 1
        # Left out where there is none, so that bundles from before it stay what they are.
        stored = {name: value for name, value in asdict(config).items() if (name, value) != ("prior", "none")}
        super().__init__(layout, stored, history, config.rows_capacity, config.sensed)
        self.options = config
        self.prior = RigidPrior(layout) if config.prior == "rigid" else None
        self.embed = nn.Linear(self.frame_size, config.width)
        self.contacts = (
            ContactEncoder(config.width, config.links, config.slots, config.rows_capacity)
            if config.rows_capacity
            else None
        )
        self.blocks = nn.ModuleList(
            StreamBlock(config.width, config.heads, config.span, config.hidden, config.norm)
            for _ in range(config.blocks)
        )
        self.norm = make_norm(config.norm, config.width)
        self.head = nn.Linear(2 * config.width, self.out_size)
        self.affine = nn.Linear(self.frame_size, self.out_size)
        # Scale of what the affine path leaves over, in units of out_norm; the net's outputs are of order one.
        self.residual_norm = Normalizer(self.out_size)
        nn.init.zeros_(self.affine.weight)
        nn.init.zeros_(self.affine.bias)

    def _stream_blocks(self) -> list[StreamBlock]:
        return cast(list[StreamBlock], list(self.blocks))

    def _enter(self, frame: Tensor, rows: ContactRows | None) -> tuple[Tensor, Tensor]:
        z = self.frame_norm(frame)
        x = self.embed(z.to(self.embed.weight.dtype))
        if self.contacts is not None:
            x = x + self.contacts(need_rows(rows, self.rows_capacity))
        return z, x

    def features(self, x: Tensor, entered: Tensor) -> Tensor:
        """Readout features [..., 2 d]: the last block's output and the frame's own embedding."""
        return torch.cat((self.norm(x), entered), -1)

    def explained(self, frames: Tensor) -> Tensor | None:
        if self.prior is None:
            return None
        dv = self.prior(frames) * self.prior.dt.to(torch.promote_types(frames.dtype, torch.float32))
        return torch.cat((dv, dv.new_zeros((*dv.shape[:-1], self.out_size - dv.shape[-1]))), -1)

    def _leave(self, frame: Tensor, z: Tensor, x: Tensor, entered: Tensor) -> Tensor:
        residual = self.head(self.features(x, entered)).to(z.dtype)
        straight = nn.functional.linear(z, self.affine.weight.to(z.dtype), self.affine.bias.to(z.dtype))
        left = self.out_norm.undo(straight + self.residual_norm.undo(residual))
        explained = self.explained(frame)
        return left if explained is None else left + explained

    def sequence(self, frames: Tensor, rows: ContactRows | None = None) -> Tensor:
        z, entered = self._enter(frames, rows)
        x = entered
        for block in self._stream_blocks():
            x = block.sequence(x)
        return self._leave(frames, z, x, entered)

    def init_cache(
        self, batch: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> RingCache:
        c = self.options
        device = device if device is not None else self.embed.weight.device
        return RingCache(c.blocks, c.span, batch, c.heads, c.width // c.heads, device, dtype or self.embed.weight.dtype)

    def step(self, frame: Tensor, cache: RingCache, rows: ContactRows | None = None) -> Tensor:
        z, entered = self._enter(frame, rows)
        lags = cache.lags()
        visible = cache.visible(lags)
        x = entered
        for index, block in enumerate(self._stream_blocks()):
            x = block.step(x, cache, index, lags, visible)
        cache.advance()
        return self._leave(frame, z, x, entered)

    def recall(self, frame: Tensor, past: Any = None, rows: ContactRows | None = None) -> tuple[Tensor, Any]:
        z, entered = self._enter(frame, rows)
        x, pairs = entered, []
        for index, block in enumerate(self._stream_blocks()):
            x, pair = block.recall(x, None if past is None else past[index])
            pairs.append(pair)
        return self._leave(frame, z, x, entered), tuple(pairs)
