"""Coupled mode under PhysX without Kit; the known model is MuJoCo's arm in double precision.

PhysX's runtime stays in a process until its end, so that the cases run in one of their own (``physx_child.py``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from forked import fresh

pytest.importorskip("newton")
pytest.importorskip("ovphysx.types")

pytestmark = [pytest.mark.kitless, pytest.mark.slow]

CHILD = Path(__file__).with_name("physx_child.py")


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("physx")
    done = fresh(CHILD, folder, cwd=folder, timeout=1800)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert lines, (done.stdout[-1500:], done.stderr[-3000:])
    return json.loads(lines[-1].removeprefix("RESULT"))


@pytest.fixture
def case(cases: dict[str, Any], request: pytest.FixtureRequest) -> dict[str, Any]:
    found = cases[request.param]
    assert "error" not in found, found["error"]
    return found


@pytest.mark.parametrize(("case", "after"), [("pgs", 1e-3), ("tgs", 5e-3)], indirect=["case"])
def test_an_arm_pushes_a_cube_as_under_plain_physx(case: dict[str, Any], after: float) -> None:
    """Drives and commanded efforts act together; contacts are as sensitive as they are in each of PhysX's solvers."""
    assert case["before"] < 1e-5
    assert case["after"] < after and case["after_cube"] < after
    # Otherwise nothing would have been compared.
    assert case["touched"] > 20 and case["cube_moved"] > 0.03 and case["swing"] > 0.3
    assert case["torque"] > 1.0
    assert case["fallen_back"] == 0 and case["steps"] == 220
    assert case["effort"] == 0.0, "the commanded effort is not what it was"


@pytest.mark.parametrize("case", ["copies"], indirect=True)
def test_copies_are_rows_and_others_are_not_touched(case: dict[str, Any]) -> None:
    assert case["rows"] == [f"/World/envs/env_{env}/{name}" for env in range(2) for name in "AB"]
    assert case["known"] < 1e-5
    assert case["others"] == 0.0 and case["cubes"] == 0.0
    assert case["cube_fell"] > 0.005


@pytest.mark.parametrize("case", ["copies"], indirect=True)
def test_a_robot_whose_prediction_fails_moves_as_under_plain_physx(case: dict[str, Any]) -> None:
    assert case["fallback"] == 0.0
    assert case["fallen_back"] == [0, 12, 0, 12]
    assert case["ended"] == [False, False] and case["pending"] == [False] * 4
    # A failure forgets the past of its own row; the reset of world 1 that of its rows.
    assert case["forgotten"] == [False, True, True, True]
    assert case["dumps"] > 0


@pytest.mark.parametrize("case", ["additions"], indirect=True)
def test_link_damping_is_taken_out_of_learned_robots(case: dict[str, Any]) -> None:
    assert case["link_damping"]["off"] < 1e-4


@pytest.mark.parametrize("case", ["additions"], indirect=True)
def test_labels_that_are_damped_already_are_followed_under_drives(case: dict[str, Any]) -> None:
    """Without drives in PhysX the acceleration is what was asked for; ``qacc_smooth`` is damped by them, as it must."""
    damped, smooth = case["damped"], case["smooth"]
    assert damped["off"] < 1e-4 and damped["gains"] == 0.0
    assert damped["kept"] == pytest.approx(60.0) and damped["torque"] > 1.0
    assert smooth["off"] > 1e-2 and smooth["gains"] == pytest.approx(66.0)


@pytest.mark.parametrize("case", ["weightless"], indirect=True)
def test_links_without_gravity_have_none(case: dict[str, Any]) -> None:
    assert case["off"] < 1e-5 and case["moved"] > 0.05


@pytest.mark.parametrize("case", ["flight"], indirect=True)
def test_a_free_base_and_a_pulled_arm_follow_what_is_asked_for(case: dict[str, Any]) -> None:
    """Velocities of 20 steps against the acceleration, with wrenches on links in every other one."""
    assert case["root"] == 6 and case["names"][0] == "base"
    assert case["off"]["free"] < 1e-4 and case["off"]["arm"] < 1e-4


@pytest.mark.parametrize("case", ["refusals"], indirect=True)
def test_what_cannot_be_coupled_is_refused_with_one_sentence(case: dict[str, Any]) -> None:
    assert "type env.sim.dt=0.004 env.decimation=2" in case["dt"]
    assert "of the kind 'dv_implicitfast'" in case["label"]
    assert "is of learned mode" in case["mode"]
    assert "the armature of shoulder is 0.01, but the labels contain 0.5" in case["armature"]
    assert "the effort limit of shoulder is 10000, but the labels contain 30" in case["gains"]
    assert "the drive of joint x is of the type acceleration" in case["drive"]
    assert "no articulation of the scene has the joints of the bundle" in case["none"] and "shoulder" in case["none"]
    assert "world 1 holds 0 robots" in case["uneven"]
    assert "has a free base" in case["free"]
    assert "armature of shoulder is 0.03" in case["strict"] and "strict" in case["strict"]
    assert "An event changed gravity" in case["gravity"]
    texts = [value for value in case.values() if isinstance(value, str)]
    assert all(text and "\n" not in text for text in texts)


@pytest.mark.parametrize("case", ["refusals"], indirect=True)
def test_state_is_the_stock_managers_and_is_dropped_at_the_end(case: dict[str, Any]) -> None:
    assert case["backend"] and case["closed"] and case["worlds"] == 2
    assert "elbow,shoulder,wrist" in case["robots"] and "f,g,h" in case["robots"]
