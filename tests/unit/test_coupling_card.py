"""The card of a bundle of coupled mode: what it demands, and what a simulation has to be for it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from flashnerd_ext.bundle.card import Card, WeightsCard, format_card, parse_card
from flashnerd_ext.bundle.check import check_against, differences
from flashnerd_ext.bundle.example import WALKER, example_bundle, example_model_and_card
from flashnerd_ext.bundle.rollout import rollout
from flashnerd_ext.bundle.simulation import SimulationFacts
from flashnerd_ext.bundle.store import load_bundle
from flashnerd_ext.bundle.table import bundle_table
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.free import FreeStepper, free_motion_layout
from flashnerd_ext.model.integrate import Integrator
from flashnerd_ext.model.layout import Drive, StateLayout, Stops

WEIGHTS = WeightsCard(sha256="0" * 64, bytes=100, tensors=1, parameters=1)
JOINTS = ("slider_to_cart", "cart_to_pole")


def content() -> dict[str, Any]:
    _, card = example_model_and_card(coupled=True)
    return json.loads(format_card(card.sealed(WEIGHTS)))


def test_a_card_of_learned_mode_has_no_such_section() -> None:
    """Its text and hash are what they were before there was one."""
    _, card = example_model_and_card()
    assert "coupling" not in json.loads(format_card(card.sealed(WEIGHTS)))
    assert card.coupling is None


def test_a_coupled_card_survives_saving(tmp_path: Path) -> None:
    example_bundle(tmp_path / "b", coupled=True)
    bundle = load_bundle(tmp_path / "b")
    card = bundle.card
    assert card.coupling is not None and card.coupling.label == "qacc_smooth"
    assert card.simulation.inner_steps == 1 and card.dt == card.simulation.sim_dt
    assert card.actuation.kind == "effort" and card.robot.actuated == JOINTS
    assert "qacc_smooth of euler" in bundle_table(bundle)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("coupling/label", "qacc", "one of qacc_smooth, dv_implicitfast, dv_damped"),
        ("coupling/integrator", "rk4", "one of euler, implicitfast"),
        ("coupling/label", "dv_implicitfast", "implicitfast, which made labels"),
        ("coupling/damping", {"slider_to_cart": 1.0}, "a value for each of slider_to_cart, cart_to_pole"),
        ("coupling/damping", {"slider_to_cart": -1.0, "cart_to_pole": 0.0}, "at least 0"),
        ("coupling/armature", {"slider_to_cart": 1.0, "pole": 0.0}, "a value for each"),
        ("coupling/gravity_compensation", {"pole": "all"}, "gravity_compensation.pole"),
        ("coupling/gravity_compensation", ..., "gravity_compensation' is missing"),
        ("coupling/route", 1, "'coupling.route' is not known"),
        ("coupling", {}, "'coupling.label' is missing"),
        ("coupling", 1, "an object is needed"),
        ("simulation/inner_steps", 2, "inner_steps"),
        ("robot/floating_base", True, "false in coupled mode"),
        ("actuation/kind", "target", "effort"),
        ("robot/conditions", ["stiffness"], "no gain of drives"),
    ],
)
def test_a_wrong_field_is_named(path: str, value: Any, words: str) -> None:
    card = content()
    *owners, last = path.split("/")
    owner = card
    for key in owners:
        owner = owner[key]
    if value is ...:
        del owner[last]
    else:
        owner[last] = value
    with pytest.raises(FlashNerdError) as error:
        parse_card(json.dumps(card).encode(), sealed=False)
    text = str(error.value)
    assert words in text and "\n" not in text and len(text) < 400 and text.endswith("."), text


def test_labels_that_contain_gains_need_them_in_the_card() -> None:
    card = content()
    card["coupling"] |= {"label": "dv_implicitfast", "integrator": "implicitfast"}
    parse_card(json.dumps(card).encode(), sealed=False)
    del card["actuation"]["damping"]["cart_to_pole"]
    with pytest.raises(FlashNerdError, match="a gain for each joint"):
        parse_card(json.dumps(card).encode(), sealed=False)


def facts(card: Card, **changes: Any) -> SimulationFacts:
    """What the simulation of the training data says of itself, at the solver's step."""
    physical, actuation = card.physical, card.actuation
    found = SimulationFacts(
        joint_names=card.robot.joint_names,
        dt=card.dt,
        decimation=4,
        masses=physical.masses,
        inertias=physical.inertias,
        limits={name: (low, physical.limit_upper[name]) for name, low in physical.limit_lower.items()},
        stiffness=actuation.stiffness,
        damping=actuation.damping,
        effort_limits=actuation.effort_limit,
        gravity=card.simulation.gravity,
    )
    return dataclasses.replace(found, **changes)


def test_drives_and_limits_matter_where_labels_contain_them() -> None:
    _, card = example_model_and_card(coupled=True)
    other = facts(
        card,
        stiffness=dict.fromkeys(JOINTS, 7.0),
        damping=dict.fromkeys(JOINTS, 3.0),
        effort_limits=dict.fromkeys(JOINTS, 9.0),
        limits=dict.fromkeys(JOINTS, (-0.5, 0.5)),
    )
    assert check_against(card, other).steps_per_control == 4
    assert card.coupling is not None
    label = dataclasses.replace(card.coupling, label="dv_damped", integrator="implicitfast")
    assert any("stiffness of slider_to_cart is 7" in text for text in differences(card.replace(coupling=label), other))
    # Euler damps passively only, so that such labels contain no gains.
    label = dataclasses.replace(label, integrator="euler")
    assert not differences(card.replace(coupling=label), other)


@pytest.mark.parametrize("factor", [0.5, 2.0, 4.0])
def test_the_step_must_be_the_solvers(factor: float) -> None:
    _, card = example_model_and_card(coupled=True)
    with pytest.raises(FlashNerdError, match=r"in coupled mode both step together.*num_substeps=1"):
        check_against(card, facts(card, dt=factor * card.dt))


def test_masses_and_gravity_are_compared_as_ever() -> None:
    _, card = example_model_and_card(coupled=True)
    masses = {name: 1.5 * mass for name, mass in card.physical.masses.items()}
    assert any("mass of" in text for text in differences(card, facts(card, masses=masses)))
    assert any("gravity is" in text for text in differences(card, facts(card, gravity=(0.0, 0.0, -1.6))))


def test_the_layout_takes_torques_of_every_joint() -> None:
    layout = StateLayout(
        ("a", "b", "c"),
        ("revolute",) * 3,
        actuated=("b", "a"),
        drive=Drive((1.0, 1.0), (0.1, 0.1), (5.0, 5.0)),
        conditions=("mass:hand", "stiffness", "damping"),
        stops=Stops(("a",), (-1.0,), (1.0,), 0.02),
    )
    free = free_motion_layout(layout)
    assert free.actuated == ("a", "b", "c") and free.drive is None and free.stops is None
    assert free.conditions == ("mass:hand",)
    with pytest.raises(FlashNerdError, match="free base"):
        free_motion_layout(WALKER.layout)


def test_the_training_target_is_the_label_times_the_step(tmp_path: Path) -> None:
    """Data of free motion leave nothing but rounding to the position outputs; the stepper gives the label back."""
    bundle = example_bundle(tmp_path / "b", coupled=True)
    dt, torch_state = bundle.card.dt, torch.random.get_rng_state()
    torch.manual_seed(0)
    q, qd, label = (torch.randn(50, 2, dtype=torch.float64) for _ in range(3))
    next_qd = qd + dt * label
    target = Integrator(bundle.card.layout, dt, 1).target(q, qd, q + dt * next_qd, next_qd)
    torch.testing.assert_close(target[:, :2], dt * label, rtol=1e-9, atol=1e-12)
    assert target[:, 2:].abs().max() < 1e-14
    # What the bundle gives in open loop is what its accelerations lead to.
    stepper = FreeStepper(bundle.model, dt, 1, 50)
    u = torch.randn(50, 2)
    acceleration = stepper.accelerate(q.float(), qd.float(), u)
    _, velocities = rollout(bundle, q.float(), qd.float(), u[None])
    torch.testing.assert_close(velocities[1], qd.float() + dt * acceleration, rtol=1e-5, atol=1e-6)
    assert acceleration.std() > 0.05
    torch.random.set_rng_state(torch_state)
