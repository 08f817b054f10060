"""What is exchanged in a contact: momentum, and accelerations that no solver would have come to by itself.

A box of 2 kg on a rail meets a free cube of 0.5 kg, without gravity. The cone is elliptic: with a pyramidal one the
stock solver itself stops 1e-4 short of keeping the total, and coupled mode does the same to the bit.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("newton")
sys.path.insert(0, str(Path(__file__).parent))

from coupled_world import (
    DT,
    PUSHED,
    PUSHING,
    Run,
    coupled,
    coupled_bundle,
    plain,
    pusher_and_cube,
    pusher_coupling,
    pusher_robot,
)

from flashnerd_ext.bundle.store import Bundle

pytestmark = pytest.mark.kitless


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return coupled_bundle(tmp_path_factory.mktemp("pusher") / "b", pusher_robot(), pusher_coupling())


def run(solver: Callable[[Any], Any], speed: float, steps: int) -> torch.Tensor:
    """Velocities of box and cube before and after each step, [steps + 1, 2]."""
    world = Run(pusher_and_cube, 1, solver, ground=False, gravity=0.0)
    world.view("joint_qd")[:, 0] = speed
    seen = [world.view("joint_qd")[0, :2].clone()]
    for _ in range(steps):
        world.solver.step(world.state, world.state, world.control, None, DT)
        seen.append(world.view("joint_qd")[0, :2].clone())
    return torch.stack(seen).double()


def momentum(velocity: torch.Tensor) -> torch.Tensor:
    return PUSHING * velocity[:, 0] + PUSHED * velocity[:, 1]


def constant(value: float) -> Callable[..., torch.Tensor]:
    """Free motion under an acceleration that is invented."""
    return lambda joint_q, joint_qd, actuation: torch.full_like(joint_qd, value)


def test_a_collision_keeps_the_total(bundle: Bundle) -> None:
    velocity = run(coupled(bundle, constant(0.0), cone="elliptic"), 1.0, 40)
    assert (momentum(velocity) - 2.0).abs().max() < 1e-5
    # They did meet, and both moved on.
    assert velocity[-1, 0] < 0.9 and velocity[-1, 1] > 0.8
    assert torch.equal(velocity, run(plain(cone="elliptic"), 1.0, 40))


def test_an_invented_push_moves_both_as_one(bundle: Bundle) -> None:
    """5 m/s² of 2 kg push 2.5 kg: 4 m/s² each."""
    velocity = run(coupled(bundle, constant(5.0), cone="elliptic"), 0.0, 260)
    acceleration = (velocity[-1] - velocity[-11]) / (10 * DT)
    assert (acceleration - 4.0).abs().max() < 1e-3
    # Until they met the box had what was asked for, and the cube nothing.
    assert velocity[1] / DT == pytest.approx([5.0, 0.0], abs=1e-5)


def test_one_way_makes_momentum_and_says_so(bundle: Bundle, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        velocity = run(coupled(bundle, constant(0.0), cone="elliptic", coupling="one_way"), 1.0, 60)
    assert (PUSHING * velocity[:, 0] - 2.0).abs().max() == 0.0
    assert momentum(velocity)[-1] > 2.4
    assert velocity[-1, 1] >= 1.0
    said = [record.message for record in caplog.records if "one_way" in record.message]
    assert len(said) == 1 and "comparison only" in said[0]


def test_one_way_keeps_a_push_to_itself(bundle: Bundle) -> None:
    velocity = run(coupled(bundle, constant(5.0), cone="elliptic", coupling="one_way"), 0.0, 200)
    acceleration = (velocity[-1] - velocity[-41]) / (40 * DT)
    assert acceleration[0] == pytest.approx(5.0, abs=1e-3)
    assert acceleration[1] == pytest.approx(5.0, abs=1e-2)
