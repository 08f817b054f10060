"""Contacts anywhere on the robot: rows in, a fixed number of slots out.

A row is one detected contact in the root frame: point (3) [m], normal (3), signed distance (1) [m], relative
velocity of the two surfaces (3) [m/s], friction (1), whether the other side is static (1); with it go the link it
touches and whether the row is used. Pooling is by masked attention, so order and padding do not matter.

Fixed contacts are the same interface: a constant number of rows, each always of the same link (its point nearest to
the ground, touching or not), and no pooling.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from flashnerd_ext.errors import FlashNerdError

ROW_SIZE = 12
"""Features of a row; see the module's text for their order."""
AHEAD = 0.02
"""How far ahead a row looks [s]: about a control step of the robots that walk."""
DERIVED = 2
"""Features that follow from a row and are products of others, which a linear layer cannot make: the speed along the
normal, and the distance that is left ``AHEAD`` from now."""


@dataclass(frozen=True)
class ContactRows:
    """Contacts of a batch of robots.

    Attributes:
        features: Shape [..., K, 12], root frame.
        link: Index of the robot's link, int64 [..., K]; anything where unused.
        used: Boolean [..., K].
    """

    features: Tensor
    link: Tensor
    used: Tensor


def need_rows(rows: ContactRows | None, capacity: int) -> ContactRows:
    """The rows, which a model that takes them cannot do without.

    Raises:
        FlashNerdError: Where there are none.
    """
    if rows is None:
        raise FlashNerdError(f"this model takes {capacity} contact rows a robot, but none were given: pass rows=.")
    return rows


def check_contact_options(rows_capacity: int, slots: int, links: int) -> None:
    """Refuse options of a contact encoder that make no sense.

    Raises:
        FlashNerdError: Names the option.
    """
    for name, value, least in (("rows_capacity", rows_capacity, 0), ("slots", slots, 0), ("links", links, 1)):
        if value < least:
            raise FlashNerdError(f"options.{name} is {value}, but at least {least} is needed.")


class ContactEncoder(nn.Module):
    """Row encoder and pooling into ``slots`` vectors, plus the count of rows.

    Args:
        width: Size of the result, that of a frame's hidden vector.
        links: Number of links that can touch.
        slots: Learned queries M; 0 keeps rows apart (fixed contacts: each row is always the same named point).
        capacity: Rows K of a robot.
        row_width: Hidden size of a row.
    """

    scale: Tensor

    def __init__(self, width: int, links: int, slots: int, capacity: int, row_width: int = 32) -> None:
        super().__init__()
        self.slots, self.capacity, self.row_width = slots, capacity, row_width
        # Point and normal, distance, velocity, friction, static: brought to order one, as touching is a matter of mm.
        scale = torch.tensor([2.0] * 3 + [1.0] * 3 + [50.0] + [0.5] * 3 + [1.0] * 2)
        self.register_buffer("scale", scale, persistent=False)
        self.link = nn.Embedding(max(links, 1), row_width)
        self.rows = nn.Sequential(nn.Linear(ROW_SIZE + DERIVED, row_width), nn.SiLU(), nn.Linear(row_width, row_width))
        nn.init.normal_(self.link.weight, std=0.1)
        if slots:
            self.key = nn.Linear(row_width, row_width, bias=False)
            self.queries = nn.Parameter(torch.randn(slots, row_width) * row_width**-0.5)
        self.project = nn.Linear((slots or capacity) * row_width + 1, width)

    def forward(self, rows: ContactRows) -> Tensor:
        """Hidden contribution [..., width] of the rows; finite and constant where no row is used."""
        used = rows.used.unsqueeze(-1)
        # Unused rows may hold anything, NaN included: they are replaced, not multiplied away.
        features = torch.where(used, rows.features, torch.zeros_like(rows.features))
        closing = (features[..., 3:6] * features[..., 7:10]).sum(-1, keepdim=True)
        left = features[..., 6:7] + AHEAD * closing
        features = torch.cat((features * self.scale, 0.5 * closing, 50.0 * left), -1)
        features = features.to(self.project.weight.dtype)
        link = torch.where(rows.used, rows.link, torch.zeros_like(rows.link))
        hidden = torch.where(used, self.rows(features) + self.link(link), features.new_zeros(()))
        if self.slots:
            score = torch.einsum("...kr,mr->...mk", self.key(hidden), self.queries)
            score = score.masked_fill(~rows.used.unsqueeze(-2), float("-inf"))
            top = score.amax(-1, keepdim=True)
            # With zero rows the maximum is -inf, and a softmax would give NaN.
            weight = torch.exp(score - torch.where(torch.isfinite(top), top, torch.zeros_like(top)))
            weight = weight / weight.sum(-1, keepdim=True).clamp_min(1e-20)
            hidden = weight @ hidden
        count = rows.used.sum(-1, keepdim=True).to(hidden.dtype) / self.capacity
        return self.project(torch.cat((hidden.flatten(-2), count), -1))
