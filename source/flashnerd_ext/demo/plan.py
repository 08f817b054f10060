"""The demo's stages: which script, with which options, leaves which files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashnerd_ext.demo.stages import Stage
from flashnerd_ext.errors import FlashNerdError


def _option(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass
class DemoConfig:
    """Options of ``scripts/demo.py``."""

    out: str = _option("demo", "folder for the report, the clip, the logs and all results")
    fresh: bool = _option(False, "do finished stages again; --fresh is the same")
    seed: int = _option(0, "seed of the training, the test data and the evaluation")
    num_envs: int = _option(512, "environments in the policy's training")
    iterations: int = _option(70, "PPO iterations")
    eval_envs: int = _option(256, "episodes in each simulator when the policy is tested")
    test_trajectories: int = _option(400, "trajectories of 200 steps that test the dynamics model")
    speed_batches: list[int] = field(
        default_factory=lambda: [16, 1024], metadata={"help": "batch sizes of the model-only benchmark"}
    )
    speed_envs: list[int] = field(
        default_factory=lambda: [64, 1024], metadata={"help": "environment counts of the simulator benchmark"}
    )

    def check(self) -> None:
        """Refuse what no stage could use.

        Raises:
            FlashNerdError: With the option, its value and what is needed.
        """
        for name in ("num_envs", "iterations", "eval_envs", "test_trajectories"):
            if getattr(self, name) < 1:
                raise FlashNerdError(
                    f"{name} is {getattr(self, name)}, but at least 1 is needed: type {name}=1 or more."
                )
        for name in ("speed_batches", "speed_envs"):
            values = getattr(self, name)
            if not values or min(values) < 1:
                raise FlashNerdError(f"{name} is {values}, but whole numbers from 1 are needed: type {name}=[16,1024].")
        if self.seed < 0:
            raise FlashNerdError(f"seed is {self.seed}, but 0 or more is needed: type seed=0.")
        folder = Path(self.out)
        if not self.out or (folder.exists() and not folder.is_dir()):
            raise FlashNerdError(f"out is '{self.out}', but a folder is needed: type out=demo.")


@dataclass(frozen=True)
class Files:
    """Where the stages leave what the report shows."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def dynamics(self) -> Path:
        return self.folder / "dynamics.json"

    @property
    def model_speed(self) -> Path:
        return self.folder / "model_speed.json"

    @property
    def env_speed(self) -> Path:
        return self.folder / "env_speed.json"

    @property
    def policies(self) -> Path:
        return self.folder / "policies.json"

    @property
    def training(self) -> Path:
        """Working folder of the policy's training: Isaac Lab writes ``logs/rsl_rl/...`` below it."""
        return self.folder / "policy"

    @property
    def clip(self) -> Path:
        return self.folder / "policy.mp4"

    @property
    def report(self) -> Path:
        return self.folder / "report.html"

    def checkpoint(self) -> Path | None:
        """The last checkpoint of the newest training run, or None before there is one."""
        found = self.training.glob("logs/rsl_rl/*/*/model_*.pt")
        return max(found, key=lambda path: (path.parent.name, int(path.stem.split("_")[1])), default=None)

    def recorded(self) -> Path | None:
        """The newest clip that play recorded beside the checkpoint."""
        checkpoint = self.checkpoint()
        if checkpoint is None:
            return None
        found = checkpoint.parent.glob("videos/play/**/*.mp4")
        return max(found, key=lambda path: path.stat().st_mtime, default=None)


TASK = "FlashNeRD-Cartpole"
BUNDLE = "cartpole"


def cartpole(config: DemoConfig, repo: Path) -> tuple[list[Stage], Files]:
    """Stages of the CartPole demo, in order, and where they leave their files."""
    files = Files(Path(config.out).resolve())
    scripts = repo / "scripts"
    weights = repo / "source" / "flashnerd_ext" / "bundle" / "shipped" / BUNDLE / "weights.safetensors"

    def script(name: str, *words: str) -> list[str]:
        return [sys.executable, str(scripts / name), *words]

    def stage(name: str, title: str, command: Sequence[str], output: Path, after: Sequence[str] = ()) -> Stage:
        return Stage(name, title, lambda: list(command), lambda: [output], inputs=[weights], after=after)

    def checkpoint() -> str:
        path = files.checkpoint()
        if path is None:
            raise FlashNerdError(f"no checkpoint is below {files.training}: type make demo ARGS=--fresh.")
        return str(path)

    seed, trajectories = str(config.seed), config.test_trajectories
    # Another seed than any training data has, so that these states were never seen.
    test_seed = str(900_000 + config.seed)
    stages = [
        stage(
            "data",
            "test data from MuJoCo",
            script(
                "dataset.py",
                f"robot={BUNDLE}",
                f"out={files.data}",
                "train=0",
                "val=0",
                "balance=0",
                f"test={trajectories}",
                f"seed={test_seed}",
            ),
            files.data / "dataset.json",
        ),
        stage(
            "dynamics",
            "error of the learned dynamics",
            script("evaluate_dynamics.py", f"robot={BUNDLE}", f"data={files.data}", f"json={files.dynamics}"),
            files.dynamics,
            after=["data"],
        ),
        stage(
            "model-speed",
            "speed of the models alone",
            script(
                "benchmark.py",
                "what=model",
                f"robot={BUNDLE}",
                f"batch={_list(config.speed_batches)}",
                # Compiling each model takes longer than the rest of the demo; the README's table has it.
                *("dtype=[float32]", "compiled=[false]", "equal_size=false", "rounds=3"),
                f"json={files.model_speed}",
            ),
            files.model_speed,
        ),
        stage(
            "env-speed",
            "speed of the whole simulator",
            script(
                "benchmark.py",
                "what=env",
                "task=Isaac-Cartpole",
                f"num_envs={_list(config.speed_envs)}",
                "rounds=3",
                f"json={files.env_speed}",
            ),
            files.env_speed,
        ),
        Stage(
            "train",
            "PPO in learned physics",
            lambda: script(
                "rsl_rl/train.py",
                *("--task", TASK, "--num_envs", str(config.num_envs)),
                *("--max_iterations", str(config.iterations), "--seed", seed, "--device", "cpu"),
                "physics=flashnerd",
            ),
            lambda: _there(files.checkpoint()),
            inputs=[weights],
            cwd=files.training,
        ),
        Stage(
            "policy",
            "the policy in FlashNeRD and in MuJoCo Warp",
            lambda: script(
                "evaluate_policy.py",
                f"task={TASK}",
                f'policies={{flashnerd:"{checkpoint()}"}}',
                "physics=[flashnerd,newton_mjwarp]",
                "modes=[mean]",
                f"num_envs={config.eval_envs}",
                f"episodes={config.eval_envs}",
                f"seeds=[{seed}]",
                "device=cpu",
                f"json={files.policies}",
            ),
            lambda: [files.policies],
            inputs=[weights],
            after=["train"],
        ),
        Stage(
            "clip",
            "a clip of the policy",
            lambda: script(
                "rsl_rl/play.py",
                *("--task", TASK, "--checkpoint", checkpoint(), "--num_envs", "9"),
                *("--video", "--video_length", "240", "--device", "cpu"),
                "physics=flashnerd",
            ),
            lambda: _there(files.recorded()),
            inputs=[weights],
            after=["train"],
            cwd=files.training,
        ),
    ]
    return stages, files


def _list(values: Sequence[int]) -> str:
    return "[" + ",".join(str(value) for value in values) + "]"


def _there(path: Path | None) -> list[Path]:
    return [] if path is None else [path]
