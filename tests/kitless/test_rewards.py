"""Each reward term of a walking task on one motion: terms of the state are the same to the last digits, others near."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import forked, fresh

pytest.importorskip("isaaclab")

pytestmark = [pytest.mark.kitless, pytest.mark.slow]
SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "evaluate_rewards.py"
WORDS = ("task=FlashNeRD-Velocity-Flat-AnymalC", "num_envs=6", "motions=[gait,explore]", "json=rewards.json")
SHORT = "overrides=['env.episode_length_s=0.5']"


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path, str]:
    folder = tmp_path_factory.mktemp("rewards")
    # Episodes of 25 steps: motions must stay the same across resets.
    done = fresh(SCRIPT, *WORDS, "steps=60", "folder=kept", SHORT, cwd=folder, timeout=1800)
    assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-3000:]
    return json.loads((folder / "rewards.json").read_text()), folder, done.stdout


STATE_TERMS = (
    "track_lin_vel_xy_exp", "track_ang_vel_z_exp", "lin_vel_z_l2", "ang_vel_xy_l2", "dof_acc_l2", "action_rate_l2",
    "flat_orientation_l2",
)  # fmt: skip


def test_terms_of_the_state_are_the_simulators(compared: tuple[dict[str, Any], Path, str]) -> None:
    rows = {row["term"]: row for row in compared[0]["terms"]}
    assert set(STATE_TERMS) | {"dof_torques_l2", "feet_air_time", "undesired_contacts"} == set(rows)
    for name in STATE_TERMS:
        assert rows[name]["simulator"] != 0.0
        assert abs(rows[name]["difference"]) < 0.01 and rows[name]["each"] < 0.05, rows[name]


def test_torques_and_contacts_are_near(compared: tuple[dict[str, Any], Path, str]) -> None:
    content, folder, text = compared
    rows = {row["term"]: row for row in content["terms"]}
    assert abs(rows["dof_torques_l2"]["difference"]) < 3.0
    signals = {row["signal"]: row for row in content["signals"]}
    torque = signals["applied_torque"]
    motion = np.load(folder / "kept" / "motion.npz")
    seen = np.load(folder / "kept" / "simulator.npz")
    mean = np.sqrt(np.square(motion["torque"] - seen["signal.applied_torque"]).mean())
    # Nearer to what the simulator shows than the mean over the step is, on the same motion.
    assert torque["apart"] < 0.8 * mean and torque["simulator"] > 1.0
    assert motion["timed_out"].any(1).sum() == 2
    assert "dof_torques_l2" in text and "sum of all terms" in text


def test_a_kept_motion_is_not_recorded_again(compared: tuple[dict[str, Any], Path, str]) -> None:
    _, folder, _ = compared
    done = forked(SCRIPT, *WORDS, "steps=61", "folder=kept", SHORT, cwd=folder)
    assert done.returncode == 2 and "holds a motion of steps=60" in done.stderr and "Traceback" not in done.stderr
