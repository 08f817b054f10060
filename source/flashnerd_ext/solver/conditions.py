"""What differs from world to world: read from the simulation's model, as deviations from the robot of the asset.

Events that randomise the base's mass or centre of mass are honoured this way, whenever they happen: the next frame of
that world shows the new value. Values beyond the training data are clamped, counted and said once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp
from torch import Tensor

from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.robots.description import inertial_condition
from flashnerd_ext.solver.notices import Notices

if TYPE_CHECKING:
    from flashnerd_ext.bundle.card import Card


class ConditionStage:
    """Keeps the model's condition inputs up to date.

    Args:
        card: Names the conditions and their range in the training data.
        model: Finalised Newton model, still with the asset's own properties.
        base: Index of each world's root body, int64 [N].
        values: The stepper's buffer [N, C], written in place.
        notices: Where to say what the model does not see; ``None`` makes a lenient one.
        members: Bodies of each of the N robots, where worlds hold more than them; others are not the model's matter.

    Attributes:
        clamped: Worlds whose conditions lie outside of the training data, as of the last update.

    Raises:
        FlashNerdError: When a condition names a link that the robot in the scene does not have.
    """

    def __init__(
        self,
        card: Card,
        model: Any,
        base: Tensor,
        values: Tensor,
        notices: Notices | None = None,
        members: Sequence[np.ndarray] | None = None,
    ) -> None:
        self._members = members
        self.names, self._name, self._model, self._values = card.robot.conditions, card.name, model, values
        self.clamped = 0
        self._notices = Notices() if notices is None else notices
        # In coupled mode nobody else says that a robot's mass changed, since that of objects may.
        self._watches = bool(self.names) or members is not None
        if not self._watches:
            return
        ranges = card.envelope.frame
        place = [ranges.names.index(f"condition.{name}") for name in self.names]
        self._low = torch.tensor([ranges.min[i] for i in place], device=values.device)
        self._high = torch.tensor([ranges.max[i] for i in place], device=values.device)
        # Condition -> (what, index of its body in every world); others stay at nominal.
        self._inertial: dict[int, tuple[str, Tensor]] = {}
        for column, name in enumerate(self.names):
            found = inertial_condition(name)
            if found is not None:
                what, link = found
                self._inertial[column] = (what, self._bodies(link).to(base.device) if link else base)
        self._mass, self._com = self._all(model.body_mass).clone(), self._all(model.body_com).clone()
        # PhysX's robots do not say theirs here.
        inertia = getattr(model, "body_inertia", None)
        self._inertia = None if inertia is None else self._all(inertia).clone()
        self._covered = self._coverage()

    def take_ranges(self, card: Card) -> None:
        """Clamp to another bundle's training data from now on; its conditions must be the same."""
        if not self.names:
            return
        ranges = card.envelope.frame
        place = [ranges.names.index(f"condition.{name}") for name in self.names]
        self._low.copy_(torch.tensor([ranges.min[i] for i in place]))
        self._high.copy_(torch.tensor([ranges.max[i] for i in place]))
        self.update()

    @property
    def covers_inertia(self) -> bool:
        """Whether a change of some link's mass or centre of mass reaches the model."""
        return any(inertial_condition(name) for name in self.names)

    def _bodies(self, link: str) -> Tensor:
        """Index of that link in every world, int64 [N]."""
        names = [label.rsplit("/", 1)[-1] for label in self._model.body_label]
        if self._members is not None:
            return torch.tensor([self._body(link, row, names) for row in self._members])
        found = [i for i, name in enumerate(names) if name == link]
        worlds = self._model.body_world.numpy()[found]
        wanted = len(self._values)
        if sorted(np.maximum(worlds, 0).tolist()) != list(range(wanted)):
            raise FlashNerdError(
                f"the bundle '{self._name}' is conditioned on the link '{link}', which is {len(found)} times in the "
                f"scene's {wanted} worlds: use a robot that has it ({nearest(link, set(names))})"
            )
        return torch.tensor(found)[torch.from_numpy(np.argsort(worlds, kind="stable"))]

    def _body(self, link: str, row: np.ndarray, names: list[str]) -> int:
        """Index of that link among the bodies of one robot."""
        found = [int(body) for body in row if names[body] == link]
        if len(found) != 1:
            raise FlashNerdError(
                f"the bundle '{self._name}' is conditioned on the link '{link}', which is {len(found)} times in the "
                f"robot: use a robot that has it ({nearest(link, [names[body] for body in row])})"
            )
        return found[0]

    def _coverage(self) -> Tensor:
        """Which of mass, the three axes of the centre of mass and inertia the model sees, boolean [bodies, 5].

        An inertia that follows the mass is seen with it; of one that does not, no condition tells.
        """
        covered = torch.zeros((len(self._mass), 5), dtype=torch.bool, device=self._mass.device)
        if self._members is not None:
            # Objects and other robots are the simulator's, which sees their mass.
            covered.fill_(True)
            covered[np.concatenate(self._members).tolist()] = False
        for what, bodies in self._inertial.values():
            covered[bodies, 0 if what == "mass" else 1 + "xyz".index(what[-1])] = True
        return covered

    @staticmethod
    def _all(array: Any) -> Tensor:
        return wp.to_torch(array, requires_grad=False)

    def update(self) -> None:
        """Take present masses and centres of mass over."""
        if not self._watches:
            return
        factor = self._all(self._model.body_mass) / self._mass - 1.0
        shift = self._all(self._model.body_com) - self._com
        values = torch.zeros_like(self._values)
        for column, (what, bodies) in self._inertial.items():
            values[:, column] = factor[bodies] if what == "mass" else shift[bodies, "xyz".index(what[-1])]
        inside = torch.clamp(values, self._low, self._high)
        beyond = ((values - inside).abs() > 1e-3).any(1)
        self.clamped = int(beyond.sum())
        self._values.copy_(inside)
        if self.clamped and not self._notices.said("range"):
            worst = int((values - inside).abs().amax(1).argmax())
            which = int((values - inside)[worst].abs().argmax())
            self._notices.say(
                "range",
                f"{self.clamped} worlds have a {self.names[which]} beyond the training data of the bundle "
                f"'{self._name}' (world {worst}: {float(values[worst, which]):.4g}, known are "
                f"{float(self._low[which]):.4g} to {float(self._high[which]):.4g}): it is clamped there. Narrow the "
                "event's range, or train on a wider one.",
            )
        apart = torch.zeros_like(factor)
        if self._inertia is not None:
            follows = (1.0 + factor).nan_to_num(nan=1.0)[:, None, None] * self._inertia
            apart = (self._all(self._model.body_inertia) - follows).abs().amax((1, 2))
            apart /= self._inertia.abs().amax((1, 2))
        self._mention_unseen(torch.cat((factor.abs().unsqueeze(1), shift.abs(), apart.unsqueeze(1)), 1))

    def _mention_unseen(self, changes: Tensor) -> None:
        """Say which body changed although the model is not conditioned on it, once for mass, centre of mass and
        inertia each; ``changes`` [bodies, 5]."""
        # What has no mass, and none now, did not change.
        unseen = torch.where(self._covered, 0.0, changes).nan_to_num(nan=0.0)
        if not bool((unseen > 1e-3).any()):
            return
        known = f"conditioned on {', '.join(self.names)} only" if self.names else "not conditioned on it"
        for key, columns in (("mass", (0,)), ("centre of mass", (1, 2, 3)), ("inertia", (4,))):
            of_key = unseen[:, columns]
            if self._notices.said(f"unseen {key}") or not bool((of_key > 1e-3).any()):
                continue
            body, axis = divmod(int(of_key.argmax()), len(columns))
            more = {"centre of mass": f" along {'xyz'[axis]}", "inertia": ", apart from its mass,"}.get(key, "")
            self._notices.say(
                f"unseen {key}",
                f"An event changed the {key}{more} of {self._model.body_label[body]}, but the bundle '{self._name}' is "
                f"{known}: the learned dynamics go on as trained. Remove the event, or train on randomised data.",
            )
