"""Options of ``scripts/compare_training.py``, and what they mean for each physics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.evaluation.outputs import check_output

MODELS = ("nerd", "nerd_optimized")
"""Names in ``physics=[...]`` that are architectures of learned physics, not presets; each needs a bundle of a NeRD."""
LEARNED = ("flashnerd", *MODELS)
PRESET = "flashnerd"


def option(default: Any, text: str) -> Any:
    """A field with the help text that ``--help`` shows."""
    return field(default=default, metadata={"help": text})


@dataclass
class CompareConfig:
    """Options of ``scripts/compare_training.py``."""

    task: str = option("FlashNeRD-Cartpole", "task id")
    physics: list[str] = field(
        default_factory=lambda: ["newton_mjwarp", "nerd_optimized", "flashnerd"],
        metadata={"help": "presets of the task, and nerd or nerd_optimized: learned physics with that architecture"},
    )
    seeds: list[int] = field(default_factory=lambda: [0, 1, 2], metadata={"help": "training seeds, of every physics"})
    num_envs: int = option(512, "environments of each training")
    max_iterations: int = option(100, "PPO iterations of each training")
    bundles: dict[str, str] = field(
        default_factory=dict, metadata={"help": "physics -> bundle of learned physics; the task's where none is given"}
    )
    refresh: int = option(
        0, "iterations between refreshes of the learned world (train.py --refresh N); flashnerd alone"
    )
    refresh_options: list[str] = field(
        default_factory=list, metadata={"help": "refresh.KEY=VALUE words for these trainings"}
    )
    runs: dict[str, Any] = field(
        default_factory=dict, metadata={"help": "physics -> run folder, or a list of them: taken instead of training"}
    )
    evaluate: str = option("newton_mjwarp", "preset in which the final policies are evaluated; none leaves it out")
    eval_envs: int = option(256, "environments, and episodes, of the evaluation of a policy and evaluation seed")
    eval_seeds: list[int] = field(default_factory=lambda: [1000], metadata={"help": "evaluation seeds"})
    reach: float = option(
        90.0, "share of the best return (in the evaluation, where there is one) whose time is said [%]"
    )
    overrides: list[str] = field(default_factory=list, metadata={"help": "env. and agent. words for the task"})
    agent: str = option("rsl_rl_cfg_entry_point", "agent configuration of the task")
    device: str = option("", "cuda:0 where there is one, else cpu")
    jobs: int = option(1, "trainings that run at the same time; they take time from each other")
    out: str = option("", "folder of the runs; the name of json without its ending when empty")
    json: str = option("outputs/comparison.json", "result; a PNG and a text table lie beside it")

    @property
    def folder(self) -> Path:
        """Where trainings leave their runs."""
        return Path(self.out) if self.out else Path(self.json).with_suffix("")

    def check(self) -> None:
        """Refuse values that cannot work, and make bundles and runs absolute.

        Raises:
            FlashNerdError: Names the option, its value and what is needed.
        """
        if self.json in ("", "none"):
            raise FlashNerdError("json is empty, but a file is needed: type json=outputs/comparison.json.")
        check_output("json", self.json)
        for name, least in (("num_envs", 1), ("max_iterations", 1), ("eval_envs", 1), ("jobs", 1), ("refresh", 0)):
            if getattr(self, name) < least:
                raise FlashNerdError(f"{name} is {getattr(self, name)}, but at least {least} is needed.")
        if not 0.0 < self.reach <= 100.0:
            raise FlashNerdError(f"reach is {self.reach}, but a share above 0 and up to 100 is needed: type reach=90.")
        for name in ("seeds", "eval_seeds"):
            values = getattr(self, name)
            if not values or min(values) < 0 or len(set(values)) != len(values):
                raise FlashNerdError(f"{name} is {values}, but different numbers from 0 are needed: type {name}=[0,1].")
        if not self.physics or len(set(self.physics)) != len(self.physics):
            raise FlashNerdError(
                f"physics is {self.physics}, but different names are needed: type physics=[newton_mjwarp,flashnerd]."
            )
        if self.refresh and PRESET not in self.physics:
            raise FlashNerdError(
                f"refresh is {self.refresh}, but flashnerd alone is refreshed, not {self.physics}: type refresh=0."
            )
        if self.refresh_options and not self.refresh:
            raise FlashNerdError(f"refresh_options is {self.refresh_options}, but refresh is 0: type refresh=100.")
        for word in self.refresh_options:
            if not word.startswith("refresh.") or "=" not in word:
                raise FlashNerdError(f"refresh_options has '{word}', but refresh.KEY=VALUE is needed.")
        self._check_bundles()
        self._check_runs()

    def _check_bundles(self) -> None:
        for name, bundle in self.bundles.items():
            if name not in self.physics:
                raise FlashNerdError(f"bundles names '{name}', which is not compared: {nearest(name, self.physics)}")
            if name not in LEARNED:
                raise FlashNerdError(f"bundles.{name} is given, but {name} is not learned physics: leave it out.")
            if Path(bundle).exists():
                # Trainings run in folders of their own.
                self.bundles[name] = str(Path(bundle).resolve())
        for name in self.physics:
            if name in MODELS and name not in self.bundles and name not in self.runs:
                raise FlashNerdError(
                    f"physics has {name}, which needs a bundle of a NeRD, and none is shipped: train one "
                    f"(scripts/train_dynamics.py model=nerd) and type bundles='{{{name}: PATH}}', or leave it out."
                )

    def _check_runs(self) -> None:
        from flashnerd_ext.rl.compare.curve import events

        for name, given in self.runs.items():
            if name not in self.physics:
                raise FlashNerdError(f"runs names '{name}', which is not compared: {nearest(name, self.physics)}")
            folders = [given] if isinstance(given, str) else given
            if not isinstance(folders, Sequence) or not folders or not all(isinstance(item, str) for item in folders):
                raise FlashNerdError(f"runs.{name} is {given!r}, but a run folder or a list of them is needed.")
            for folder in folders:
                if not Path(folder).is_dir():
                    raise FlashNerdError(f"runs.{name} names {folder}, but there is no such folder: give run folders.")
                if not any(Path(folder).glob("model_*.pt")):
                    raise FlashNerdError(f"runs.{name} names {folder}, which has no model_*.pt: give run folders.")
                if not events(Path(folder)):
                    raise FlashNerdError(
                        f"runs.{name} names {folder}, which has no events.out.tfevents.* file: give the folder of a "
                        "run that was logged to TensorBoard."
                    )
            self.runs[name] = [str(Path(folder).resolve()) for folder in folders]


def words_of(config: CompareConfig, physics: str, seed: int) -> list[str]:
    """Command line of ``train.py`` for one training."""
    words = ["--task", config.task, "--agent", config.agent, "--seed", str(seed)]
    words += ["--num_envs", str(config.num_envs), "--max_iterations", str(config.max_iterations)]
    words += ["--device", config.device] if config.device else []
    words += [f"physics={PRESET if physics in LEARNED else physics}"]
    if physics in MODELS:
        words.append(f"env.sim.physics.solver_cfg.model={physics}")
    if physics in config.bundles:
        words.append(f"env.sim.physics.solver_cfg.bundle={config.bundles[physics]}")
    if physics == PRESET and config.refresh:
        words += ["--refresh", str(config.refresh), *config.refresh_options]
    return [*words, *config.overrides]


def facts_of(config: CompareConfig, physics: str, seed: int) -> Mapping[str, Any]:
    """What decides a training: a finished one of the same facts is not repeated."""
    facts: dict[str, Any] = {"words": words_of(config, physics, seed), "bundle_hash": ""}
    if physics in config.bundles:
        from flashnerd_ext.bundle.store import load_bundle

        facts["bundle_hash"] = load_bundle(config.bundles[physics]).hash
    return facts
