"""A Newton model read into the card's terms, and the card against the same robot simulated in many worlds."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from flashnerd_ext.bundle.check import check_against
from flashnerd_ext.bundle.example import example_model_and_card
from flashnerd_ext.bundle.facts import facts_from_newton, physical_of_asset
from flashnerd_ext.errors import FlashNerdError

pytestmark = pytest.mark.kitless
newton = pytest.importorskip("newton")
ASSET = str(Path(newton.__file__).parent / "examples/assets/cartpole_single_pendulum.usda")


def model_of(worlds: int, damping: float = 10.0, mass: float | None = None):
    robot = newton.ModelBuilder()
    robot.add_usd(ASSET)
    dof = robot.joint_qd_start[[label.endswith("slider_to_cart") for label in robot.joint_label].index(True)]
    robot.joint_target_kd[dof], robot.joint_effort_limit[dof] = damping, 400.0
    if mass is not None:
        robot.body_mass[-1] = mass
    scene = newton.ModelBuilder()
    scene.replicate(robot, worlds)
    return scene.finalize(device="cpu")


def test_masses_inertias_and_limits_of_the_asset() -> None:
    physical = physical_of_asset(ASSET)
    assert physical.masses == pytest.approx({"cart": 1.0, "pole": 1.0})  # the rail is welded to the world
    assert physical.inertias["pole"][0] == pytest.approx(0.0836333, rel=1e-5)
    assert physical.limit_lower == {"slider_to_cart": -4.0, "cart_to_pole": None}
    with pytest.raises(FlashNerdError, match="cannot be read"):
        physical_of_asset("/no/such/asset.usd")


@pytest.mark.parametrize("world", [0, 2])
def test_the_robot_of_the_card_fits_in_every_world_and_a_changed_one_does_not(world: int) -> None:
    """F18."""
    _, card = example_model_and_card()
    card = dataclasses.replace(card, physical=physical_of_asset(ASSET))
    facts = facts_from_newton(model_of(3), dt=1 / 120, decimation=2, world=world)
    assert check_against(card, facts).is_identity
    with pytest.raises(FlashNerdError, match=r"mass of pole is 1\.5 kg, the card says 1"):
        check_against(card, facts_from_newton(model_of(3, mass=1.5), dt=1 / 120, decimation=2, world=world))
    with pytest.raises(FlashNerdError, match="damping of slider_to_cart is 3, the card says 10"):
        check_against(card, facts_from_newton(model_of(3, damping=3.0), dt=1 / 120, decimation=2, world=world))
    with pytest.raises(FlashNerdError, match="mass of pole is 0 kg, but a positive one"):
        check_against(card, facts_from_newton(model_of(3, mass=0.0), dt=1 / 120, decimation=2, world=world))


def test_a_world_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(FlashNerdError, match="world 7 has no"):
        facts_from_newton(model_of(2), dt=1 / 120, decimation=2, world=7)
