"""``scripts/evaluate_rewards.py``: records a motion in the simulator, replays it in learned physics, compares terms."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.evaluation.outputs import check_output, writing
from flashnerd_ext.files import write_json
from flashnerd_ext.rl.children import PROGRESS, follow
from flashnerd_ext.rl.rewards import table
from flashnerd_ext.rl.rewards.child import MOTION
from flashnerd_ext.rl.rewards.motion import Seen

SCHEMA = 1
SIMULATOR, LEARNED = "simulator.npz", "learned.npz"
RECORDED = ("task", "physics", "agent", "overrides", "num_envs", "steps", "seed", "policy", "noise", "motions")
"""Options that decide the motion."""


def option(default: Any, text: str) -> Any:
    """A field with the help text that ``--help`` shows."""
    return field(default=default, metadata={"help": text})


@dataclass
class RewardsConfig:
    """Options of ``scripts/evaluate_rewards.py``."""

    task: str = option("FlashNeRD-Velocity-Flat-AnymalC", "task id")
    physics: str = option("newton_mjwarp", "preset of the simulator, which is the reference")
    learned: str = option("flashnerd", "preset of learned physics")
    policy: str = option("", "checkpoint or run folder that gives the actions; empty takes motions")
    noise: float = option(0.0, "exploration noise of the policy, in units of its own")
    motions: list[str] = field(
        default_factory=list, metadata={"help": "samplers of the robot that give the actions; empty takes a mixture"}
    )
    num_envs: int = option(64, "worlds")
    steps: int = option(250, "control steps")
    seed: int = option(0, "seed of resets, commands and motions")
    tolerance: float = option(2.0, "largest difference that passes [%]")
    overrides: list[str] = field(default_factory=list, metadata={"help": "env. and agent. words for the task"})
    agent: str = option("rsl_rl_cfg_entry_point", "agent configuration of the task")
    device: str = option("", "cuda:0 where there is one, else cpu")
    folder: str = option("", "keep the motion and what was read here; a motion that lies there is taken again")
    json: str = option("outputs/rewards.json", "result; logs lie beside it")

    def check(self) -> None:
        """Refuse values that cannot work.

        Raises:
            FlashNerdError: Names the option, its value and what is needed.
        """
        from flashnerd_ext.rl.record.program import checkpoints, robot_of
        from flashnerd_ext.rl.rewards.actions import check_motions

        check_output("json", self.json)
        if not self.json or self.json == "none":
            raise FlashNerdError("json is empty, but a file is needed: type json=outputs/rewards.json.")
        for name, least in (("num_envs", 1), ("steps", 1), ("seed", 0), ("noise", 0), ("tolerance", 0)):
            if not getattr(self, name) >= least:
                raise FlashNerdError(f"{name} is {getattr(self, name)}, but at least {least} is needed.")
        if self.physics == self.learned:
            raise FlashNerdError(
                f"physics and learned are both '{self.physics}', but two are compared: type learned=flashnerd."
            )
        if self.policy and self.motions:
            raise FlashNerdError("policy and motions are both given, but one gives the actions: leave one out.")
        robot = robot_of(self.task)
        if self.policy:
            self.policy = str(checkpoints(self.policy)[0])
        else:
            check_motions(robot, self.motions)


def run(config: RewardsConfig) -> dict[str, Any]:
    """Record, replay, compare; prints the table and writes the JSON file.

    Returns:
        What the file holds.
    """
    from flashnerd_ext.rl.record.program import robot_of
    from flashnerd_ext.rl.rewards.known import known_bundle

    config.check()
    with _folder(config) as folder:
        first, second = folder / SIMULATOR, folder / LEARNED
        if not recorded(config, folder):
            work(config, "record", config.physics, "", folder, first)
        bundle = folder / "bundle"
        # Made anew each time, since another release has other models.
        shutil.rmtree(bundle, ignore_errors=True)
        known_bundle(bundle, robot_of(config.task))
        work(config, "replay", config.learned, str(bundle), folder, second)
        content = summarise(config, Seen.load(first), Seen.load(second))
    with writing():
        write_json(config.json, content)
    print(table.text(content))
    print(f"wrote {config.json}")
    return content


@contextmanager
def _folder(config: RewardsConfig) -> Iterator[Path]:
    """Where the pieces lie; of its own, and removed, where none is given."""
    if config.folder:
        Path(config.folder).mkdir(parents=True, exist_ok=True)
        yield Path(config.folder)
        return
    folder = Path(tempfile.mkdtemp(prefix="flashnerd-rewards-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def recorded(config: RewardsConfig, folder: Path) -> bool:
    """Whether the motion of these options lies in the folder already.

    Raises:
        FlashNerdError: Where one of other options does.
    """
    if not ((folder / SIMULATOR).is_file() and (folder / MOTION).is_file()):
        return False
    found = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    for name in RECORDED:
        if found.get(name) != getattr(config, name):
            raise FlashNerdError(
                f"folder={folder} holds a motion of {name}={found.get(name)}, but {name}={getattr(config, name)} is "
                "given: type another folder=, or the same options."
            )
    return True


def work(config: RewardsConfig, kind: str, physics: str, bundle: str, folder: Path, result: Path) -> None:
    """One child process.

    Raises:
        FlashNerdError: With its last sentence, where it fails.
    """
    from tqdm import tqdm

    from flashnerd_ext.rl.command import default_device

    spec = {name: getattr(config, name) for name in RECORDED}
    spec |= {"kind": kind, "physics": physics, "bundle": bundle, "folder": str(folder), "result": str(result)}
    spec["device"] = config.device or default_device()
    request, log = folder / f"{kind}.json", Path(config.json).with_suffix(f".{kind}.log")
    write_json(request, spec)
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "flashnerd_ext.rl.rewards.child", str(request)]
    with tqdm(total=config.steps, unit="step", desc=f"{kind} in {physics}", disable=None) as bar:
        done = 0

        def progress(line: str) -> bool:
            nonlocal done
            if not line.startswith(PROGRESS):
                return False
            steps = int(line.split()[1])
            bar.update(steps - done)
            done = steps
            return True

        well, said = follow(command, log, progress)
    if not well or not result.is_file():
        raise FlashNerdError(f"the motion could not be {kind}ed in {physics}: {said}; the log is {log}.")


def summarise(config: RewardsConfig, simulator: Seen, learned: Seen) -> dict[str, Any]:
    """What the JSON file holds."""
    from flashnerd_ext.runtime import git_revision, machine_facts

    rows = table.compare(simulator, learned, config.tolerance)
    return {
        "schema_version": SCHEMA,
        "task": config.task,
        "simulator": config.physics,
        "learned": config.learned,
        "actions": config.policy or (config.motions or "mixture"),
        "num_envs": int(simulator.rewards.shape[1]),
        "steps": int(simulator.rewards.shape[0]),
        "seed": config.seed,
        "tolerance": config.tolerance,
        "terms": table.to_json(rows),
        "total": table.to_json([table.total(rows, config.tolerance)])[0],
        "endings": table.endings(simulator, learned),
        "signals": table.signals(simulator, learned),
        "git": git_revision(),
        "machine": machine_facts(),
    }
