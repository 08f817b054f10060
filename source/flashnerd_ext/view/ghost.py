"""The simulator beside the model in one running simulation: for each robot that the model steps, a ghost that MuJoCo C
steps, from the same state on.

The simulation has two worlds a pair. One lives in learned physics; in the other the model's prediction is replaced by
one step of the simulator that the bundle was learned from. So the environment observes both and a policy acts in both,
and any viewer that shows the simulation shows the two robots.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.model.sensed import Sensed
from flashnerd_ext.robots.description import RobotDescription

ENGINES = ("mujoco_c",)
"""Simulators that a ghost can be stepped with."""
MODES = ("policy", "actions")
"""``policy``: the ghost's commands are the policy's answer to what the ghost sees. ``actions``: the learned robot's
commands, whatever the ghost does."""


class GhostStepper:
    """Stands where the learned stepper stood, and steps the second half of the worlds with the simulator.

    A pair begins anew, both robots in the learned one's state, wherever the past of one of the two ends: at a reset,
    a teleport, or when the guard holds it.

    Args:
        learned: The stepper of the learned solver, with 2 P worlds: P learned ones, then their ghosts.
        robot: Whose engine model is exported.
        mode: One of :data:`MODES`.
        engine: One of :data:`ENGINES`.
        device: Of the simulation; the engine itself runs on the CPU.
        friction: Gives the sliding friction of every world [2 P]; ``None`` leaves the exported model's.

    Attributes:
        learned: The stepper in whose place this stands.
        fresh: Pairs that begin anew with the next step, boolean [P].
        rows: Contact rows of the last step, of all worlds; ``None`` for a model that takes none.
        restarts: How often each pair has begun, int64 [P].

    Raises:
        FlashNerdError: Where the engine is not known, or the number of worlds is odd.
    """

    def __init__(
        self,
        learned: Any,
        robot: RobotDescription,
        mode: str = "policy",
        engine: str = "mujoco_c",
        device: torch.device | str = "cpu",
        friction: Callable[[], Tensor] | None = None,
    ) -> None:
        from flashnerd_ext.data.engines.export import export_model
        from flashnerd_ext.data.engines.mujoco_c import MujocoC

        check_engine(engine)
        if mode not in MODES:
            raise FlashNerdError(f"the ghost's mode is '{mode}', which is not known: {nearest(mode, MODES)}")
        if learned.num_worlds % 2:
            raise FlashNerdError(
                f"the simulation has {learned.num_worlds} worlds, but a ghost for each robot needs an even number: "
                "double num_envs."
            )
        self.learned, self.robot, self.mode, self.device = learned, robot, mode, torch.device(device)
        self.pairs = learned.num_worlds // 2
        self.engine = MujocoC(export_model(robot), int(os.environ.get("OMP_NUM_THREADS") or 1))
        size = int(learned.model.sensed)
        self._sensed = Sensed(robot.layout, len(robot.links)) if size else None
        self.fresh = torch.ones(self.pairs, dtype=torch.bool, device=device)
        self.restarts = torch.zeros(self.pairs, dtype=torch.int64, device=device)
        self.rows: Any = None
        self._friction = friction
        self._worlds: np.ndarray | None = None

    @property
    def rows_drawn(self) -> bool:
        """Whether the learned robots have contact rows to draw."""
        return bool(self.learned.model.rows_capacity)

    def __getattr__(self, name: str) -> Any:
        # What the backend asks of a stepper beside its steps: model, cache, condition, sensed, num_worlds.
        if name == "learned":
            raise AttributeError(name)
        return getattr(self.learned, name)

    def reset(self, mask: Tensor | None = None) -> None:
        """Worlds (all with ``None``) whose past ends; the other half of each pair begins anew with them."""
        self.fresh |= True if mask is None else mask[: self.pairs] | mask[self.pairs :]
        self.learned.reset(mask)

    def step(self, joint_q: Tensor, joint_qd: Tensor, actuation: Tensor, rows: Any = None) -> tuple[Tensor, Tensor]:
        """Next ``(joint_q [2 P, nq], joint_qd [2 P, nv])``, the second half from the simulator."""
        count, fresh = self.pairs, self.fresh
        self.rows = rows
        next_q, next_qd = (x.clone() for x in self.learned.step(joint_q, joint_qd, actuation, rows))
        # At a start the ghost is where the learned robot is, and does what it does.
        start, command = fresh[:, None], fresh[:, None] | (self.mode == "actions")
        q = torch.where(start, joint_q[:count], joint_q[count:])
        qd = torch.where(start, joint_qd[:count], joint_qd[count:])
        u = torch.where(command, actuation[:count], actuation[count:])
        self._follow()
        next_q[count:], next_qd[count:] = self._simulate(q, qd, u)
        self.restarts += fresh
        fresh.zero_()
        return next_q, next_qd

    def _simulate(self, joint_q: Tensor, joint_qd: Tensor, actuation: Tensor) -> tuple[Tensor, Tensor]:
        q, qd, action = (x.double().cpu().numpy() for x in (joint_q, joint_qd, actuation))
        if self.robot.layout.floating_base:
            norm = np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
            q[:, 3:7] /= np.where(norm > 0, norm, 1.0)
        next_q, next_qd = (torch.from_numpy(x).to(joint_q) for x in self.engine.step(q, qd, action))
        if self._sensed is not None:
            force, torque = (torch.from_numpy(x).float() for x in (self.engine.force, self.engine.torque))
            self.learned.sensed[self.pairs :] = self._sensed.pack(joint_q.cpu().float(), force, torque).to(self.device)
        return next_q, next_qd

    def _follow(self) -> None:
        """The ghost's robot is as heavy and its ground as slippery as the learned one's."""
        condition = self.learned.condition[: self.pairs].double().cpu().numpy()
        friction = None if self._friction is None else self._friction()[: self.pairs].double().cpu().numpy()
        worlds = np.concatenate([condition, np.ones((self.pairs, 1)) if friction is None else friction[:, None]], 1)
        if self._worlds is None or not np.array_equal(worlds, self._worlds):
            self._worlds = worlds
            self.engine.set_worlds(condition.copy(), friction)


def check_engine(engine: str) -> None:
    """Refuse a simulator that has no ghosts.

    Raises:
        FlashNerdError: Names those that have.
    """
    if engine not in ENGINES:
        raise FlashNerdError(
            f"--compare is '{engine}', but the ghost can be stepped with {', '.join(ENGINES)} only: type --compare "
            f"{ENGINES[0]}."
        )
