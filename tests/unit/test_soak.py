"""What a long run counts: states that no guard may let through, and memory that does not stop growing."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from flashnerd_ext.evaluation.soak import growth, joined, outside, table
from flashnerd_ext.solver.guard import Bounds, GuardStage

BOUNDS = Bounds(("x", "v"), (-3.0e38, -2.0), (3.0e38, 2.0))


@pytest.mark.parametrize(
    ("x", "v", "bad"),
    [(0.0, 1.9, False), (1e6, -2.0, False), (0.0, 2.1, True), (math.nan, 0.0, True), (0.0, math.inf, True)],
)
def test_a_state_that_no_guard_may_let_through(x: float, v: float, bad: bool) -> None:
    found = outside(torch.tensor([[0.0], [x]]), torch.tensor([[0.0], [v]]), BOUNDS)
    assert found.tolist() == [False, bad]


def test_the_guard_and_the_count_agree() -> None:
    guard = GuardStage(BOUNDS, 500, 1, 2, "cpu")
    torch.manual_seed(0)
    q, qd = torch.randn(500, 1), 2.5 * torch.randn(500, 1)
    qd[::50] = math.nan
    state = torch.zeros(500, 2)
    guard.hold(state, torch.ones(500, dtype=torch.bool), q, qd)
    assert 50 < int(guard.failed.sum()) < 450
    assert torch.equal(outside(q, qd, BOUNDS), guard.failed)
    assert not outside(state[:, :1], state[:, 1:], BOUNDS).any()


def test_parts_of_a_run_are_one_run() -> None:
    def part(memory: list[float], **counts: int) -> dict:
        return {"memory": memory, "steps": 10, "held": 1, "passed": 0, "resets": 2, "world_steps": 40} | (counts)

    whole = joined([part([100.0, 110.0]), part([110.5, 112.0], held=4), part([112.5, 150.0]), part([151.0, 153.0])])
    assert whole["memory"] == [100.0, 110.0, 112.0, 150.0, 153.0]
    assert (whole["steps"], whole["held"], whole["resets"], whole["world_steps"]) == (40, 7, 8, 160)
    assert growth(whole) == 41.0
    text = table({4: whole})
    assert "7 (4.375 %)" in text and "100, 112, 153 (+41.0)" in text


def test_soak_without_learned_physics_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("isaaclab_newton")
    from flashnerd_ext.errors import FlashNerdError
    from flashnerd_ext.evaluation.soak import run_soak
    from flashnerd_ext.physics import environment

    monkeypatch.setattr(environment, "running_solver", lambda: None)
    with pytest.raises(FlashNerdError, match=r"learned physics, which does not run here: type physics=\[flashnerd\]"):
        run_soak(SimpleNamespace(), 1, 0)
