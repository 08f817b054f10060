"""Field cases on ANYmal-C with the shipped bundle: a floating base, contacts, drives that the model has learned.

Each docstring names its case; docs/field-cases.md has the table. What needs Isaac Lab comes from one process that is
shared by all tests; the others step bare Newton models in this one.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("newton")
sys.path.insert(0, str(Path(__file__).parent))

from anymal_world import FEET, ROBOT, Herd, build, shipped, standing
from forked import result_of

from flashnerd_ext.bundle.store import load_bundle, save_bundle
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.physics.facts import check_simulation
from flashnerd_ext.solver.dump import GuardDump
from flashnerd_ext.solver.mapping import map_state

pytestmark = [pytest.mark.kitless, pytest.mark.slow]
CHILD = Path(__file__).with_name("anymal_cases_child.py")
AT_REST = torch.zeros(1, ROBOT.layout.nv)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Isaac Lab's environments gave, one after another in one process."""
    folder = tmp_path_factory.mktemp("anymal")
    result, text = result_of(CHILD, folder, cwd=folder)
    return {"text": text, "folder": folder, **result}


def fail(herd: Herd, world: int) -> None:
    """One step in which the model gives NaN for a world, in its state, its past and what sensors read."""
    stepper = herd.solver.stream.stepper
    original = stepper.step

    def broken(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        q, qd = original(*arguments)
        q[world] = qd[world] = stepper.sensed[world] = float("nan")
        stepper.cache.values[:, :, world] = float("nan")
        return q, qd

    stepper.step = broken
    herd.step()
    stepper.step = original


# -- one world's fault ------------------------------------------------------------------------------------------------


def test_a_world_that_turned_nan_and_was_reset_is_a_fresh_one() -> None:
    """F01: finite, equal to a fresh world at the same place, its past empty; all others to the bit as without it."""
    count, world = 6, 4
    herd, quiet, fresh = Herd(count), Herd(count), Herd(count)
    herd.step(5)
    quiet.step(5)
    herd.view("joint_qd")[world] = float("nan")
    herd.step()
    quiet.step()
    assert torch.isfinite(herd.states()).all()
    assert torch.isfinite(torch.tensor(herd.state.body_q.numpy())).all()
    assert torch.isfinite(herd.solver.sensors.force).all()
    start = standing(1)
    start[0, 0] = 3.0
    herd.put(start, AT_REST, [world])
    herd.solver.environment_reset(torch.tensor([world]))
    fresh.put(start, AT_REST, [world])
    for i in range(3):
        for each in (herd, quiet, fresh):
            each.step()
        cache = herd.solver.stream.stepper.cache
        assert int(cache.age[world]) == min(i + 1, cache.span - 1)
        assert torch.equal(herd.states()[world], fresh.states()[world])
        assert torch.equal(herd.solver.sensors.force[world], fresh.solver.sensors.force[world])
    rest = [i for i in range(count) if i != world]
    assert torch.equal(herd.states()[rest], quiet.states()[rest])
    assert torch.equal(herd.solver.sensors.force[rest], quiet.solver.sensors.force[rest])
    assert not herd.solver.guard.pending.any()


def test_a_fault_stays_in_its_step_and_its_world() -> None:
    """F04: NaN from the model, in a command or in a written state: the last good state, no force, others as ever."""
    count, failed = 5, []
    herd, quiet = Herd(count), Herd(count)
    herd.step(6)
    quiet.step(6)
    solver, targets = herd.solver, herd.view("joint_target_q").clone()
    for world, bad in ((1, "model"), (2, "joint_target_q"), (3, "joint_q")):
        failed.append(world)
        good = herd.states()[world].clone()
        if bad == "model":
            fail(herd, world)
        else:
            herd.view(bad)[world, 9] = float("nan")
            herd.step()
            herd.view("joint_target_q").copy_(targets)
        quiet.step()
        assert solver.guard.failed.tolist() == [i == world for i in range(count)]
        assert torch.equal(herd.states()[world], good)
        assert (solver.sensors.force[world] == 0.0).all() and (solver.sensors.torque[world] == 0.0).all()
    for _ in range(3):
        herd.step()
        quiet.step()
        assert not solver.guard.failed.any()
    assert torch.isfinite(herd.states()).all()
    assert solver.guard.pending.tolist() == [i in failed for i in range(count)]
    rest = [i for i in range(count) if i not in failed]
    assert torch.equal(herd.states()[rest], quiet.states()[rest])


def test_the_environment_ends_a_held_world_and_goes_on(lab: dict[str, Any]) -> None:
    """F04: terminated and counted as a term of its own in the same step; training goes on."""
    life = lab["life"]
    only = [i == life["count"] - 1 for i in range(life["count"])]
    assert life["terminated"] == only and life["term"] == only
    assert life["logged"] == pytest.approx(1 / life["count"])
    assert life["force_of_held"] == 0.0
    assert life["finite"]
    assert life["held_in_all"] == 1 and not life["pending"]


def test_the_dump_is_of_the_world_that_failed(lab: dict[str, Any]) -> None:
    """F05: the last of the worlds; its history is what this world went through, and ``latest`` points there."""
    life, folder = lab["life"], lab["folder"] / "dumps"
    world = life["count"] - 1
    report = json.loads((folder / "latest" / "report.json").read_text())
    assert (folder / "latest").is_symlink()
    assert report["worlds"] == [world] and report["causes"] == {str(world): "the prediction is not finite"}
    assert report["bundle"] == "anymal_c" and report["hash"] == shipped().hash
    with np.load(folder / "latest" / "history.npz", allow_pickle=False) as data:
        size = ROBOT.layout.nq + ROBOT.layout.nv
        assert data["worlds"].tolist() == [world]
        assert data["history"].shape == (1, len(life["history_seen"]), size + ROBOT.layout.nu)
        # The side that steps the environment kept the state after each step, which is that before the next one.
        np.testing.assert_allclose(data["history"][0, 1:, :size], life["history_seen"][1:], rtol=0.0, atol=1e-5)
        assert np.isnan(data["rejected"]).all()


def test_dumps_of_many_worlds_hold_each_of_them(tmp_path: Path) -> None:
    """F05: two that failed among others, the last included, each with its own history."""
    herd = Herd(12, guard_history=3)
    herd.step(2)
    seen = herd.states()
    herd.view("joint_qd")[11, 6], herd.view("joint_qd")[7, 6] = float("nan"), float("inf")
    herd.step()
    names = tuple(str(i) for i in range(ROBOT.layout.nq + ROBOT.layout.nv + ROBOT.layout.nu))
    herd.solver.report(GuardDump(tmp_path, 4, {}, names))
    with np.load(tmp_path / "latest" / "history.npz", allow_pickle=False) as data:
        assert data["worlds"].tolist() == [7, 11]
        np.testing.assert_array_equal(data["history"][:, -1, : seen.shape[1]], seen[[7, 11]].numpy())


# -- what can be read when --------------------------------------------------------------------------------------------


def test_bodies_agree_with_joints_whenever_they_can_be_read(lab: dict[str, Any]) -> None:
    """F02: poses, velocities and joints of the robot, after each step and directly after automatic resets."""
    assert lab["life"]["timed_out"] == [True] * 8 + [False] * 8
    assert lab["life"]["apart"] < 1e-5


def test_contact_sensors_of_reset_worlds_read_nothing(lab: dict[str, Any]) -> None:
    """F03: standing robots were reset into the air: no force, no history, no air time; others as the model said."""
    force, told = lab["life"]["force_after_reset"], lab["life"]["force_told"]
    assert force[:8] == [0.0] * 8
    assert lab["life"]["air_after_reset"] == 0.0
    # The others stand: the sensor reads at least what the model said last (its history may hold more).
    assert min(told) > 50.0
    assert all(read >= 0.9999 * last for read, last in zip(force[8:], told, strict=True))


def test_nothing_of_the_old_simulation_survives_a_hard_reset(lab: dict[str, Any]) -> None:
    """F06: two rebuilds, then a stand: no shared memory, nobody keeps the old solver, sensors and torques are bound."""
    life = lab["life"]
    assert life["rebuilt_shared"] == []
    assert not life["rebuilt_alive"]
    assert life["rebuilt_steps"] == 20 and life["rebuilt_apart"] < 1e-5
    assert min(life["rebuilt_force"]) > 50.0
    assert life["rebuilt_torque"] < 1e-5 and life["rebuilt_effort"] > 1.0


def test_buffers_are_written_in_place(lab: dict[str, Any]) -> None:
    """F07: none was swapped for another in 20 control steps with resets."""
    assert lab["life"]["places_moved"] == []


def test_the_stream_advances_once_a_model_step_however_the_control_step_is_split(lab: dict[str, Any]) -> None:
    """F07: decimation 4, 1, 2 and 3 and odd substeps: the same states, observations and rewards, to the bit."""
    runs = lab["rates"]
    trained = runs["as trained"]
    for label in ("one step", "two steps", "three steps", "substeps"):
        assert runs[label]["steps"] == 12, label
        for what in ("age", "state", "policy", "reward"):
            assert runs[label][what] == trained[what], (label, what)


def test_inference_mode_outside_and_inside_is_the_same() -> None:
    """F08: built and stepped in inference mode, reset outside of it, and the other way round."""
    plain = Herd(4)
    with torch.inference_mode():
        mixed = Herd(4)
    start = standing(2)
    for i in range(9):
        plain.step()
        if i % 3:
            with torch.inference_mode():
                mixed.step()
        else:
            mixed.step()
        if i == 4:
            for herd in (plain, mixed):
                herd.solver.environment_reset(torch.tensor([3, 0], dtype=torch.int32))
                herd.put(start, AT_REST.repeat(2, 1), [3, 0])
    assert torch.equal(plain.states(), mixed.states())
    assert not plain.solver.guard.total.any()


def test_indices_come_from_the_given_array(lab: dict[str, Any]) -> None:
    """F08: joints 7 and 0 of worlds 11 and 2 are written: the next frame has them there, and all else as it was."""
    assert lab["life"]["written"] < 1e-6


# -- the robot of the bundle ------------------------------------------------------------------------------------------


def test_joint_orders_agree_up_to_permutation() -> None:
    """F09: the importer's breadth-first and depth-first orders, mapped by name; the same motion to rounding."""
    depth, breadth = Herd(5), Herd(5, build(5, order="bfs"))
    assert depth.solver.frame.map.straight and not breadth.solver.frame.map.straight
    for i in range(15):
        targets = torch.tensor(ROBOT.default_q) + 0.2 * torch.randn(5, 12, generator=torch.Generator().manual_seed(i))
        for herd in (depth, breadth):
            herd.command(targets)
            herd.step()
    assert (depth.solver.sensors.force[:, FEET, 2].sum(1) > 50.0).all(), "nobody stands, so contacts were not compared"
    torch.testing.assert_close(depth.states(), breadth.states(), rtol=0.0, atol=1e-4)


def test_a_missing_or_extra_joint_is_named() -> None:
    """F09: a leg that one side does not have."""
    model, layout = build(2), shipped().card.layout
    fewer = StateLayout(layout.joint_names[:-1], layout.joint_kinds[:-1], floating_base=True)
    with pytest.raises(FlashNerdError, match="has the joint 'RH_KFE', which the bundle 'anymal_c' does not know"):
        map_state(model, fewer, "anymal_c", "cpu")
    more = StateLayout((*layout.joint_names, "TAIL"), (*layout.joint_kinds, "revolute"), floating_base=True)
    with pytest.raises(FlashNerdError, match="moves the joint 'TAIL', which the robot in the scene does not have"):
        map_state(model, more, "anymal_c", "cpu")


def test_quaternions_of_another_order_are_refused(tmp_path: Path) -> None:
    """F10: a bundle whose card says wxyz, saved as anyone could save it, and the same card in a running simulation."""
    card = shipped().card
    odd = card.replace(simulation=dataclasses.replace(card.simulation, quaternion_order="wxyz"))
    with pytest.raises(FlashNerdError, match=r"wxyz.*xyzw"):
        load_bundle(save_bundle(tmp_path / "odd", shipped().model, odd).path)
    with pytest.raises(FlashNerdError, match=r"wxyz.*convert"):
        check_simulation(odd, build(1), ROBOT.sim_dt, ROBOT.decimation)


def test_an_environment_that_forgot_to_clone_is_told(lab: dict[str, Any]) -> None:
    """F11: counts and the missing call; also where all robots stand in one world."""
    assert "0 articulations in 1 worlds" in lab["clone"] and "4 environments" in lab["clone"]
    assert "ReplicateSession" in lab["clone"] and "\n" not in lab["clone"]
    with pytest.raises(FlashNerdError, match=r"3 articulations in 1 worlds.*ReplicateSession"):
        map_state(build(3, together=True), shipped().card.layout, "anymal_c", "cpu")


# -- contacts ---------------------------------------------------------------------------------------------------------


def lying(count: int) -> torch.Tensor:
    """Robots that lie on the ground with their legs folded: more contacts than a robot has rows."""
    q = standing(count)
    q[:, 2], q[:, 7:] = 0.1, torch.tensor([0.0, 1.2, -2.4]).repeat(4)
    return q


def test_dropped_contacts_are_counted_by_world_and_said_once(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """F12: one warning with the number needed, whatever the number of steps."""
    herd, dump = Herd(3), GuardDump(tmp_path, 0, {}, ())
    stage = herd.solver.contact_stage
    herd.put(lying(1), AT_REST, [1])
    for i in range(1, 4):
        herd.step()
        herd.solver.report(dump)
        assert stage.overflow.tolist()[::2] == [0, 0]
        assert 1 <= int(stage.overflow[1]) <= i
    needed = int(stage.needed[1])
    assert needed > stage.capacity >= int(stage.needed[[0, 2]].max())
    said = [record.message for record in caplog.records if "contacts within" in record.message]
    assert len(said) == 1
    assert f"World 1 has {needed} contacts" in said[0] and f"the {stage.capacity} deepest" in said[0]


def test_dropped_contacts_are_refused_where_strict(tmp_path: Path) -> None:
    """F12: and robots on their feet pass."""
    herd, dump = Herd(2, strict=True), GuardDump(tmp_path, 0, {}, ())
    herd.step()
    herd.solver.report(dump)
    herd.put(lying(1), AT_REST, [1])
    herd.step()
    with pytest.raises(FlashNerdError, match=r"World 1 has \d+ contacts.*solver_cfg.strict is on"):
        herd.solver.report(dump)


@pytest.mark.parametrize("slope", [0.0, 0.2])
def test_a_contact_sensor_gives_all_components_and_splits_them_along_the_slope(slope: float) -> None:
    """F14: force whole in the world frame; what Newton calls friction is what lies in the ground."""
    from newton import Contacts
    from newton.sensors import SensorContact

    normal = np.array([-slope, 0.0, 1.0]) / np.hypot(slope, 1.0)
    herd = Herd(2, build(2, normal=tuple(normal.tolist())))
    sensor = SensorContact(herd.model, sensing_bodies="*FOOT")
    contacts: Any = Contacts(
        rigid_contact_max=herd.solver.sensors.capacity, soft_contact_max=0, device="cpu",
        requested_attributes=herd.model.get_requested_contact_attributes(),
    )  # fmt: skip
    wanted = 200.0 * normal + 60.0 * np.array([normal[2], 0.0, -normal[0]]) - np.array([0.0, 30.0, 0.0])
    herd.solver.sensors.force[1, FEET[0]] = torch.from_numpy(wanted).float()
    herd.solver.update_contacts(contacts)
    sensor.update(herd.state, contacts)
    place = [herd.model.body_label[i].rsplit("/", 1)[-1] for i in sensor.sensing_indices]
    row = [i for i, name in enumerate(place) if name == ROBOT.links[FEET[0]]][1]
    total, friction = sensor.total_force.numpy(), sensor.total_force_friction.numpy()
    np.testing.assert_allclose(total[row], wanted, atol=1e-3)
    np.testing.assert_allclose(friction[row], wanted - 200.0 * normal, atol=1e-3)
    assert (np.delete(total, row, axis=0) == 0.0).all()


def test_friction_is_predicted_and_not_silently_zero() -> None:
    """F14: robots that land with their legs apart push along the ground, and the shipped model says so."""
    herd = Herd(4)
    herd.step(10)
    force = herd.solver.sensors.force[:, FEET]
    along, down = force[..., :2].norm(dim=-1), force[..., 2]
    assert (down.sum(1) > 50.0).all()
    assert (along.amax(1) > 1.0).all()


# -- devices, memory, seeds -------------------------------------------------------------------------------------------


def test_a_step_makes_nothing_on_the_default_device() -> None:
    """F15: as rank 1 would, with another device as torch's default: whatever a step made there would break it."""
    plain, ranked = Herd(3), Herd(3)
    for herd in (plain, ranked):
        # The first step makes Warp's views, which know their own device.
        herd.step()
        herd.solver.environment_reset(torch.tensor([1]))
    plain.step(3)
    with torch.device("meta"):
        ranked.step(3)
    assert torch.equal(ranked.states(), plain.states())


def test_memory_is_flat_over_2000_steps_with_resets() -> None:
    """F16: tensors, bytes of the backend, and what the process holds; and the size is told at the start."""
    herd = Herd(16)
    start = standing(1)

    def run(steps: int) -> None:
        for i in range(steps):
            if i % 7 == 0:
                herd.put(start, AT_REST, [i % 16])
                herd.solver.environment_reset(torch.tensor([i % 16]))
            herd.step()

    def tensors() -> int:
        gc.collect()
        return sum(issubclass(type(x), torch.Tensor) for x in gc.get_objects())

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    run(200)
    held, count, before = herd.solver.nbytes, tensors(), resident()
    run(2000)
    assert herd.solver.nbytes == held
    assert tensors() == count
    # A state of all robots left behind in each step would be 4.7 MB, a contact table 15 MB.
    assert resident() - before < 4 * 2**20


def test_the_size_is_told_at_the_start(lab: dict[str, Any]) -> None:
    """F16."""
    assert "cache, guard and history hold" in lab["text"]


def test_the_seed_decides_everything(lab: dict[str, Any]) -> None:
    """F19: stepping: the same seed gives the same run to the bit, in a new environment; another seed does not."""
    runs = lab["rates"]
    assert runs["again"] == runs["as trained"]
    assert runs["other seed"]["state"] != runs["as trained"]["state"]


# -- properties that events change, and robots that differ ------------------------------------------------------------


def test_friction_that_an_event_changes_reaches_the_model(lab: dict[str, Any]) -> None:
    """F17: contact rows have the friction of the shape that touches, of every episode anew."""
    friction = lab["friction"]
    assert friction["rows"] > 500
    assert friction["wrong"] < 1e-6
    assert friction["values"] > 20


def test_what_the_model_is_not_conditioned_on_is_said_once(lab: dict[str, Any]) -> None:
    """F17: a heavier foot, a base beyond the training data, other gains: named, once, and the run goes on."""
    text = lab["text"]
    assert lab["lenient"] == {"foot": "", "base": "", "gains": ""}
    assert text.count("An event changed the mass of /World/envs/env_0/Robot/LF_FOOT") == 1
    assert text.count("have a base_mass beyond the training data") == 1
    assert text.count("An event changed the stiffness of a motor") == 1


def test_what_the_model_is_not_conditioned_on_is_refused_where_strict(lab: dict[str, Any]) -> None:
    """F17: the same three; and a mass that is not positive always."""
    said = lab["strict"]
    assert "the mass of /World/envs/env_0/Robot/LF_FOOT" in said["foot"]
    assert "base_mass beyond the training data" in said["base"]
    assert "the stiffness of a motor" in said["gains"]
    assert all(text.endswith("(refused because solver_cfg.strict is on).") for text in said.values())
    assert "the mass of /World/envs/env_1/Robot/base is -1 kg, but a positive one" in lab["negative"]


def test_motors_with_other_gains_are_refused(lab: dict[str, Any]) -> None:
    """F18: drives are part of what the bundle learned."""
    assert "the drive of joint LF_HAA has stiffness 60" in lab["softer"] and "trained with 85" in lab["softer"]


@pytest.mark.parametrize("world", [0, 2])
@pytest.mark.parametrize(
    ("array", "name", "factor", "words"),
    [
        ("body_mass", "RF_SHANK", 1.05, "mass of RF_SHANK is 0.355341 kg, the card says 0.33842"),
        ("body_mass", "RF_SHANK", 0.0, "mass of RF_SHANK is 0 kg, but a positive one"),
        ("body_inertia", "LH_THIGH", 0.5, "inertia of LH_THIGH"),
        ("joint_limit_upper", "LF_HAA", 0.5, "upper limit of LF_HAA is 0.245, the card says 0.49"),
    ],
)
def test_a_robot_that_differs_in_any_world_is_refused(
    world: int, array: str, name: str, factor: float, words: str
) -> None:
    """F18: within the tolerances of the card it passes; beyond, what differs is said with both values."""
    model = build(3)
    labels = model.body_label if array.startswith("body") else model.joint_label
    row = [i for i, label in enumerate(labels) if label.rsplit("/", 1)[-1] == name][world]
    if array.startswith("joint"):
        row = int(model.joint_qd_start.numpy()[row])
    values = getattr(model, array).numpy().copy()

    def check(scale: float) -> None:
        changed = values.copy()
        changed[row] = scale * changed[row]
        getattr(model, array).assign(changed)
        check_simulation(shipped().card, model, ROBOT.sim_dt, ROBOT.decimation)

    check(1.0005)
    with pytest.raises(FlashNerdError) as refused:
        check(factor)
    assert words in str(refused.value)
