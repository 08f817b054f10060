"""Field cases in coupled mode: Franka and the Allegro hand with their shipped bundles, in MuJoCo Warp.

Each docstring names its case; docs/field-cases.md has the table. What needs Isaac Lab comes from one process that is
shared by all tests; the others step a bare Newton model with the arm and a cube in this one.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("newton")
sys.path.insert(0, str(Path(__file__).parent))

import newton
import warp as wp
from coupled_cases_world import LAYOUT, POSE, Bench, shipped
from forked import result_of

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.physics.facts import check_coupled
from flashnerd_ext.solver.dump import GuardDump

pytestmark = [pytest.mark.kitless, pytest.mark.slow]
CHILD = Path(__file__).with_name("coupled_cases_child.py")
FEW = 18
"""Rows of constraints that an arm which touches nothing has at most, and some more."""
BODIES = int(newton.ModelFlags.BODY_INERTIAL_PROPERTIES)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What Isaac Lab's environments gave, one after another in one process."""
    folder = tmp_path_factory.mktemp("coupled")
    result, text = result_of(CHILD, "all", "auto", folder, cwd=folder)
    return {"text": text, "folder": folder, **result}


def dump_to(folder: Path) -> GuardDump:
    return GuardDump(folder, 0, {}, ())


# -- one world's fault ------------------------------------------------------------------------------------------------


def test_a_world_that_turned_nan_and_was_reset_is_a_fresh_one() -> None:
    """F01: its prediction is replaced in the same step; after the reset it is one that never was; others as ever."""
    bench, quiet, fresh = Bench(3), Bench(3), Bench(3)
    for each in (bench, quiet):
        each.step(4)
    original = bench.solver.stream.stepper.accelerate

    def broken(*arguments: Any) -> torch.Tensor:
        value = original(*arguments).clone()
        value[1] = bench.solver.stream.stepper.cache.values[:, :, 1] = float("nan")
        return value

    bench.solver.stream.stepper.accelerate = broken
    for each in (bench, quiet):
        each.step()
    bench.solver.stream.stepper.accelerate = original
    assert bench.solver.guard.failed.tolist() == [False, True, False]
    assert torch.isfinite(bench.states()).all() and not bench.solver.ended.any()
    start = torch.tensor(POSE) + 0.1
    for each in (bench, fresh):
        each.put(start, [1])
        cube = torch.tensor([1.5, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0])
        each.view("joint_q")[1, 9:] = cube
        mask = wp.array([False, True, False, False], dtype=wp.bool)
        each.solver.reset(each.state, world_mask=mask, flags=0)
        each.solver.environment_reset(torch.tensor([1]))
    for _ in range(3):
        for each in (bench, quiet, fresh):
            each.step()
        assert torch.equal(bench.states()[1], fresh.states()[1])
    assert torch.equal(bench.states()[[0, 2]], quiet.states()[[0, 2]])


def test_a_prediction_that_fails_within_a_control_step_is_said_and_dumped(lab: dict[str, Any]) -> None:
    """F04, F05: it falls back in its step, no episode ends, and the dump is of that world, step and cause."""
    life, folder = lab["life"], lab["folder"] / "dumps"
    assert life["before"] == 0 and life["fell_back"] == [0, 0, 0, 1]
    assert not life["failed_in_last"] and not life["ended"]
    reports = [json.loads(path.read_text()) for path in sorted(folder.glob("step-*/report.json"))]
    mine = next(report for report in reports if report["worlds"] == [3])
    assert mine["failed_at"] == {"3": life["per_step"] + 3}
    assert mine["causes"] == {"3": "the prediction is not finite"} and mine["bundle"] == "allegro"
    assert (folder / "latest").is_symlink()


def test_what_the_simulator_loses_ends_its_episode_and_lives_again(lab: dict[str, Any]) -> None:
    """F04: under a term of its own, in that world only; the next step is finite."""
    life = lab["life"]
    assert life["lost"] == [False, True, False, False] and life["logged"] == pytest.approx(1 / 4)
    assert life["finite"] and not any(life["lost_after"])


# -- what can be read when --------------------------------------------------------------------------------------------


def test_bodies_agree_with_joints_whenever_they_can_be_read(lab: dict[str, Any]) -> None:
    """F02: after each step and directly after automatic resets."""
    assert lab["life"]["timed_out"] == [True, True, False, False]
    assert lab["life"]["fits"]


def test_contact_sensors_of_reset_worlds_read_nothing(lab: dict[str, Any]) -> None:
    """F03: the cube lay in the hand; in worlds that were reset its sensor reads no force and has no history."""
    before, after = lab["life"]["force_before"], lab["life"]["force_after"]
    assert min(before) > 0.1
    assert after[:2] == [0.0, 0.0] and min(after[2:]) > 0.1


def test_nothing_of_the_old_simulation_survives_a_hard_reset(lab: dict[str, Any]) -> None:
    """F06: two rebuilds: no shared memory, nobody keeps the old solver, sensors are bound to the new one."""
    rebuilt = lab["life"]["rebuilt"]
    assert rebuilt["shared"] == [] and not rebuilt["alive"]
    assert rebuilt["steps"] == lab["life"]["per_step"] and rebuilt["fits"]
    assert max(rebuilt["force"]) > 0.1


def test_buffers_are_written_in_place_and_each_solver_step_is_a_model_step(lab: dict[str, Any]) -> None:
    """F07: none was swapped for another in control steps with resets."""
    life = lab["life"]
    assert life["moved"] == []
    assert life["per_step"] == 8


def test_inference_mode_outside_and_inside_is_the_same() -> None:
    """F08: built and stepped in inference mode, reset outside of it, and the other way round."""
    plain = Bench(2)
    with torch.inference_mode():
        mixed = Bench(2)
    for i in range(6):
        plain.step()
        if i % 3:
            with torch.inference_mode():
                mixed.step()
        else:
            mixed.step()
        if i == 3:
            for bench in (plain, mixed):
                bench.solver.environment_reset(torch.tensor([1], dtype=torch.int32))
                bench.put(torch.tensor(POSE), [1])
    assert torch.equal(plain.states(), mixed.states())
    assert not plain.solver.guard.total.any()


def test_an_environment_that_forgot_to_clone_is_told(lab: dict[str, Any]) -> None:
    """F11: counts and the missing call."""
    assert "0 articulations in 1 worlds" in lab["clone"] and "4 environments" in lab["clone"]
    assert "ReplicateSession" in lab["clone"] and "\n" not in lab["clone"]


# -- contacts ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def roomy() -> Bench:
    """What MuJoCo Warp alone wants in the first step where the fingers of world 1 push into the cube."""
    bench = Bench(3, stock=True)
    bench.touch([1])
    bench.step()
    return bench


def test_constraints_without_room_are_counted_by_world_and_said_once(
    roomy: Bench, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """F12: one warning with the number needed; MuJoCo Warp's own line for each step and world is left out."""
    rows = roomy.solver.mjw_data.nefc.numpy()
    bench = Bench(3, njmax=FEW)
    bench.touch([1])
    # Newton takes more than it is told where the model as it was built needs more.
    njmax = bench.solver.mjw_data.njmax
    assert max(rows[0], rows[2]) < njmax < rows[1]
    room, said = bench.solver.coupled.room, []
    for step in range(2):
        bench.step()
        assert room.overflow.tolist() == [0, step + 1, 0]
        if step == 0:
            assert room.rows.tolist() == rows.tolist()
        bench.solver.report(dump_to(tmp_path))
        said = [record.message for record in caplog.records if "rows of constraints" in record.message]
    assert len(said) == 1
    assert f"World 1 has {rows[1]} rows" in said[0] and f"room for {njmax} with" in said[0]
    assert f"solver_cfg.njmax={rows[1]} or more" in said[0]
    out, err = capfd.readouterr()
    assert "overflow" not in out + err


def test_contacts_without_room_are_counted_and_said_once(
    roomy: Bench, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """F12: their buffer is one for all worlds, so that all are counted."""
    found = int(roomy.solver.mjw_data.nacon.numpy()[0])
    bench = Bench(3, nconmax=1)
    bench.touch([1])
    room = bench.solver.mjw_data.naconmax
    assert room < found
    for _ in range(2):
        bench.step()
        bench.solver.report(dump_to(tmp_path))
    assert bench.solver.coupled.room.overflow.tolist() == [2, 2, 2]
    said = [record.message for record in caplog.records if "contacts (or pairs" in record.message]
    wanted = int(bench.solver.coupled.room.contacts)
    assert room < wanted <= found, "pairs that were not looked at give no contacts"
    assert len(said) == 1 and f"together have {wanted} contacts" in said[0] and f"room for {room}:" in said[0]
    assert f"nconmax={-(-wanted // 3)} or more" in said[0]


def test_contacts_that_newton_found_are_counted_too(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """F12: Isaac-Lift-Franka takes its contacts from Newton, which cuts them off before MuJoCo Warp could notice."""
    bench = Bench(2, use_mujoco_contacts=False, nconmax=1)
    bench.touch([1])
    contacts = bench.model.contacts()
    bench.model.collide(bench.state, contacts)
    found = int(contacts.rigid_contact_count.numpy()[0])
    assert found > bench.solver.mjw_data.naconmax
    bench.solver.step(bench.state, bench.state, bench.control, contacts, bench.dt)
    assert bench.solver.coupled.room.overflow.tolist() == [1, 1]
    bench.solver.report(dump_to(tmp_path))
    assert f"together have {found} contacts" in caplog.text
    assert f"solver_cfg.nconmax={-(-found // 2)} or more" in caplog.text


def test_missing_room_is_refused_where_strict(tmp_path: Path) -> None:
    """F12: and worlds that have room pass."""
    bench = Bench(2, njmax=FEW, strict=True)
    bench.step()
    bench.solver.report(dump_to(tmp_path))
    bench.touch([1])
    bench.step()
    with pytest.raises(FlashNerdError, match=r"World 1 has \d+ rows.*solver_cfg.strict is on"):
        bench.solver.report(dump_to(tmp_path))


def test_contact_forces_are_the_solvers_with_all_components(lab: dict[str, Any]) -> None:
    """F14: on every link and on the cube as under plain MuJoCo Warp, to the bit, where the motion is the same."""
    mine, theirs = lab["coupled"], lab["stock"]
    assert mine["q"] == theirs["q"]
    assert mine["forces"] == theirs["forces"]
    for name in ("touch", "carried"):
        largest = np.abs(np.array([step[name] for step in mine["forces"]])).max((0, 1, 2))
        assert (largest > 1e-3).all(), (name, largest)


def test_the_force_on_an_object_is_what_moves_it() -> None:
    """F14: with the bundle's own motion: contact forces on the cube and its weight are its change of momentum."""
    bench = Bench(3)
    bench.touch([1])
    bench.step()
    change = bench.view("joint_qd")[1, 9:12].numpy() / bench.dt
    cube = bench.body("cube")[1]
    mass = float(bench.model.body_mass.numpy()[cube])
    contacts: Any = newton.Contacts(
        rigid_contact_max=bench.solver.get_max_contact_count(), soft_contact_max=0, device="cpu",
        requested_attributes={"force"},
    )  # fmt: skip
    bench.solver.update_contacts(contacts, bench.state)
    count, force, bodies = int(contacts.n_contacts.numpy()[0]), contacts.force.numpy(), bench.model.shape_body.numpy()
    total = np.zeros(3)
    for i in range(count):
        pair = [
            int(bodies[shapes.numpy()[i]]) for shapes in (contacts.rigid_contact_shape0, contacts.rigid_contact_shape1)
        ]
        if cube in pair:
            total += force[i, :3] * (1.0 if pair[0] == cube else -1.0)
    assert np.linalg.norm(total) > 0.1 * mass * 9.81, "nothing pushes"
    np.testing.assert_allclose(total, mass * (change + [0.0, 0.0, 9.81]), rtol=1e-3, atol=1e-2)


# -- devices, memory, seeds -------------------------------------------------------------------------------------------


def test_a_step_makes_nothing_on_the_default_device() -> None:
    """F15: as rank 1 would, with another device as torch's default: whatever a step made there would break it."""
    plain, ranked = Bench(2), Bench(2)
    for bench in (plain, ranked):
        bench.step()
        bench.solver.environment_reset(torch.tensor([1]))
    plain.step(2)
    with torch.device("meta"):
        ranked.step(2)
    assert torch.equal(ranked.states(), plain.states())


def test_memory_is_flat_over_steps_with_resets() -> None:
    """F16: tensors and bytes of the backend, contacts included."""
    bench = Bench(2)
    bench.touch([0, 1])

    def run(steps: int) -> None:
        for i in range(steps):
            if i % 7 == 0:
                bench.put(torch.tensor(POSE), [i % 2])
                bench.solver.environment_reset(torch.tensor([i % 2]))
            bench.step()

    def tensors() -> int:
        gc.collect()
        return sum(issubclass(type(x), torch.Tensor) for x in gc.get_objects())

    run(10)
    held, count = bench.solver.nbytes, tensors()
    run(60)
    assert bench.solver.nbytes == held and tensors() == count


def test_the_size_is_told_at_the_start(lab: dict[str, Any]) -> None:
    """F16."""
    assert "coupled mode" in lab["text"] and "cache, guard and history hold" in lab["text"]


def test_the_same_seed_is_the_same_run(lab: dict[str, Any]) -> None:
    """F19: a new environment of the same seed moves the same arm to the bit."""
    run = lab["lenient"]["run"]
    assert run == lab["strict"]["run"]
    assert run[0] != run[-1] and run[0][0] != run[0][1]


# -- properties that events change, and robots that differ ------------------------------------------------------------


def test_tasks_take_the_bundle_of_their_robot(lab: dict[str, Any]) -> None:
    assert lab["lenient"]["bundle"] == "franka_reach" and lab["life"]["bundle"] == "allegro"


def test_what_is_the_simulators_may_change_and_a_payload_reaches_the_model(lab: dict[str, Any]) -> None:
    """F17: friction, gains and limits say nothing and are refused nowhere; the payload is the model's condition."""
    for run in (lab["lenient"], lab["strict"]):
        # The event was in world 0.
        assert run["condition"] == pytest.approx([0.5, 0.0], abs=1e-5)
        for name in ("payload", "friction", "gains", "limits"):
            assert run["said"][name] == [] and name not in run["refused"]
        assert run["finite"]


SAID = {
    "heavy payload": "mass:panda_hand beyond the training data of the bundle 'franka_reach'",
    "link": "An event changed the mass of",
    "inertia": "An event changed the inertia, apart from its mass, of",
    "armature": "the armature of panda_joint1 is 0.15, but the labels contain 0.1",
    "gravity": "An event changed gravity",
}


def test_what_the_model_does_not_see_is_said_once(lab: dict[str, Any]) -> None:
    """F17: by name, and the run goes on; a mass that is not positive is refused."""
    run = lab["lenient"]
    assert set(run["refused"]) == {"negative"}
    for name, words in SAID.items():
        assert sum(words in text for text in run["said"][name]) == 1, (name, run["said"][name])


def test_what_the_model_does_not_see_is_refused_where_strict(lab: dict[str, Any]) -> None:
    """F17."""
    refused = lab["strict"]["refused"]
    assert set(refused) == {*SAID, "negative"}
    for name, words in SAID.items():
        assert words in refused[name] and refused[name].endswith("(refused because solver_cfg.strict is on).")
    assert "panda_link5 is -" in refused["negative"] and "but a positive one is needed" in refused["negative"]


def test_a_link_is_the_models_and_an_object_the_simulators(caplog: pytest.LogCaptureFixture) -> None:
    """F17: an inertia that follows its mass is said as the mass that it follows; a heavier cube is nobody's matter."""
    bench = Bench(2)
    row = bench.body("panda_link3")[1]
    wp.to_torch(bench.model.body_mass)[row] *= 1.4
    wp.to_torch(bench.model.body_inertia)[row] *= 1.4
    with caplog.at_level(logging.WARNING):
        bench.solver.notify_model_changed(BODIES)
    assert "changed the mass of" in caplog.text and "conditioned on mass:panda_hand only" in caplog.text
    assert "inertia" not in caplog.text
    caplog.clear()
    cube = bench.body("cube")
    for array in (bench.model.body_mass, bench.model.body_inertia):
        wp.to_torch(array)[cube] *= 3.0
    with caplog.at_level(logging.WARNING):
        bench.solver.notify_model_changed(BODIES)
    assert caplog.text == "", "objects are the simulator's"


@pytest.mark.parametrize(
    ("array", "name", "factor", "words"),
    [
        ("body_mass", "panda_link4", 1.05, r"mass of panda_link4 is .* kg, the card says"),
        ("body_mass", "panda_link4", 0.0, r"mass of panda_link4 is 0 kg, but a positive one"),
        ("body_inertia", "panda_link2", 0.5, r"inertia of panda_link2"),
        ("gravity", "", 0.5, r"gravity is .*-4.905\) m/s², the card says \(0, 0, -9.81\)"),
        ("joint_limit_upper", "panda_joint2", 0.5, ""),
        ("joint_effort_limit", "panda_joint2", 0.5, ""),
        ("joint_target_ke", "panda_joint2", 3.0, ""),
        ("joint_friction", "panda_joint2", 3.0, ""),
    ],
)
def test_what_differs_in_any_world_is_refused_or_the_simulators(
    roomy_coupled: Bench, array: str, name: str, factor: float, words: str
) -> None:
    """F18: what the labels contain is compared with the card; limits, gains and friction are the solver's."""
    model, where = roomy_coupled.model, roomy_coupled.solver.where
    values = getattr(model, array).numpy().copy()
    if name:
        labels = model.body_label if array.startswith("body") else model.joint_label
        row = [i for i, label in enumerate(labels) if label.rsplit("/", 1)[-1] == name][1]
        if array.startswith("joint"):
            row = int(model.joint_qd_start.numpy()[row])
    else:
        row = 1

    def check(scale: float) -> None:
        changed = values.copy()
        changed[row] = scale * changed[row]
        getattr(model, array).assign(changed)
        try:
            check_coupled(shipped().card, model, where, shipped().card.dt, 8)
        finally:
            getattr(model, array).assign(values)

    check(1.00005)
    if words:
        with pytest.raises(FlashNerdError, match=words):
            check(factor)
    else:
        check(factor)


@pytest.fixture(scope="module")
def roomy_coupled() -> Bench:
    return Bench(3)


def test_armature_that_the_labels_do_not_contain_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """F18: with both values, when the solver is built."""
    import coupled_cases_world as world

    monkeypatch.setitem(world.ROBOT.armature, "panda_joint4", 0.3)
    with pytest.raises(FlashNerdError, match=r"armature of panda_joint4 is 0.3, but the labels contain 0.4625"):
        Bench(2)
    assert LAYOUT.joint_names[3] == "panda_joint4"
