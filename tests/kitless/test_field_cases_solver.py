"""Field cases that need a solver but no environment; each test's name begins with the case it covers."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch

from flashnerd_ext.bundle.store import Bundle
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.robots.description import RobotDescription

pytestmark = pytest.mark.kitless

ARM_JOINTS = ("left_a", "left_b", "right_a", "right_b")


def states(world: Any) -> torch.Tensor:
    return torch.cat((world.view("joint_q"), world.view("joint_qd")), 1).clone()


def scatter(world: Any) -> None:
    n = world.model.world_count
    torch.manual_seed(3)
    world.view("joint_q").copy_(torch.rand(n, world.view("joint_q").shape[1]) - 0.5)
    world.view("joint_f")[:, 0] = torch.linspace(-40.0, 40.0, n)


def test_f01_one_world_turns_nan_and_is_reset(make_world: Callable[..., Any]) -> None:
    world, quiet, fresh = make_world(), make_world(), make_world()
    for w in (world, quiet):
        scatter(w)
        w.step(5)
    world.view("joint_qd")[2] = float("nan")
    world.step()
    quiet.step()
    assert torch.isfinite(states(world)).all()
    restart = torch.tensor([0.1, -0.3])
    world.view("joint_q")[2] = restart
    world.view("joint_qd")[2] = 0.0
    world.solver.environment_reset(torch.tensor([2]))
    fresh.view("joint_q")[2] = restart
    fresh.view("joint_f").copy_(world.view("joint_f"))
    for w in (world, quiet, fresh):
        w.step()
    assert torch.equal(states(world)[2], states(fresh)[2])
    assert world.solver.stream.stepper.cache.age[2] == 1
    assert torch.equal(states(world)[[0, 1, 3]], states(quiet)[[0, 1, 3]])
    assert not world.solver.guard.pending.any()


def test_f04_nan_from_the_model_is_held_in_the_same_step(make_world: Callable[..., Any]) -> None:
    world, quiet = make_world(), make_world()
    for w in (world, quiet):
        scatter(w)
        w.step(4)
    last_good = states(world)[1]
    stepper = world.solver.stream.stepper
    original = stepper.step

    def broken(*arguments: Any) -> tuple[torch.Tensor, torch.Tensor]:
        q, qd = original(*arguments)
        stepper.cache.values[:, :, 1] = float("nan")
        qd[1, 0] = float("nan")
        return q, qd

    stepper.step = broken
    world.step()
    stepper.step = original
    quiet.step()
    assert torch.equal(states(world)[1], last_good)
    assert torch.isfinite(torch.tensor(world.state.body_q.numpy())).all()
    assert world.solver.guard.failed.tolist() == [False, True, False, False]
    # The cache of the held world held NaN: its next step must start from nothing and be finite.
    world.step()
    quiet.step()
    assert torch.isfinite(states(world)).all()
    assert not world.solver.guard.failed.any()
    assert world.solver.guard.pending.tolist() == [False, True, False, False]
    assert torch.equal(states(world)[[0, 2, 3]], states(quiet)[[0, 2, 3]])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_f04_a_command_that_is_not_finite_stays_in_its_world(make_world: Callable[..., Any], bad: float) -> None:
    world, quiet = make_world(), make_world()
    for w in (world, quiet):
        scatter(w)
        w.step(3)
    world.view("joint_f")[3, 0] = bad
    world.step()
    quiet.step()
    assert world.solver.guard.failed.tolist() == [False, False, False, True]
    assert torch.isfinite(states(world)).all()
    assert torch.equal(states(world)[:3], states(quiet)[:3])


@pytest.mark.parametrize("inner", [1, 3])
@pytest.mark.parametrize("steps", [1, 12])
def test_f07_one_frame_a_model_step_and_no_swapped_buffer(
    make_world: Callable[..., Any], make_bundle: Callable[..., Bundle], inner: int, steps: int
) -> None:
    import dataclasses

    from flashnerd_ext.robots.registry import get_robot

    robot = dataclasses.replace(get_robot("cartpole"), decimation=inner)
    world = make_world(bundle=make_bundle(robot))
    scatter(world)
    solver = world.solver
    cache, frame = solver.stream.stepper.cache, solver.frame
    kept = (
        cache.keys,
        cache.values,
        cache.age,
        frame.state,
        frame.actuation,
        solver.guard.pending,
        solver.guard.history,
    )
    places = [t.data_ptr() for t in kept] + [world.state.joint_q.ptr, world.state.body_q.ptr]
    for i in range(steps):
        world.step()
        assert int(cache.slot) == (i + 1) % cache.span
        assert cache.age.tolist() == [min(i + 1, cache.span - 1)] * 4
    assert solver.stream.steps == steps
    now = (
        cache.keys,
        cache.values,
        cache.age,
        frame.state,
        frame.actuation,
        solver.guard.pending,
        solver.guard.history,
    )
    assert [t.data_ptr() for t in now] + [world.state.joint_q.ptr, world.state.body_q.ptr] == places


def test_f08_steps_in_inference_mode_and_resets_outside(make_world: Callable[..., Any]) -> None:
    plain = make_world()
    with torch.inference_mode():
        mixed = make_world()
    for w in (plain, mixed):
        scatter(w)
    for i in range(8):
        plain.step()
        if i % 3:
            with torch.inference_mode():
                mixed.step()
        else:
            mixed.step()
        if i == 4:
            ids = torch.tensor([3, 0], dtype=torch.int32)
            plain.solver.environment_reset(ids)
            mixed.solver.environment_reset(ids)
            for w in (plain, mixed):
                w.view("joint_q")[ids.long()] = 0.25
    assert torch.equal(states(plain), states(mixed))


def add_buggy(builder: Any) -> None:
    """A free body with one wheel, and a joint order in which the wheel's parent comes second."""
    import warp as wp

    inertia = wp.mat33(0.1, 0.0, 0.0, 0.0, 0.2, 0.0, 0.0, 0.0, 0.25)
    base = builder.add_link(mass=3.0, inertia=inertia, label="base")
    wheel = builder.add_link(mass=1.0, inertia=inertia, label="wheel")
    free = builder.add_joint_free(base, label="root")
    axle = builder.add_joint_revolute(base, wheel, axis=wp.vec3(0.0, 1.0, 0.0), label="axle")
    builder.add_articulation([free, axle], label="buggy")


def test_f08_floating_base_is_mapped_whole(make_world: Callable[..., Any], make_bundle: Callable[..., Bundle]) -> None:
    layout = StateLayout(("axle",), ("continuous",), floating_base=True, actuated=("axle",))
    robot = RobotDescription(name="buggy", layout=layout, asset_path="x.usd", sim_dt=0.005, decimation=4)
    world = make_world(3, build=add_buggy, bundle=make_bundle(robot))
    q = world.view("joint_q")
    q[:, 3:7] = torch.nn.functional.normalize(torch.rand(3, 4), dim=1)
    world.view("joint_f")[:, 6] = torch.tensor([1.0, 2.0, 3.0])
    columns = world.solver.frame.map
    assert columns.q.tolist() == list(range(8))
    assert columns.v.tolist() == list(range(7))
    assert columns.u.tolist() == [6]
    with torch.inference_mode():
        world.step(4)
    assert world.solver.frame.actuation.flatten().tolist() == [1.0, 2.0, 3.0]
    assert torch.isfinite(world.view("joint_q")).all()
    torch.testing.assert_close(q[:, 3:7].norm(dim=1), torch.ones(3), rtol=0.0, atol=1e-6)
    assert not world.solver.guard.total.any()


def arm_robot(joints: tuple[str, ...] = ARM_JOINTS) -> RobotDescription:
    layout = StateLayout(joints, ("revolute",) * len(joints), actuated=joints[:2])
    return RobotDescription(name="arms", layout=layout, asset_path="x.usd", sim_dt=0.005, decimation=4)


def test_f09_breadth_first_and_depth_first_orders_agree(
    make_world: Callable[..., Any], make_bundle: Callable[..., Bundle], arms: Callable[..., Any]
) -> None:
    bundle = make_bundle(arm_robot())
    depth = make_world(3, build=arms(ARM_JOINTS), bundle=bundle)
    order = ("left_a", "right_a", "left_b", "right_b")
    breadth = make_world(3, build=arms(order), bundle=bundle)
    assert depth.solver.frame.map.straight
    assert not breadth.solver.frame.map.straight
    back = [order.index(name) for name in ARM_JOINTS]
    torch.manual_seed(0)
    q, qd, f = torch.rand(3, 4), torch.rand(3, 4), torch.rand(3, 4) * 10
    for name, value in (("joint_q", q), ("joint_qd", qd), ("joint_f", f)):
        depth.view(name).copy_(value)
        breadth.view(name)[:, back] = value
    depth.step(8)
    breadth.step(8)
    assert torch.equal(depth.view("joint_q"), breadth.view("joint_q")[:, back])
    assert torch.equal(depth.view("joint_qd"), breadth.view("joint_qd")[:, back])


@pytest.mark.parametrize(
    ("joints", "message"),
    [
        ((*ARM_JOINTS, "tail"), "moves the joint 'tail', which the robot in the scene does not have"),
        (ARM_JOINTS[:3], "has the joint 'right_b', which the bundle 'arms' does not know"),
    ],
)
def test_f09_a_missing_or_extra_joint_is_named(
    make_world: Callable[..., Any],
    make_bundle: Callable[..., Bundle],
    arms: Callable[..., Any],
    joints: tuple[str, ...],
    message: str,
) -> None:
    with pytest.raises(FlashNerdError, match=message):
        make_world(2, build=arms(ARM_JOINTS), bundle=make_bundle(arm_robot(joints)))


def test_f09_another_kind_of_joint_is_refused(
    make_world: Callable[..., Any], make_bundle: Callable[..., Bundle], arms: Callable[..., Any]
) -> None:
    layout = StateLayout(ARM_JOINTS, ("prismatic", "revolute", "revolute", "revolute"))
    robot = RobotDescription(name="arms", layout=layout, asset_path="x.usd", sim_dt=0.005, decimation=4)
    with pytest.raises(FlashNerdError, match="'left_a' is revolute in the scene, but prismatic in the bundle"):
        make_world(2, build=arms(ARM_JOINTS), bundle=make_bundle(robot))


def test_f11_robots_that_are_not_one_a_world(tiny_bundle: Bundle, cartpole: Callable[[Any], None]) -> None:
    import newton
    from newton.solvers import SolverMuJoCo

    from flashnerd_ext.solver.mapping import map_state

    builder = newton.ModelBuilder()
    SolverMuJoCo.register_custom_attributes(builder)
    builder.begin_world()
    for _ in range(3):
        cartpole(builder)
    builder.end_world()
    model = builder.finalize(device="cpu")
    with pytest.raises(FlashNerdError, match=r"3 articulations in 1 worlds.*ReplicateSession"):
        map_state(model, tiny_bundle.model.layout, "tiny", "cpu")


def test_auto_names_the_bundles_where_none_fits(arms: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import newton
    from newton.solvers import SolverMuJoCo

    from flashnerd_ext.physics import bundles

    builder = newton.ModelBuilder()
    SolverMuJoCo.register_custom_attributes(builder)
    arms(ARM_JOINTS)(builder)
    with pytest.raises(FlashNerdError, match=r"its joints: left_a, left_b, right_a, right_b\); available are "):
        bundles.choose_bundle("auto", builder.finalize(device="cpu"))


def test_auto_takes_the_bundle_of_the_robot(
    tiny_bundle: Bundle, cartpole: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    import newton
    from newton.solvers import SolverMuJoCo

    from flashnerd_ext.physics import bundles

    monkeypatch.setattr(bundles, "shipped", lambda: [tiny_bundle.path.name])
    monkeypatch.setattr(bundles, "shipped_root", lambda: tiny_bundle.path.parent)
    monkeypatch.setattr(bundles, "load_bundle", lambda name: name)
    builder = newton.ModelBuilder()
    SolverMuJoCo.register_custom_attributes(builder)
    cartpole(builder)
    assert bundles.choose_bundle("auto", builder.finalize(device="cpu")) == tiny_bundle.path.name


def test_f15_everything_is_on_the_models_device(make_world: Callable[..., Any]) -> None:
    solver = make_world(2).solver
    owners = (solver.frame, solver.stream, solver.stream.stepper, solver.stream.stepper.cache, solver.guard)
    tensors = [v for owner in owners for v in vars(owner).values() if isinstance(v, torch.Tensor)]
    assert len(tensors) > 15
    assert {t.device for t in tensors} == {solver.torch_device}
    assert {p.device for p in solver.stream.stepper.model.state_dict().values()} == {solver.torch_device}


@pytest.mark.slow
def test_f16_memory_is_flat_over_2000_steps_with_resets(make_world: Callable[..., Any]) -> None:
    world = make_world(64)
    scatter(world)

    def run(steps: int) -> None:
        for i in range(steps):
            if i % 7 == 0:
                world.view("joint_q")[i % 64] = 0.1
                world.solver.environment_reset(torch.tensor([i % 64]))
            world.step()

    def resident() -> int:
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    run(300)
    held, before = world.solver.nbytes, resident()
    run(2000)
    assert world.solver.nbytes == held
    assert resident() - before < 4 * 2**20


def test_f19_two_runs_are_bit_identical(make_world: Callable[..., Any]) -> None:
    runs = []
    for _ in range(2):
        world = make_world()
        scatter(world)
        world.step(20)
        runs.append(states(world))
    assert torch.equal(*runs)
