"""``physics=flashnerd`` in Isaac Lab's own environments, stock ones included; field cases that need one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked import result_of

from flashnerd_ext.bundle.store import Bundle
from flashnerd_ext.robots.registry import get_robot

pytestmark = [pytest.mark.kitless, pytest.mark.slow]

CHILD = Path(__file__).with_name("backend_child.py")


def child(case: str, bundle: Bundle, folder: Path) -> tuple[dict[str, Any], str]:
    """Result and everything printed of one case."""
    return result_of(CHILD, case, bundle.path, folder, cwd=folder)


@pytest.fixture(scope="module", params=["manager", "direct", "ours"])
def life(request: pytest.FixtureRequest, tiny_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Any:
    result, text = child(request.param, tiny_bundle, tmp_path_factory.mktemp(request.param))
    return {"case": request.param, "text": text, **result}


def test_one_model_step_covers_a_control_step(life: dict[str, Any]) -> None:
    assert life["handles_decimation"]
    assert life["model_steps"] == 29
    assert life["sim_time"] == pytest.approx(29 / 60, rel=1e-6)


def test_state_is_finite_and_consistent_whenever_it_can_be_read(life: dict[str, Any]) -> None:
    """Covers F02: also directly after an automatic reset."""
    assert life["finite"]
    assert life["consistent"]
    assert life["acceleration_error"] < 1e-3


def test_episode_starts_clear_the_past_and_pushes_do_not(life: dict[str, Any]) -> None:
    assert life["age_before_reset"] == [2] * 8
    assert life["time_outs"] == 8
    assert life["age_after_reset"] == [1] * 8
    assert life["age_after_push"] == [2, 2]


def test_f04_a_held_world_is_terminated_counted_and_dumped(life: dict[str, Any]) -> None:
    only = [i == 5 for i in range(8)]
    assert life["terminated"] == only
    assert life.get("term", only) == only
    assert life["log"] == pytest.approx(1 / 8)
    assert not any(life["pending_after"])
    assert life["held_afterwards"] == 1
    assert life["dump"]["worlds"] == [5]
    assert life["dump"]["causes"] == {"5": "the prediction is not finite"}
    assert life["dump"]["bundle"] == "cartpole"
    assert "guard held 1 of 8 worlds" in life["text"]


def test_f06_two_hard_resets_leave_nothing_of_the_old_solver(life: dict[str, Any]) -> None:
    assert life["rebuilt"]
    assert life["steps_after_rebuild"] == 4
    assert life["moves_after_rebuild"]


def test_f16_the_memory_held_is_printed_at_the_start(life: dict[str, Any]) -> None:
    assert "cache, guard and history hold" in life["text"]


def test_f07_every_split_of_the_control_step_gives_the_same(tiny_bundle: Bundle, tmp_path: Path) -> None:
    result, _ = child("rates", tiny_bundle, tmp_path)
    trained = result["as trained"]
    assert {name: run["steps"] for name, run in result.items()} == dict.fromkeys(result, 12)
    assert [run["handles"] for run in result.values()] == [True, False, True, True]
    for name, run in result.items():
        assert run["q"] == trained["q"], name
        assert run["qd"] == trained["qd"], name


def test_a_bundle_at_the_solvers_own_step(make_bundle: Callable[..., Bundle], tmp_path: Path) -> None:
    robot = dataclasses.replace(get_robot("cartpole"), decimation=1)
    result, _ = child("solver_rate", make_bundle(robot), tmp_path)
    assert not result["handles"]
    assert result["steps"] == 12
    assert result["sim_time"] == pytest.approx(6 / 60, rel=1e-6)
    assert result["terminated"] == [False, False, True, False]
    assert result["held"] == [0, 0, 2, 0]


def test_what_does_not_fit_is_refused_with_one_sentence(tiny_bundle: Bundle, tmp_path: Path) -> None:
    """Covers F17 and F18 as far as CartPole shows them."""
    said, _ = child("refusals", tiny_bundle, tmp_path)
    assert "type env.sim.dt=0.00833333333 env.decimation=2" in said["decimation"]
    assert "damping of slider_to_cart is 3, the card says 10" in said["damping"]
    assert "gravity is (0, 0, -3.7) m/s², the card says (0, 0, -9.81)" in said["gravity"]
    assert "mass, centre of mass or inertia of a body" in said["mass_strict"]
    assert "refused because solver_cfg.strict is on" in said["mass_strict"]
    assert "the mass of /World/envs/env_1/Robot/pole is -1 kg" in said["mass_negative"]
    assert "no bundle is named 'cartpol'" in said["no_bundle"]
    assert "guard_margin is -1" in said["margin"]
    # F11: the counts and the missing call.
    assert "0 articulations in" in said["clone"] or "1 articulations in" in said["clone"]
    assert "4 environments" in said["clone"]
    assert "ReplicateSession" in said["clone"]
    assert all("\n" not in text for text in said.values())


def test_f17_what_has_no_effect_is_said_once(tiny_bundle: Bundle, tmp_path: Path) -> None:
    """Masses randomised at each reset, and an external force: one plain warning each, and the simulation goes on."""
    result, text = child("warnings", tiny_bundle, tmp_path)
    assert result["finite"]
    assert text.count("An event changed mass, centre of mass or inertia of a body") == 1
    assert text.count("An external force or torque is applied") == 1
    # Sensors that need what is not predicted read zero, and that is said too.
    assert result["force"] == 0.0
    assert text.count("FlashNeRD predicts no body_qdd") == 1
