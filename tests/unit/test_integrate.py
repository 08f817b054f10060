"""Frames and integrator: invariances, inverses and the exactness of the kinematic prior."""

from __future__ import annotations

import math

import pytest
import torch

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.frame import encode_frame, frame_names
from flashnerd_ext.model.integrate import Integrator
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.rotation import exponential, logarithm, multiply, rotate

FIXED = StateLayout(("slide", "hinge"), ("prismatic", "continuous"), actuated=("slide",), position_free=("slide",))
FREE = StateLayout(("hip", "knee"), ("revolute", "revolute"), floating_base=True, actuated=("hip", "knee"))


def random_state(layout: StateLayout, count: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def draw(size: int) -> torch.Tensor:
        return torch.randn(count, size, generator=generator, dtype=torch.float64)

    joint_q = draw(layout.nq)
    if layout.floating_base:
        joint_q[:, 3:7] /= joint_q[:, 3:7].norm(dim=-1, keepdim=True)
    return joint_q, draw(layout.nv), draw(layout.nu)


@pytest.mark.parametrize("layout", [FIXED, FREE])
@pytest.mark.parametrize("prior", [True, False])
def test_apply_inverts_target(layout: StateLayout, prior: bool) -> None:
    integrator = Integrator(layout, 1 / 60, 4, prior)
    q, qd, _ = random_state(layout, 50)
    move = 0.1 * torch.randn(50, integrator.out_size, dtype=torch.float64)
    next_q, next_qd = integrator.apply(q, qd, move)
    again_q, again_qd = integrator.apply(q, qd, integrator.target(q, qd, next_q, next_qd))
    assert torch.allclose(again_q, next_q, atol=1e-12)
    assert torch.allclose(again_qd, next_qd, atol=1e-12)
    if layout.floating_base:
        assert torch.allclose(next_q[:, 3:7].norm(dim=-1), torch.ones(50, dtype=torch.float64))


@pytest.mark.parametrize("inner_steps", [1, 2, 5])
def test_prior_is_exact_under_constant_acceleration(inner_steps: int) -> None:
    integrator = Integrator(FIXED, 0.05, inner_steps)
    q, qd, _ = random_state(FIXED, 10)
    acceleration = torch.randn(10, 2, dtype=torch.float64)
    next_q, next_qd, h = q, qd, 0.05 / inner_steps
    for _ in range(inner_steps):  # semi-implicit Euler, as MuJoCo integrates
        next_qd = next_qd + h * acceleration
        next_q = next_q + h * next_qd
    residual = integrator.target(q, qd, next_q, next_qd)[:, 2:]
    assert residual.abs().max() < 1e-15


def test_position_and_yaw_do_not_enter_and_tilt_does() -> None:
    q, qd, act = random_state(FREE, 20)
    base = encode_frame(FREE, q, qd, act)
    yaw = exponential(torch.tensor([0.0, 0.0, 1.1], dtype=torch.float64)).expand(20, 4)
    turned = q.clone()
    turned[:, :3] = rotate(yaw, q[:, :3]) + 5.0
    turned[:, 3:7] = multiply(yaw, q[:, 3:7])
    turned_qd = torch.cat((rotate(yaw, qd[:, :3]), rotate(yaw, qd[:, 3:6]), qd[:, 6:]), -1)
    assert torch.allclose(encode_frame(FREE, turned, turned_qd, act), base, atol=1e-12)
    tilt = q.clone()
    tilt[:, 3:7] = multiply(exponential(torch.tensor([0.3, 0.0, 0.0], dtype=torch.float64)).expand(20, 4), q[:, 3:7])
    assert (encode_frame(FREE, tilt, qd, act) - base)[:, :3].abs().max() > 0.1


def test_frame_names_match_and_position_free_joint_is_invisible() -> None:
    for layout in (FIXED, FREE):
        q, qd, act = random_state(layout, 3)
        assert encode_frame(layout, q, qd, act).shape[-1] == len(frame_names(layout))
    q, qd, act = random_state(FIXED, 3)
    moved = q.clone()
    moved[:, 0] += 2.0
    moved[:, 1] += 2 * math.pi
    assert torch.allclose(encode_frame(FIXED, moved, qd, act), encode_frame(FIXED, q, qd, act), atol=1e-12)


def test_logarithm_inverts_exponential_down_to_zero() -> None:
    for scale in (0.0, 1e-9, 1e-5, 0.5, 3.0):
        turn = torch.tensor([0.6, -0.64, 0.48], dtype=torch.float64) * scale
        assert torch.allclose(logarithm(exponential(turn)), turn, atol=1e-12)


def test_layout_refuses_unknown_joints() -> None:
    with pytest.raises(FlashNerdError, match="'wheel'"):
        StateLayout(("a",), ("revolute",), actuated=("wheel",))
    with pytest.raises(FlashNerdError, match="'hinge'"):
        StateLayout(("a",), ("hinge",))
    assert StateLayout.from_dict(FREE.to_dict()) == FREE
