"""How states of a simulation become states of a card, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

_XYZW_FROM_WXYZ = (1, 2, 3, 0)
_WXYZ_FROM_XYZW = (3, 0, 1, 2)


@dataclass(frozen=True, kw_only=True)
class JointMap:
    """How states of the simulation become states of the card, and back.

    Attributes:
        joint_names: The card's joints.
        to_card: Index into the simulation's joints for each of the card's, shape [num_joints].
        to_sim: The inverse.
        floating_base: Whether a free joint precedes the joints.
        quaternion_order: The simulation's order; the card's side is xyzw.
        steps_per_control: Model steps in a control step: 1, or the decimation for a model at the solver's own step.
        warnings: Sentences to show once.
        unchecked: Properties that the simulation, or the card, does not say.
    """

    joint_names: tuple[str, ...]
    to_card: tuple[int, ...]
    to_sim: tuple[int, ...]
    floating_base: bool
    quaternion_order: str
    steps_per_control: int
    warnings: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def is_identity(self) -> bool:
        """Whether states can be used as they are."""
        plain = self.quaternion_order == "xyzw" or not self.floating_base
        return plain and self.to_card == tuple(range(len(self.to_card)))

    @property
    def q_to_card(self) -> list[int]:
        """Index into the simulation's ``joint_q`` for each coordinate of the card's, length nq."""
        return self._coordinates(_XYZW_FROM_WXYZ, self.to_card)

    @property
    def q_to_sim(self) -> list[int]:
        """Index into the card's ``joint_q`` for each coordinate of the simulation's, length nq."""
        return self._coordinates(_WXYZ_FROM_XYZW, self.to_sim)

    def _coordinates(self, from_wxyz: tuple[int, ...], joints: tuple[int, ...]) -> list[int]:
        head = []
        if self.floating_base:
            quaternion = from_wxyz if self.quaternion_order == "wxyz" else (0, 1, 2, 3)
            head = [0, 1, 2, *(3 + i for i in quaternion)]
        return head + [len(head) + i for i in joints]

    @property
    def qd_to_card(self) -> list[int]:
        """Index into the simulation's ``joint_qd`` for each velocity of the card's, length nv."""
        head = list(range(6)) if self.floating_base else []
        return head + [len(head) + i for i in self.to_card]

    @property
    def qd_to_sim(self) -> list[int]:
        """Index into the card's ``joint_qd`` for each velocity of the simulation's, length nv."""
        head = list(range(6)) if self.floating_base else []
        return head + [len(head) + i for i in self.to_sim]

    def state_to_card[Array: (Tensor, np.ndarray)](self, joint_q: Array, joint_qd: Array) -> tuple[Array, Array]:
        """States [..., nq], [..., nv] in the card's order; a copy unless the orders agree."""
        if self.is_identity:
            return joint_q, joint_qd
        return joint_q[..., self.q_to_card], joint_qd[..., self.qd_to_card]

    def state_to_sim[Array: (Tensor, np.ndarray)](self, joint_q: Array, joint_qd: Array) -> tuple[Array, Array]:
        """States [..., nq], [..., nv] in the simulation's order; a copy unless the orders agree."""
        if self.is_identity:
            return joint_q, joint_qd
        return joint_q[..., self.q_to_sim], joint_qd[..., self.qd_to_sim]
