"""A card against a simulation: converted by name, or refused with the difference, never assumed."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from flashnerd_ext.bundle.card import Card
from flashnerd_ext.bundle.check import check_against, differences
from flashnerd_ext.bundle.example import TINY, WALKER, example_model_and_card
from flashnerd_ext.bundle.facts import physical_card
from flashnerd_ext.bundle.same_kind import check_model_config
from flashnerd_ext.bundle.simulation import SimulationFacts
from flashnerd_ext.errors import FlashNerdError

CART, POLE = "slider_to_cart_link", "cart_to_pole_link"


def card_of(robot: Any = "cartpole") -> Card:
    return example_model_and_card(robot)[1]


def facts_of(card: Card, **changes: Any) -> SimulationFacts:
    """A simulation that agrees with the card in everything."""
    physical = card.physical
    facts = SimulationFacts(
        joint_names=card.robot.joint_names,
        dt=card.simulation.sim_dt,
        decimation=card.simulation.decimation,
        floating_base=card.robot.floating_base,
        joint_kinds=dict(zip(card.robot.joint_names, card.robot.joint_kinds, strict=True)),
        robot=card.robot.name,
        asset_key=card.robot.asset_key,
        actuated=card.robot.actuated,
        actuation_kind=card.actuation.kind,
        masses=dict(physical.masses),
        inertias=dict(physical.inertias),
        limits={name: (low, physical.limit_upper[name]) for name, low in physical.limit_lower.items()},
        stiffness=dict(card.actuation.stiffness),
        damping=dict(card.actuation.damping),
        effort_limits=dict(card.actuation.effort_limit),
        gravity=card.simulation.gravity,
        contact_detector="none",
        contact_capacity=0,
        versions=dict(card.versions),
    )
    return dataclasses.replace(facts, **changes)


def refusal(card: Card, facts: SimulationFacts) -> str:
    with pytest.raises(FlashNerdError) as error:
        check_against(card, facts)
    text = str(error.value)
    assert "\n" not in text and len(text) < 600 and text.endswith("."), text
    return text


@pytest.mark.parametrize("robot", ["cartpole", WALKER], ids=["cartpole", "walker"])
def test_the_same_simulation_fits_without_a_word(robot: Any) -> None:
    card = card_of(robot)
    joints = check_against(card, facts_of(card))
    assert joints.is_identity and joints.warnings == () and joints.unchecked == () and joints.steps_per_control == 1
    assert differences(card, facts_of(card)) == []


def test_joint_order_is_converted_by_name() -> None:
    """F09: breadth-first and depth-first order of one robot."""
    card = card_of(WALKER)
    order = ("left_hip", "left_knee", "right_hip", "right_knee")
    joints = check_against(card, facts_of(card, joint_names=tuple(f"/World/envs/env_0/Robot/{n}" for n in order)))
    assert not joints.is_identity
    sim_q, sim_qd = np.arange(11.0) + 100, np.arange(10.0) + 200
    q, qd = joints.state_to_card(sim_q, sim_qd)
    values: dict[str, float] = dict(zip(order, sim_q[7:], strict=True))
    assert list(q[7:]) == [values[name] for name in card.robot.joint_names]
    assert list(q[:7]) == list(sim_q[:7]) and list(qd[:6]) == list(sim_qd[:6])
    both = np.stack([sim_q, sim_q + 1]), np.stack([sim_qd, sim_qd + 1])  # leading dimensions, and both kinds
    back = joints.state_to_sim(*joints.state_to_card(*both))
    assert (back[0] == both[0]).all() and (back[1] == both[1]).all()
    tensors = torch.from_numpy(both[0]), torch.from_numpy(both[1])
    found = joints.state_to_card(*tensors)
    assert torch.equal(found[0][0], torch.from_numpy(q)) and torch.equal(found[1][0], torch.from_numpy(qd))
    again = joints.state_to_sim(*found)
    assert torch.equal(again[0], tensors[0]) and torch.equal(again[1], tensors[1])


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("slider_to_cart",), "lacks joint cart_to_pole"),
        (("slider_to_cart", "cart_to_pole", "tool"), "has joint tool, which the card lacks"),
        (("slider_to_cart", "pole"), "lacks joint cart_to_pole"),
        (("slider_to_cart", "cart_to_pole", "a/cart_to_pole"), "cart_to_pole stands twice"),
        ((), "lacks joint slider_to_cart, cart_to_pole"),
    ],
)
def test_a_missing_or_extra_joint_is_named(names: tuple[str, ...], words: str) -> None:
    """F09."""
    card = card_of()
    assert words in refusal(card, facts_of(card, joint_names=names))


def test_a_wxyz_simulation_is_converted() -> None:
    """F10."""
    card = card_of(WALKER)
    joints = check_against(card, facts_of(card, quaternion_order="wxyz"))
    x, y, z, w = 0.1, 0.2, 0.3, 0.9
    sim = np.array([1.0, 2.0, 3.0, w, x, y, z, 0.0, 0.0, 0.0, 0.0])
    q, qd = joints.state_to_card(sim, np.zeros(10))
    assert list(q[:7]) == [1.0, 2.0, 3.0, x, y, z, w]
    assert list(joints.state_to_sim(q, qd)[0]) == list(sim)


def test_a_wxyz_card_and_an_unknown_order_are_refused() -> None:
    """F10."""
    card = card_of(WALKER)
    odd = card.replace(simulation=dataclasses.replace(card.simulation, quaternion_order="wxyz"))
    assert "convert" in refusal(odd, facts_of(card))
    assert "xyzw or wxyz" in refusal(card, facts_of(card, quaternion_order="zyxw"))


def test_time_step_is_decimation_times_dt() -> None:
    card = card_of()
    text = refusal(card, facts_of(card, decimation=4))
    assert "= 0.0333333 s" in text and "steps 0.0166667 s" in text and "env.decimation=2" in text
    assert "positive" in refusal(card, facts_of(card, dt=0.0))
    assert "positive" in refusal(card, facts_of(card, dt=float("nan")))
    # Another split of the same control step: the model does not see it, and says so.
    joints = check_against(card, facts_of(card, dt=1 / 60, decimation=1))
    assert joints.steps_per_control == 1 and "control step is the same" in joints.warnings[0]
    # float32 rounding of a time step is no difference.
    check_against(card, facts_of(card, dt=float(np.float32(1 / 120))))


def test_a_model_at_the_solvers_own_step_steps_every_solver_step() -> None:
    card = card_of()
    simulation = dataclasses.replace(card.simulation, dt=card.simulation.sim_dt, inner_steps=1)
    assert check_against(card.replace(simulation=simulation), facts_of(card)).steps_per_control == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"masses": {CART: 1.2, POLE: 2.0}}, "mass of slider_to_cart_link is 1.2 kg, the card says 1"),
        ({"masses": {CART: 1.0}}, "does not give a mass of cart_to_pole_link"),
        ({"masses": {CART: 0.0, POLE: 2.0}}, "0 kg, but a positive one"),
        ({"masses": {CART: float("nan"), POLE: 2.0}}, "nan kg"),
        ({"inertias": {}}, "does not give an inertia"),
        ({"inertias": dict.fromkeys((CART, POLE), (0.2, 0, 0, 0, 0.2, 0, 0, 0, 0.3))}, "inertia of slider"),
        ({"inertias": dict.fromkeys((CART, POLE), (0.1, 0, 0, 0, 0.2, 0, 0, 0, float("nan")))}, "inertia of"),
        ({"limits": {"slider_to_cart": (-3.0, 4.0)}}, "lower limit of slider_to_cart is -3, the card says -4"),
        ({"limits": {"slider_to_cart": (-4.0, 1e10)}}, "upper limit of slider_to_cart is unlimited"),
        ({"damping": {"slider_to_cart": 0.0, "cart_to_pole": 0.0}}, "damping of slider_to_cart is 0, the card says 10"),
        ({"stiffness": {"slider_to_cart": 5.0, "cart_to_pole": 0.0}}, "stiffness of slider_to_cart is 5"),
        ({"effort_limits": {"slider_to_cart": 100.0}}, "effort limit of slider_to_cart is 100, the card says 400"),
        ({"effort_limits": {"slider_to_cart": 1e10}}, "effort limit of slider_to_cart is unlimited"),
        ({"gravity": (0, 0, -1.62)}, "gravity is (0, 0, -1.62)"),
        ({"actuation_kind": "target"}, "actuation is 'target', the card says 'effort'"),
        ({"actuated": ("cart_to_pole",)}, "actuates cart_to_pole"),
        ({"actuated": ()}, "does not actuate slider_to_cart"),
        ({"floating_base": True}, "base is floating, the card says fixed"),
        ({"joint_kinds": {"slider_to_cart": "revolute"}}, "slider_to_cart is revolute, the card says prismatic"),
        ({"robot": "ant"}, "robot is 'ant', the card says 'cartpole'"),
    ],
)  # fmt: skip
def test_what_differs_is_refused_with_both_values(change: dict[str, Any], words: str) -> None:
    """F18 and its kind: each field that names the simulation."""
    card = card_of()
    assert words in refusal(card, facts_of(card, **change))


def test_small_differences_are_accepted_and_large_sets_are_listed() -> None:
    """F18: the tolerance stands in the card; every difference is listed, the first few in the sentence."""
    card = card_of(WALKER)
    near = {name: mass * 1.005 for name, mass in card.physical.masses.items()}
    check_against(card, facts_of(card, masses=near))
    exact = dataclasses.replace(card.physical, mass_tolerance=0.001)
    assert "mass of" in refusal(card.replace(physical=exact), facts_of(card, masses=near))
    far = facts_of(card, masses={name: 2 * mass for name, mass in card.physical.masses.items()})
    assert len(differences(card, far)) == 4 and "1 more difference" in refusal(card, far)


def test_contacts_have_to_be_the_detector_of_the_card() -> None:
    card = card_of()
    touching = card.replace(contacts=dataclasses.replace(card.contacts, detector="newton", capacity=8))
    assert "contact detector is 'mujoco'" in refusal(
        touching, facts_of(card, contact_detector="mujoco", contact_capacity=8)
    )
    assert "capacity is 4" in refusal(touching, facts_of(card, contact_detector="newton", contact_capacity=4))
    check_against(card, facts_of(card, contact_detector="newton", contact_capacity=64))  # a model without contacts


def test_other_versions_are_a_warning() -> None:
    """F21."""
    card = card_of()
    joints = check_against(card, facts_of(card, versions={"newton": "9.9.9", "torch": card.versions["torch"]}))
    assert "newton '9.9.9' (card '1.6.1')" in joints.warnings[0] and "torch" not in joints.warnings[0]


def test_what_a_simulation_does_not_say_is_listed() -> None:
    card = card_of()
    bare = SimulationFacts(joint_names=card.robot.joint_names, dt=card.simulation.sim_dt, decimation=2)
    unchecked = check_against(card, bare).unchecked
    assert {"mass", "inertia", "limits", "stiffness", "damping", "effort_limit", "gravity", "versions"} <= set(
        unchecked
    )


def test_another_configuration_lists_fields_and_overrides() -> None:
    """F22: an old bundle, a new configuration."""
    _, card = example_model_and_card()
    check_model_config(card, "flashnerd", card.model.config)
    with pytest.raises(FlashNerdError) as error:
        check_model_config(card, "flashnerd", {**card.model.config, "width": 64, "span": 5})
    text = str(error.value)
    assert "options.width is stored as 8, current 64" in text and "options.span is stored as 3, current 5" in text
    assert "type options.width=8 options.span=3 to match" in text and len(text) < 400
    with pytest.raises(FlashNerdError, match=r"model is stored as 'flashnerd', current 'nerd'; type model=flashnerd"):
        check_model_config(card, "nerd", TINY["nerd"])


def test_the_physical_section_is_what_the_simulation_said() -> None:
    card = card_of()
    facts = facts_of(card, limits={"slider_to_cart": (-4.0, 4.0), "cart_to_pole": (-1e10, 1e10)})
    physical = physical_card(facts, mass_tolerance=0.5)
    assert physical.masses == card.physical.masses and physical.mass_tolerance == 0.5
    assert physical.limit_upper == {"slider_to_cart": 4.0, "cart_to_pole": None}
    check_against(card.replace(physical=physical), facts)
