"""The simulator that made the data, MuJoCo C, where a learned model would stand: same backend, other dynamics.

It tells apart what comes of the backend and what of a model, and on a CPU it is the fast way to the simulator: one call
a control step for all worlds, where MuJoCo Warp's kernels are made for a GPU (ANYmal-C, 64 worlds, one core: about 30
against 300 ms a control step). The engine model is exported from the asset as for data sets; tests replay running tasks
with it to 6e-5.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.sensed import Sensed
from flashnerd_ext.robots.description import RobotDescription

ENGINE = "mujoco_c"
"""What ``solver_cfg.model`` calls it."""


class EngineStepper:
    """Takes the place of :class:`flashnerd_ext.model.stepper.Stepper`.

    Args:
        robot: Whose engine model is exported.
        num_worlds: Worlds N.
        device: Of the simulation; the engine itself runs on the CPU.
        workers: Threads of the engine; ``None`` takes ``OMP_NUM_THREADS``, else 1.

    Attributes:
        condition: Deviations of each world from the nominal robot, [N, C]; written in place.
        friction: Sliding friction of each world, [N]; written in place.
        sensed: Mean contact forces and torques of the last step, as :class:`flashnerd_ext.model.sensed.Sensed` packs
            them.

    Raises:
        FlashNerdError: For a robot that touches nothing, whose data engine does not report forces.
    """

    compiled = False

    def __init__(
        self, robot: RobotDescription, num_worlds: int, device: torch.device | str, workers: int | None = None
    ) -> None:
        from flashnerd_ext.data.engines.export import export_model
        from flashnerd_ext.data.engines.mujoco_c import MujocoC

        if robot.contacts is None:
            raise FlashNerdError(
                f"solver_cfg.model is '{ENGINE}', but robot={robot.name} has no contacts, and this engine stands in "
                "for models of robots that have: type physics=newton_mjwarp."
            )
        self.robot, self.num_worlds, self.device = robot, num_worlds, torch.device(device)
        self.engine = MujocoC(export_model(robot), workers or int(os.environ.get("OMP_NUM_THREADS") or 1))
        self._sensed = Sensed(robot.layout, len(robot.links))
        # What the backend asks of a model and of its cache.
        self.model: Any = SimpleNamespace(
            name=ENGINE, layout=robot.layout, sensed=self._sensed.size, parameter_count=lambda: 0
        )
        self.cache = SimpleNamespace(nbytes=0)
        self.condition = torch.zeros((num_worlds, len(robot.layout.conditions)), device=device)
        self.friction = torch.ones(num_worlds, device=device)
        self.sensed = torch.zeros((num_worlds, self._sensed.size), device=device)
        self._worlds: np.ndarray | None = None

    def step(self, joint_q: Tensor, joint_qd: Tensor, actuation: Tensor, rows: Any = None) -> tuple[Tensor, Tensor]:
        """Next ``(joint_q [N, nq], joint_qd [N, nv])``; the engine finds contacts itself.

        A world whose state is not finite stays not finite.
        """
        self._follow()
        q, qd, action = (x.double().cpu().numpy() for x in (joint_q, joint_qd, actuation))
        norm = np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
        q[:, 3:7] /= np.where(norm > 0, norm, 1.0)
        next_q, next_qd = self.engine.step(q, qd, action)
        force, torque = (torch.from_numpy(x).float() for x in (self.engine.force, self.engine.torque))
        self.sensed.copy_(self._sensed.pack(joint_q.cpu(), force, torque))
        return (torch.from_numpy(x).float().to(self.device) for x in (next_q, next_qd))  # type: ignore[return-value]

    def _follow(self) -> None:
        """Give the engine's worlds new properties where they changed: a copy of its model each."""
        worlds = torch.cat((self.condition, self.friction[:, None]), 1).double().cpu().numpy()
        if self._worlds is None or not np.array_equal(worlds, self._worlds):
            self._worlds = worlds
            self.engine.set_worlds(worlds[:, :-1].copy(), worlds[:, -1].copy())

    def reset(self, mask: Tensor | None = None) -> None:
        """Nothing: the engine remembers nothing between steps."""
