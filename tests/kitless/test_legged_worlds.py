"""What differs from world to world, and where robots start, in the data engine and in the simulator's conditions."""

from __future__ import annotations

import dataclasses
import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from exported import exported

from flashnerd_ext.data.engines.export import export_model, robot_usd
from flashnerd_ext.data.engines.mujoco_c import MujocoC
from flashnerd_ext.data.engines.rows import RowDetector
from flashnerd_ext.data.samplers import samplers_of
from flashnerd_ext.data.writer import lift_starts
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.description import RobotDescription
from flashnerd_ext.robots.registry import get_robot

pytestmark = pytest.mark.kitless


def standing(robot: RobotDescription, count: int, height: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The default pose at rest on its soles, or ``height`` [m] above them, with commands that hold it."""
    q, qd = np.zeros((count, robot.layout.nq)), np.zeros((count, robot.layout.nv))
    q[:, 2], q[:, 6], q[:, 7:] = robot.stand_height + height, 1.0, robot.default_q
    hold = robot.default_q if robot.actuation == "target" else np.zeros(robot.layout.nu)
    return q, qd, np.tile(hold, (count, 1)).astype(np.float32)


@pytest.mark.parametrize("name", ["anymal_c", "go2", "g1", "g1_29", "ant"])
def test_nobody_starts_in_the_ground(name: str) -> None:
    engine = MujocoC(exported(name))
    detector, samplers = RowDetector(engine), samplers_of(name)
    generators = [np.random.default_rng([7, n]) for n in range(len(samplers))]
    draws = [(n, item.draw(generators[n], 40, 3)) for n, item in enumerate(samplers.values())]
    lifted = lift_starts(engine, draws, generators)
    sunk = 0
    for (n, (before, qd, _)), (m, (after, _, _)) in zip(draws, lifted, strict=True):
        assert n == m
        found = detector.rows(after, qd)
        depth = np.where(found.link >= 0, found.features[..., 6], 1.0).min(1)
        assert depth.min() > -1e-5
        moved = after[:, 2] - before[:, 2]
        assert (moved >= 0).all() and np.array_equal(np.delete(before, 2, 1), np.delete(after, 2, 1))
        # Those that were raised stand within a centimetre of the ground.
        assert depth[moved > 0].max(initial=0.0) < 0.0101
        sunk += int((moved > 0).sum())
    assert 0.2 < sunk / (40 * len(samplers)) < 0.98


@pytest.mark.parametrize(("name", "link", "share"), [("g1", "torso_link", 8.117), ("go2", "base", 7.277)])
def test_the_named_link_gets_heavier_and_the_feet_feel_it(name: str, link: str, share: float) -> None:
    robot = get_robot(name)
    engine = MujocoC(exported(name))
    names = robot.layout.conditions
    condition = np.zeros((3, len(names)), np.float32)
    condition[1, 0], condition[2, 0] = 0.3, -0.25
    engine.set_worlds(condition, None)
    assert engine.models is not None
    body = engine.model.links[link]
    mass = np.array([world.body(body).mass[0] for world in engine.models])
    np.testing.assert_allclose(mass, share * np.array([1.0, 1.3, 0.75]), rtol=1e-3)
    inertia = np.array([world.body(body).inertia for world in engine.models])
    np.testing.assert_allclose(inertia[1:] / inertia[:1], [[1.3] * 3, [0.75] * 3], rtol=1e-6)
    total = np.array([world.body_mass.sum() for world in engine.models])
    np.testing.assert_allclose(total - mass, total[0] - mass[0], rtol=1e-6)
    q, qd, hold = standing(robot, 3)
    loads = []
    for _ in range(25):
        q, qd = engine.step(q, qd, hold)
        loads.append(engine.force.sum(1)[:, 2])
    mean = np.mean(loads[10:], 0)
    assert mean[2] < mean[0] < mean[1]
    assert mean[1] - mean[2] == pytest.approx(0.55 * share * 9.81, rel=0.35)


@pytest.mark.parametrize(
    ("name", "joint", "stiffness", "limit"),
    [
        ("g1", "left_shoulder_pitch_joint", 40.0, 300.0),
        ("g1", "left_ankle_pitch_joint", 20.0, 20.0),
        ("g1_29", "waist_yaw_joint", 5000.0, 88.0),
        ("g1_29", "left_elbow_joint", 3000.0, 300.0),
    ],
)
def test_torques_of_implicit_drives_are_those_that_act(name: str, joint: str, stiffness: float, limit: float) -> None:
    """In the air: the drive pulls with its stiffness at first, and no harder than its limit however far the target."""
    robot = get_robot(name)
    engine, index = MujocoC(exported(name)), robot.layout.joint_names.index(joint)
    q, qd, hold = standing(robot, 3, height=1.0)
    error = 0.2 * limit / stiffness
    hold[0, index] += error
    hold[1, index] += 40.0 + limit
    engine.step(q, qd, hold)
    near, far, none = engine.torque[:, index]
    # The mean over a control step, in which the joint starts to follow and stiff ones swing.
    assert abs(near - none) < 1.0001 * stiffness * error
    assert far == pytest.approx(limit, rel=1e-6)
    # Newton's third law: what one drive does, others feel, but by less than it.
    assert np.abs(np.delete(engine.torque[0] - engine.torque[2], index)).max() < stiffness * error


def test_gain_conditions_scale_stiffness_and_damping_of_every_implicit_drive() -> None:
    """Newton makes two actuators a joint, one in position and one in velocity; each has its own share."""
    robot = get_robot("g1")
    layout = dataclasses.replace(robot.layout, conditions=("stiffness", "damping"))
    engine = MujocoC(export_model(dataclasses.replace(robot, layout=layout)))
    engine.set_worlds(np.array([[0.0, 0.0], [0.5, -0.2]], np.float32), None)
    assert engine.models is not None
    plain, changed = engine.models
    gain, bias = (
        getattr(changed, f"actuator_{name}prm")
        / np.where(getattr(plain, f"actuator_{name}prm") == 0.0, np.nan, getattr(plain, f"actuator_{name}prm"))
        for name in ("gain", "bias")
    )
    position = plain.actuator_biasprm[:, 1] != 0.0
    assert position.sum() == (~position).sum() == 37
    np.testing.assert_allclose(gain[position, 0], 1.5, rtol=1e-6)
    np.testing.assert_allclose(bias[position, 1], 1.5, rtol=1e-6)
    np.testing.assert_allclose(gain[~position, 0], 0.8, rtol=1e-6)
    np.testing.assert_allclose(bias[~position, 2], 0.8, rtol=1e-6)


def stage(robot: RobotDescription, worlds: int, conditions: tuple[str, ...]):
    """Conditions of a bundle for ``robot`` in a Newton model of so many worlds."""
    import newton
    from newton.solvers import SolverMuJoCo

    from flashnerd_ext.solver.conditions import ConditionStage
    from flashnerd_ext.solver.mapping import root_bodies

    one = newton.ModelBuilder(up_axis=newton.Axis.Z)
    SolverMuJoCo.register_custom_attributes(one)
    one.add_usd(robot_usd(robot))
    builder = newton.ModelBuilder(up_axis=newton.Axis.Z)
    SolverMuJoCo.register_custom_attributes(builder)
    for _ in range(worlds):
        builder.add_world(one)
    model = builder.finalize(device="cpu")
    names = tuple(f"condition.{name}" for name in conditions)
    ranges = SimpleNamespace(names=names, min=(-0.25,) * len(names), max=(0.3,) * len(names))
    card = SimpleNamespace(
        name="test", robot=SimpleNamespace(conditions=conditions), envelope=SimpleNamespace(frame=ranges)
    )
    values = torch.zeros(worlds, len(conditions))
    return ConditionStage(card, model, torch.from_numpy(root_bodies(model)), values), model, values


def change(model: object, link: str, factors: list[float]) -> None:
    """Scale the mass of that link in each world, and its inertia with it, as Isaac Lab's event does."""
    mass, inertia = model.body_mass.numpy(), model.body_inertia.numpy()
    which = [i for i, label in enumerate(model.body_label) if label.rsplit("/", 1)[-1] == link]
    mass[which] *= factors
    inertia[which] *= np.array(factors)[:, None, None]
    model.body_mass.assign(mass)
    model.body_inertia.assign(inertia)


def test_the_simulators_torso_mass_reaches_the_model_in_its_own_world() -> None:
    conditions, model, values = stage(get_robot("g1"), 3, ("mass:torso_link",))
    assert conditions.covers_inertia
    change(model, "torso_link", [1.0, 1.2, 0.8])
    conditions.update()
    assert values[:, 0].tolist() == pytest.approx([0.0, 0.2, -0.2], abs=1e-6)
    assert conditions.clamped == 0


def test_what_the_bundle_is_not_conditioned_on_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    conditions, model, values = stage(get_robot("g1"), 2, ("mass:torso_link",))
    change(model, "pelvis", [1.0, 1.2])
    with caplog.at_level(logging.WARNING):
        conditions.update()
        conditions.update()
    assert not values.any()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1 and "mass of" in said[0] and "pelvis" in said[0] and "mass:torso_link only" in said[0]


def test_an_inertia_that_does_not_follow_its_mass_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Isaac Lab has an event for it (randomize_rigid_body_inertia), and that of masses can leave inertias alone."""
    conditions, model, _ = stage(get_robot("g1"), 2, ("mass:torso_link",))
    before = model.body_inertia.numpy().copy()
    change(model, "torso_link", [1.0, 1.2])
    conditions.update()
    assert not caplog.records
    model.body_inertia.assign(before)
    with caplog.at_level(logging.WARNING):
        conditions.update()
        conditions.update()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1 and "inertia, apart from its mass, of" in said[0] and "torso_link" in said[0]


def test_base_conditions_follow_the_root_and_values_beyond_the_data_are_clamped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    conditions, model, values = stage(get_robot("go2"), 2, ("base_mass", "base_com_x"))
    change(model, "base", [1.1, 1.6])
    com = model.body_com.numpy()
    com[[i for i, label in enumerate(model.body_label) if label.endswith("/base")], 0] += [0.02, 0.0]
    model.body_com.assign(com)
    with caplog.at_level(logging.WARNING):
        conditions.update()
    np.testing.assert_allclose(values.numpy(), [[0.1, 0.02], [0.3, 0.0]], atol=1e-6)
    assert conditions.clamped == 1
    assert len(caplog.records) == 1 and "world 1: 0.6" in caplog.records[0].getMessage()


def test_a_link_that_the_robot_lacks_is_refused() -> None:
    with pytest.raises(FlashNerdError, match=r"conditioned on the link 'torso_lnk', which is 0 times.*torso_link"):
        stage(get_robot("g1"), 2, ("mass:torso_lnk",))
