"""The learned solver on bare Newton models: what it reads, what it remembers, what it leaves consistent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from flashnerd_ext.bundle.store import Bundle
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.frame import encode_frame
from flashnerd_ext.model.integrate import Integrator

pytestmark = pytest.mark.kitless

START = torch.tensor([[0.0, 0.1], [0.5, -0.4], [-1.0, 2.5], [0.2, 7.0]])


def begin(world: Any) -> Any:
    world.view("joint_q").copy_(START[: world.model.world_count])
    world.view("joint_f")[:, 0] = torch.linspace(-60.0, 60.0, world.model.world_count)
    return world


def states(world: Any) -> torch.Tensor:
    return torch.cat((world.view("joint_q"), world.view("joint_qd")), 1).clone()


def test_perfect_prediction_is_mujoco_warp(exact_world: Callable[[int], Any]) -> None:
    """With the analytical result as prediction, the whole path gives the analytical trajectory."""
    from newton.solvers import SolverMuJoCo

    learned = begin(exact_world(4))
    plain = begin(exact_world(4))
    analytical = SolverMuJoCo(plain.model, njmax=8, nconmax=4, integrator="implicitfast")
    for _ in range(30):
        learned.step()
        for _ in range(2):
            analytical.step(plain.state, plain.state, plain.control, None, 1.0 / 120.0)
        torch.testing.assert_close(states(learned), states(plain), rtol=0.0, atol=1e-6)
    assert states(plain)[:, 2:].abs().max() > 0.5, "nothing moved, so nothing was compared"


def test_bodies_follow_the_joints(make_world: Callable[..., Any]) -> None:
    import newton

    world = begin(make_world())
    world.step(3)
    other = world.model.state()
    newton.eval_fk(world.model, world.state.joint_q, world.state.joint_qd, other)
    assert (world.state.body_q.numpy() == other.body_q.numpy()).all()
    assert (world.state.body_qd.numpy() == other.body_qd.numpy()).all()


def reference(bundle: Bundle, states_before: list[torch.Tensor], force: torch.Tensor) -> torch.Tensor:
    """Next state of each world from the parallel form over all frames since its past began."""
    layout = bundle.model.layout
    frames = [encode_frame(layout, s[:, :2], s[:, 2:], force) for s in states_before]
    with torch.no_grad():
        out = bundle.model.sequence(torch.stack(frames, 1))[:, -1]
    simulation = bundle.card.simulation
    last = states_before[-1]
    return torch.cat(Integrator(layout, simulation.dt, 2).apply(last[:, :2], last[:, 2:], out), 1)


def test_stream_equals_sequence_past_the_ring(make_world: Callable[..., Any], tiny_bundle: Bundle) -> None:
    world = begin(make_world())
    seen = []
    for _ in range(9):
        seen.append(states(world))
        world.step()
        expected = reference(tiny_bundle, seen, world.view("joint_f")[:, :1])
        torch.testing.assert_close(states(world), expected, rtol=0.0, atol=2e-6)


def test_a_push_keeps_the_past_and_is_seen(make_world: Callable[..., Any], tiny_bundle: Bundle) -> None:
    """Isaac Lab calls reset for a written velocity; the past stays and the next frame holds the new velocity."""
    import warp as wp

    world = begin(make_world())
    seen = []
    for _ in range(6):
        seen.append(states(world))
        world.step()
    world.view("joint_qd")[1] += torch.tensor([0.7, -1.1])
    mask = wp.array([False, True, False, False, False], dtype=wp.bool)
    world.solver.reset(world.state, world_mask=mask, flags=0)
    seen.append(states(world))
    world.step()
    expected = reference(tiny_bundle, seen, world.view("joint_f")[:, :1])
    torch.testing.assert_close(states(world), expected, rtol=0.0, atol=2e-6)
    forgotten = reference(tiny_bundle, seen[-1:], world.view("joint_f")[:, :1])
    assert (states(world)[1] - forgotten[1]).abs().max() > 1e-5, "the model does not use its past"


def test_a_written_position_clears_the_past_of_its_world_only(
    make_world: Callable[..., Any], tiny_bundle: Bundle
) -> None:
    world, untouched = begin(make_world()), begin(make_world())
    world.step(6)
    untouched.step(6)
    world.view("joint_q")[2] = torch.tensor([0.3, -0.2])
    before = states(world)
    world.step()
    untouched.step()
    fresh = reference(tiny_bundle, [before], world.view("joint_f")[:, :1])
    torch.testing.assert_close(states(world)[2], fresh[2], rtol=0.0, atol=2e-6)
    others = [0, 1, 3]
    assert torch.equal(states(world)[others], states(untouched)[others])
    assert world.solver.stream.stepper.cache.age.tolist() == [2, 2, 1, 2]


@pytest.mark.parametrize("selection", [[1], torch.tensor([1]), torch.tensor([False, True, False, False]), slice(1, 2)])
def test_an_episode_start_clears_the_past_even_at_the_same_place(
    make_world: Callable[..., Any], selection: Any
) -> None:
    world, untouched = begin(make_world()), begin(make_world())
    for w in (world, untouched):
        w.step(6)
    world.solver.environment_reset(selection)
    world.step()
    untouched.step()
    assert world.solver.stream.stepper.cache.age.tolist() == [2, 1, 2, 2]
    assert not torch.equal(states(world)[1], states(untouched)[1])
    assert torch.equal(states(world)[[0, 2, 3]], states(untouched)[[0, 2, 3]])


def test_solver_resets_that_are_none_change_nothing(make_world: Callable[..., Any]) -> None:
    """Empty masks, and masks of worlds in which only some other object was written."""
    import warp as wp

    world, untouched = begin(make_world()), begin(make_world())
    for w in (world, untouched):
        w.step(4)
    world.solver.reset(world.state, world_mask=wp.zeros(5, dtype=wp.bool), flags=0)
    world.solver.reset(world.state, world_mask=wp.full(5, True, dtype=wp.bool), flags=0)
    world.step(2)
    untouched.step(2)
    assert torch.equal(states(world), states(untouched))


def test_newtons_own_reset_restores_defaults_and_forgets(make_world: Callable[..., Any]) -> None:
    import warp as wp

    world = begin(make_world())
    world.step(4)
    world.solver.reset(world.state, world_mask=wp.array([True, False, False, False, False], dtype=wp.bool))
    assert world.view("joint_q")[0].tolist() == [0.0, 0.0]
    world.step()
    assert world.solver.stream.stepper.cache.age.tolist() == [1, 2, 2, 2]


def test_another_step_is_refused(make_world: Callable[..., Any]) -> None:
    world = make_world(2)
    with pytest.raises(FlashNerdError, match=r"asked to step 0\.0083.* steps 0\.0166"):
        world.solver.step(world.state, world.state, world.control, None, 1.0 / 120.0)


def test_sensors_read_nothing_rather_than_something_stale(make_world: Callable[..., Any]) -> None:
    from newton import Contacts

    world = make_world(2)
    contacts: Any = Contacts(rigid_contact_max=8, soft_contact_max=0, requested_attributes={"force"})
    contacts.rigid_contact_count.fill_(3)
    contacts.force.fill_(7.0)
    world.solver.update_contacts(contacts, world.state)
    assert int(contacts.rigid_contact_count.numpy()[0]) == 0
    assert (contacts.force.numpy() == 0.0).all()


def test_other_models_run_on_the_same_path(make_bundle: Callable[..., Bundle], make_world: Callable[..., Any]) -> None:
    """A NeRD bundle, and the same weights in its faster implementation."""
    from flashnerd_ext.robots.registry import get_robot
    from flashnerd_ext.solver.stream import make_stepper

    bundle = make_bundle(get_robot("cartpole"), model="nerd")
    plain = begin(make_world(bundle=bundle, stepper=make_stepper(bundle, 4, "cpu")))
    fast = begin(make_world(bundle=bundle, stepper=make_stepper(bundle, 4, "cpu", architecture="nerd_optimized")))
    plain.step(7)
    fast.step(7)
    torch.testing.assert_close(states(plain), states(fast), rtol=0.0, atol=1e-5)
    with pytest.raises(FlashNerdError, match="holds weights of 'nerd' that do not fit it"):
        make_stepper(bundle, 4, "cpu", architecture="flashnerd")
    with pytest.raises(FlashNerdError, match=r"'nerf', which is not known: did you mean nerd"):
        make_stepper(bundle, 4, "cpu", architecture="nerf")
    with pytest.raises(FlashNerdError, match=r"dtype is 'float', which is not known"):
        make_stepper(bundle, 4, "cpu", dtype="float")
