"""Rollouts with gradients: the values are the stepper's, the gradients those of finite differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from flashnerd_ext import differentiable_rollout, rollout
from flashnerd_ext.bundle.example import TINY, WALKER, example_bundle
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.contacts import ROW_SIZE, ContactRows
from flashnerd_ext.model.free import FreeStepper, free_motion_layout
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.registry import build_model
from flashnerd_ext.model.stepper import Stepper

WORLDS, STEPS, DT, INNER = 2, 9, 0.02, 2  # more steps than any past is long
CART = StateLayout(
    ("slide", "hinge"),
    ("prismatic", "continuous"),
    actuated=("slide",),
    position_free=("slide",),
    conditions=("mass:pole",),
)
LAYOUTS = {"fixed": CART, "floating": WALKER.layout, "free motion": free_motion_layout(CART)}
MODELS = {
    "span 1": ("flashnerd", {**TINY["flashnerd"], "span": 1}),
    "span 3": ("flashnerd", {**TINY["flashnerd"], "norm": "rms"}),
    "nerd": ("nerd", TINY["nerd"]),
}


def make(model: str = "span 3", robot: str = "fixed", dtype: torch.dtype = torch.float64, **more: Any) -> DynamicsModel:
    name, config = MODELS[model]
    torch.manual_seed(0)
    network = build_model(name, LAYOUTS[robot], {**config, **more}).requires_grad_(False).eval()
    # Trained statistics are not the identity, and the affine path is not zero: something to get wrong.
    network.frame_norm.fit(torch.randn(network.frame_size), torch.rand(network.frame_size) + 0.5)
    network.out_norm.fit(0.1 * torch.randn(network.out_size), 0.1 * torch.rand(network.out_size) + 0.1)
    if hasattr(network, "affine"):
        torch.nn.init.normal_(network.affine.weight, std=0.2)
    return network.to(dtype)


def inputs(layout: StateLayout, steps: int = STEPS, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """joint_q, joint_qd, actuation, condition."""
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    q = draw(WORLDS, layout.nq)
    if layout.floating_base:
        q[:, 3:7] /= q[:, 3:7].norm(dim=-1, keepdim=True)
    rest = (draw(WORLDS, layout.nv), draw(steps, WORLDS, layout.nu), 0.3 * draw(WORLDS, len(layout.conditions)))
    return [value.to(dtype) for value in (q, *rest)]


def go(network: DynamicsModel, values: list[Tensor], robot: str = "fixed", **options: Any) -> tuple[Tensor, Tensor]:
    q, qd, actuation, condition = values
    free = robot == "free motion"
    return differentiable_rollout(
        network, q, qd, actuation, DT, inner_steps=1 if free else INNER, free_motion=free, condition=condition,
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("robot", list(LAYOUTS))
@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-12)])
def test_values_are_those_of_the_stepper(model: str, robot: str, dtype: torch.dtype, tolerance: float) -> None:
    network = make(model, robot, dtype)
    values = inputs(network.layout, dtype=dtype)
    got_q, got_qd = go(network, [value.requires_grad_() for value in values], robot)
    assert got_q.requires_grad and got_q.dtype == got_qd.dtype == dtype
    q, qd, actuation, condition = (value.detach() for value in values)
    assert torch.equal(got_q[0], q) and torch.equal(got_qd[0], qd)
    stepper = (FreeStepper if robot == "free motion" else Stepper)(
        network, DT, 1 if robot == "free motion" else INNER, WORLDS, dtype=dtype
    )
    # The window of raw frames is float32 by default; the comparison is to be exact.
    stepper.cache = network.init_cache(WORLDS, dtype=dtype)
    stepper.condition.copy_(condition)
    for t in range(STEPS):
        if isinstance(stepper, FreeStepper):
            qd = qd + DT * stepper.accelerate(q, qd, actuation[t])
            q = q + DT * qd
        else:
            q, qd = stepper.step(q, qd, actuation[t])
        torch.testing.assert_close(got_q[t + 1].detach(), q, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(got_qd[t + 1].detach(), qd, rtol=tolerance, atol=tolerance)
    assert (got_qd[-1] - got_qd[0]).abs().max() > 0.1  # it moved


@pytest.mark.parametrize("case", ["cartpole", "walker", "coupled"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_bundle_needs_no_more_than_its_card(tmp_path: Path, case: str, dtype: torch.dtype) -> None:
    bundle = example_bundle(tmp_path / "b", WALKER if case == "walker" else "cartpole", coupled=case == "coupled")
    q, qd, actuation, _ = inputs(bundle.card.layout, dtype=dtype)
    expected = rollout(bundle, q, qd, actuation)
    got = differentiable_rollout(bundle, q, qd, actuation.requires_grad_())
    for one, other in zip(got, expected, strict=True):
        assert one.requires_grad and not other.requires_grad and one.dtype == dtype
        tolerance = 1e-5 if dtype == torch.float32 else 1e-12
        torch.testing.assert_close(one.detach(), other, rtol=tolerance, atol=tolerance)
    if case == "coupled":  # Nothing but velocities moves a joint in free motion.
        torch.testing.assert_close(expected[0][1:], expected[0][:-1] + bundle.card.dt * expected[1][1:])


def test_the_weights_of_a_bundle_get_gradients_in_place(tmp_path: Path) -> None:
    bundle = example_bundle(tmp_path / "b")
    q, qd, actuation, _ = inputs(bundle.card.layout, dtype=torch.float32)
    assert not differentiable_rollout(bundle, q, qd, actuation)[0].requires_grad  # loaded weights are frozen
    bundle.model.requires_grad_(True)
    differentiable_rollout(bundle, q, qd, actuation)[1][-1].sum().backward()
    gradient = bundle.model.get_parameter("embed.weight").grad
    assert gradient is not None and gradient.abs().max() > 0
    gradient = gradient.clone()  # double() turns gradients as well
    with pytest.raises(FlashNerdError, match=r"type bundle\.model\.double\(\)"):
        differentiable_rollout(bundle, q.double(), qd.double(), actuation.double())
    bundle.model.double().zero_grad()
    differentiable_rollout(bundle, q.double(), qd.double(), actuation.double())[1][-1].sum().backward()
    exact = bundle.model.get_parameter("embed.weight").grad
    assert exact is not None and exact.dtype == torch.float64
    torch.testing.assert_close(exact.float(), gradient, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("model", "robot"), [("span 1", "fixed"), ("span 3", "fixed"), ("span 3", "floating"), ("span 3", "free motion"),
                         ("nerd", "fixed")]
)  # fmt: skip
def test_gradients_to_the_inputs_are_those_of_central_differences(model: str, robot: str) -> None:
    network = make(model, robot)
    values = inputs(network.layout, steps=4)
    asked = [value.requires_grad_() for value in values if value.numel()]
    empty = [value for value in values if not value.numel()]  # conditions of a robot that has none
    assert torch.autograd.gradcheck(
        lambda *given: go(network, [*given, *empty], robot), asked, eps=1e-6, atol=1e-7, rtol=1e-5, fast_mode=True
    )


@pytest.mark.parametrize(
    ("model", "robot"), [("span 1", "fixed"), ("span 3", "floating"), ("span 3", "free motion"), ("nerd", "fixed")]
)
def test_gradients_to_every_weight_are_those_of_central_differences(model: str, robot: str) -> None:
    network = make(model, robot).requires_grad_(True)
    values = inputs(network.layout, steps=5)

    def loss() -> Tensor:
        q, qd = go(network, values, robot)
        return (q[1:] ** 2).mean() + torch.sin(qd).mean()

    loss().backward()
    moved = 0
    for name, weight in network.named_parameters():
        assert weight.grad is not None, name
        direction = torch.randn_like(weight)
        kept, sides = weight.detach().clone(), []
        with torch.no_grad():
            for sign in (1, -1):
                weight.copy_(kept + sign * 1e-5 * direction)
                sides.append(loss())
            weight.copy_(kept)
        slope = (weight.grad * direction).sum()
        torch.testing.assert_close(slope, (sides[0] - sides[1]) / 2e-5, rtol=1e-5, atol=1e-9, msg=name)
        moved += bool(slope.abs() > 1e-7)
    # A lag of one frame alone weighs nothing, and few weights besides can be without effect.
    assert moved >= 0.6 * len(list(network.parameters()))


def test_the_past_is_part_of_the_graph() -> None:
    """A frame reaches the later predictions that can depend on it, by the memory alone."""
    network = make("span 3")
    frames = torch.randn(6, WORLDS, network.frame_size, dtype=torch.float64).requires_grad_()
    past: Any = None
    for frame in frames[:-1]:
        _, past = network.recall(frame, past)
    network.recall(frames[-1], past)[0].sum().backward()
    assert frames.grad is not None
    reached = [bool(gradient.abs().max() > 0) for gradient in frames.grad]
    assert reached == [back < network.history for back in reversed(range(6))]


def test_both_ways_to_remember_are_one_function() -> None:
    """The streaming recall, the recall by a window that all models have, and ``sequence`` agree, contacts included."""
    network = make("span 3", rows_capacity=2, links=2, slots=2)
    frames = torch.randn(WORLDS, STEPS, network.frame_size, dtype=torch.float64)
    rows = ContactRows(
        torch.randn(WORLDS, STEPS, 2, ROW_SIZE, dtype=torch.float64),
        torch.randint(0, 2, (WORLDS, STEPS, 2)),
        torch.rand(WORLDS, STEPS, 2) > 0.3,
    )
    expected = network.sequence(frames, rows)
    past: Any = None
    window: Any = None
    for t in range(STEPS):
        now = ContactRows(rows.features[:, t], rows.link[:, t], rows.used[:, t])
        out, past = network.recall(frames[:, t], past, now)
        torch.testing.assert_close(out, expected[:, t], rtol=1e-12, atol=1e-12)
        out, window = DynamicsModel.recall(network, frames[:, t], window, now)
        torch.testing.assert_close(out, expected[:, t], rtol=1e-12, atol=1e-12)
    assert all(len(keys) == 3 for keys, _ in past) and len(window[0]) == network.history


def kept_bytes(network: DynamicsModel, steps: int, checkpoint: int = 0) -> int:
    """What a rollout keeps for the backward pass [bytes]; parts that are computed again are not in it."""
    total = 0

    def pack(value: Tensor) -> Tensor:
        nonlocal total
        total += value.numel() * value.element_size()
        return value

    values = inputs(network.layout, steps)
    values[2].requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        go(network, values, checkpoint=checkpoint)
    return total


def test_memory_grows_by_the_same_amount_with_each_step() -> None:
    network = make("span 3")
    ten, twenty, thirty = (kept_bytes(network, steps) for steps in (10, 20, 30))
    assert thirty - twenty == twenty - ten > 0


@pytest.mark.parametrize("model", ["span 3", "nerd"])
def test_checkpoints_keep_less_and_change_nothing(model: str) -> None:
    network = make(model).requires_grad_(True)
    results = []
    for checkpoint in (0, 4):  # the last part is shorter
        values = [value.requires_grad_() for value in inputs(network.layout)]
        q, qd = go(network, values, checkpoint=checkpoint)
        targets = [*values, *network.parameters()]
        results.append([q, qd, *torch.autograd.grad((q[-1] ** 2).sum() + qd.sum(), targets)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)
    network.requires_grad_(False)
    assert kept_bytes(network, 36, checkpoint=6) < 0.25 * kept_bytes(network, 36)


def test_given_contact_rows_are_part_of_the_graph() -> None:
    network = make("span 3", rows_capacity=2, links=2, slots=2)
    q, qd, actuation, condition = inputs(network.layout, steps=4)

    def contacts(joint_q: Tensor, joint_qd: Tensor) -> ContactRows:
        features = torch.tanh(joint_q[:, 1:, None] + 0.1 * joint_qd[:, :1, None]).expand(-1, 2, ROW_SIZE)
        used = torch.ones(WORLDS, 2, dtype=torch.bool)
        return ContactRows(features, torch.tensor([[0, 1]]).expand(WORLDS, 2), used)

    with pytest.raises(FlashNerdError, match=r"takes 2 contact rows a robot.*outside of torch: pass contacts="):
        go(network, [q, qd, actuation, condition])
    assert torch.autograd.gradcheck(
        lambda q: go(network, [q, qd, actuation, condition], contacts=contacts),
        q.requires_grad_(),
        atol=1e-7,
        fast_mode=True,
    )
    with pytest.raises(FlashNerdError, match="leave contacts out"):
        go(make("span 3"), [q, qd, actuation, condition], contacts=contacts)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (0, torch.zeros(2, 3, dtype=torch.float64), r"joint_q has shape \[2, 3\], but \[2, 2\]"),
        (1, torch.zeros(3, 2, dtype=torch.float64), r"joint_qd has shape \[3, 2\], but \[2, 2\]"),
        (2, torch.zeros(2, 1, dtype=torch.float64), r"actuation has shape \[2, 1\], but \[T, 2, 1\]"),
        (2, torch.zeros(0, 2, 1, dtype=torch.float64), "actuation has 0 steps, but at least 1"),
        (3, torch.zeros(2, 4, dtype=torch.float64), r"condition has shape \[2, 4\], but \[2, 1\]"),
        (1, torch.full((2, 2), torch.nan, dtype=torch.float64), "joint_qd has 4 numbers"),
        (2, torch.zeros(5, 2, 1), r"actuation has dtype torch\.float32.*one for all"),
        (0, np.zeros((2, 2)), "joint_q is of type ndarray, but a torch tensor"),
        (0, torch.zeros(2, 2, dtype=torch.int64), r"joint_q has dtype torch\.int64"),
    ],
)
def test_wrong_inputs_are_one_sentence(place: int, value: Any, words: str) -> None:
    values: list[Any] = inputs(CART)
    values[place] = value
    with pytest.raises(FlashNerdError, match=words) as error:
        go(make("span 1"), values)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dt": None}, "dt is None.*pass dt="),
        ({"inner_steps": None}, "inner_steps is None"),
        ({"dt": 0.0}, "dt is 0.0"),
        ({"free_motion": True}, "inner_steps is 2, but a positive time and 1 step in free motion"),
        ({"checkpoint": -1}, "checkpoint is -1, but 0"),
        ({"checkpoint": 2.0}, r"checkpoint is 2\.0"),
    ],
)
def test_wrong_options_are_one_sentence(options: dict[str, Any], words: str) -> None:
    q, qd, actuation, _ = inputs(CART)
    with pytest.raises(FlashNerdError, match=words):
        differentiable_rollout(make("span 1"), q, qd, actuation, **{"dt": DT, "inner_steps": INNER, **options})


def test_what_does_not_go_together_is_one_sentence(tmp_path: Path) -> None:
    q, qd, actuation, _ = inputs(CART)
    with pytest.raises(FlashNerdError, match=r"weights are torch\.float32: type model\.to\(torch\.float64\)"):
        differentiable_rollout(make("span 1", dtype=torch.float32), q, qd, actuation, DT, inner_steps=INNER)
    bundle = example_bundle(tmp_path / "b")
    with pytest.raises(FlashNerdError, match="together with a bundle"):
        differentiable_rollout(bundle, q, qd, actuation, DT)
    walker = make("span 1", "floating")
    q, qd, actuation, _ = inputs(walker.layout)
    with pytest.raises(FlashNerdError, match="has a free base, and free motion"):
        differentiable_rollout(walker, q, qd, actuation, DT, free_motion=True)
    with pytest.raises(FlashNerdError, match="quaternion of length 2"):
        differentiable_rollout(walker, 2 * q, qd, actuation, DT, inner_steps=INNER)
