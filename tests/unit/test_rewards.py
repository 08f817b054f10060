"""The table of reward terms, recorded motions, and the oracle that answers with them; without a simulator."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.sensed import Sensed
from flashnerd_ext.rl.rewards import table
from flashnerd_ext.rl.rewards.actions import check_motions, sampled_targets
from flashnerd_ext.rl.rewards.child import Ends
from flashnerd_ext.rl.rewards.motion import Motion, Seen
from flashnerd_ext.rl.rewards.oracle import Oracle
from flashnerd_ext.rl.rewards.program import RewardsConfig, recorded
from flashnerd_ext.robots.registry import get_robot

ROBOT = get_robot("anymal_c")
STEPS, WORLDS, LINKS = 3, 4, len(ROBOT.links)


def motion(seed: int = 0) -> Motion:
    rng = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(size=(STEPS, WORLDS, *shape)).astype(np.float32)

    def states() -> np.ndarray:
        q = draw(19)
        q[..., 3:7] /= np.linalg.norm(q[..., 3:7], axis=-1, keepdims=True)
        return q

    flags = rng.random((2, STEPS, WORLDS)) < 0.3
    return Motion(
        draw(12), states(), draw(18), states(), draw(18), draw(12), draw(LINKS, 3), flags[0], flags[1]
    )  # fmt: skip


def seen(**change: Any) -> Seen:
    rewards = np.tile(np.array([1.0, -2.0, 0.0, 0.0], np.float32), (STEPS, WORLDS, 1))
    first = Seen(
        ("track", "torque", "off", "touch"),
        np.array([1.0, -0.5, 0.0, -1.0]),
        rewards,
        ("time_out", "base_contact"),
        np.zeros((STEPS, WORLDS, 2), bool),
        np.zeros((STEPS, WORLDS, 3), np.float32),
        {"joint_acc": np.ones((STEPS, WORLDS, 12), np.float32)},
    )
    return replace(first, **change)


def test_files_give_back_what_was_recorded(tmp_path: Path) -> None:
    first = motion()
    again = Motion.load(first.save(tmp_path / "motion.npz"))
    for name in ("action", "q0", "qd1", "force", "terminated"):
        np.testing.assert_array_equal(getattr(again, name), getattr(first, name))
    assert (again.steps, again.worlds) == (STEPS, WORLDS)
    read = Seen.load(seen().save(tmp_path / "seen.npz"))
    assert read.terms == seen().terms and read.ends == seen().ends and read.signals.keys() == {"joint_acc"}
    np.testing.assert_array_equal(read.rewards, seen().rewards)
    with pytest.raises(FlashNerdError, match="has no 'action'"):
        Motion.load(tmp_path / "seen.npz")
    for content in (b"", b"PK\x03\x04 no archive", (tmp_path / "seen.npz").read_bytes()[:200]):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(FlashNerdError, match="not a recorded motion"):
            Seen.load(tmp_path / "bad.npz")


def test_table_says_which_terms_differ() -> None:
    rewards = seen().rewards.copy()
    rewards[..., 1] *= 1.03  # three per cent more of a penalty
    rewards[0, :, 0] += 0.5
    rewards[1, :, 0] -= 0.5  # the mean stays, single steps do not
    rewards[0, 0, 3] = -1.0  # a contact that the simulator does not have
    rows = {row.term: row for row in table.compare(seen(), seen(rewards=rewards), 2.0)}
    assert list(rows) == ["track", "torque", "touch"]  # weights of 0 are left out
    assert rows["track"].within and rows["track"].difference == pytest.approx(0.0, abs=1e-6)
    assert rows["track"].each == pytest.approx(100 / 3)
    assert not rows["torque"].within and rows["torque"].difference == pytest.approx(-3.0, abs=1e-4)
    assert not rows["touch"].within and rows["touch"].difference is None
    whole = table.total(list(rows.values()), 2.0)
    assert whole.simulator == pytest.approx(-1.0) and whole.learned == pytest.approx(-1.06 - 1 / 12, abs=1e-4)
    assert all(row.within for row in table.compare(seen(), seen(rewards=rewards), 3.5) if row.term != "touch")


def test_other_motions_are_refused() -> None:
    with pytest.raises(FlashNerdError, match="one task and motion"):
        table.compare(seen(), seen(terms=("track", "torque", "off", "other")), 2.0)
    with pytest.raises(FlashNerdError, match=r"commands differ by 0\.5"):
        table.compare(seen(), seen(command=np.full((STEPS, WORLDS, 3), 0.5, np.float32)), 2.0)


def test_endings_and_signals() -> None:
    ended = np.zeros((STEPS, WORLDS, 3), bool)
    ended[0, 0, 1] = ended[1, :, 2] = True
    other = seen(ended=ended, ends=("time_out", "base_contact", "flashnerd_guard"))
    rows = table.endings(seen(), other)
    assert [row["term"] for row in rows] == ["time_out", "base_contact"]  # the simulator has no guard
    assert rows[1]["learned"] == pytest.approx(100 / 12) == rows[1]["disagree"] and rows[1]["simulator"] == 0.0
    louder = seen(signals={"joint_acc": np.full((STEPS, WORLDS, 12), 3.0), "alone": np.zeros((STEPS, WORLDS))})
    assert table.signals(seen(), louder) == [{"signal": "joint_acc", "simulator": 1.0, "learned": 3.0, "apart": 2.0}]


def oracle(recorded_motion: Motion) -> tuple[Oracle, Any]:
    layout = ROBOT.layout
    size = Sensed(layout, LINKS).size
    stepper = SimpleNamespace(
        model=SimpleNamespace(layout=layout, sensed=size), sensed=torch.full((WORLDS, size), float("nan"))
    )
    return Oracle(stepper, recorded_motion, LINKS), stepper


def test_oracle_answers_each_step_with_what_was_recorded() -> None:
    first = motion()
    answer, stepper = oracle(first)
    sensed = Sensed(ROBOT.layout, LINKS)
    found = (torch.zeros(0), torch.zeros(0))
    for t in range(STEPS):
        q, qd = torch.from_numpy(first.q0[t]), torch.from_numpy(first.qd0[t])
        found = answer.step(q, qd, torch.zeros(WORLDS, 12))
        np.testing.assert_array_equal(found[0], first.q1[t])
        np.testing.assert_array_equal(found[1], first.qd1[t])
        # What sensors make of the outputs is what was recorded.
        np.testing.assert_allclose(sensed.forces(q, stepper.sensed), first.force[t], atol=1e-5)
        np.testing.assert_allclose(sensed.torques(stepper.sensed), first.torque[t], atol=1e-6)
    with pytest.raises(FlashNerdError, match="has 3 steps, but step 3"):
        answer.step(*found, torch.zeros(WORLDS, 12))


def test_oracle_is_asked_about_the_recorded_motion_alone() -> None:
    first = motion()
    answer, _ = oracle(first)
    q, qd = torch.from_numpy(first.q0[0]), torch.from_numpy(first.qd0[0]).clone()
    qd[2, 5] += 0.01
    with pytest.raises(FlashNerdError, match=r"at step 0 world 2 has joint_qd\[5\]"):
        answer.step(q, qd, torch.zeros(WORLDS, 12))
    qd[2, 5] = float("nan")
    with pytest.raises(FlashNerdError, match="world 2"):
        answer.step(q, qd, torch.zeros(WORLDS, 12))


def test_episodes_end_where_they_ended_in_the_recording() -> None:
    first = motion()

    class Manager:
        def __init__(self) -> None:
            self._terminated_buf, self._truncated_buf = torch.zeros(2, WORLDS, dtype=torch.bool)
            self.computed = 0

        def compute(self) -> None:
            self.computed += 1
            self._terminated_buf[:] = True

        @property
        def dones(self) -> torch.Tensor:
            return self._terminated_buf | self._truncated_buf

    manager = Manager()
    ends = Ends(SimpleNamespace(termination_manager=manager), first)
    for t in range(STEPS):
        ends.step_number = t
        dones: Any = manager.compute()
        np.testing.assert_array_equal(dones, first.terminated[t] | first.timed_out[t])
        np.testing.assert_array_equal(manager._truncated_buf, first.timed_out[t])
    assert manager.computed == STEPS  # terms are still computed, since they are compared


def test_samplers_give_actions_in_equal_shares() -> None:
    q, qd = np.zeros((8, 19)), np.zeros((8, 18))
    targets = sampled_targets(ROBOT, ["stand", "gait"], 8, 30, seed=3)
    moved = np.abs(np.diff([targets(t, q, qd) for t in range(30)], axis=0)).max((0, 2))
    assert (moved > 1e-6).sum() == 4  # standing worlds hold their targets
    first, again = (sampled_targets(ROBOT, ["stand", "gait"], 8, 30, seed=3)(0, q, qd)[:4] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    with pytest.raises(FlashNerdError, match="did you mean stand"):
        check_motions(ROBOT, ["stnd"])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"task": "Isaac-Nowhere"}, "no robot of the registry"),
        ({"json": ""}, "json is empty"),
        ({"num_envs": 0}, "num_envs is 0"),
        ({"steps": 0}, "steps is 0"),
        ({"tolerance": -1.0}, "tolerance is -1"),
        ({"tolerance": float("nan")}, "tolerance is nan"),
        ({"learned": "newton_mjwarp"}, "two are compared"),
        ({"policy": "x.pt", "motions": ["gait"]}, "one gives the actions"),
        ({"policy": "/nowhere.pt"}, "does not exist"),
        ({"motions": ["gallop"]}, "motions has 'gallop'"),
    ],
)
def test_wrong_options_get_one_sentence(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    with pytest.raises(FlashNerdError, match=match):
        RewardsConfig(**{"json": str(tmp_path / "r.json"), **change}).check()


def test_a_kept_motion_is_taken_again_for_the_same_options_alone(tmp_path: Path) -> None:
    config = RewardsConfig(folder=str(tmp_path))
    assert not recorded(config, tmp_path)
    for name in ("simulator.npz", "motion.npz"):
        (tmp_path / name).touch()
    (tmp_path / "record.json").write_text(json.dumps(vars(config)))
    assert recorded(config, tmp_path)
    with pytest.raises(FlashNerdError, match="holds a motion of steps=250, but steps=9"):
        recorded(replace(config, steps=9), tmp_path)


def test_text_has_every_part() -> None:
    rows = table.compare(seen(), seen(), 2.0)
    content = {
        "task": "T", "steps": STEPS, "num_envs": WORLDS, "simulator": "newton_mjwarp", "learned": "flashnerd",
        "tolerance": 2.0, "terms": table.to_json(rows), "total": table.to_json([table.total(rows, 2.0)])[0],
        "endings": table.endings(seen(), seen()), "signals": table.signals(seen(), seen()),
    }  # fmt: skip
    text = table.text(content)
    for word in ("track", "base_contact", "joint_acc", "sum of all terms", "within 2 %"):
        assert word in text
    assert "NO" not in text
