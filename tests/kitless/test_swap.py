"""A bundle that takes over in a running simulation acts as if the simulation had begun with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("newton")

from flashnerd_ext.bundle.store import Bundle, load_bundle, save_bundle
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.registry import get_robot
from flashnerd_ext.solver.swap import swap_bundle

pytestmark = pytest.mark.kitless


@pytest.fixture
def other(make_bundle: Callable[..., Bundle], tmp_path: Path) -> Callable[..., Bundle]:
    """Factory: a bundle with other weights than the one that runs."""

    def make(name: str, **card: Any) -> Bundle:
        bundle = make_bundle(get_robot("cartpole"), **card)
        generator = torch.Generator().manual_seed(1)
        for parameter in bundle.model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
        return save_bundle(tmp_path / name, bundle.model, bundle.card)

    return make


@pytest.fixture
def running(make_world: Callable[..., Any], tiny_bundle: Bundle) -> Callable[[], Any]:
    """Factory: a world of its own copy of the small bundle, whose weights a swap overwrites."""
    return lambda: make_world(bundle=load_bundle(tiny_bundle.path))


def moved(world: Any, state: tuple[torch.Tensor, torch.Tensor], steps: int) -> torch.Tensor:
    world.view("joint_q").copy_(state[0])
    world.view("joint_qd").copy_(state[1])
    world.step(steps)
    return torch.cat((world.view("joint_q"), world.view("joint_qd")), 1).clone()


def test_a_swapped_world_steps_as_a_new_one(make_world: Callable[..., Any], running: Any, other: Any) -> None:
    torch.manual_seed(0)
    bundle, state = other("b"), (torch.randn(4, 2), torch.randn(4, 2))
    world, fresh = running(), make_world(bundle=bundle)
    before = moved(world, state, 5)
    weights = [parameter.data_ptr() for parameter in world.solver.stream.stepper.model.parameters()]
    swap_bundle(world.solver, bundle, 0.25)
    # The same positions as the solver last wrote: nothing but the swap says that the past is over.
    held = (before[:, :2], before[:, 2:])
    swapped, wanted, old = moved(world, held, 5), moved(fresh, held, 5), moved(running(), held, 5)
    # Weights that lie elsewhere in memory may be summed in another order: a last bit, where other weights are far off.
    torch.testing.assert_close(swapped, wanted, atol=1e-6, rtol=1e-6)
    assert (old - wanted).abs().max() > 1e-3
    assert world.solver.bundle.hash == bundle.hash
    assert [parameter.data_ptr() for parameter in world.solver.stream.stepper.model.parameters()] == weights


def test_the_guard_follows_the_new_envelope(running: Any, other: Any) -> None:
    world = running()
    far = (torch.full((4, 2), 3.0), torch.zeros(4, 2))
    moved(world, far, 1)
    assert not world.solver.guard.failed.any()
    swap_bundle(world.solver, other("narrow", reach=1.0), 0.25)
    moved(world, far, 1)
    assert world.solver.guard.failed.all()


def test_another_kind_is_refused_and_changes_nothing(running: Any, other: Any) -> None:
    world = running()
    card, hash_before = world.solver.bundle.card, world.solver.bundle.hash
    slower = other("slow", simulation=dataclasses.replace(card.simulation, gravity=(0.0, 0.0, -3.7)))
    with pytest.raises(FlashNerdError, match="simulation in their cards differs"):
        swap_bundle(world.solver, slower, 0.25)
    assert world.solver.bundle.hash == hash_before
