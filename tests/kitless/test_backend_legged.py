"""``physics=flashnerd`` on a walking robot: what reaches the model, and what Isaac Lab reads of its prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from forked import result_of

from flashnerd_ext.bundle.make import envelope, make_card
from flashnerd_ext.bundle.store import save_bundle
from flashnerd_ext.model.registry import build_model
from flashnerd_ext.model.sensed import Sensed
from flashnerd_ext.robots.registry import get_robot

pytestmark = [pytest.mark.kitless, pytest.mark.slow]
CHILD = Path(__file__).with_name("legged_backend_child.py")


def bundle_at(path: Path) -> Path:
    """An untrained bundle of ANYmal-C with contact rows and sensed values, valid in a wide range."""
    robot = get_robot("anymal_c")
    assert robot.contacts is not None
    layout = robot.layout
    torch.manual_seed(0)
    options = {"width": 8, "hidden": 8, "heads": 2, "rows_capacity": robot.contacts.capacity}
    size = Sensed(layout, len(robot.links)).size
    model = build_model("flashnerd", layout, {**options, "links": len(robot.links), "sensed": size})
    rng = np.random.default_rng(0)
    q, qd = rng.uniform(-20, 20, (512, layout.nq)), rng.uniform(-50, 50, (512, layout.nv))
    q[:, 3:7] /= np.linalg.norm(q[:, 3:7], axis=1, keepdims=True)
    low, high = (np.array([robot.condition_range[name][i] for name in layout.conditions]) for i in (0, 1))
    reach = envelope(layout, q, qd, rng.uniform(-2, 2, (512, 12)), rng.uniform(low, high, (512, 4)))
    return save_bundle(path, model, make_card(robot=robot, model=model, envelope=reach, engine="mujoco", seed=0)).path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("legged")
    result, text = result_of(CHILD, bundle_at(folder / "bundle"), folder, cwd=folder)
    return {"text": text, **result}


def test_feet_at_the_ground_feel_the_predicted_force_and_nothing_else_does(run: dict[str, Any]) -> None:
    force, feet = np.array(run["force"]), np.array(run["feet"])
    assert feet.sum() == 4
    np.testing.assert_allclose(force[:3, feet], np.broadcast_to([0.0, 0.0, 100.0], (3, 4, 3)), atol=1e-3)
    # Exactly nothing, not a small number: rewards ask for more than 1 N.
    assert (force[:3, ~feet] == 0.0).all()
    assert (force[3:] == 0.0).all()


def test_contact_rows_reach_the_model(run: dict[str, Any]) -> None:
    # The reset starts 5 cm above the ground, beyond the gap; the pose that was written has the feet in it.
    assert all(count >= 4 for count in run["used"][:3])
    assert run["used"][3:] == [0, 0, 0]
    assert run["overflow"] == [0] * 6


def test_air_time_counts_control_steps_of_links_without_contact(run: dict[str, Any]) -> None:
    feet, (first, last) = np.array(run["feet"]), np.array(run["air"])
    assert (last[:3][:, feet] == 0.0).all()
    np.testing.assert_allclose((last - first)[3:], 4 * 0.02, atol=1e-5)


def test_targets_reach_the_model_and_its_mean_torque_is_the_applied_one(run: dict[str, Any]) -> None:
    assert run["targets_error"] < 1e-6
    np.testing.assert_allclose(run["torque"], 3.0, atol=1e-5)


def test_randomised_mass_reaches_the_model_without_a_warning(run: dict[str, Any]) -> None:
    """Covers F17: what the bundle is conditioned on is honoured."""
    ratio, condition = np.array(run["mass_ratio"]), np.array(run["condition"])
    assert np.ptp(ratio) > 0.02
    np.testing.assert_allclose(condition[:, 0], ratio, atol=1e-6)
    assert np.abs(condition[:, 1:3]).max() > 0.005
    assert run["clamped"] == 0
    assert "not conditioned" not in run["text"]


def test_a_push_is_seen_by_the_next_frame_and_keeps_the_past(run: dict[str, Any]) -> None:
    assert run["pushed"] < 1e-5
    assert run["past_kept"]
    assert run["finite"]
