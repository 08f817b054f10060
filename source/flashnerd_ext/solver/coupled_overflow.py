"""Contacts and constraints that MuJoCo Warp had no room for: counted by world, said once.

In coupled mode contacts are MuJoCo Warp's. What does not fit into its buffers has no effect: things fall through each
other, and it tells so with a line on the terminal for every world and step. The buffer of contacts is one for all
worlds, so that a world may lose its contacts to others; rows of constraints are each world's own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
import warp as wp
from mujoco_warp._src.types import OverflowType

if TYPE_CHECKING:
    from flashnerd_ext.solver.notices import Notices

_ROWS = int(OverflowType.NEFC | OverflowType.NJMAX_NNZ)
_CONTACTS = int(OverflowType.BROADPHASE | OverflowType.NARROWPHASE)
_SHAPES = int(OverflowType.CCD | OverflowType.HFIELD)


class OverflowStage:
    """Watches MuJoCo Warp's buffers; its own are made once and written in place.

    Args:
        data: MuJoCo Warp's data.

    Attributes:
        overflow: Solver steps in which each world's contacts or constraints did not all have an effect, int64 [W].
        rows: Most constraint rows that each world wanted so far, int32 [W].
        contacts: Most contacts, or pairs to be looked at, that all worlds wanted together so far, int32 [1].
    """

    def __init__(self, data: Any) -> None:
        self._data = data
        self._flags, self._wanted, self._found, self._pairs = (
            wp.to_torch(array, requires_grad=False) for array in (data.overflow, data.nefc, data.nacon, data.ncollision)
        )
        self._contacts: Any = None
        self._count: torch.Tensor | None = None
        self._most = data.naconmax
        self._lacking, self._seen = torch.zeros_like(self._flags), torch.zeros_like(self._flags)
        self.overflow = torch.zeros(self._flags.shape, dtype=torch.int64, device=self._flags.device)
        self.rows, self.contacts = torch.zeros_like(self._wanted), torch.zeros_like(self._found)

    def begin(self) -> None:
        """Before a solver step: MuJoCo Warp only ever adds flags."""
        self._flags.zero_()

    def given(self, contacts: Any) -> None:
        """Before a solver step: the contacts that Newton found for it, where Newton does; it takes the first that fit.

        Args:
            contacts: Newton's, or ``None`` where MuJoCo Warp finds its own.
        """
        if contacts is None:
            self._count = None
        elif contacts is not self._contacts:
            with torch.inference_mode(False):
                self._count = wp.to_torch(contacts.rigid_contact_count, requires_grad=False)[:1]
            self._most = min(int(contacts.rigid_contact_max), self._data.naconmax)
        self._contacts = contacts

    def look(self) -> None:
        """After a solver step; nothing here waits for a GPU."""
        torch.bitwise_and(self._flags, _ROWS | _CONTACTS | _SHAPES, out=self._lacking)
        if self._count is not None:
            self._lacking.bitwise_or_((self._count > self._most).to(torch.int32) * _CONTACTS)
        self._seen.bitwise_or_(self._lacking)
        self.overflow.add_(self._lacking != 0)
        for most, now in ((self.rows, self._wanted), (self.contacts, self._found), (self.contacts, self._pairs)):
            torch.maximum(most, now, out=most)
        if self._count is not None:
            torch.maximum(self.contacts, self._count, out=self.contacts)

    def report(self, notices: Notices) -> None:
        """Say once what lacked room, with the size to type; where the host waits.

        Raises:
            FlashNerdError: Where that is refused.
        """
        if not bool(self._seen.any()):
            return
        seen, data = self._seen.tolist(), self._data
        self._seen.zero_()
        option = "env.sim.physics.solver_cfg"
        lost = "what does not fit has no effect, so that things pass through each other"
        worlds = [i for i, flags in enumerate(seen) if flags & _ROWS]
        if worlds:
            worst = max(worlds, key=lambda i: int(self.rows[i]))
            needed = max(int(self.rows[worst]), data.njmax + 1)
            notices.say(
                "rows",
                f"World {worst} has {int(self.rows[worst])} rows of constraints (contacts and limits), but room for "
                f"{data.njmax} with {data.njmax_nnz} entries; of {data.nworld} worlds {len(worlds)} lack room: {lost}. "
                f"Type {option}.njmax={needed} or more.",
            )
        if any(flags & _CONTACTS for flags in seen):
            where = f"{option}.nconmax={math.ceil(int(self.contacts) / data.nworld)}"
            if self._most < data.naconmax:
                where = f"env.sim.physics.collision_cfg.rigid_contact_max={int(self.contacts)}"
            notices.say(
                "contacts",
                f"The {data.nworld} worlds together have {int(self.contacts)} contacts (or pairs of shapes that may "
                f"touch), but room for {self._most}: {lost}, in whichever world. Type {where} or more.",
            )
        if any(flags & _SHAPES for flags in seen):
            notices.say(
                "shapes",
                f"MuJoCo Warp had no room for all contacts of meshes or height fields: {lost}. Type a larger "
                f"{option}.nconmax.",
            )
