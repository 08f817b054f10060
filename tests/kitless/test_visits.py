"""States that a model visits, labelled by the simulator; typed as a user types it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from forked import forked, fresh

pytest.importorskip("newton")

from flashnerd_ext.data.dataset import load_trajectories
from flashnerd_ext.data.engines.exported import ExportedModel
from flashnerd_ext.data.engines.mujoco_c import MujocoC
from flashnerd_ext.data.visits import spliced
from flashnerd_ext.robots.registry import get_robot

pytestmark = [pytest.mark.kitless, pytest.mark.slow]
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small data set, and the states that the shipped bundle visits from its starts."""
    folder = tmp_path_factory.mktemp("visits")
    splits = ("train=16", "train_steps=6", "val=2", "val_steps=6", "test=0")
    made = forked(SCRIPTS / "dataset.py", "robot=anymal_c", *splits, cwd=folder)
    assert made.returncode == 0, made.stderr[-2000:]
    words = ("rollouts=12", "horizon=10", "every=3", "length=3", "val=0.25")
    done = fresh(SCRIPTS / "visited_states.py", "robot=anymal_c", "out=visited", *words, cwd=folder)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return folder


def test_labels_are_the_simulators(folder: Path) -> None:
    robot = get_robot("anymal_c")
    data = load_trajectories(folder / "visited", "train", robot)
    engine = MujocoC(ExportedModel.load(folder / "visited"))
    i, t = np.nonzero(data.valid)
    assert len(i) >= 9 * 3
    engine.set_worlds(data.extra["condition"][i], data.extra["friction"][i])
    q, qd = engine.step(data.joint_q[i, t], data.joint_qd[i, t], data.actuation[i, t])
    # Inputs were stored in full, so that the step comes out to the last bits.
    np.testing.assert_allclose(q, data.joint_q[i, t + 1], atol=1e-9)
    np.testing.assert_allclose(qd, data.joint_qd[i, t + 1], atol=1e-6)
    np.testing.assert_allclose(engine.torque, data.extra["torque"][i, t], atol=1e-4)


def test_states_are_the_models_and_not_the_datas(folder: Path) -> None:
    robot = get_robot("anymal_c")
    seen, base = (load_trajectories(folder / name, "train", robot) for name in ("visited", "data/anymal_c"))
    known = base.joint_qd.reshape(-1, robot.layout.nv)
    nearest = min(np.abs(known - state).max(1).min() for state in seen.joint_qd[:, 0])
    assert nearest > 1e-3
    assert len(load_trajectories(folder / "visited", "val", robot).valid) > 0


def test_commands_go_on_as_others_of_their_sampler(folder: Path) -> None:
    data = load_trajectories(folder / "data/anymal_c", "train", get_robot("anymal_c"))
    chosen = np.arange(5)
    found = spliced(data, chosen, 15, np.random.default_rng(0))
    assert found.shape == (15, 5, 12)
    np.testing.assert_array_equal(found[:6], data.actuation[chosen].transpose(1, 0, 2))
    for n in chosen:
        same = data.actuation[data.sampler == data.sampler[n]]
        assert (np.abs(same - found[6:12, n]).max((1, 2)) == 0).any()


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("out=", "out is empty"),
        ("val=1.5", "val is 1.5"),
        ("every=0", "every is 0"),
        ("robot=cartpole", "touches nothing"),
    ],
)
def test_wrong_words_are_refused_with_a_sentence(folder: Path, word: str, says: str) -> None:
    done = forked(SCRIPTS / "visited_states.py", "robot=anymal_c", "out=other", word, cwd=folder)
    assert done.returncode != 0 and says in done.stderr and "Traceback" not in done.stderr
