"""The solver of coupled mode: which robots are learned, label routes, what is remembered, what is refused."""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import newton
import pytest
import torch
import warp as wp

sys.path.insert(0, str(Path(__file__).parent))

from coupled_world import (
    ARM,
    DT,
    KD,
    Analytic,
    Run,
    add_arm,
    add_cube,
    arm_and_cube,
    arm_robot,
    coupled,
    coupled_bundle,
    coupling_of,
    plain,
)

from flashnerd_ext.bundle.store import Bundle
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.frame import encode_frame

pytestmark = pytest.mark.kitless


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return coupled_bundle(tmp_path_factory.mktemp("arm") / "b")


def step(run: Run, times: int = 1) -> None:
    for _ in range(times):
        run.solver.step(run.state, run.state, run.control, None, DT)


# -- label routes ---------------------------------------------------------------------------------------------------


def damped_slide(builder: Any) -> None:
    """A mass of 2 kg on a rail with passive damping 8 and a drive of damping 10 whose target is where it stands."""
    inertia = wp.mat33(0.02, 0.0, 0.0, 0.0, 0.02, 0.0, 0.0, 0.0, 0.02)
    slider = builder.add_link(mass=2.0, inertia=inertia, label="slider")
    joint = builder.add_joint_prismatic(
        -1, slider, axis=wp.vec3(1.0, 0.0, 0.0), label="slide", target_ke=0.0, target_kd=10.0, damping=8.0
    )
    builder.add_articulation([joint], label="slide")


PASSIVE, DRIVE = 8.0, 10.0


@pytest.mark.parametrize(
    ("label", "integrator", "damping"),
    [
        ("qacc_smooth", "euler", PASSIVE),
        ("qacc_smooth", "implicitfast", PASSIVE + DRIVE),
        ("dv_implicitfast", "implicitfast", 0.0),
        ("dv_damped", "euler", 0.0),
        ("dv_damped", "implicitfast", 0.0),
    ],
)
def test_each_label_is_damped_as_it_says(tmp_path: Path, label: str, integrator: str, damping: float) -> None:
    """Asked for 5 m/s²: labels before the damping get 5 m / (m + h d), those that contain it get 5."""
    robot = dataclasses.replace(arm_robot(joints=("slide",), kinds=("prismatic",)), joint_stiffness={"slide": 0.0},
                                joint_damping={"slide": DRIVE}, effort_limit={})  # fmt: skip
    coupling = coupling_of(
        ("slide",), label, damping={"slide": PASSIVE}, armature={"slide": 0.0}, integrator=integrator
    )
    made = coupled_bundle(tmp_path / "b", robot, coupling)
    run = Run(damped_slide, 2, coupled(made, lambda q, qd, u: torch.full_like(qd, 5.0), integrator=integrator))
    step(run)
    first = run.view("joint_qd")[:, 0] / DT
    assert first == pytest.approx([5.0 * 2.0 / (2.0 + DT * damping)] * 2, abs=1e-4)
    torch.testing.assert_close(run.view("joint_q"), DT * run.view("joint_qd"), rtol=1e-6, atol=0.0)


def test_a_free_label_of_implicitfast_reproduces_it_through_contacts(tmp_path: Path) -> None:
    """Labels as a data engine makes them: the change of velocity of an arm that touches nothing."""
    made = coupled_bundle(tmp_path / "b", coupling=coupling_of(label="dv_implicitfast"))

    def frictionless(builder: Any) -> None:
        add_arm(builder)
        for name, value in (("joint_limit_lower", -1e6), ("joint_limit_upper", 1e6), ("joint_friction", 0.0)):
            setattr(builder, name, [value] * 3)

    free = Run(frictionless, 4, plain(integrator="implicitfast", disable_contacts=True), ground=False)
    learned: Run
    targets = torch.zeros(4, 3)

    def label(q: torch.Tensor, qd: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        free.view("joint_q").copy_(q)
        free.view("joint_qd").copy_(qd)
        free.view("joint_target_q").copy_(targets)
        step(free)
        return (free.view("joint_qd") - qd) / DT

    stock = Run(arm_and_cube, 4, plain(integrator="implicitfast")).start()
    learned = Run(arm_and_cube, 4, coupled(made, label, integrator="implicitfast")).start()
    start, touched = stock.states(), False
    for i in range(70):
        for run in (stock, learned):
            run.command(i)
            targets.copy_(run.view("joint_target_q")[:, :3])
            step(run)
        touched |= bool((stock.states() - start)[:, 3:6].norm(dim=1).max() > 1e-2)
        if i == 0:
            torch.testing.assert_close(learned.states(), stock.states(), rtol=0.0, atol=1e-5)
    assert touched
    torch.testing.assert_close(learned.states()[:, :3], stock.states()[:, :3], rtol=0.0, atol=1e-2)
    assert (stock.states()[:, :3] - start[:, :3]).abs().max() > 0.3


# -- which degrees of freedom are learned ---------------------------------------------------------------------------


def crowd(builder: Any) -> None:
    """Two robots of the card, one that is not, two cubes; the learned joints stand apart from each other."""
    add_cube(builder, (2.0, 0.0, 0.2))
    add_arm(builder, "first", (0.0, 0.0, 0.5))
    damped_slide(builder)
    add_arm(builder, "second", (0.0, 3.0, 0.5))
    add_cube(builder, (0.45, 3.0, 0.12))


FIRST, SLIDE, SECOND = slice(6, 9), 9, slice(10, 13)
"""Places in ``joint_qd`` of one world of :func:`crowd`."""


def test_several_robots_and_objects_in_a_world(bundle: Bundle) -> None:
    """Each copy is a row of its own: the known model of four robots gives what MuJoCo Warp gives, with contact."""
    stock = Run(crowd, 2, plain(njmax=200, nconmax=60))
    learned = Run(crowd, 2, coupled(bundle, Analytic(4), rows=4, njmax=200, nconmax=60))
    for run in (stock, learned):
        for place, value in ((FIRST, 0.4), (SECOND, -0.3)):
            run.view("joint_target_q")[:, 7:][:, slice(place.start - 6, place.stop - 6)] = value
        run.view("joint_qd")[0, FIRST] = 1.0
        run.view("joint_qd")[1, SECOND] = torch.tensor([0.3, -0.6, 0.9])
        step(run, 60)
    torch.testing.assert_close(learned.states(), stock.states(), rtol=0.0, atol=2e-3)
    moved = stock.view("joint_qd")[:, FIRST] - stock.view("joint_qd")[:, SECOND]
    assert moved.abs().max() > 0.05
    assert learned.solver.where.copies == 2


def test_only_learned_degrees_of_freedom_are_touched(bundle: Bundle) -> None:
    """One copy gets a push that is invented: no other smooth acceleration or force changes, to the bit."""
    holder: dict[str, Any] = {}

    def pushed(q: torch.Tensor, qd: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        solver = holder["solver"]
        columns = torch.from_numpy(solver.where.dofs).long().reshape(-1)
        own = wp.to_torch(solver.mjw_data.qacc_smooth)[:, columns].reshape(4, 3).clone()
        own[2] += torch.tensor([0.0, 0.0, 70.0])
        return own

    stock = Run(crowd, 2, plain(njmax=200, nconmax=60))
    learned = Run(crowd, 2, coupled(bundle, pushed, rows=4, njmax=200, nconmax=60))
    holder["solver"] = learned.solver
    route, data = learned.solver.coupled._route, learned.solver.mjw_data
    original, changes = route.override, []

    def watched(*arguments: Any) -> None:
        before = [wp.to_torch(x).clone() for x in (data.qacc_smooth, data.qfrc_smooth)]
        original(*arguments)
        after = [wp.to_torch(x) for x in (data.qacc_smooth, data.qfrc_smooth)]
        changes.extend((b != a).nonzero().tolist() for b, a in zip(before, after, strict=True))

    route.override = watched
    step(stock, 5)
    step(learned, 5)
    pushed_dofs = learned.solver.where.dofs[0].tolist()
    assert len(changes) == 10 and all(changes)
    assert all(world == 1 and dof in pushed_dofs for found in changes for world, dof in found)
    # Worlds are apart; what shares the world's constraint solver may differ by its rounding.
    differ = learned.view("joint_qd") - stock.view("joint_qd")
    assert not differ[0].any()
    assert differ[1, FIRST.stop - 1] > 0.05
    differ[1, FIRST] = 0.0
    assert differ.abs().max() < 1e-5


def test_joints_in_another_order_are_found_by_name(tmp_path: Path) -> None:
    """The card may list joints in its own order; rows and torques follow it."""
    order = ("wrist", "shoulder", "elbow")
    made = coupled_bundle(tmp_path / "b", arm_robot(joints=order), coupling_of(order))
    back = [order.index(name) for name in ARM]
    known = Analytic(4)

    def shuffled(q: torch.Tensor, qd: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        values = known(*(x[:, back].contiguous() for x in (q, qd, u)))
        return values[:, [ARM.index(name) for name in order]]

    stock = Run(arm_and_cube, 4, plain()).start()
    learned = Run(arm_and_cube, 4, coupled(made, shuffled)).start()
    for run in (stock, learned):
        run.steps(20)
    assert torch.equal(stock.states(), learned.states())


def test_a_scene_without_the_robot_is_refused(bundle: Bundle) -> None:
    with pytest.raises(FlashNerdError, match=r"no articulation of the scene has the joints of the bundle 'arm'.*slide"):
        Run(damped_slide, 2, coupled(bundle, rows=2))


# -- inputs ---------------------------------------------------------------------------------------------------------


def test_the_model_sees_every_force_on_a_joint(bundle: Bundle) -> None:
    """Drives after their clamp, commanded efforts and a wrench on a link, as torques of the joints they act on."""
    stock = Run(arm_and_cube, 2, plain()).start()
    learned = Run(arm_and_cube, 2, coupled(bundle, Analytic(2))).start()
    for run in (stock, learned):
        run.effort = 2.0
        for i in range(25):
            run.command(i)
            # At the wrist link of world 1.
            wp.to_torch(run.state.body_f).view(2, -1, 6)[1, 2] = torch.tensor([3.0, -2.0, 8.0, 0.1, 0.2, -0.3])
            step(run)
            run.state.clear_forces()
    torch.testing.assert_close(learned.states(), stock.states(), rtol=0.0, atol=1e-4)
    quiet = Run(arm_and_cube, 2, plain()).start()
    quiet.effort = 2.0
    quiet.steps(25)
    assert (quiet.states() - stock.states())[1].abs().max() > 0.1, "the wrench does nothing"


def test_a_force_without_an_input_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    layout = dataclasses.replace(arm_robot().layout, actuated=("shoulder", "elbow"))
    made = coupled_bundle(tmp_path / "b", layout=layout)
    run = Run(lambda b: add_arm(b, gains=False), 3, coupled(made))
    step(run)
    assert not run.solver.coupled.unseen.any()
    run.view("joint_f")[1, 2] = 0.5
    step(run)
    assert run.solver.coupled.unseen.tolist() == [False, True, False]
    with caplog.at_level(logging.WARNING):
        run.solver.report(None)
        run.solver.report(None)
    assert [r.message for r in caplog.records if "has no input for" in r.message].__len__() == 1


def test_a_payload_is_a_condition(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    robot = arm_robot()
    robot = dataclasses.replace(
        robot, layout=dataclasses.replace(robot.layout, conditions=("mass:wrist_link", "stiffness"))
    )
    made = coupled_bundle(tmp_path / "b", robot)
    # Gains are no condition of a model that takes torques.
    assert made.card.robot.conditions == ("mass:wrist_link",)
    run = Run(arm_and_cube, 3, coupled(made))
    mass, inertia = (wp.to_torch(x).view(3, 4, -1) for x in (run.model.body_mass, run.model.body_inertia))
    for of_body in (mass, inertia):
        of_body[1, 2] *= 1.5
        of_body[2, 3] *= 2.0
    with caplog.at_level(logging.WARNING):
        run.solver.notify_model_changed(int(newton.ModelFlags.BODY_INERTIAL_PROPERTIES))
    assert run.solver.stream.stepper.condition.flatten().tolist() == pytest.approx([0.0, 0.5, 0.0])
    assert not caplog.records, "the cube is the simulator's, which sees its mass"
    mass[0, 0] *= 2.0
    with caplog.at_level(logging.WARNING):
        run.solver.notify_model_changed(int(newton.ModelFlags.BODY_INERTIAL_PROPERTIES))
    assert "shoulder_link" in caplog.text


# -- the past, and what fails ---------------------------------------------------------------------------------------


def test_streams_advance_once_a_solver_step_and_are_cleared_by_row(bundle: Bundle) -> None:
    run = Run(crowd, 2, coupled(bundle, rows=4, njmax=200, nconmax=60))
    cache = run.solver.stream.stepper.cache
    step(run, 4)
    assert run.solver.stream.steps == 4
    assert cache.age.tolist() == [2, 2, 2, 2]
    # A written position of one robot; a pushed velocity; a moved cube; nothing.
    run.view("joint_q")[0, 8] += 0.2
    run.view("joint_qd")[0, SECOND] += 0.3
    run.view("joint_q")[1, 0] += 0.1
    step(run)
    assert cache.age.tolist() == [1, 2, 2, 2]
    run.solver.environment_reset(torch.tensor([1]))
    step(run)
    assert cache.age.tolist() == [2, 2, 1, 1]
    mask = wp.array([True, False, False], dtype=wp.bool)
    run.solver.reset(run.state, world_mask=mask, flags=0)
    step(run)
    assert cache.age.tolist() == [2, 2, 2, 2], "a solver reset without state flags clears no past"
    run.solver.reset(run.state, world_mask=mask)
    step(run)
    assert cache.age.tolist() == [1, 1, 2, 2]


def test_the_resolved_state_is_what_the_model_sees_next(bundle: Bundle) -> None:
    """The stream equals the parallel form over the states that the simulator resolved, contacts included."""
    run = Run(arm_and_cube, 4, coupled(bundle)).start()
    seen, layout = [], bundle.model.layout
    stepper, given = run.solver.stream.stepper, []
    original = stepper.accelerate

    def watched(q: torch.Tensor, qd: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        given.append(original(q, qd, u))
        seen.append(encode_frame(layout, run.view("joint_q")[:, :3], run.view("joint_qd")[:, :3], u))
        return given[-1]

    stepper.accelerate = watched
    run.steps(12)
    with torch.no_grad():
        expected = bundle.model.sequence(torch.stack(seen, 1))[..., : layout.nv] / DT
    torch.testing.assert_close(torch.stack(given, 1), expected, rtol=1e-4, atol=1e-4)
    assert torch.stack(given, 1).std() > 0.1


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e9])
def test_a_bad_prediction_is_replaced_by_the_analytical_one(bundle: Bundle, bad: float) -> None:
    """In its row and step only; the world goes on as under MuJoCo Warp and is counted, not ended."""
    known, broken = Analytic(4), [False]

    def sometimes(q: torch.Tensor, qd: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        value = known(q, qd, u)
        if broken[0]:
            value[2, 1] = bad
        return value

    stock = Run(arm_and_cube, 4, plain()).start()
    learned = Run(arm_and_cube, 4, coupled(bundle, sometimes)).start()
    guard = learned.solver.guard
    for i in range(12):
        broken[0] = i in (4, 5)
        for run in (stock, learned):
            run.command(i)
            step(run)
        assert guard.failed.tolist() == [False, False, broken[0], False]
    assert torch.equal(stock.states(), learned.states())
    assert guard.total.tolist() == [0, 0, 2, 0]
    assert not learned.solver.ended.any()


def test_a_state_that_the_simulator_loses_ends_its_world_only(bundle: Bundle) -> None:
    stock = Run(arm_and_cube, 4, plain()).start()
    learned = Run(arm_and_cube, 4, coupled(bundle, Analytic(4))).start()
    for run in (stock, learned):
        run.steps(3)
        run.view("joint_f")[3, 0] = float("nan")
        step(run)
    assert learned.solver.ended.tolist() == [False, False, False, True]
    assert torch.equal(learned.states()[:3], stock.states()[:3])
    # An episode start: state and solver buffers as Isaac Lab writes them, and the world lives.
    for run in (stock, learned):
        run.view("joint_f")[3] = 0.0
        run.view("joint_q")[3] = run.view("joint_q")[0]
        run.view("joint_qd")[3] = 0.0
        run.solver.reset(run.state, world_mask=wp.array([False] * 3 + [True, False], dtype=wp.bool), flags=0)
    learned.solver.environment_reset([3])
    for run in (stock, learned):
        run.steps(3)
    assert not learned.solver.ended.any()
    assert torch.equal(learned.states(), stock.states())


# -- refusals -------------------------------------------------------------------------------------------------------


def changed(**values: float) -> Callable[[Any], None]:
    """The arm with some property of its joints set."""

    def build(builder: Any) -> None:
        add_arm(builder)
        for name, value in values.items():
            setattr(builder, name, [value] * 3)

    return build


@pytest.mark.parametrize(
    ("label", "build", "options", "message"),
    [
        ("dv_implicitfast", changed(), {"integrator": "euler"}, r"integrator is euler.*integrator=implicitfast"),
        ("dv_damped", changed(), {"integrator": "implicitfast"}, r"integrator is implicitfast.*damping of euler"),
        ("qacc_smooth", changed(), {"integrator": "rk4"}, r"integrator is rk4, but coupled mode steps euler or impl"),
        ("qacc_smooth", changed(joint_damping=0.5), {}, r"passive damping of shoulder is 0.5, but the .* 0.2"),
        ("qacc_smooth", changed(joint_armature=0.3), {}, r"armature of shoulder is 0.3, but the labels contain 0.01"),
        (
            "dv_implicitfast", changed(joint_target_kd=9.0), {"integrator": "implicitfast"},
            rf"damping of shoulder is 9, but the labels contain {KD:g}",
        ),
        (
            "dv_implicitfast", changed(joint_effort_limit=5.0), {"integrator": "implicitfast"},
            r"effort limit of shoulder is 5, but the labels contain 30",
        ),
        ("qacc_smooth", changed(), {"update_data_interval": 0}, r"update_data_interval is 0, but coupled mode needs 1"),
        ("qacc_smooth", changed(), {"coupling": "oneway"}, r"coupling is 'oneway'.*one_way"),
    ],
)  # fmt: skip
def test_what_contradicts_the_label_is_refused(
    tmp_path: Path, label: str, build: Callable[[Any], None], options: dict[str, Any], message: str
) -> None:
    made = coupled_bundle(tmp_path / "b", coupling=coupling_of(label=label))
    with pytest.raises(FlashNerdError, match=message) as error:
        Run(build, 2, coupled(made, **options))
    assert "\n" not in str(error.value) and str(error.value).endswith((".", "?"))


def test_a_model_of_torques_takes_any_gains_and_limits(bundle: Bundle) -> None:
    """What acts before the model or is resolved after it: drives, their limits, joint limits and friction."""
    build = changed(joint_target_ke=5.0, joint_target_kd=40.0, joint_effort_limit=7.0, joint_friction=2.0,
                    joint_limit_upper=0.3)  # fmt: skip
    stock = Run(build, 3, plain()).start()
    learned = Run(build, 3, coupled(bundle, Analytic(3))).start()
    stock.steps(10)
    learned.steps(10)
    assert torch.equal(stock.states(), learned.states())


def test_no_room_for_constraints_is_refused(tmp_path: Path) -> None:
    """Without any, MuJoCo Warp's integrators do not move at all."""

    def bare(builder: Any) -> None:
        damped_slide(builder)
        builder.joint_friction, builder.joint_limit_lower, builder.joint_limit_upper = [0.0], [-1e9], [1e9]

    coupling = coupling_of(("slide",), damping={"slide": PASSIVE}, armature={"slide": 0.0})
    made = coupled_bundle(tmp_path / "b", arm_robot(joints=("slide",), kinds=("prismatic",)), coupling)
    with pytest.raises(FlashNerdError, match="njmax is 0"):
        Run(bare, 2, coupled(made, njmax=0, nconmax=0), ground=False)


def test_another_step_than_the_models_is_refused(bundle: Bundle) -> None:
    run = Run(changed(), 2, coupled(bundle))
    with pytest.raises(FlashNerdError, match=r"asked to step 0.002 s.*over 0.004 s: type env.sim.dt=0.004"):
        run.solver.step(run.state, run.state, run.control, None, 0.002)


def test_an_event_that_changes_what_was_learned_is_said(bundle: Bundle, caplog: pytest.LogCaptureFixture) -> None:
    for strict in (False, True):
        run = Run(changed(), 2, coupled(bundle, strict=strict))
        wp.to_torch(run.model.joint_friction)[:] = 1.0
        run.solver.notify_model_changed(int(newton.ModelFlags.JOINT_DOF_PROPERTIES))
        assert "learned" not in caplog.text, "friction is the solver's"
        wp.to_torch(run.model.joint_armature)[4] = 0.5
        if strict:
            with pytest.raises(FlashNerdError, match=r"armature of elbow is 0.5.*strict is on"):
                run.solver.notify_model_changed(int(newton.ModelFlags.JOINT_DOF_PROPERTIES))
        else:
            with caplog.at_level(logging.WARNING):
                run.solver.notify_model_changed(int(newton.ModelFlags.JOINT_DOF_PROPERTIES))
            assert "armature of elbow is 0.5, but the labels contain 0.01" in caplog.text
            caplog.clear()
