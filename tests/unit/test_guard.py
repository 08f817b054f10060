"""The guard on its own: what it lets through, what it holds, what it writes down. No simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from flashnerd_ext.bundle.card import Card
from flashnerd_ext.bundle.example import WALKER, example_model_and_card
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.solver.dump import SLOW_EVERY, GuardDump
from flashnerd_ext.solver.guard import Bounds, GuardStage, card_bounds

BOUNDS = Bounds(("x.pos", "y.pos", "x.vel", "y.vel"), (-1.0, -3.0e38, -2.0, -2.0), (3.0, 3.0e38, 2.0, 2.0))
NAN, INF = float("nan"), float("inf")


class Bench:
    """A guard with N worlds that stand at zero, and a step that proposes states."""

    def __init__(self, worlds: int, history: int = 4) -> None:
        self.guard = GuardStage(BOUNDS, worlds, 1, history, "cpu")
        self.state = torch.zeros(worlds, 4)
        self.good = torch.ones(worlds, dtype=torch.bool)
        self.steps = 0

    def step(self, proposal: torch.Tensor, command: torch.Tensor | None = None) -> None:
        command = torch.zeros(len(self.state), 1) if command is None else command
        self.guard.record(self.state, command)
        self.guard.hold(self.state, self.good, proposal[:, :2], proposal[:, 2:])
        self.steps += 1


def dump_to(folder: Path, keep: int = 16) -> GuardDump:
    return GuardDump(folder, keep, {"bundle": "test"}, ("x.pos", "y.pos", "x.vel", "y.vel", "x.act"))


@pytest.mark.parametrize(
    ("value", "held"),
    [
        ([3.0, 1e9, -2.0, 2.0], False),
        ([3.01, 0.0, 0.0, 0.0], True),
        ([-1.01, 0.0, 0.0, 0.0], True),
        ([0.0, 0.0, 2.5, 0.0], True),
        ([NAN, 0.0, 0.0, 0.0], True),
        ([0.0, NAN, 0.0, 0.0], True),
        ([0.0, INF, 0.0, 0.0], True),
        ([0.0, -INF, 0.0, 0.0], True),
        ([0.0, 0.0, 0.0, -INF], True),
    ],
)
def test_holds_what_is_outside_or_not_finite(value: list[float], held: bool) -> None:
    bench = Bench(2)
    proposal = torch.tensor([[0.5, 0.5, 0.5, 0.5], value])
    bench.step(proposal)
    assert bench.guard.failed.tolist() == [False, held]
    assert torch.equal(bench.state[0], proposal[0])
    assert torch.equal(bench.state[1], torch.zeros(4) if held else proposal[1])
    assert torch.isfinite(bench.state).all()


def test_a_held_world_keeps_its_last_good_state_and_goes_on_after() -> None:
    bench = Bench(1)
    for value in (0.1, 0.2, NAN, NAN, 0.3):
        bench.step(torch.full((1, 4), value))
        if value != value:
            assert bench.state[0, 0] == pytest.approx(0.2)
    assert bench.state[0, 0] == pytest.approx(0.3)
    assert bench.guard.total.tolist() == [2]
    assert bench.guard.pending.tolist() == [True]
    bench.guard.cleared(torch.tensor([0], dtype=torch.int32))
    assert bench.guard.pending.tolist() == [False]


def test_card_bounds_widen_the_envelope_and_leave_free_coordinates_open() -> None:
    card = example_model_and_card(WALKER)[1]
    bounds, tight, layout = card_bounds(card, 0.25), card_bounds(card, 0.0), card.layout
    state = card.envelope.state
    assert tight.lower[7:] == state.min[7:]
    for i in range(7, layout.nq + layout.nv):
        width = state.max[i] - state.min[i]
        assert bounds.upper[i] == pytest.approx(state.max[i] + 0.25 * width)
        assert bounds.lower[i] == pytest.approx(state.min[i] - 0.25 * width)
    assert all(value > 1e30 for value in bounds.upper[:7]), "a free base may stand anywhere"


def test_continuous_joints_may_wind_up() -> None:
    bounds = card_bounds(example_model_and_card("cartpole")[1], 0.25)
    names = list(bounds.names)
    assert bounds.upper[names.index("cart_to_pole.pos")] > 1e30
    assert bounds.upper[names.index("slider_to_cart.pos")] < 10.0


def test_a_constant_dimension_still_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    card: Card = example_model_and_card("cartpole")[1]
    ranges = card.envelope.state
    flat = dataclasses.replace(ranges, min=(0.0,) * 4, max=(0.0,) * 4)
    card = card.replace(envelope=dataclasses.replace(card.envelope, state=flat))
    assert card_bounds(card, 0.25).upper[0] > 0.0


@pytest.mark.parametrize("margin", [-0.1, NAN, INF])
def test_a_senseless_margin_is_refused(margin: float) -> None:
    with pytest.raises(FlashNerdError, match=r"guard_margin is .* number from 0 up"):
        card_bounds(example_model_and_card("cartpole")[1], margin)


def test_f05_the_dump_holds_the_offending_worlds_not_the_first(tmp_path: Path) -> None:
    bench = Bench(64)
    for i in range(6):
        bench.step(torch.full((64, 4), 0.1 * i), torch.full((64, 1), float(i)))
    proposal = torch.full((64, 4), 0.7)
    proposal[63, 2] = NAN
    proposal[40, 0] = 9.0
    bench.step(proposal, torch.full((64, 1), 6.0))
    folder = dump_to(tmp_path).report(bench.guard, 7)
    assert folder is not None
    assert (tmp_path / "latest").resolve() == folder.resolve()
    report = json.loads((tmp_path / "latest" / "report.json").read_text())
    assert report["worlds"] == [40, 63]
    assert report["model_step"] == 7
    assert report["causes"]["63"] == "the prediction is not finite"
    assert report["causes"]["40"] == "x.pos would be 9, outside of [-1, 3]"
    with np.load(folder / "history.npz", allow_pickle=False) as data:
        assert data["worlds"].tolist() == [40, 63]
        assert data["names"].tolist() == ["x.pos", "y.pos", "x.vel", "y.vel", "x.act"]
        # Four steps are kept, oldest first; the last row is what the failing prediction was made from.
        assert data["history"].shape == (2, 4, 5)
        assert data["history"][:, :, 4].tolist() == [[3.0, 4.0, 5.0, 6.0]] * 2
        np.testing.assert_allclose(data["history"][1, :, 0], [0.2, 0.3, 0.4, 0.5], rtol=1e-6)
        assert np.isnan(data["rejected"][1, 2])


def test_causes_tell_commands_and_written_states_apart(tmp_path: Path) -> None:
    bench = Bench(3)
    bench.good[1] = False
    command = torch.zeros(3, 1)
    command[2] = INF
    bench.step(torch.full((3, 4), NAN), command)
    folder = dump_to(tmp_path).report(bench.guard, 1)
    assert folder is not None
    causes = json.loads((folder / "report.json").read_text())["causes"]
    assert causes == {
        "0": "the prediction is not finite",
        "1": "the state written to the simulation is not finite",
        "2": "the commanded actuation is not finite",
    }


def test_f16_dumps_are_bounded_in_number_and_rate(tmp_path: Path) -> None:
    bench, dump = Bench(4), dump_to(tmp_path, keep=3)
    bench.step(torch.full((4, 4), NAN))
    steps = [*range(1, 200), 200 + SLOW_EVERY, 201 + SLOW_EVERY]
    written = [step for step in steps if dump.report(bench.guard, step) is not None]
    assert written == [1, 2, 3, 200 + SLOW_EVERY]
    folders = sorted(p.name for p in tmp_path.iterdir() if p.is_dir() and not p.is_symlink())
    assert folders == ["step-000000002", "step-000000003", f"step-{200 + SLOW_EVERY:09d}"]
    assert (tmp_path / "latest" / "report.json").is_file()
    assert dump.events == len(steps)


def test_no_dump_is_written_when_none_is_wanted(tmp_path: Path) -> None:
    bench = Bench(1)
    bench.step(torch.full((1, 4), NAN))
    assert dump_to(tmp_path / "none", keep=0).report(bench.guard, 1) is None
    assert not (tmp_path / "none").exists()


def test_a_disk_that_cannot_be_written_does_not_stop_the_simulation(tmp_path: Path, caplog: Any) -> None:
    bench = Bench(1)
    bench.step(torch.full((1, 4), NAN))
    (tmp_path / "file").write_text("in the way")
    assert dump_to(tmp_path / "file").report(bench.guard, 1) is None
    assert "could not be written" in caplog.text


def test_warned_once_counted_always(tmp_path: Path, caplog: Any) -> None:
    bench, dump = Bench(2), dump_to(tmp_path)
    for step in range(1, 6):
        bench.step(torch.full((2, 4), NAN))
        dump.report(bench.guard, step)
    assert sum("guard held" in record.message for record in caplog.records if record.levelname == "WARNING") == 1
    assert bench.guard.total.tolist() == [5, 5]


def test_buffers_stay_where_they_are() -> None:
    bench = Bench(8)
    guard = bench.guard
    places = [t.data_ptr() for t in vars(guard).values() if isinstance(t, torch.Tensor)]
    size = guard.nbytes
    for i in range(12):
        bench.step(torch.rand(8, 4) * (NAN if i == 5 else 1.0))
    assert [t.data_ptr() for t in vars(guard).values() if isinstance(t, torch.Tensor)] == places
    assert guard.nbytes == size


def test_a_history_of_nothing_is_refused() -> None:
    with pytest.raises(FlashNerdError, match="guard_history is 0, but at least 1"):
        GuardStage(BOUNDS, 1, 1, 0, "cpu")


def test_failures_between_two_reports_are_dumped_as_they_happened(tmp_path: Path) -> None:
    """F05: a control step holds several model steps, and the failing one need not be the last of them."""
    bench, dump = Bench(3, history=3), dump_to(tmp_path)
    bad = {1: (2, NAN), 3: (0, 9.0), 4: (2, INF)}
    for i in range(6):
        proposal = torch.full((3, 4), 0.1 * (i + 1))
        if i in bad:
            proposal[bad[i][0], 0] = bad[i][1]
        bench.step(proposal, torch.full((3, 1), float(i)))
    assert not bench.guard.failed.any()
    assert bench.guard.caught.tolist() == [True, False, True]
    folder = dump.report(bench.guard, 6)
    assert folder is not None
    report = json.loads((folder / "report.json").read_text())
    assert report["failed_at"] == {"0": 4, "2": 2}
    assert report["causes"] == {
        "0": "x.pos would be 9, outside of [-1, 3]",
        "2": "the prediction is not finite",
    }
    with np.load(folder / "history.npz", allow_pickle=False) as data:
        commands = data["history"][:, :, 4]
        # Steps 3 to 5 are kept, and the sight of each world's own failure.
        np.testing.assert_array_equal(commands, [[NAN, NAN, 3.0], [NAN, NAN, 1.0]])
        assert data["rejected"][0, 0] == 9.0 and np.isnan(data["rejected"][1, 0])
    bench.guard.reported()
    bench.step(torch.zeros(3, 4))
    assert not bench.guard.caught.any()
