"""The card as a contract: each wrong field is named with what was found and what is needed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flashnerd_ext.bundle.card import WeightsCard, format_card, parse_card
from flashnerd_ext.bundle.example import WALKER, example_model_and_card
from flashnerd_ext.bundle.make import envelope, ranges
from flashnerd_ext.bundle.store import build
from flashnerd_ext.errors import FlashNerdError

WEIGHTS = WeightsCard(sha256="0" * 64, bytes=100, tensors=1, parameters=1)


def content(robot: Any = "cartpole") -> dict[str, Any]:
    _, card = example_model_and_card(robot)
    return json.loads(format_card(card.sealed(WEIGHTS)))


def refusal(card: Any) -> str:
    with pytest.raises(FlashNerdError) as error:
        parse_card(card if isinstance(card, bytes) else json.dumps(card).encode(), sealed=False)
    text = str(error.value)
    assert "\n" not in text and len(text) < 400 and text.endswith("."), text
    return text


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(card: dict[str, Any]) -> None:
        *owners, last = path.split("/")
        for key in owners:
            card = card[key]
        if value is ...:
            del card[last]
        else:
            card[last] = value

    return change


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("simulation/dt", ..., "'simulation.dt' is missing"),
        ("simulation/dt", 0.02, "inner_steps x sim_dt"),
        ("simulation/dt", -1.0, "above 0"),
        ("simulation/dt", "fast", "is 'fast'"),
        ("simulation/dt", True, "is true"),
        ("simulation/sim_dt", 10**400, "sim_dt"),
        ("simulation/decimation", 0, "at least 1"),
        ("simulation/decimation", 2.0, "an integer"),
        ("simulation/inner_steps", 3, "inner_steps"),
        ("simulation/quaternion_order", "zyxw", "one of xyzw, wxyz"),
        ("simulation/gravity", [0, 0], "3 values"),
        ("simulation/timestep", 1, "'simulation.timestep' is not known"),
        ("robot", None, "'robot' is null"),
        ("robot/joint_names", ["a", "a"], "repetition"),
        ("robot/joint_names", [], "at least 1"),
        ("robot/joint_kinds", ["prismatic"], "joint_kinds"),
        ("robot/joint_kinds", ["prismatic", "ball"], "one of revolute, continuous, prismatic"),
        ("robot/actuated", ["nothing"], "one of the joints"),
        ("robot/floating_base", 1, "true or false"),
        ("actuation/kind", "torque", "one of effort, target"),
        ("actuation/effort_limit", {"slider_to_cart": 0}, "above 0"),
        ("actuation/damping", {"slider": 1.0}, "one of the joints"),
        ("contacts/capacity", 3, "needed"),
        ("physical/masses", {"cart": -1.0}, "above 0"),
        ("physical/masses", {"cart": None}, "masses.cart"),
        ("physical/inertias", {"slider_to_cart_link": [1, 2, 3]}, "9 values"),
        ("physical/inertias", {"slider_to_cart_link": [0.0] * 9}, "positive diagonal"),
        ("physical/limit_lower", {"slider_to_cart": 9.0, "cart_to_pole": -4.0}, "at least 9"),
        ("physical/mass_tolerance", 2, "at most 1"),
        ("model/config", {"width": 10**9}, "at most 4096"),
        ("model/config", {"a": [[[[[[[[[[1]]]]]]]]]]}, "too large"),
        ("envelope/state/std", [1.0, 1.0, -1.0, 1.0], "at least 0"),
        ("envelope/state/min", [1.0], "4 values"),
        ("envelope/state/quantiles", {"half": [1.0] * 4}, "from 0 to 1"),
        ("training/command", "a\x1b[2Jb", "printable"),
        ("training/seed", 2**70, "64 bits"),
        ("name", "", "name"),
        ("digest", 3, "digest"),
    ],
)
def test_a_wrong_field_is_named_with_what_is_needed(path: str, value: Any, words: str) -> None:
    card = content()
    put(path, value)(card)
    text = refusal(card)
    assert words in text and text.startswith("card.json: field "), text


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "not JSON"),
        (b"[1]", "a JSON object is needed"),
        (b'{"schema_version": 1, "schema_version": 1}', "twice"),
        (b'{"schema_version": NaN}', "NaN"),
        (b'{"schema_version": -Infinity}', "Infinity"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "not JSON"),
        (b'{"schema_version": ' + b"1" * 5000 + b"}", "not JSON"),
        (b"{}", "schema_version"),
    ],
)
def test_text_that_is_no_card_is_one_sentence(raw: bytes, words: str) -> None:
    assert words in refusal(raw)


def test_an_unknown_field_gets_the_nearest_name() -> None:
    card = content()
    card["robots"] = card.pop("robot")
    assert "robot" in refusal(card)


def test_a_card_of_wxyz_data_is_refused_not_assumed() -> None:
    """F10: the encoder reads xyzw; another order in the training data must not pass."""
    _, card = example_model_and_card(WALKER)
    raw = json.loads(format_card(card.sealed(WEIGHTS)))
    raw["simulation"]["quaternion_order"] = "wxyz"
    parsed = parse_card(json.dumps(raw).encode(), sealed=False)
    with pytest.raises(FlashNerdError, match=r"quaternion_order.*wxyz.*xyzw.*convert"):
        build(parsed)


def test_envelope_has_the_ranges_of_the_data() -> None:
    layout = example_model_and_card()[1].layout
    rng = np.random.default_rng(0)
    q, qd, u = rng.normal(size=(1000, 2)), rng.normal(size=(1000, 2)), rng.normal(size=(1000, 1))
    found = envelope(layout, q, qd, u)
    assert found.state.names == ("slider_to_cart.pos", "cart_to_pole.pos", "slider_to_cart.vel", "cart_to_pole.vel")
    np.testing.assert_allclose(found.state.min, np.concatenate([q, qd], 1).min(0))
    np.testing.assert_allclose(found.state.quantiles["0.5"], np.median(np.concatenate([q, qd], 1), 0))
    index = found.frame.names.index("cart_to_pole.sin")
    np.testing.assert_allclose(found.frame.std[index], np.sin(q[:, 1]).std())
    assert "slider_to_cart.pos" not in found.frame.names  # the dynamics do not depend on it


def test_an_envelope_of_bad_numbers_is_refused() -> None:
    with pytest.raises(FlashNerdError, match="not finite"):
        ranges(["a"], [[1.0], [float("nan")]])
    with pytest.raises(FlashNerdError, match="shape"):
        ranges(["a", "b"], [[1.0]])
