"""The data engine steps legged robots as their running tasks do: recorded control steps, each from its own state.

Recorded by ``tests/fixtures/record_legged.py`` under newton_mjwarp. In free flight everything but contact is at work:
drives (DC motors evaluated once a simulation step and held over its solver steps, implicit PD), armature, joint limits,
the free base's coordinates. On the ground the task may find contacts in two ways:

- MuJoCo's detector, as the engine: the same points, so that steps agree to float32 too. The exception is a capsule that
  touches the ground within 30 degrees of upright: MuJoCo Warp then turns the friction pyramid to the world's axes,
  MuJoCo C along the capsule (seen in the constraint Jacobians). Ant's shanks are such capsules.
- Newton's pipeline, which the stock velocity tasks run: contacts are found once a simulation step and held over both
  solver steps, and a capsule or hull has other points. Most steps still agree to a thousandth; those in which a sole
  touches down or lifts off differ by up to the velocity that a contact makes in half a simulation step.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from exported import exported

from flashnerd_ext.data.engines.coordinates import from_mujoco, to_mujoco
from flashnerd_ext.data.engines.export import export_model
from flashnerd_ext.data.engines.mujoco_c import MujocoC
from flashnerd_ext.data.engines.rows import RowDetector
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
    Case("g1_29", "mujoco", FLOAT32, FLOAT32),
    Case("ant", "mujoco", FLOAT32, 0.1),
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
    known = robot is get_robot(robot.name)
    engine = MujocoC(exported(robot.name) if known else export_model(robot))
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


def test_mujoco_warp_on_the_engines_model_steps_as_the_running_task_on_the_ground_too() -> None:
    """So Ant's differences above are those between MuJoCo C and MuJoCo Warp, and none of the model."""
    import mujoco
    import mujoco_warp as mjw

    model = exported("ant")
    compiled, com = model.compile(), MujocoC(model).base_com(None)
    with np.load(FIXTURES / "ant_mujoco_steps.npz") as record:
        now = np.flatnonzero(record["kept"] & ~record["flight"])
        q, qd = (record[name][now].astype(float) for name in ("joint_q", "joint_qd"))
        after, torque = record["joint_qd"][now + 1], record["actuation"][now]
    qpos, qvel = to_mujoco(model, q, qd, com)
    applied = np.zeros((len(now), compiled.nv), np.float32)
    applied[:, np.asarray(model.actuated_dofs)] = torque
    warp = mjw.put_model(compiled)
    data = mjw.put_data(compiled, mujoco.MjData(compiled), nworld=len(now), nconmax=40, njmax=160)
    for name, values in (("qpos", qpos), ("qvel", qvel), ("qfrc_applied", applied)):
        getattr(data, name).assign(values.astype(np.float32))
    data.qacc_warmstart.zero_()
    for _ in range(2):
        mjw.step(warp, data)
    found = from_mujoco(model, data.qpos.numpy().astype(float), data.qvel.numpy().astype(float), com)[1]
    assert (np.abs(found - after).max(1) / (1.0 + np.abs(qd).max(1))).max() < FLOAT32


@pytest.mark.parametrize("name", ["anymal_c", "go2", "g1", "g1_29", "ant"])
def test_stand_heights_are_those_at_which_the_soles_touch(name: str) -> None:
    robot = get_robot(name)
    assert robot.contacts is not None
    q = np.zeros((1, robot.layout.nq))
    q[0, 2], q[0, 6], q[0, 7:] = robot.stand_height, 1.0, robot.default_q
    found = RowDetector(MujocoC(exported(robot.name))).rows(q, np.zeros((1, robot.layout.nv)))
    assert robot.links[found.link[0, 0]] in robot.contacts.feet
    assert found.features[0, 0, 6] == pytest.approx(0.0, abs=5e-4)
    touching = {robot.links[i] for i in found.link[0][found.features[0, :, 6] < 0.01] if i >= 0}
    assert touching == set(robot.contacts.feet)


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
        ("g1_29", lambda robot: dataclasses.replace(robot, joint_stiffness={}, joint_damping={})),
        ("ant", lambda robot: dataclasses.replace(robot, joint_damping={})),
    ],
)
def test_the_comparison_sees_a_wrong_description(name: str, wrong: object) -> None:
    """Wrong gains, no motor curve, a motor evaluated every 10 ms, another armature: each shows in free flight."""
    robot = wrong(get_robot(name))  # type: ignore[operator]
    found = replay(robot, "mujoco")
    assert found.velocity_error[found.flight].max() > 20 * FLOAT32
