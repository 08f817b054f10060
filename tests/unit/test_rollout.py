"""The public rollout: conventions, kinds, gradients, and one sentence for what does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flashnerd_ext import rollout
from flashnerd_ext.bundle.example import TINY, WALKER, example_bundle
from flashnerd_ext.bundle.store import Bundle
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.contacts import ROW_SIZE, ContactRows
from flashnerd_ext.model.stepper import Stepper

STEPS, WORLDS = 17, 3  # more steps than any ring or window is long


@pytest.fixture(scope="module", params=["cartpole", "walker"])
def robot(request: pytest.FixtureRequest) -> Any:
    return WALKER if request.param == "walker" else "cartpole"


@pytest.fixture(scope="module", params=list(TINY))
def bundle(request: pytest.FixtureRequest, robot: Any, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return example_bundle(tmp_path_factory.mktemp("b") / "b", robot, request.param)


def inputs(bundle: Bundle, dtype: Any = np.float64, worlds: int = WORLDS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng, card = np.random.default_rng(0), bundle.card
    q = rng.normal(size=(worlds, card.nq))
    if card.robot.floating_base:
        q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    qd, actuation = rng.normal(size=(worlds, card.nv)), rng.normal(size=(STEPS, worlds, card.nu))
    return q.astype(dtype), qd.astype(dtype), actuation.astype(dtype)


def go(bundle: Bundle, arrays: Sequence[Any], **options: Any) -> tuple[Any, Any]:
    joint_q, joint_qd, actuation = arrays
    return rollout(bundle, joint_q, joint_qd, actuation, **options)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kind_dtype_and_shapes_are_those_of_the_inputs(bundle: Bundle, dtype: Any) -> None:
    arrays = inputs(bundle, dtype)
    kept = [array.copy() for array in arrays]
    q, qd = go(bundle, arrays)
    assert isinstance(q, np.ndarray) and q.dtype == qd.dtype == dtype
    assert q.shape == (STEPS + 1, WORLDS, bundle.card.nq) and qd.shape == (STEPS + 1, WORLDS, bundle.card.nv)
    assert (q[0] == arrays[0]).all() and (qd[0] == arrays[1]).all() and np.isfinite(q).all() and np.isfinite(qd).all()
    assert not (q[-1] == q[0]).all()
    tq, tqd = go(bundle, [torch.from_numpy(array) for array in arrays])
    assert isinstance(tq, torch.Tensor) and not tq.requires_grad
    assert (tq.numpy() == q).all() and (tqd.numpy() == qd).all()
    assert all((array == copy).all() for array, copy in zip(arrays, kept, strict=True))  # inputs stay as they are


def test_it_is_what_the_simulators_stepper_does(bundle: Bundle) -> None:
    q0, qd0, actuation = (torch.from_numpy(array) for array in inputs(bundle, np.float32))
    q, qd = rollout(bundle, q0, qd0, actuation)
    stepper = Stepper(bundle.model, bundle.card.dt, bundle.card.simulation.inner_steps, WORLDS)
    for step in range(STEPS):
        q0, qd0 = stepper.step(q0, qd0, actuation[step])
        torch.testing.assert_close(q[step + 1], q0, atol=0, rtol=0)
        torch.testing.assert_close(qd[step + 1], qd0, atol=0, rtol=0)


def test_worlds_do_not_touch_each_other(bundle: Bundle) -> None:
    q0, qd0, actuation = inputs(bundle)
    q, _ = rollout(bundle, q0, qd0, actuation)
    alone, _ = rollout(bundle, q0[1:2], qd0[1:2], actuation[:, 1:2])
    np.testing.assert_allclose(alone[:, 0], q[:, 1], atol=1e-12)


def test_gradients_flow_and_the_values_stay(bundle: Bundle) -> None:
    arrays = [torch.from_numpy(array) for array in inputs(bundle)]
    q, qd = go(bundle, arrays)
    arrays[2].requires_grad_(True)
    gq, gqd = go(bundle, arrays)
    torch.testing.assert_close(gq.detach(), q, atol=1e-11, rtol=1e-11)
    torch.testing.assert_close(gqd.detach(), qd, atol=1e-11, rtol=1e-11)
    gqd[-1].sum().backward()
    gradient = arrays[2].grad
    assert gradient is not None and torch.isfinite(gradient).all()
    # The last command and the first both reach the last state; another world's does not.
    assert (gradient[-1].abs().sum(-1) > 0).all() and (gradient[0].abs().sum(-1) > 0).all()
    step = torch.zeros_like(arrays[2])
    step[STEPS - 2, 0, 0] = 1e-6
    with torch.no_grad():
        up, down = (rollout(bundle, arrays[0], arrays[1], arrays[2] + sign * step)[1][-1].sum() for sign in (1, -1))
    torch.testing.assert_close(gradient[STEPS - 2, 0, 0], (up - down) / 2e-6, atol=1e-7, rtol=1e-4)
    with torch.no_grad():
        assert not go(bundle, arrays)[0].requires_grad


def test_float64_computes_in_float64_and_returns_the_inputs_dtype(bundle: Bundle) -> None:
    arrays = inputs(bundle, np.float32)
    single, _ = go(bundle, arrays)
    double, _ = go(bundle, arrays, dtype=torch.float64)
    exact, _ = go(bundle, [array.astype(np.float64) for array in arrays])
    assert double.dtype == np.float32
    np.testing.assert_array_equal(double, exact.astype(np.float32))
    assert np.abs(single - exact).max() < 1e-3
    assert next(bundle.model.parameters()).dtype == torch.float32  # the bundle's own network is untouched


def test_no_steps_give_the_initial_state(bundle: Bundle) -> None:
    q0, qd0, actuation = inputs(bundle)
    q, qd = rollout(bundle, q0, qd0, actuation[:0])
    assert q.shape[0] == qd.shape[0] == 1 and (q[0] == q0).all()


def test_read_only_and_strided_arrays_are_fine(bundle: Bundle) -> None:
    q0, qd0, actuation = inputs(bundle)
    expected, _ = rollout(bundle, q0[::-1].copy(), qd0[::-1].copy(), actuation[:, ::-1].copy())
    q0.flags.writeable = False
    found, _ = rollout(bundle, q0[::-1], qd0[::-1], actuation[:, ::-1])
    assert (found == expected).all()


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return example_bundle(tmp_path_factory.mktemp("c") / "b")


def test_quaternions_stay_unit_and_position_is_invariant(tmp_path: Path) -> None:
    bundle = example_bundle(tmp_path / "b", WALKER)
    q0, qd0, actuation = inputs(bundle)
    q, qd = rollout(bundle, q0, qd0, actuation)
    np.testing.assert_allclose(np.linalg.norm(q[..., 3:7], axis=-1), 1.0, atol=1e-9)
    moved = q0.copy()
    moved[:, :3] += [5.0, -3.0, 1.0]
    there, there_qd = rollout(bundle, moved, qd0, actuation)
    np.testing.assert_allclose(
        there[..., :3] - q[..., :3], np.broadcast_to([5.0, -3.0, 1.0], q[..., :3].shape), atol=1e-9
    )
    np.testing.assert_allclose(there_qd, qd, atol=1e-9)
    q0[0, 3:7] *= 2
    with pytest.raises(FlashNerdError, match="quaternion of length 2"):
        rollout(bundle, q0, qd0, actuation)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("joint_q", np.zeros((3, 3)), r"joint_q has shape \[3, 3\], but \[3, 2\]"),
        ("joint_q", np.zeros(2), r"joint_q has shape \[2\], but \[N, 2\]"),
        ("joint_qd", np.zeros((4, 2)), r"joint_qd has shape \[4, 2\], but \[3, 2\]"),
        ("actuation", np.zeros((5, 3, 2)), r"actuation has shape \[5, 3, 2\], but \[T, 3, 1\]"),
        ("actuation", np.zeros((3, 1)), r"\[T, 3, 1\] is needed"),
        ("joint_q", np.full((3, 2), np.nan), "joint_q has 6 numbers that are NaN"),
        ("actuation", np.full((5, 3, 1), np.inf), "actuation has 15 numbers"),
        ("joint_q", np.zeros((3, 2), dtype=int), r"dtype int64.*float32 or float64"),
        ("joint_qd", torch.zeros(3, 2), "mixed"),
        ("joint_q", [[0.0, 0.0]] * 3, "type list"),
        ("joint_q", None, "type NoneType"),
        ("joint_q", np.zeros((0, 2)), "shape|worlds"),
    ],
)
def test_wrong_inputs_are_one_sentence(cartpole: Bundle, name: str, value: Any, words: str) -> None:
    arguments: dict[str, Any] = {
        "joint_q": np.zeros((3, 2)), "joint_qd": np.zeros((3, 2)), "actuation": np.zeros((5, 3, 1))
    }  # fmt: skip
    arguments[name] = value
    with pytest.raises(FlashNerdError, match=words) as error:
        rollout(cartpole, **arguments)
    assert "\n" not in str(error.value)


def test_other_wrong_arguments_are_one_sentence(cartpole: Bundle) -> None:
    arrays = inputs(cartpole)
    with pytest.raises(FlashNerdError, match="float16"):
        go(cartpole, [torch.from_numpy(array).half() for array in arrays])
    with pytest.raises(FlashNerdError, match=r"torch\.float16"):
        go(cartpole, arrays, dtype=torch.float16)
    with pytest.raises(FlashNerdError, match="takes no contact rows"):
        go(cartpole, arrays, contacts=lambda q, qd: None)
    with pytest.raises(FlashNerdError, match="0 worlds"):
        rollout(cartpole, np.zeros((0, 2)), np.zeros((0, 2)), np.zeros((4, 0, 1)))


def test_contacts_are_asked_for_at_every_step(tmp_path: Path) -> None:
    config = {**TINY["flashnerd"], "rows_capacity": 2, "links": 2, "slots": 2}
    network_bundle = _touching(tmp_path, config)
    arrays = inputs(network_bundle)
    with pytest.raises(FlashNerdError, match="2 contact rows"):
        go(network_bundle, arrays)
    seen: list[tuple[int, ...]] = []

    def contacts(joint_q: torch.Tensor, joint_qd: torch.Tensor) -> ContactRows:
        seen.append(tuple(joint_q.shape))
        features = joint_q[:, :1, None].expand(-1, 2, ROW_SIZE)
        return ContactRows(features, torch.zeros(len(joint_q), 2, dtype=torch.int64), joint_qd[:, :2] > 0)

    q, _ = go(network_bundle, arrays, contacts=contacts)
    assert len(seen) == STEPS and np.isfinite(q).all()
    tensors = [torch.from_numpy(array) for array in arrays]
    tensors[0].requires_grad_(True)
    gq, _ = go(network_bundle, tensors, contacts=contacts)
    np.testing.assert_allclose(gq.detach().numpy(), q, atol=1e-11)


def _touching(tmp_path: Path, config: dict[str, Any]) -> Bundle:
    import dataclasses

    from flashnerd_ext.bundle.card import ContactCard
    from flashnerd_ext.bundle.example import example_model_and_card
    from flashnerd_ext.bundle.store import save_bundle

    model, card = example_model_and_card(config=config)
    card = dataclasses.replace(card, contacts=ContactCard(detector="example", capacity=2))
    return save_bundle(tmp_path / "b", model, card)
