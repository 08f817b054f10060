"""Cutting recorded steps into trajectories, scoring episodes, and bins of commands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from flashnerd_ext.data.dataset import load_trajectories
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl.record.commands import BINS, assign, bins_of, check_bins, force_bins, reachable
from flashnerd_ext.rl.record.cut import cut
from flashnerd_ext.rl.record.folder import splits_of
from flashnerd_ext.rl.record.moment import Moment
from flashnerd_ext.rl.record.program import RecordConfig, checkpoints, robot_of
from flashnerd_ext.rl.record.scores import EpisodeBook, from_json, summarise, to_json
from flashnerd_ext.robots.registry import get_robot

CARTPOLE = get_robot("cartpole")


def moments(steps: int, worlds: int, seed: int = 0) -> list[Moment]:
    """A stream without jumps: each step begins with what the one before ended with."""
    rng = np.random.default_rng(seed)
    q = rng.uniform(-1, 1, (steps + 1, worlds, 2)).astype(np.float32)
    qd = rng.uniform(-1, 1, (steps + 1, worlds, 2)).astype(np.float32)
    return [
        Moment(
            q[t], qd[t], q[t + 1], qd[t + 1], np.full((worlds, 1), t, np.float32), np.zeros((worlds, 1), np.float32),
            np.zeros((worlds, 0, 3), np.float32), np.zeros((worlds, 0), np.float32), np.ones(worlds, np.float32),
            np.zeros(worlds, bool),
        )
        for t in range(steps)
    ]  # fmt: skip


def test_a_stream_without_jumps_is_cut_by_length_alone() -> None:
    stream = moments(10, 3)
    pieces = cut(CARTPOLE, stream, 4)
    assert len(pieces.world) == 9 and pieces.jumps == 0 and pieces.dropped == 0
    q, valid = pieces.columns["joint_q"], pieces.columns["valid"]
    assert valid.sum() == 30 and valid.sum(1).tolist() == [4, 4, 2] * 3
    for i, world in enumerate(pieces.world):
        begin = 4 * (i % 3)
        for t in range(valid[i].sum()):
            assert np.array_equal(q[i, t], stream[begin + t].q0[world])
            assert np.array_equal(q[i, t + 1], stream[begin + t].q1[world])
            assert pieces.columns["actuation"][i, t, 0] == begin + t


@pytest.mark.parametrize("name", ["q0", "qd0"])
def test_a_written_state_begins_a_new_trajectory(name: str) -> None:
    """A reset (position) and a push (velocity alone), in one world of three: no window holds the jump."""
    stream = moments(8, 3)
    written = getattr(stream[5], name).copy()
    written[1, 0] = np.nextafter(written[1, 0], 2.0)  # The smallest change there is.
    stream[5] = replace(stream[5], **{name: written})
    pieces = cut(CARTPOLE, stream, 8)
    assert pieces.jumps == 1
    assert pieces.columns["valid"].sum(1)[pieces.world == 1].tolist() == [5, 3]
    assert pieces.columns["valid"].sum(1)[pieces.world != 1].tolist() == [8, 8]
    first = np.flatnonzero(pieces.world == 1)[0]
    assert np.array_equal(pieces.columns["joint_q"][first, 5], stream[4].q1[1])
    # Where nothing was written the same stream is one trajectory: the comparison can fail.
    assert cut(CARTPOLE, moments(8, 3), 8).columns["valid"].all()


def test_external_forces_broken_states_and_lone_steps_are_left_out() -> None:
    stream = moments(8, 2)
    stream[3] = replace(stream[3], pushed=np.array([True, False]))
    pieces = cut(CARTPOLE, stream, 8)
    assert pieces.columns["valid"].sum(1)[pieces.world == 0].tolist() == [3, 4] and pieces.dropped == 1
    broken = moments(4, 1)
    for t, name in ((2, "q1"), (3, "q0")):
        broken[t] = replace(broken[t], **{name: np.full((1, 2), np.nan, np.float32)})
    pieces = cut(CARTPOLE, broken, 4)
    assert pieces.columns["valid"].sum() == 2 and pieces.dropped == 1  # the last step stands alone
    beyond = moments(4, 1)
    beyond[1].q1[0, 0] = beyond[2].q0[0, 0] = 5.0  # off the rail
    assert cut(CARTPOLE, beyond, 4).columns["valid"].tolist() == [[True, False, False, False]]


def test_bins_of_commands() -> None:
    table = {
        "stand": (0.05, 0.0, 0.02), "turn": (0.1, 0.1, -0.6), "forward": (1.0, 0.4, 0.2), "backward": (-0.5, 0.1, 0.0),
        "left": (0.1, 0.6, 0.1), "right": (-0.2, -0.9, 0.5),
    }  # fmt: skip
    assert [BINS[i] for i in bins_of(np.array(list(table.values())))] == list(table)
    groups = np.arange(20) % 2
    chosen = assign({"forward": 1.0, "stand": 3.0}, groups)
    for group in (0, 1):
        assert np.bincount(chosen[groups == group], minlength=6).tolist() == [7, 0, 3, 0, 0, 0] or np.bincount(
            chosen[groups == group], minlength=6
        ).tolist() == [8, 0, 2, 0, 0, 0]
    assert (assign({}, groups) == -1).all()
    with pytest.raises(FlashNerdError, match="did you mean forward"):
        check_bins({"forwards": 1.0})
    with pytest.raises(FlashNerdError, match="every share as 0"):
        check_bins({"forward": 0.0})


class Term:
    """The part of Isaac Lab's velocity command that bins need; forward only, as some tasks have it."""

    def __init__(self, worlds: int) -> None:
        ranges = SimpleNamespace(lin_vel_x=(0.3, 1.0), lin_vel_y=(-0.1, 0.1), ang_vel_z=(-1.0, 1.0))
        self.cfg, self.num_envs, self.device = SimpleNamespace(ranges=ranges), worlds, "cpu"
        self.vel_command_b = torch.full((worlds, 3), 9.0)
        self.is_heading_env = torch.ones(worlds, dtype=torch.bool)
        self.is_standing_env = torch.zeros(worlds, dtype=torch.bool)
        self.drawn: list[object] = []

    def _resample_command(self, env_ids: object) -> None:
        self.drawn.append(env_ids)


def test_worlds_draw_within_their_bin() -> None:
    term = Term(6)
    assert reachable(term) == ["stand", "turn", "forward"]
    names = ["stand", "turn", "forward", "forward"]
    undo = force_bins(term, [BINS.index(name) for name in names] + [-1, -1])
    term._resample_command(torch.tensor([0, 1, 2, 4]))
    assert [BINS[i] for i in bins_of(term.vel_command_b[:3].numpy())] == names[:3]
    assert (term.vel_command_b[3:] == 9.0).all()  # not asked for, or the task's own
    assert term.is_standing_env.tolist() == [True] + [False] * 5
    assert term.is_heading_env.tolist() == [False, False, False, True, True, True]
    undo()
    term._resample_command(slice(None))
    assert (term.vel_command_b[3:] == 9.0).all() and len(term.drawn) == 2
    with pytest.raises(FlashNerdError, match="never give it"):
        force_bins(term, [BINS.index("backward")] * 6)


def test_episodes_are_scored_once_a_world_and_by_bin() -> None:
    book = EpisodeBook(np.array([0, 0, 1, 1]), np.zeros(4, bool), 1, 0.1)
    command = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    q, qd = np.zeros((4, 7)), np.zeros((4, 6))
    q[:, 6] = 1.0
    qd[0, 0] = 0.5
    for t in range(5):
        q[1, 0] = 0.02 * t  # drifts at 0.2 m/s
        ended = np.array([t in (2, 4), False, False, False])
        late = np.array([False, False, t == 3, False])
        book.add(np.full(4, 1.0 + t), ended, late, (q, qd), command, np.ones(4))
    episodes = book.finish()
    # World 0 fell twice, and its first episode alone counts.
    assert [(e.world, e.score, e.steps, e.end, e.bin) for e in episodes] == [
        (0, 6.0, 3, "fell", "forward"), (1, 15.0, 5, "cut", "stand"), (2, 10.0, 4, "time", "forward"),
        (3, 15.0, 5, "cut", "stand"),
    ]  # fmt: skip
    assert episodes[0].tracking_error == pytest.approx(0.5) and episodes[2].tracking_error == pytest.approx(1.0)
    assert episodes[1].drift == pytest.approx(0.2) and episodes[3].drift == 0.0 and episodes[0].drift is None
    facts = summarise(episodes)
    assert facts["episodes"] == 4 and facts["return"] == pytest.approx(11.5) and facts["falls"] == 0.25
    assert facts["bins"]["forward"]["falls"] == 0.5 and facts["bins"]["stand"]["drift"] == pytest.approx(0.1)
    low, high = facts["interval"]
    assert low < 11.5 < high
    assert from_json(to_json(episodes)) == episodes


def test_a_robot_that_turns_is_measured_in_its_own_frame() -> None:
    """Facing left (+y) and moving along +y is moving forward."""
    book = EpisodeBook(np.zeros(1, int), np.zeros(1, bool), 1, 0.1)
    q, qd = np.zeros((1, 7)), np.zeros((1, 6))
    q[0, 5:7] = np.sqrt(0.5)
    qd[0, :2] = 0.0, 1.0
    book.add(np.ones(1), np.zeros(1, bool), np.zeros(1, bool), (q, qd), np.array([[1.0, 0.0, 0.0]]), np.ones(1))
    assert book.finish()[0].tracking_error == pytest.approx(0.0, abs=1e-6)


def test_splits_share_no_world() -> None:
    groups = np.arange(20) % 4
    splits = splits_of(groups, 0.2, 0.1)
    assert [len(splits[name]) for name in ("train", "val", "test")] == [14, 4, 2]
    assert sorted(np.concatenate(list(splits.values())).tolist()) == list(range(20))
    assert sorted(groups[splits["val"]].tolist()) == [0, 1, 2, 3]  # each group is held out in turn


def test_options_and_names(tmp_path: Path) -> None:
    for changes, sentence in (
        ({"out": ""}, "out is empty"),
        ({"noise": [-1.0]}, "noise is"),
        ({"val": 1.0}, "train needs one"),
        ({"physics": "flashnerd"}, "record=false"),
        ({"bins": {"sideways": 1.0}}, "not a bin"),
    ):
        with pytest.raises(FlashNerdError, match=sentence):
            replace(RecordConfig(policy="x", out=str(tmp_path)), **changes).check()
    for name in ("model_2.pt", "model_10.pt", "model_best.pt"):
        (tmp_path / name).touch()
    assert checkpoints(str(tmp_path))[0].name == "model_10.pt"
    with pytest.raises(FlashNerdError, match="does not exist"):
        checkpoints([str(tmp_path / "model_3.pt")])
    assert robot_of("Isaac-Cartpole").name == "cartpole"
    with pytest.raises(FlashNerdError, match="did you mean Isaac-Cartpole"):
        robot_of("Isaac-Cartpol")


def test_a_written_folder_is_a_data_set(tmp_path: Path) -> None:
    pytest.importorskip("mujoco")
    from flashnerd_ext.rl.record.folder import Source, write_folder

    model_of = pytest.importorskip("flashnerd_ext.data.engines.exported").ExportedModel
    xml = (
        "<mujoco><worldbody><body name='cart'><joint name='slider_to_cart' type='slide' axis='1 0 0'/>"
        "<geom size='.1'/><body name='pole'><joint name='cart_to_pole' axis='0 1 0'/><geom size='.1'/></body></body>"
        "</worldbody></mujoco>"
    )
    names = CARTPOLE.layout.joint_names
    model = model_of(
        "cartpole", "cartpole@test", xml, {}, names, (0, 1), (0, 1), "effort", (0,), CARTPOLE.sim_dt, 2, {}
    )
    pieces = cut(CARTPOLE, moments(9, 10), 4)
    source = Source("newton_mjwarp", "1", 3, "made here", {"0-a-x0": "mean", "0-a-x1": "noise"}, {"task": "t"})
    write_folder(tmp_path, CARTPOLE, model, pieces, np.arange(10) % 2, source, splits_of(np.arange(10) % 2, 0.2, 0.0))
    train, val = (load_trajectories(tmp_path, split, CARTPOLE) for split in ("train", "val"))
    # The lone ninth step of each world is left out.
    assert (train.transitions, val.transitions) == (64, 16) and train.meta["samplers"] == ["0-a-x0", "0-a-x1"]
    assert set(np.unique(train.sampler)) == {0, 1} and train.meta["engine"] == "newton_mjwarp"
    with pytest.raises(FlashNerdError, match="empty split 'test'"):
        load_trajectories(tmp_path, "test", CARTPOLE)
