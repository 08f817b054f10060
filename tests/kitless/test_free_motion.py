"""Free motion of coupled robots: what the data engines write is MuJoCo's smooth acceleration and nothing else."""

from __future__ import annotations

import dataclasses
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from exported import exported

from flashnerd_ext.data.dataset import load_trajectories
from flashnerd_ext.data.engines import build_engine
from flashnerd_ext.data.engines.export import export_model
from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.data.samplers import mixture, samplers_of
from flashnerd_ext.data.writer import Plan, SplitPlan, Writer, draw_worlds, rollout_policy
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.frame import encode_frame
from flashnerd_ext.model.rigid import RigidPrior
from flashnerd_ext.robots.description import RobotDescription
from flashnerd_ext.robots.registry import get_robot
from flashnerd_ext.training.dynamics import conditions_of, identify

pytestmark = pytest.mark.kitless

NAMES = ("franka", "franka_reach", "allegro")


@pytest.fixture(scope="module", params=NAMES)
def made(request: pytest.FixtureRequest) -> tuple[RobotDescription, ExportedModel]:
    robot = get_robot(request.param)
    return robot, exported(robot.name)


def states(robot: RobotDescription, count: int = 64, seed: int = 0) -> tuple[np.ndarray, ...]:
    """States within limits and beyond them, torques up to the effort limits, and conditions."""
    rng = np.random.default_rng(seed)
    names = robot.layout.joint_names
    low, high = (np.array([robot.position_limit[name][i] for name in names]) for i in (0, 1))
    q = rng.uniform(low - 0.1 * (high - low), high + 0.1 * (high - low), (count, len(names)))
    qd = rng.normal(size=q.shape) * 2.0
    torque = (rng.uniform(-1, 1, q.shape) * [robot.effort_limit[name] for name in names]).astype(np.float32)
    return q, qd, torque, draw_worlds(robot, rng, count)[0]


def smooth(model: ExportedModel, robot: RobotDescription, q: Any, qd: Any, torque: Any, condition: Any) -> Any:
    """``qacc_smooth`` and ``qacc`` of MuJoCo for the model with all of its constraints, drives set to the torque."""
    mujoco: Any = import_module("mujoco")
    whole = dataclasses.replace(model, coupling="").compile()
    mass, inertia = whole.body_mass.copy(), whole.body_inertia.copy()
    data = mujoco.MjData(whole)
    found, resolved = np.zeros_like(q), np.zeros_like(q)
    dofs, places = list(model.dof_index), list(model.qpos_index)
    for i in range(len(q)):
        for column, name in enumerate(robot.layout.conditions):
            body = whole.body(model.links[name.removeprefix("mass:")]).id
            whole.body_mass[body] = mass[body] * (1.0 + condition[i, column])
            whole.body_inertia[body] = inertia[body] * (1.0 + condition[i, column])
        mujoco.mj_setConst(whole, data)
        mujoco.mj_resetData(whole, data)
        data.qpos[places], data.qvel[dofs], data.qfrc_applied[dofs] = q[i], qd[i], torque[i]
        mujoco.mj_forward(whole, data)
        found[i], resolved[i] = data.qacc_smooth[dofs], data.qacc[dofs]
    return found, resolved


def test_a_one_step_label_is_mujocos_smooth_acceleration(made: tuple[RobotDescription, ExportedModel]) -> None:
    robot, model = made
    assert robot.dt == pytest.approx(1.0 / 240.0) and robot.inner_steps == 1
    q, qd, torque, condition = states(robot)
    engine = build_engine("mujoco_c", model, 1)
    if robot.layout.conditions:
        engine.set_worlds(condition, None)  # type: ignore[attr-defined]
    next_q, next_qd = engine.step(q, qd, torque)
    wanted, resolved = smooth(model, robot, q, qd, torque, condition)
    size = 1.0 + np.abs(wanted).max(1, keepdims=True)
    assert (np.abs((next_qd - qd) / robot.dt - wanted) / size).max() < 1e-9
    assert np.abs(next_q - (q + robot.dt * next_qd)).max() < 1e-12
    # The comparison can fail: half of the states are beyond a limit, where constraints change the acceleration.
    assert (np.abs(resolved - wanted) / size > 1e-3).any(1).mean() > 0.3


def test_conditions_reach_the_label() -> None:
    robot = get_robot("franka")
    q, qd, torque, _ = states(robot, 8)
    engine = build_engine("mujoco_c", exported(robot.name), 1)
    results = []
    for value in (0.0, 1.0):
        engine.set_worlds(np.full((8, 1), value), None)  # type: ignore[attr-defined]
        results.append(engine.step(q, qd, torque)[1])
    assert np.abs(results[0] - results[1]).max(0)[:7].min() > 1e-5


def test_drives_stay_out_and_armature_stays_in(made: tuple[RobotDescription, ExportedModel]) -> None:
    robot, model = made
    compiled = model.compile()
    assert compiled.nu == 0 and not compiled.dof_damping.any()
    armature = [robot.armature[name] for name in robot.layout.joint_names]
    assert compiled.dof_armature[list(model.dof_index)] == pytest.approx(armature)
    assert compiled.opt.timestep == pytest.approx(robot.sim_dt / robot.substeps)


def test_the_first_joint_of_an_upright_arm_turns_freely() -> None:
    """``position_free``: its angle changes nothing."""
    robot = get_robot("franka")
    engine = build_engine("mujoco_c", exported(robot.name), 1)
    q, qd, torque, condition = states(robot, 16)
    engine.set_worlds(condition, None)  # type: ignore[attr-defined]
    turned = q.copy()
    turned[:, 0] += 1.3
    assert engine.step(q, qd, torque)[1] == pytest.approx(engine.step(turned, qd, torque)[1], abs=1e-9)


def test_the_hand_is_held_as_the_task_holds_it() -> None:
    """Gravity in the hand's own frame, by the torque that it takes to hold the fingers."""
    mujoco: Any = import_module("mujoco")
    model = exported("allegro").compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    held = data.qfrc_bias.copy()
    upright = dataclasses.replace(get_robot("allegro"), base_quat=(0.0, 0.0, 0.0, 1.0))
    other = export_model(upright).compile()
    data = mujoco.MjData(other)
    mujoco.mj_forward(other, data)
    assert np.abs(held).max() > 5e-3 and np.abs(held - data.qfrc_bias).max() > 5e-3


@pytest.mark.parametrize("name", NAMES)
def test_a_data_set_has_all_splits_and_replays(name: str, tmp_path: Path) -> None:
    robot = get_robot(name)
    model = exported(name)
    model.save(tmp_path)
    assert ExportedModel.load(tmp_path) == model
    engine = build_engine("mujoco_c", model, 1)
    splits = {"train": SplitPlan(14, 4, False), "val": SplitPlan(4, 20, True), "test": SplitPlan(6, 30, True)}
    plan = Plan(robot=name, seed=3, engine="mujoco_c", splits=splits, shard=8)
    summary = Writer(tmp_path, robot, model, engine, plan).run()
    assert summary is not None and summary["dt"] == pytest.approx(robot.dt)
    for split, sizes in splits.items():
        data = load_trajectories(tmp_path, split, robot)
        assert data.valid.shape == (sizes.trajectories, sizes.steps) and data.valid.all()
        if robot.layout.conditions:
            condition = data.extra["condition"]
            assert condition.shape == (sizes.trajectories, len(robot.layout.conditions))
            engine.set_worlds(condition, None)  # type: ignore[attr-defined]
        for t in range(sizes.steps):
            q, qd = engine.step(data.joint_q[:, t], data.joint_qd[:, t], data.actuation[:, t])
            assert np.array_equal(q, data.joint_q[:, t + 1]) and np.array_equal(qd, data.joint_qd[:, t + 1])
    assert unexplained(tmp_path, robot) < 1e-5


def unexplained(folder: Path, robot: RobotDescription) -> float:
    """What a rigid prior that was read off the val split leaves of the test split's accelerations, as a share."""
    val, test = (load_trajectories(folder, split, robot) for split in ("val", "test"))
    prior = RigidPrior(robot.layout)
    assert identify(prior, robot, val, torch.arange(val.valid.size), seed=0) < 1e-5
    condition = torch.from_numpy(conditions_of(test).astype(np.float64))
    q, qd = torch.from_numpy(test.joint_q), torch.from_numpy(test.joint_qd)
    frames = encode_frame(robot.layout, q[:, :-1], qd[:, :-1], torch.from_numpy(test.actuation).double(), condition)
    wanted = (qd[:, 1:] - qd[:, :-1]) / robot.dt
    return float((prior(frames.float()) - wanted).square().mean().sqrt() / wanted.square().mean().sqrt())


@pytest.mark.parametrize("name", NAMES)
def test_test_motions_stay_near_the_joints_range(name: str) -> None:
    """Over the 200 steps of a test trajectory nobody flies away, although nothing but the drives holds the joints."""
    robot = get_robot(name)
    engine = build_engine("mujoco_c", exported(robot.name), 1)
    names = robot.layout.joint_names
    low, high = (np.array([robot.position_limit[joint][i] for joint in names]) for i in (0, 1))
    for sampler, share in zip(samplers_of(name).values(), mixture(name, "test"), strict=True):
        if share == 0.0:
            continue
        q, qd, policy = sampler.draw(np.random.default_rng(0), 32, 200)
        if robot.layout.conditions:
            engine.set_worlds(draw_worlds(robot, np.random.default_rng(1), 32)[0], None)  # type: ignore[attr-defined]
        joint_q, joint_qd, torque = rollout_policy(engine, q, qd, policy, 200)[:3]
        away = (np.maximum(low - joint_q, joint_q - high) / (high - low)).max(-1)
        assert np.isfinite(joint_qd).all()
        assert (away < 1.0).mean() > 0.9, sampler.name
        limit = np.array([robot.effort_limit[joint] for joint in names])
        assert (np.abs(torque) <= limit * (1 + 1e-6)).all()


def test_engines_refuse_what_they_do_not_make() -> None:
    model = dataclasses.replace(exported("allegro"), coupling="dv_damped")
    with pytest.raises(FlashNerdError, match="coupling is 'dv_damped', but the data engines make qacc_smooth"):
        model.compile()
    with pytest.raises(FlashNerdError, match="conditions that differ from world to world"):
        build_engine("mujoco_warp", exported("franka"))


def test_the_card_of_a_trained_model_says_what_the_label_is() -> None:
    from flashnerd_ext.bundle.example import example_model_and_card
    from flashnerd_ext.bundle.make import make_card
    from flashnerd_ext.training.dynamics import coupling_of

    robot = get_robot("franka")
    network, example = example_model_and_card(robot, coupled=True)
    card = make_card(
        robot=robot, model=network, envelope=example.envelope, engine="mujoco_c", seed=0, coupling=coupling_of(robot)
    )
    assert card.coupling is not None and card.coupling.label == "qacc_smooth"
    assert card.coupling.armature == robot.armature and not any(card.coupling.damping.values())
    assert card.simulation.inner_steps == 1 and card.simulation.dt == pytest.approx(robot.dt)
    assert coupling_of(get_robot("cartpole")) is None
