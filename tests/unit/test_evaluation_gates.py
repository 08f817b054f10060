"""The gates tell a world from a smoothed one."""

from __future__ import annotations

import json

import numpy as np
import pytest

from flashnerd_ext.evaluation import gates
from flashnerd_ext.evaluation.gates import Motion
from flashnerd_ext.robots.registry import get_robot

LAYOUT, DT = get_robot("anymal_c").layout, 0.02


def motion(
    speed: float = 0.5, shake: float = 1.0, height: float = 0.45, fallen: int = 0, depth: float = -1e-3
) -> Motion:
    """12 robots that walk along x at speeds up to ``speed`` for 10 s, the first ``fallen`` of them on their backs."""
    rng = np.random.default_rng(0)
    steps, count = 501, 12
    q, qd = np.zeros((steps, count, LAYOUT.nq)), np.zeros((steps, count, LAYOUT.nv))
    pace = np.linspace(-speed, speed, count)
    q[:, :, 0] = np.arange(steps)[:, None] * DT * pace
    q[:, :, 2], q[:, :, 6] = height, 1.0
    q[:, :fallen, 3:7] = [1.0, 0.0, 0.0, 0.0]
    qd[:, :, 0] = pace
    qd[:, :, 6:] = shake * rng.normal(size=(steps, count, 12))
    return Motion(q, qd, np.full((steps, count), depth), np.full((steps, count), 0.005))


def world(**changes: float) -> dict[str, Motion]:
    return {"stand": motion(speed=0.0, **changes), "gait": motion(**changes)}  # type: ignore[arg-type]


def test_equal_worlds_pass_every_gate() -> None:
    found = gates.compare(LAYOUT, DT, world(), world())
    assert len(found) == 10
    assert all(gate.holds for gate in found)
    assert max(abs(gate.error) for gate in found) < 1e-12
    json.dumps([gate.to_dict() for gate in found])
    assert gates.table(found).count("outside") == 0


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"shake": 0.8}, {"rms joint velocity"}),
        ({"fallen": 2}, {"share of robots upright"}),
        ({"height": 0.47}, {"standing height after 2 s"}),
        ({"depth": -6e-3}, {"deepest contact, 99th percentile"}),
        ({"depth": 0.01}, {"deepest contact, 99th percentile"}),
    ],
)
def test_each_kind_of_smoothing_fails_its_own_gate(changes: dict[str, float], names: set[str]) -> None:
    reference = world(depth=-3.5e-3) if changes.get("depth", -1.0) > 0 else world()
    found = gates.compare(LAYOUT, DT, reference, world(**changes))
    assert {gate.name for gate in found if not gate.holds} == names


def test_slow_gaits_and_drift_fail() -> None:
    slow = {"stand": motion(speed=0.4), "gait": motion(speed=0.35)}
    failed = {gate.name for gate in gates.compare(LAYOUT, DT, world(), slow) if not gate.holds}
    assert failed == {"gait velocity, slope", "gait velocity, rms", "drift while standing"}


def test_what_is_not_finite_fails_and_is_no_number_in_json() -> None:
    broken = world()
    broken["gait"].joint_q[100:, 3] = np.nan
    found = {gate.name: gate for gate in gates.compare(LAYOUT, DT, world(), broken)}
    assert not found["states that are not finite"].holds
    json.dumps([gate.to_dict() for gate in found.values()], allow_nan=False)
