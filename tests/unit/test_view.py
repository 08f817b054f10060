"""What a comparison says of two robots, how its ghosts are stepped, and what ``--viz`` answers."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.robots.registry import get_robot
from flashnerd_ext.solver.guard import Bounds, GuardStage
from flashnerd_ext.view.choose import as_options, default_viewing, viewer_name
from flashnerd_ext.view.comparison import HELD, INSIDE, OUTSIDE, VERDICTS, Moment, differences, prepare
from flashnerd_ext.view.ghost import GhostStepper

DISPLAY = {"DISPLAY": ":0"}


class Learned:
    """A stepper that adds the actuation to the first velocity and 1 to every position."""

    def __init__(self, worlds: int) -> None:
        self.num_worlds = worlds
        self.model = SimpleNamespace(sensed=0)
        self.condition = torch.zeros((worlds, 0))
        self.forgotten: list[torch.Tensor | None] = []

    def reset(self, mask: torch.Tensor | None = None) -> None:
        self.forgotten.append(None if mask is None else mask.clone())

    def step(self, joint_q: Any, joint_qd: Any, actuation: Any, rows: Any = None) -> Any:
        return joint_q + 1.0, joint_qd + actuation


class Engine:
    """A simulator that adds 100 to every position and hands the actuation back as velocity."""

    def __init__(self, model: Any, workers: int) -> None:
        self.worlds: Any = None

    def set_worlds(self, condition: np.ndarray, friction: np.ndarray | None) -> None:
        self.worlds = (condition, friction)

    def step(self, joint_q: np.ndarray, joint_qd: np.ndarray, actuation: np.ndarray) -> Any:
        return joint_q + 100.0, np.repeat(actuation, 2, 1)


@pytest.fixture
def make_ghost(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("flashnerd_ext.data.engines.export.export_model", lambda robot: None)
    monkeypatch.setattr("flashnerd_ext.data.engines.mujoco_c.MujocoC", Engine)
    return lambda mode="policy", worlds=4, **more: GhostStepper(Learned(worlds), get_robot("cartpole"), mode, **more)


def states(worlds: int = 4) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    q = torch.arange(2.0 * worlds).view(worlds, 2)
    return q, q * 0.1, torch.arange(float(worlds))[:, None]


def test_a_ghost_starts_where_its_robot_is_and_goes_on_from_itself(make_ghost: Any) -> None:
    ghost = make_ghost()
    q, qd, u = states()
    first, velocity = ghost.step(q, qd, u)
    assert torch.equal(first[:2], q[:2] + 1.0)
    # The start of its robot, and its robot's command.
    assert torch.equal(first[2:], q[:2] + 100.0)
    assert torch.equal(velocity[2:, 0], u[:2, 0])
    second, velocity = ghost.step(first, velocity, u)
    assert torch.equal(second[2:], q[:2] + 200.0)
    assert torch.equal(velocity[2:, 0], u[2:, 0])
    assert ghost.restarts.tolist() == [1, 1]


def test_the_same_actions_reach_both_in_that_mode(make_ghost: Any) -> None:
    ghost = make_ghost("actions")
    q, qd, u = states()
    for _ in range(2):
        q, qd = ghost.step(q, qd, u)
        assert torch.equal(qd[2:, 0], u[:2, 0])


@pytest.mark.parametrize("world", [1, 3])
def test_a_pair_begins_anew_when_one_of_the_two_does(make_ghost: Any, world: int) -> None:
    ghost = make_ghost()
    q, qd, u = states()
    q, qd = ghost.step(q, qd, u)
    mask = torch.zeros(4, dtype=torch.bool)
    mask[world] = True
    ghost.reset(mask)
    after, _ = ghost.step(q, qd, u)
    assert torch.equal(after[3], q[1] + 100.0)
    assert torch.equal(after[2], q[2] + 100.0)
    # A ghost that falls does not cost the learned robot its past.
    assert torch.equal(ghost.learned.forgotten[-1], mask)


def test_ghosts_are_as_heavy_and_their_ground_as_slippery(make_ghost: Any) -> None:
    ghost = make_ghost(friction=lambda: torch.tensor([0.3, 0.7, 1.0, 1.0]))
    ghost.learned.condition = torch.tensor([[0.1], [0.2], [0.0], [0.0]])
    ghost.step(*states())
    condition, friction = ghost.engine.worlds
    np.testing.assert_allclose(condition, [[0.1], [0.2]])
    np.testing.assert_allclose(friction, [0.3, 0.7])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"worlds": 3}, "3 worlds"),
        ({"mode": "polcy"}, "did you mean policy"),
        ({"engine": "physx"}, "type --compare mujoco_c"),
    ],
)
def test_ghosts_that_cannot_be_are_refused(make_ghost: Any, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(FlashNerdError, match=expected):
        make_ghost(**options)


def test_differences_know_angles_quaternions_and_units() -> None:
    layout = get_robot("cartpole").layout
    one, other = np.array([[0.5, 0.1], [0.0, np.pi - 0.05]]), np.array([[0.2, 0.1], [0.0, -np.pi + 0.05]])
    found = differences(layout, one, other)
    np.testing.assert_allclose(found["slides [m]"], [0.3, 0.0], atol=1e-12)
    np.testing.assert_allclose(found["joints [rad]"], [0.0, 0.1], atol=1e-12)
    layout = get_robot("anymal_c").layout
    one, other = np.zeros((1, layout.nq)), np.zeros((1, layout.nq))
    # The same turn with the other sign, and a quarter turn more about z.
    one[0, 3:7], other[0, 3:7] = [0, 0, 0, -1], [0, 0, np.sin(np.pi / 4), np.cos(np.pi / 4)]
    one[0, :3] = [3.0, 0.0, 4.0]
    found = differences(layout, one, other)
    assert found["base [m]"].tolist() == [5.0] and "slides [m]" not in found
    np.testing.assert_allclose(found["turn [rad]"], np.pi / 2, atol=1e-6)


def test_exempt_worlds_are_held_only_where_they_are_not_finite() -> None:
    bounds = Bounds(("q", "v"), (-1.0, -1.0), (1.0, 1.0))
    guard = GuardStage(bounds, 3, 1, 2, "cpu")
    guard.exempt(torch.tensor([False, True, True]))
    good = torch.ones(3, dtype=torch.bool)
    guard.check(good, torch.tensor([[5.0], [5.0], [float("nan")]]), torch.zeros((3, 1)))
    assert guard.failed.tolist() == [True, False, True]
    # Bounds of another bundle leave it so.
    guard.take(Bounds(("q", "v"), (-9.0, -1.0), (9.0, 1.0)))
    guard.check(good, torch.tensor([[5.0], [50.0], [0.0]]), torch.zeros((3, 1)))
    assert guard.failed.tolist() == [False, False, False]


def test_viewers_go_by_short_names_and_say_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashnerd_ext.view.choose.find_spec", lambda name: object() if name == "viser" else None)
    assert viewer_name("newton", DISPLAY) == "newton_gl"
    assert viewer_name("viser,newton_gl", DISPLAY) == "viser,newton_gl"
    assert viewer_name("none", {}) == "none"
    for text, expected in (
        ("newton", "no display"),
        ("kit", "Isaac Sim"),
        ("rerun", "pip install"),
        ("vizer", "viser"),
    ):
        with pytest.raises(FlashNerdError, match=expected):
            viewer_name(text, {})
    assert default_viewing({}) == ["--video"]
    assert default_viewing({"WAYLAND_DISPLAY": "wayland-0"}) == ["--viz", "newton_gl"]


def moments(verdict: int) -> deque[Moment]:
    one = np.ones(1)
    return deque(
        Moment(0.1 * i, {"base [m]": 1e-3 * i * one}, np.array([verdict]), np.array([4]), np.array([i == 1]))
        for i in range(1, 30)
    )


def test_the_panel_shows_verdict_and_error() -> None:
    from flashnerd_ext.view.panel import WIDTH, Panel

    history: deque[Moment] = deque()
    panel = Panel(history, "policy", True, 272)
    pictures = {"empty": panel.draw()}
    for verdict in (INSIDE, OUTSIDE, HELD):
        history.clear()
        history.extend(moments(verdict))
        pictures[VERDICTS[verdict]] = panel.draw()
    assert all(picture.shape == (272, WIDTH, 3) and picture.dtype == np.uint8 for picture in pictures.values())
    seen = {picture.tobytes() for picture in pictures.values()}
    assert len(seen) == 4
    # The curve is ink on white below the text.
    assert (pictures[VERDICTS[INSIDE]][110:] < 80).all(-1).sum() > (pictures["empty"][110:] < 80).all(-1).sum() + 20


def test_play_shows_something_unless_it_is_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    from flashnerd_ext.rl.command import _viewing

    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert _viewing(["--task", "T"], "play", None) == ["--task", "T", "--video"]
    assert _viewing(["--task", "T"], "play", "5") == ["--task", "T"]
    assert _viewing(["--task", "T"], "train", None) == ["--task", "T"]
    assert _viewing(["--viz=none", "--video"], "play", None) == ["--video", "--viz", "none"]
    assert _viewing(["--visualizer", "viser"], "play", None) == ["--viz", "viser"]


def test_compare_makes_a_world_for_each_ghost() -> None:
    from flashnerd_ext.rl.command import _take_compare

    words = ["--task", "T", "--num_envs", "3", "--compare", "mujoco_c"]
    assert _take_compare(words, "play") == (["--task", "T", "--num_envs", "6"], ("mujoco_c", "policy"))
    assert _take_compare(["--compare=mujoco_c", "--compare_mode=actions"], "play")[1] == ("mujoco_c", "actions")
    assert _take_compare(["--task", "T"], "train") == (["--task", "T"], None)
    for wrong, action, expected in (
        (["--compare", "bullet"], "play", "mujoco_c"),
        (["--compare", "mujoco_c"], "train", "belongs to play"),
        (["--compare_mode", "actions"], "play", "needs --compare"),
        (["--compare", "mujoco_c", "--compare_mode", "action"], "play", "did you mean actions"),
    ):
        with pytest.raises(FlashNerdError, match=expected):
            _take_compare(wrong, action)


def test_our_other_commands_take_the_same_flags() -> None:
    assert as_options(["robot=ant", "--video", "--viz", "viser"]) == ["robot=ant", "video=true", "viz=viser"]
    assert as_options(["--viz=none", "--help"]) == ["viz=none", "--help"]


def test_what_differs_from_world_to_world_is_left_out() -> None:
    noisy = SimpleNamespace(enable_corruption=True)
    push, reset = SimpleNamespace(mode="interval"), SimpleNamespace(mode="reset")
    cfg = SimpleNamespace(
        events=SimpleNamespace(push=push, reset=reset), observations=SimpleNamespace(policy=noisy, critic=None)
    )
    left_out = prepare(cfg)
    assert cfg.events.push is None and cfg.events.reset is reset and not noisy.enable_corruption
    assert left_out == ["event push", "noise of the observations policy"]
    assert prepare(SimpleNamespace()) == []


def test_arrows_stand_on_contacts_and_point_from_the_ground_to_the_robot() -> None:
    from flashnerd_ext.view.overlay import ARROW, NEAR, TOUCHING, contact_arrows

    half = np.sqrt(0.5)
    # Two robots, the second a ghost; the first stands at (5, 0, 1) and looks along y.
    root = torch.tensor([[5.0, 0.0, 1.0, 0.0, 0.0, half, half], [9.0, 9.0, 9.0, 0.0, 0.0, 0.0, 1.0]])
    features = torch.zeros((2, 3, 12))
    features[0, 0, :7] = torch.tensor([1.0, 0.0, -1.0, 0.0, 0.0, 1.0, -0.001])
    features[0, 1, :7] = torch.tensor([0.0, 1.0, -1.0, 1.0, 0.0, 0.0, 0.01])
    rows = SimpleNamespace(features=features, used=torch.tensor([[True, True, False], [True, True, True]]))
    comparison: Any = SimpleNamespace(
        pairs=1, ghost=SimpleNamespace(rows=rows), solver=SimpleNamespace(frame=SimpleNamespace(joint_q=root))
    )
    found = contact_arrows(comparison)
    assert found is not None
    starts, tips, colors = found
    np.testing.assert_allclose(starts, [[5.0, 1.0, 0.0], [4.0, 0.0, 0.0]], atol=1e-6)
    np.testing.assert_allclose(tips - starts, [[0.0, 0.0, ARROW], [0.0, ARROW, 0.0]], atol=1e-6)
    np.testing.assert_allclose(colors, [TOUCHING, NEAR], atol=1e-6)
    rows.used[:] = False
    assert [len(x) for x in contact_arrows(comparison) or ()] == [0, 0, 0]


def test_sensors_of_a_ghost_read_what_the_simulator_felt(make_ghost: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    robot = get_robot("anymal_c")
    links, layout = len(robot.links), robot.layout

    class Feeling(Engine):
        def step(self, joint_q: np.ndarray, joint_qd: np.ndarray, actuation: np.ndarray) -> Any:
            self.force, self.torque = np.zeros((1, links, 3)), np.full((1, layout.nu), 7.0)
            self.force[:, 2] = [0.0, 30.0, 0.0]
            return joint_q, joint_qd

    monkeypatch.setattr("flashnerd_ext.data.engines.mujoco_c.MujocoC", Feeling)
    learned = Learned(2)
    learned.model = SimpleNamespace(sensed=3 * links + layout.nu)
    learned.sensed = torch.full((2, 3 * links + layout.nu), -1.0)
    ghost = GhostStepper(learned, robot)
    q = torch.zeros((2, layout.nq))
    # A quarter turn about z: a force along the world's y is along the robot's x.
    q[:, 3:7] = torch.tensor([0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)])
    learned.step = lambda *_: (q, torch.zeros((2, layout.nv)))  # type: ignore[method-assign]
    ghost.step(q, torch.zeros((2, layout.nv)), torch.zeros((2, layout.nu)))
    assert (learned.sensed[0] == -1.0).all()
    forces = learned.sensed[1, : 3 * links].view(links, 3)
    torch.testing.assert_close(forces[2], torch.tensor([30.0, 0.0, 0.0]), atol=1e-4, rtol=0.0)
    assert (learned.sensed[1, 3 * links :] == 7.0).all() and float(forces.abs().sum()) < 30.01
