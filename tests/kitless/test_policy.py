"""The policy commands as a user types them, from a folder of their own, with a small bundle and few environments."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import forked, fresh

pytest.importorskip("isaaclab")
pytestmark = [pytest.mark.kitless, pytest.mark.slow]

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
NORMALISED = "agent.actor.obs_normalization=true"


@dataclass
class Result:
    code: int
    out: str
    err: str

    def clean_refusal(self) -> str:
        """The one sentence on stderr; fails where there is more to it."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert self.code == 2 and len(lines) == 1, self.err[-2000:]
        assert "Traceback" not in self.out + self.err
        return lines[0]


class Desk:
    """A folder in which commands are typed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def script(self, name: str, *words: object, start: Callable[..., Any] = fresh) -> Result:
        """A script of this repository; ``start=forked`` where another test starts it as a user does."""
        environment = {key: value for key, value in os.environ.items() if key != "DISPLAY"}
        done = start(SCRIPTS / name, *words, cwd=self.folder, env=environment)
        return Result(done.returncode, done.stdout, done.stderr)

    def latest(self) -> Path:
        return max(self.folder.glob("logs/rsl_rl/cartpole/*"), key=lambda path: path.stat().st_mtime)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("desk"))


@pytest.fixture(scope="module")
def trained(desk: Desk) -> Path:
    """Run folder of six iterations (0 to 5) on the stock task, with the command line of Isaac Lab 2.x."""
    done = desk.script(
        "rsl_rl/train.py",
        *("--headless", "--task", "Isaac-Cartpole", "--num_envs", 8, "--max_iterations", 6, "--seed", 3),
        *("physics=newton_mjwarp", NORMALISED),
    )
    assert done.code == 0, done.err[-3000:]
    assert done.err.count("--headless is deprecated") == 1
    return desk.latest()


def load(path: Path) -> dict[str, Any]:
    from flashnerd_ext.rl.checkpoint import read_checkpoint

    return read_checkpoint(path)


def test_manifest_names_the_physics(trained: Path) -> None:
    manifest = json.loads((trained / "run.json").read_text())
    assert manifest["task"] == "Isaac-Cartpole"
    assert manifest["metadata"].items() >= {"physics": "newton_mjwarp", "bundle": "none", "bundle_hash": "none"}.items()


def test_resume_goes_on(desk: Desk, trained: Path) -> None:
    done = desk.script(
        "rsl_rl/train.py",
        *("--task", "Isaac-Cartpole", "--num_envs", 8, "--max_iterations", 2, "--checkpoint", trained / "model_5.pt"),
        *("physics=newton_mjwarp", NORMALISED),
        start=forked,
    )
    assert done.code == 0, done.err[-3000:]
    assert f"resuming from {trained / 'model_5.pt'} at iteration 6, 768 steps so far" in done.out
    before, after = load(trained / "model_5.pt"), load(desk.latest() / "model_7.pt")
    assert (before["iter"], after["iter"]) == (5, 7)
    steps = [max(float(s["step"]) for s in item["optimizer_state_dict"]["state"].values()) for item in (before, after)]
    assert steps == [6 * 20, 8 * 20]  # 5 epochs of 4 mini-batches an iteration
    counts = [int(item["actor_state_dict"]["obs_normalizer.count"]) for item in (before, after)]
    assert counts[1] - counts[0] == 2 * 16 * 8 and counts[0] == 6 * 16 * 8
    states = [item["infos"]["flashnerd"] for item in (before, after)]
    assert [state["total_steps"] for state in states] == [768, 1024]
    kept = states[0]["returns"]
    assert kept and states[1]["returns"][: len(kept)] == kept
    assert not np.array_equal(states[0]["random"]["torch"], states[1]["random"]["torch"])


def test_play_in_other_physics_warns_exports_and_ends(desk: Desk, trained: Path, tiny_bundle: Any) -> None:
    done = desk.script(
        "rsl_rl/play.py",
        *("--task", "Isaac-Cartpole", "--num_envs", 4, "--checkpoint", trained / "model_5.pt", "--steps", 5),
        *("physics=flashnerd", f"env.sim.physics.solver_cfg.bundle={tiny_bundle.path}", NORMALISED),
    )
    assert done.code == 0, done.err[-3000:]
    assert "trained under: physics=newton_mjwarp" in done.out
    assert "playing under: physics=flashnerd" in done.out and tiny_bundle.hash[:16] in done.out
    warning = next(line for line in done.out.splitlines() if line.startswith("warning: the policy was trained in"))
    assert "physics newton_mjwarp -> flashnerd" in warning and "type physics=newton_mjwarp" in warning
    assert "played 5 steps." in done.out
    for name in ("policy.pt", "policy.onnx"):
        assert (trained / "exported" / name).is_file()
        assert f"exported/{name}; largest difference to the runner's actions" in done.out


@pytest.mark.parametrize("source", ["newton_gl", "warp_camera"])
def test_clip_without_a_display(desk: Desk, trained: Path, source: str) -> None:
    import imageio.v2 as imageio

    from flashnerd_ext.rl.video import egl_problem

    if source == "newton_gl" and (problem := egl_problem()):
        pytest.skip(f"no off-screen OpenGL: {problem}")
    done = desk.script(
        "rsl_rl/play.py",
        *("--task", "Isaac-Cartpole", "--num_envs", 1, "--checkpoint", trained / "model_5.pt", "--video"),
        *("--video_length", 12, "--video_source", source, "physics=newton_mjwarp", NORMALISED),
        start=forked,
    )
    assert done.code == 0, done.err[-3000:]
    clip = max((trained / "videos" / "play").glob("*.mp4"), key=lambda path: path.stat().st_mtime)
    assert f"clip: {clip}" in done.out
    reader: Any = imageio.get_reader(clip)
    frames = [frame.astype(int) for frame in reader]
    assert len(frames) == 12 and frames[0].shape[0] % 16 == 0 and frames[0].shape[1] % 16 == 0
    assert frames[0].mean() > 20 and frames[0].std() > 5
    assert np.abs(frames[-1] - frames[0]).max() > 40  # the pole moved


def test_other_network_is_named(desk: Desk, trained: Path) -> None:
    refusal = desk.script(
        "rsl_rl/play.py",
        *("--task", "Isaac-Cartpole", "--num_envs", 2, "--checkpoint", trained / "model_5.pt", "--steps", 1),
        *("physics=newton_mjwarp", NORMALISED, "agent.actor.hidden_dims=[8]"),
        start=forked,
    ).clean_refusal()
    assert "agent.actor.hidden_dims=[32,32]" in refusal and "(32, 4) in the file and (8, 4)" in refusal


def test_transfer_table(desk: Desk, trained: Path, tiny_bundle: Any) -> None:
    policies = f"{{flashnerd: {trained / 'model_0.pt'}, newton_mjwarp: [{trained / 'model_5.pt'}]}}"
    done = desk.script(
        "evaluate_policy.py",
        *("task=Isaac-Cartpole", f"policies={policies}", f"bundle={tiny_bundle.path}", "num_envs=4", "episodes=8"),
        *("modes=[mean]", "json=table.json"),
    )
    assert done.code == 0, done.err[-3000:]
    content = json.loads((desk.folder / "table.json").read_text())
    cells = {(cell["trained"], cell["evaluated"]): cell for cell in content["cells"]}
    names = ("flashnerd", "newton_mjwarp")
    assert set(cells) == {(a, b) for a in names for b in names}
    assert all(cell["episodes"] == 8 and cell["length"] <= content["max_steps"] == 300 for cell in cells.values())
    assert content["physics"]["flashnerd"]["bundle_hash"] == tiny_bundle.hash
    assert content["physics"]["newton_mjwarp"]["bundle"] == "none"
    # Another policy, and another simulator, must show.
    assert len({round(cell["return"], 6) for cell in cells.values()}) == 4
    assert (desk.folder / "table.png").stat().st_size > 5000 and "evaluated in newton_mjwarp" in done.out


WRONG = [
    ("--task Isaac-Cartpol", "did you mean Isaac-Cartpole"),
    ("--task Isaac-Cartpole physics=newton_mjwrap", "did you mean newton_mjwarp"),
    ("--task Isaac-Cartpole agent.max_itarations=5", "did you mean max_iterations"),
    ("--task Isaac-Cartpole agent.max_iterations=five", "int is needed"),
    ("--task Isaac-Cartpole agent.actor=mlp", "would replace a whole section"),
    ("--task Isaac-Cartpole foo.bar=1", "a key begins with one of"),
    ("--task Isaac-Cartpole ~agent.seed", "would delete a setting"),
    ("--task Isaac-Cartpole --maxiterations 3", "not an option"),
    ("--task Isaac-Cartpole env.sim.dt=0", "env.sim.dt is 0"),
    ("--task Isaac-Cartpole agent.algorithm.learning_rate=1e999", "not finite"),
    ("--task Isaac-Cartpole --agent rsl_rl_cfg", "has no agent configuration"),
    ("--task Isaac-Cartpole physics=newton_mjwarp env.sim.physics.solver_cfg.bundle=x", "has no effect here"),
    ("--task Isaac-Cartpole physics=ovphysx --video", "need Newton physics"),
    ("--task Isaac-Cartpole physics=newton_mjwarp --refresh 5", "type physics=flashnerd"),
    ("--task Isaac-Cartpole physics=flashnerd refresh.steps=9", "type --refresh 100"),
    ("--task Isaac-Cartpole physics=flashnerd --refresh 5 refresh.data=/nowhere", "no data set"),
    ("--task Isaac-Cartpole physics=flashnerd env.sim.physics.solver_cfg.bundle=/nowhere", "'/nowhere' does not exist"),
]


def test_wrong_words_get_one_sentence(tmp_path: Path) -> None:
    """In one process, since every start of Isaac Lab costs seconds; the exit code is that of ``cli_main``."""
    (tmp_path / "wrong.py").write_text(f"""
import sys, json
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl.command import train
for line, expected in {WRONG!r}:
    sys.argv = ["train.py"]
    try:
        train([*line.split(), "--num_envs", "2", "--max_iterations", "1"])
    except FlashNerdError as error:
        print("SENTENCE", json.dumps([line, expected, str(error)]))
""")
    done = forked(tmp_path / "wrong.py", cwd=tmp_path)
    assert done.returncode == 0 and "Traceback" not in done.stdout + done.stderr, done.stderr[-3000:]
    found = [
        json.loads(line.removeprefix("SENTENCE ")) for line in done.stdout.splitlines() if line.startswith("SENTENCE")
    ]
    assert [item[0] for item in found] == [line for line, _ in WRONG]
    for line, expected, sentence in found:
        assert expected in sentence and "\n" not in sentence, (line, sentence)
    assert not (tmp_path / "logs").exists()  # nothing was begun


def test_unreadable_checkpoint_and_missing_file(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "model_1.pt").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    words = ("--task", "Isaac-Cartpole", "--num_envs", 1, "--checkpoint", tmp_path / "model_1.pt")
    refusal = desk.script("rsl_rl/play.py", *words, start=forked).clean_refusal()
    assert "Git LFS pointer" in refusal
