"""``scripts/record_policy.py``: roll policies in a simulator, write scores and a data set."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashnerd_ext.data.dataset import FILE
from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.files import write_json
from flashnerd_ext.rl.record.commands import check_bins
from flashnerd_ext.rl.record.scores import summarise, to_json
from flashnerd_ext.rl.selectors import SELECTORS, last_checkpoint, select

if TYPE_CHECKING:
    from flashnerd_ext.data.engines.exported import ExportedModel
    from flashnerd_ext.rl.record.roll import Rolled
    from flashnerd_ext.rl.simulation import Simulation
    from flashnerd_ext.robots.description import RobotDescription

SCHEMA = 1
SCORES = "scores.json"


def option(default: Any, text: str) -> Any:
    """A field with the help text that ``--help`` shows."""
    return field(default=default, metadata={"help": text})


@dataclass
class RecordConfig:
    """Options of ``scripts/record_policy.py``."""

    task: str = option("FlashNeRD-Cartpole", "task id")
    policy: Any = field(
        default=None, metadata={"help": "checkpoint, run folder (its last one), latest, best, or a list of them"}
    )
    out: str = option("", "data set folder to write, with scores.json in it")
    physics: str = option("newton_mjwarp", "preset of the simulator")
    bundle: str = option("", "bundle of learned physics, for scores in it; the task's when empty")
    num_envs: int = option(64, "worlds")
    steps: int = option(0, "control steps; 0 is one whole episode")
    seed: int = option(0, "seed of resets, commands, noise and pushes")
    noise: list[float] = field(
        default_factory=lambda: [0.0, 1.0, 2.0], metadata={"help": "exploration noise of the worlds, 0 is mean actions"}
    )
    bins: dict[str, float] = field(
        default_factory=dict, metadata={"help": "bin of commands -> share of the worlds; empty is the task's own"}
    )
    pushes: float = option(0.0, "share of the worlds whose base is pushed (robots that float)")
    push_every: float = option(3.0, "mean time between pushes [s]")
    push_speed: float = option(0.8, "largest change of the base's velocity, each way [m/s]")
    record: bool = option(True, "write a data set; false writes scores alone")
    length: int = option(48, "most steps in a trajectory of the data set")
    val: float = option(0.1, "share of the worlds in the val split")
    test: float = option(0.0, "share of the worlds in the test split")
    like: str = option("", "data set whose engine model and kind of contact rows are taken, not the asset's")
    overrides: list[str] = field(default_factory=list, metadata={"help": "env. and agent. words for the task"})
    agent: str = option("rsl_rl_cfg_entry_point", "agent configuration of the task")
    device: str = option("", "cuda:0 where there is one, else cpu")

    def check(self) -> None:
        """Refuse values that cannot work.

        Raises:
            FlashNerdError: Names the option, its value and what is needed.
        """
        if not self.out:
            raise FlashNerdError("out is empty, but a folder is needed: type out=data/recorded.")
        for name, least in (("num_envs", 1), ("steps", 0), ("seed", 0), ("length", 2)):
            if getattr(self, name) < least:
                raise FlashNerdError(f"{name} is {getattr(self, name)}, but at least {least} is needed.")
        if not self.noise or min(self.noise) < 0:
            raise FlashNerdError(f"noise is {self.noise}, but numbers of 0 or more are needed: type noise=[0,1,2].")
        for name in ("pushes", "val", "test"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise FlashNerdError(f"{name} is {getattr(self, name)}, but a share from 0 to 1 is needed.")
        for name in ("push_every", "push_speed"):
            if not getattr(self, name) > 0:
                raise FlashNerdError(f"{name} is {getattr(self, name)}, but a number above 0 is needed.")
        held, tested = round(self.val * self.num_envs), round(self.test * self.num_envs)
        if self.record and held + tested >= self.num_envs:
            raise FlashNerdError(
                f"val={self.val} and test={self.test} take all {self.num_envs} worlds, but train needs one: "
                "type val=0.1."
            )
        check_bins(self.bins)
        if self.record and self.physics == "flashnerd":
            raise FlashNerdError(
                "physics is 'flashnerd', but a data set is recorded in a simulator: type physics=newton_mjwarp, or "
                "record=false for scores alone."
            )
        if self.record and (Path(self.out) / FILE).exists():
            raise FlashNerdError(f"out={self.out} holds a data set already: type another out=, or delete it.")


def checkpoints(policy: Any, task: str = "") -> list[Path]:
    """Checkpoint files of ``policy=``; a run folder stands for its last one, ``latest`` and ``best`` for the newest run
    of the task.

    Raises:
        FlashNerdError: Where there is none.
    """
    given = [policy] if isinstance(policy, str) else policy
    if not isinstance(given, Sequence) or not given or not all(isinstance(item, str) for item in given):
        raise FlashNerdError(
            f"policy is {policy!r}, but a checkpoint, a run folder or a list is needed: type policy=PATH."
        )
    found = []
    for item in given:
        if item in SELECTORS and task:
            found.append(select(item, task))
            continue
        path = Path(item).expanduser()
        if path.is_dir():
            last = last_checkpoint(path)
            if last is None:
                raise FlashNerdError(f"policy={item} is a folder without model_*.pt: give a checkpoint or a run.")
            path = last
        if not path.is_file():
            raise FlashNerdError(f"policy={item} does not exist: give a model_*.pt or a run folder.")
        found.append(path.resolve())
    return found


def robot_of(task: str) -> RobotDescription:
    """The registry's robot that a task simulates.

    Raises:
        FlashNerdError: Where no robot names the task.
    """
    from flashnerd_ext.robots.registry import all_robots

    name = task.split(":")[-1]
    robots = all_robots().values()
    for robot in robots:
        if name in robot.tasks:
            return robot
    known = [item for robot in robots for item in robot.tasks]
    raise FlashNerdError(f"task is '{task}', which no robot of the registry is known from: {nearest(name, known)}")


def run(config: RecordConfig) -> dict[str, Any]:
    """Roll, score, record; returns what ``scores.json`` holds."""
    config.check()
    paths = checkpoints(config.policy, config.task)
    robot = robot_of(config.task)
    simulation = open_for(config)
    try:
        content = roll_and_write(config, simulation, robot, paths)
    finally:
        simulation.close()
    print(scores_text(content))
    return content


def open_for(config: RecordConfig) -> Simulation:
    """The simulation of a configuration."""
    from flashnerd_ext.rl.command import default_device
    from flashnerd_ext.rl.simulation import open_simulation

    return open_simulation(
        config.task,
        config.physics,
        agent=config.agent,
        bundle=config.bundle,
        overrides=config.overrides,
        num_envs=config.num_envs,
        device=config.device or default_device(),
        seed=config.seed,
        graphs=False,
    )


def on_a_plane(task: str, cfg: Any) -> None:
    """Refuse terrain: the rows of a recorded data set are made by an engine model that stands on a plane.

    Raises:
        FlashNerdError: Where the task's scene has another ground.
    """
    kind = getattr(getattr(cfg.scene, "terrain", None), "terrain_type", "plane")
    if kind != "plane":
        raise FlashNerdError(
            f"task={task} has terrain_type='{kind}', but contact rows of recordings are made on a plane only: "
            "type record=false for scores alone, or take a task on flat ground."
        )


def roll_and_write(
    config: RecordConfig, simulation: Simulation, robot: RobotDescription, paths: Sequence[Path]
) -> dict[str, Any]:
    """One rollout in a running simulation: scores, and the data set where one is asked for."""
    from flashnerd_ext.rl.record.roll import RollPlan, roll
    from flashnerd_ext.rl.rollouts import load_policy

    folder = Path(config.out)
    if config.record:
        on_a_plane(config.task, simulation.unwrapped.cfg)
    nominal = engine_model(config, robot) if config.record else None
    began = time.perf_counter()
    policies = [load_policy(simulation.env, simulation.agent_cfg, path) for path in paths]
    plan = RollPlan(
        config.steps, config.seed, tuple(config.noise), config.bins, config.pushes, config.push_every, config.push_speed
    )
    rolled = roll(simulation, robot, policies, plan, nominal)
    seconds = {"roll": time.perf_counter() - began}
    content = scores_content(config, simulation, paths, rolled)
    if nominal is not None:
        began = time.perf_counter()
        content["data"] = write_data(config, robot, nominal, paths, rolled)
        seconds["write"] = time.perf_counter() - began
    content["seconds"] = seconds
    write_json(folder / SCORES, content)
    return content


def engine_model(config: RecordConfig, robot: RobotDescription) -> ExportedModel:
    """The robot's engine model: contacts are detected with it, and conditions are deviations from it."""
    from flashnerd_ext.data.engines.export import export_model
    from flashnerd_ext.data.engines.exported import ExportedModel

    if not config.like:
        return export_model(robot)
    model = ExportedModel.load(Path(config.like))
    if model.robot != robot.name:
        raise FlashNerdError(
            f"like={config.like} is of robot={model.robot}, but {robot.name} is recorded: leave it out."
        )
    return model


def names_of(paths: Sequence[Path], labels: Sequence[tuple[int, float]]) -> dict[str, str]:
    """Name of each group of worlds -> what it followed."""
    return {
        f"{index}-{paths[index].stem}-x{noise:g}": f"{paths[index]}, "
        + ("mean actions" if noise == 0 else f"{noise:g} times its exploration noise")
        for index, noise in labels
    }


def write_data(
    config: RecordConfig, robot: RobotDescription, nominal: ExportedModel, paths: Sequence[Path], rolled: Rolled
) -> dict[str, Any]:
    """The data set of a rollout; returns its figures."""
    from importlib.metadata import version

    from flashnerd_ext.rl.record.cut import cut
    from flashnerd_ext.rl.record.folder import Source, splits_of, write_folder

    pieces = cut(robot, rolled.moments, config.length)
    facts = {
        "task": config.task,
        "policies": [str(path) for path in paths],
        "num_envs": config.num_envs,
        "steps": rolled.steps,
        "pushed_worlds": int(rolled.pushed.sum()),
        "bins": dict(config.bins),
    }
    source = Source(
        config.physics,
        version("mujoco" if config.physics == "mujoco_c" else "mujoco-warp"),
        config.seed,
        shlex.join(sys.argv),
        names_of(paths, rolled.labels),
        facts,
    )
    splits = splits_of(rolled.groups, config.val, config.test)
    summary = write_folder(Path(config.out), robot, nominal, pieces, rolled.groups, source, splits)
    figures = {name: split["valid_transitions"] for name, split in summary["splits"].items()}
    return figures | {"dropped_steps": pieces.dropped, "jumps": pieces.jumps}


def scores_content(
    config: RecordConfig, simulation: Simulation, paths: Sequence[Path], rolled: Rolled
) -> dict[str, Any]:
    """What ``scores.json`` holds: a summary of each group, pushed worlds apart, and all episodes."""
    from flashnerd_ext.runtime import machine_facts

    groups = []
    for number, (index, noise) in enumerate(rolled.labels):
        mine = [episode for episode in rolled.episodes if episode.group == number]
        entry: dict[str, Any] = {"policy": str(paths[index]), "noise": noise}
        entry |= summarise(episode for episode in mine if not episode.pushed)
        if any(episode.pushed for episode in mine):
            entry["pushed"] = summarise(episode for episode in mine if episode.pushed)
        groups.append(entry)
    return {
        "schema_version": SCHEMA,
        "task": config.task,
        "physics": simulation.facts,
        "seed": config.seed,
        "num_envs": config.num_envs,
        "steps": rolled.steps,
        "max_steps": simulation.max_steps,
        "dt": float(simulation.unwrapped.step_dt),
        "held": held_worlds(),
        "groups": groups,
        "episodes": to_json(rolled.episodes),
        "machine": machine_facts(),
    }


def held_worlds() -> int:
    """How often the guard of learned physics held a world so far; 0 in analytical physics."""
    from flashnerd_ext.physics.environment import running_solver

    solver = running_solver()
    return 0 if solver is None else int(solver.guard.total.sum())


def scores_text(content: Mapping[str, Any]) -> str:
    """A line a group and bin."""
    lines = [f"{content['task']} in {content['physics']['physics']}, {content['steps']} steps"]
    for group in content["groups"]:
        lines.append(f"{Path(group['policy']).name} x{group['noise']:g}: {_line(group)}")
        lines += [f"  {name:<9}{_line(facts)}" for name, facts in group["bins"].items()]
        if "pushed" in group:
            lines.append(f"  pushed   {_line(group['pushed'])}")
    if "data" in content:
        lines.append(", ".join(f"{name} {value}" for name, value in content["data"].items()))
    return "\n".join(lines)


def _line(facts: Mapping[str, Any]) -> str:
    if not facts["episodes"]:
        return "no episodes"
    low, high = facts["interval"]
    text = f"return {facts['return']:8.3f} [{low:.3f}, {high:.3f}], falls {facts['falls']:6.1%} of {facts['episodes']}"
    if "tracking_error" in facts:
        text += f", tracking error {facts['tracking_error']:.3f} m/s"
    if "drift" in facts:
        text += f", drift {facts['drift']:.3f} m/s"
    return text
