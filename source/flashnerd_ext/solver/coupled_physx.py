"""Coupled mode in PhysX: before a step the model's free motion becomes joint forces, PhysX resolves the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import warp as wp

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.free import FreeStepper
from flashnerd_ext.solver.conditions import ConditionStage
from flashnerd_ext.solver.coupled_labels import RunningFacts, contained, refuse
from flashnerd_ext.solver.coupled_rows import CoupledRows, gravity_changed
from flashnerd_ext.solver.inverse_dynamics import InverseDynamics
from flashnerd_ext.solver.mapping import StateMap
from flashnerd_ext.solver.notices import Notices

if TYPE_CHECKING:
    from flashnerd_ext.bundle.card import Card
    from flashnerd_ext.bundle.store import Bundle
    from flashnerd_ext.solver.dump import GuardDump
    from flashnerd_ext.solver.physx_robots import PhysxRobots


@dataclass(frozen=True)
class JointState:
    """Joint positions and velocities of all robots, one after the other, as Newton's state has them."""

    joint_q: wp.array
    joint_qd: wp.array


@dataclass(frozen=True)
class Bodies:
    """Masses of all robots' links, one robot after the other, named as in Newton's model."""

    body_mass: wp.array
    body_com: wp.array
    body_label: list[str]


class CoupledPhysx(CoupledRows):
    """The learned robots of a PhysX simulation.

    Args:
        bundle: Learned free motion; its card has a ``coupling`` section.
        stepper: Runs the bundle's model, a row for each robot.
        robots: The robots, ordered by world.
        worlds: Worlds W, each with the same number of robots.
        gravity: Gives the gravity of the scene [m/s²], length 3.
        guard_margin: Share of the training envelope's width by which predicted states may leave it.
        guard_history: Steps kept for the guard's dump.
        strict: Refuse what the model does not see, instead of saying so once.

    Raises:
        FlashNerdError: For labels that PhysX cannot follow, a free base, and what contradicts the labels.
    """

    def __init__(
        self,
        bundle: Bundle,
        stepper: FreeStepper,
        robots: PhysxRobots,
        worlds: int,
        gravity: Callable[[], Sequence[float]],
        *,
        guard_margin: float = 0.25,
        guard_history: int = 16,
        strict: bool = False,
    ) -> None:
        card, rows = bundle.card, len(robots.paths)
        replaces = check_label(card)
        if not robots.fixed_base:
            raise FlashNerdError(
                f"the robot in the scene has a free base, but the bundle '{card.name}' was trained with a fixed one: "
                "give a bundle that was trained on this robot."
            )
        self.bundle, self.robots, self.torch_device = bundle, robots, robots.device
        self.clock, self.dump, self.drives = None, None, None
        self.notices = Notices(strict)
        self.dynamics, self._gravity = InverseDynamics(robots, gravity, replaces), gravity
        names, layout = robots.dof_names, card.layout
        place = [names.index(name) for name in layout.joint_names]
        refuse(card, contained(card, self._facts(place)))
        with torch.inference_mode(False):
            self._place = torch.tensor(place, device=self.torch_device)
            self._actuated = self._place[list(layout.actuated_joints)]
            self._inputs = torch.zeros((rows, layout.nu), device=self.torch_device)
            self._acceleration = torch.zeros((rows, len(names)), device=self.torch_device)
            self._q, self._qd = (torch.zeros(rows * len(names), device=self.torch_device) for _ in range(2))
            self._state: Any = JointState(wp.from_torch(self._q), wp.from_torch(self._qd))
            none = self._place[:0]
            straight = place == list(range(len(names)))
            columns = StateMap(rows, len(names), len(names), self._place, self._place, none, none, straight)
            self._make_rows(columns, rows // worlds, stepper, guard_margin, guard_history)
            self._make_bodies()
            links = len(robots.body_names)
            members = [np.arange(row * links, (row + 1) * links) for row in range(rows)]
            base = torch.arange(rows, device=self.torch_device) * links
            self.conditions = ConditionStage(card, self._bodies, base, stepper.condition, self.notices, members)
        self._look = False
        self._mention_speed(card)

    def before(self) -> None:
        """The model's part of a step: reads state and commands, and writes forces."""
        if self._look:
            self._look_again()
        with torch.inference_mode():
            dynamics = self.dynamics
            dynamics.read()
            self._q.copy_(dynamics.position.reshape(-1))
            self._qd.copy_(dynamics.velocity.reshape(-1))
            torch.index_select(dynamics.torque, 1, self._actuated, out=self._inputs)
            qacc, trusted = self.predict(self._state, self._inputs)
            self._acceleration.index_copy_(1, self._place, qacc.to(self._acceleration.dtype))
            dynamics.apply(self._acceleration, trusted)

    def after(self) -> None:
        """PhysX has stepped: what it resolved is the next frame."""
        with torch.inference_mode():
            self._q.copy_(self.robots.read("dof_position").reshape(-1))
            self._qd.copy_(self.robots.read("dof_velocity").reshape(-1))
            self.settle(self._state)
            self.dynamics.restore()

    def environment_reset(self, env_ids: torch.Tensor | list[int] | slice | None) -> None:
        super().environment_reset(env_ids)
        # Resets are when events randomise, and PhysX tells nobody.
        self._look = True

    def _look_again(self) -> None:
        """Follow what events changed, and say what the model has learned otherwise."""
        self._look = False
        before = self.dynamics.mass, self.dynamics.com
        self.dynamics.refresh()
        if not all(torch.equal(a, b) for a, b in zip(before, (self.dynamics.mass, self.dynamics.com), strict=True)):
            self._fill_bodies()
            self.conditions.update()
        card = self.bundle.card
        if not np.allclose(self._gravity(), card.simulation.gravity, atol=1e-3):
            self.notices.say("gravity", gravity_changed(card.name))
        found = contained(card, self._facts(self._place.tolist()))
        if found:
            self.notices.say(
                "labels",
                f"An event changed what the bundle '{card.name}' has learned ({found[0]}): the learned free motion "
                "goes on as trained. Remove the event.",
            )

    def report(self, dump: GuardDump) -> None:
        """Report robots that fell back, and forces that no input of the model shows."""
        super().report(dump)
        if len(self._actuated) == len(self._place):
            return
        rest = [i for i in self._place.tolist() if i not in self._actuated.tolist()]
        if bool((self.dynamics.torque[:, rest] != 0).any()):
            self.notices.say(
                "unseen_force",
                f"A force acts on a joint of the learned robot that the bundle '{self.bundle.card.name}' has no input "
                f"for (it has {', '.join(self.bundle.card.robot.actuated) or 'none'}): it has no effect. Train with "
                "all joints actuated.",
            )

    def _facts(self, place: list[int]) -> RunningFacts:
        """What the simulation says of the learned robots now, in the card's order."""
        dynamics = self.dynamics

        def joint(values: torch.Tensor) -> np.ndarray:
            return values[:, place].cpu().numpy()

        weightless = dynamics.weightless.cpu().numpy()
        return RunningFacts(
            integrator="",
            damping=joint(dynamics.viscous),
            armature=joint(dynamics.dof_armature),
            spring=np.zeros((len(weightless), len(place))),
            stiffness=joint(dynamics.stiffness),
            gain=joint(dynamics.damping),
            effort_limit=joint(dynamics.max_force),
            # The first link is the fixed base, whose weight nothing feels.
            gravity_compensation=tuple(
                {name: 1.0 for name, off in zip(self.robots.body_names[1:], row[1:], strict=True) if off}
                for row in weightless
            ),
        )

    def _make_bodies(self) -> None:
        rows, links = self.dynamics.mass.shape
        self._mass = torch.zeros(rows * links, device=self.torch_device)
        self._com = torch.zeros((rows * links, 3), device=self.torch_device)
        labels = [f"{path}/{name}" for path in self.robots.paths for name in self.robots.body_names]
        self._bodies = Bodies(wp.from_torch(self._mass), wp.from_torch(self._com, dtype=wp.vec3), labels)
        self._fill_bodies()

    def _fill_bodies(self) -> None:
        self._mass.copy_(self.dynamics.mass.reshape(-1))
        self._com.copy_(self.dynamics.com[..., :3].reshape(-1, 3))

    def _mention_speed(self, card: Card) -> None:
        """PhysX clamps joints at their largest velocity, whatever the model predicts."""
        clamp = self.robots.read("dof_max_velocity")[:, self._place].amin(0).tolist()
        ranges = card.envelope.state
        fast = np.maximum(np.abs(ranges.min), np.abs(ranges.max))[card.layout.nq :]
        for name, limit, seen in zip(card.robot.joint_names, clamp, fast, strict=True):
            if limit < seen:
                self.notices.warn(
                    "speed",
                    f"PhysX clamps the joint {name} at {limit:.4g} rad/s or m/s, but the bundle '{card.name}' has seen "
                    f"{seen:.4g}: set the actuator's velocity_limit_sim higher, or take the clamp as it is.",
                )


def check_label(card: Card) -> bool:
    """Whether the card's labels stand for drives and passive damping too, so that PhysX must not add them.

    Raises:
        FlashNerdError: For labels that PhysX cannot follow.
    """
    if card.coupling is None:
        raise FlashNerdError(
            f"the bundle '{card.name}' is of learned mode, which steps a robot alone under Newton: type "
            "physics=flashnerd, or give a bundle whose card has a coupling section."
        )
    if card.coupling.label == "dv_implicitfast":
        raise FlashNerdError(
            f"the labels of the bundle '{card.name}' are of the kind 'dv_implicitfast', whose damping only MuJoCo "
            "Warp's own integrator takes out again, but PhysX needs 'qacc_smooth' or 'dv_damped': type "
            "physics=flashnerd, or train on labels of that kind."
        )
    return card.coupling.label == "dv_damped"
