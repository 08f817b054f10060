"""The data engine steps legged robots as their running tasks do: recorded control steps, each from its own state.

Recorded by ``tests/fixtures/record_legged.py`` under newton_mjwarp. In free flight everything but contact is at work:
drives (DC motors evaluated once a simulation step and held over its solver steps, implicit PD), armature, joint limits, the
free base's coordinates. On the ground the task may find contacts in two ways:

- MuJoCo's detector, as the engine: the same points, so that steps agree to float32 too. The exception is a capsule that
  touches the ground within 30 degrees of upright: MuJoCo Warp then turns the friction pyramid to the world's axes,
  MuJoCo C along the capsule (seen in the constraint Jacobians). Ant's shanks are such capsules.
- Newton's pipeline, which the stock velocity tasks run: contacts are found once a simulation step and held over both solver
  steps, and a capsule or hull has other points. Most steps still agree to a thousandth; those in which a sole touches
  down or lifts off differ by up to the velocity that a contact makes in half a simulation step.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from flashnerd_ext.data.engines.export import export_model
from flashnerd_ext.data.engines.mujoco_c import MujocoC
from flashnerd_ext.model.layout import Drive
from flashnerd_ext.robots.description import RobotDescription
from flashnerd_ext.robots.registry import get_robot

pytestmark = pytest.mark.kitless

FIXTURES = Path(__file__).parent.parent / "fixtures"
FLOAT32 = 7e-5
"""What float32 steps may differ by from float64 ones, relative to (1 + the largest velocity): eight solver steps, and
contacts of 160 kN/m."""


class Case(NamedTuple):
    """A recording and what its steps on the ground may differ by, relative to (1 + the largest velocity)."""

    robot: str
    detector: str
    median: float
    worst: float


CASES = [
    Case("anymal_c", "mujoco", FLOAT32, FLOAT32),
    Case("go2", "mujoco", FLOAT32, FLOAT32),
    Case("go2", "newton", 5e-4, 0.05),
    Case("g1", "mujoco", FLOAT32, FLOAT32),
    Case("g1", "newton", 2e-3, 0.3),
    Case("ant", "mujoco", FLOAT32, 0.03),
]


class Replay(NamedTuple):
    """Recorded steps and what the engine makes of them."""

    flight: np.ndarray
    speed: np.ndarray
    position_error: np.ndarray
    velocity_error: np.ndarray


def replay(robot: RobotDescription, detector: str) -> Replay:
    """Steps of the recording from their own states."""
    with np.load(FIXTURES / f"{robot.name}_{detector}_steps.npz") as record:
        q, qd, actuation, kept, flight = (
            record[name] for name in ("joint_q", "joint_qd", "actuation", "kept", "flight")
        )
        options = f"{robot.cone} {robot.impratio} implicitfast {detector}"
        assert str(record["solver"][0]).replace(" 1 ", " 1.0 ") == options
    engine = MujocoC(export_model(robot))
    now = np.flatnonzero(kept)
    next_q, next_qd = engine.step(q[now].astype(float), qd[now].astype(float), actuation[now])
    # A quaternion and its negative are one rotation.
    same = np.sign((next_q[:, 3:7] * q[now + 1, 3:7]).sum(1, keepdims=True))
    next_q[:, 3:7] *= same
    speed = np.abs(qd[now]).max(1)
    return Replay(
        flight[now],
        speed,
        np.abs(next_q - q[now + 1]).max(1) / (1.0 + speed),
        np.abs(next_qd - qd[now + 1]).max(1) / (1.0 + speed),
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.robot}-{case.detector}")
def test_the_engine_steps_as_the_running_task_does(case: Case) -> None:
    found = replay(get_robot(case.robot), case.detector)
    assert found.flight.sum() == 24 and (~found.flight).sum() == 48
    assert found.speed[found.flight].max() > 8.0
    assert found.position_error[found.flight].max() < 0.1 * FLOAT32
    assert found.velocity_error[found.flight].max() < FLOAT32
    ground = found.velocity_error[~found.flight]
    assert np.median(ground) < case.median
    assert ground.max() < case.worst


def _with_drive(robot: RobotDescription, **changes: tuple[float, ...]) -> RobotDescription:
    drive = robot.layout.drive
    assert drive is not None
    values = {name: tuple(value) for name, value in drive.to_dict().items()} | changes
    return dataclasses.replace(robot, layout=dataclasses.replace(robot.layout, drive=Drive(**values)))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("go2", lambda robot: _with_drive(robot, damping=(0.55,) * 12)),
        ("go2", lambda robot: _with_drive(robot, saturation=(), velocity_limit=())),
        ("go2", lambda robot: dataclasses.replace(robot, decimation=2, sim_dt=0.01, substeps=4)),
        ("go2", lambda robot: dataclasses.replace(robot, armature=dict.fromkeys(robot.layout.joint_names, 0.001))),
        ("g1", lambda robot: dataclasses.replace(robot, joint_damping=dict.fromkeys(robot.layout.joint_names, 5.0))),
        ("g1", lambda robot: dataclasses.replace(robot, armature={})),
        ("anymal_c", lambda robot: dataclasses.replace(robot, armature={})),
        ("ant", lambda robot: dataclasses.replace(robot, joint_damping={})),
    ],
)
def test_the_comparison_sees_a_wrong_description(name: str, wrong: object) -> None:
    """Wrong gains, no motor curve, a motor evaluated every 10 ms, another armature: each shows in free flight."""
    robot = wrong(get_robot(name))  # type: ignore[operator]
    found = replay(robot, "mujoco")
    assert found.velocity_error[found.flight].max() > 20 * FLOAT32
