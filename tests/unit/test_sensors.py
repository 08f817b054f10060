"""Which links contact sensors find on the ground, from the predicted mean force and the distance at the end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from flashnerd_ext.model.sensed import Sensed
from flashnerd_ext.robots.registry import get_robot
from flashnerd_ext.solver.sensors import SHARE, TOUCH, SensorStage

ROBOT = get_robot("anymal_c")
LAYOUT, LINKS, WEIGHT = ROBOT.layout, len(ROBOT.links), 500.0
LIGHT, HEAVY = 0.9 * SHARE * WEIGHT, 1.1 * SHARE * WEIGHT


def stage(distances: list[list[float]]) -> SensorStage:
    worlds = len(distances)
    touching = torch.full((worlds, LINKS), np.inf)
    touching[:, :3] = torch.tensor(distances)
    contacts: Any = SimpleNamespace(
        links=ROBOT.links, found=torch.zeros(worlds), touching=touching, link_shape=np.zeros((worlds, LINKS), int)
    )
    return SensorStage(LAYOUT, contacts, Sensed(LAYOUT, LINKS).size, ROBOT.dt, ROBOT.decimation, WEIGHT)


def sensed(worlds: int, forces: list[float]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """State at rest and outputs whose first three links are pushed up with ``forces`` [N]."""
    q, qd = torch.zeros((worlds, LAYOUT.nq)), torch.zeros((worlds, LAYOUT.nv))
    q[:, 3:7] = torch.tensor([0.6, 0.0, 0.0, 0.8])  # forces are predicted in the root frame
    force = torch.zeros((worlds, LINKS, 3))
    force[:, :3, 2] = torch.tensor(forces)
    return q, qd, Sensed(LAYOUT, LINKS).pack(q, force, torch.full((worlds, LAYOUT.nu), 3.0))


def test_links_near_the_ground_with_weight_on_them_touch_it() -> None:
    near, far = 0.5 * TOUCH, 2.0 * TOUCH
    sensors = stage([[near, near, far], [-1e-3, far, near], [near, near, near]])
    q, qd, values = sensed(3, [HEAVY, LIGHT, HEAVY])
    values[2] = float("nan")  # what a held world's network says is of no matter
    sensors.start(q, qd)
    target = torch.zeros((3, LAYOUT.nu))
    sensors.end(q, qd, target, torch.zeros((3, 4)), values, torch.tensor([False, False, True]))
    up = sensors.force[..., 2]
    torch.testing.assert_close(up[0, 0], torch.tensor(HEAVY))
    torch.testing.assert_close(up[1, [0, 2]], torch.tensor([HEAVY, HEAVY]))
    # Exactly nothing elsewhere: a lifted foot, a far one, one that the network gave a little, a held world.
    assert int((sensors.force != 0).any(-1).sum()) == 3
    assert (sensors.torque[2] == 0).all()
    torch.testing.assert_close(sensors.torque[:2], torch.full((2, LAYOUT.nu), 3.0))


def test_state_before_the_step_is_kept() -> None:
    """The solver's buffers hold the next state when the prediction is taken over."""
    sensors = stage([[0.0, 0.0, 0.0]])
    q, qd, values = sensed(1, [HEAVY] * 3)
    sensors.start(q, qd)
    q[:, 3:7] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    sensors.end(q, qd, torch.zeros((1, LAYOUT.nu)), torch.zeros((1, 4)), values, torch.zeros(1, dtype=torch.bool))
    torch.testing.assert_close(sensors.force[0, :3], torch.tensor([[0.0, 0.0, HEAVY]] * 3))
