"""``scripts/evaluate_objects.py``: the same starts and actions in the simulator and in coupled mode, compared."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.evaluation.outputs import check_output, writing
from flashnerd_ext.files import write_json
from flashnerd_ext.rl.children import PROGRESS, follow
from flashnerd_ext.rl.objects import compare
from flashnerd_ext.rl.objects.actions import KINDS, check_kinds, kind_of_world

SCHEMA = 1
SAME = 1e-5
"""Starts that differ by more are not the same."""
RUNS = ("simulator", "disturbed", "two_way", "one_way")
"""The simulator; the same from a start that differs by a millionth; coupled mode; coupled mode without reaction."""


def option(default: Any, text: str) -> Any:
    """A field with the help text that ``--help`` shows."""
    return field(default=default, metadata={"help": text})


@dataclass
class ObjectsConfig:
    """Options of ``scripts/evaluate_objects.py``."""

    task: str = option("FlashNeRD-Reorient-Cube-Allegro-Reduced", "task id")
    physics: str = option("newton_mjwarp", "preset of the simulator, which is the reference")
    learned: str = option("flashnerd", "preset of coupled mode")
    bundle: str = option("", "bundle of coupled mode, name or path; the task's when empty")
    object: str = option("object", "the scene's rigid object that is followed")
    actions: list[str] = field(
        default_factory=lambda: list(KINDS), metadata={"help": "hold, random, turn: worlds take them in turn"}
    )
    runs: list[str] = field(
        default_factory=lambda: list(RUNS),
        metadata={"help": "simulator (needed), disturbed (by a millionth: its noise floor), two_way, one_way"},
    )
    num_envs: int = option(256, "worlds")
    seconds: float = option(2.0, "length of each run [s]")
    seed: int = option(0, "seed of resets and actions")
    bootstrap: int = option(4000, "draws behind each interval")
    overrides: list[str] = field(default_factory=list, metadata={"help": "env. words for the task"})
    agent: str = option("rsl_rl_cfg_entry_point", "agent configuration of the task")
    device: str = option("", "cuda:0 where there is one, else cpu")
    folder: str = option("", "keep the runs here; those that lie there with the same options are taken again")
    json: str = option("outputs/objects.json", "result; a PNG and logs lie beside it")

    def check(self) -> None:
        """Refuse values that cannot work.

        Raises:
            FlashNerdError: Names the option, its value and what is needed.
        """
        check_output("json", self.json)
        if not self.json or self.json == "none":
            raise FlashNerdError("json is empty, but a file is needed: type json=outputs/objects.json.")
        check_kinds(self.actions)
        for name in self.runs:
            if name not in RUNS:
                raise FlashNerdError(f"runs has '{name}', but only {', '.join(RUNS)} are known.")
        if "simulator" not in self.runs or len(self.runs) < 2:
            raise FlashNerdError(
                f"runs is {self.runs}, but simulator and another are needed: type runs=[simulator,two_way]."
            )
        for name, least in (("num_envs", 2), ("seed", 0), ("bootstrap", 100)):
            if getattr(self, name) < least:
                raise FlashNerdError(f"{name} is {getattr(self, name)}, but at least {least} is needed.")
        if not self.seconds > 0:
            raise FlashNerdError(f"seconds is {self.seconds}, but a time above 0 is needed: type seconds=2.")


def run(config: ObjectsConfig) -> dict[str, Any]:
    """Roll, compare; prints the table, writes JSON and PNG.

    Returns:
        What the JSON file holds.
    """
    from flashnerd_ext.rl.objects.plot import draw
    from flashnerd_ext.rl.objects.table import text

    config.check()
    own = not config.folder
    folder = Path(tempfile.mkdtemp(prefix="flashnerd-objects-") if own else config.folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        tracks = {name: compare.Track.load(str(work(config, name, folder))) for name in config.runs}
    finally:
        if own:
            shutil.rmtree(folder, ignore_errors=True)
    content = summarise(config, tracks)
    with writing():
        write_json(config.json, content)
        picture = draw(tracks, content, Path(config.json).with_suffix(".png"))
    print(text(content))
    print(f"wrote {config.json} and {picture}")
    return content


def work(config: ObjectsConfig, name: str, folder: Path, shown: Mapping[str, Any] | None = None) -> Path:
    """One child process, unless its file lies there; returns the file.

    Args:
        config: Of all runs.
        name: Of :data:`RUNS`.
        folder: Where its file is, or will be.
        shown: What is shown of it, see :class:`flashnerd_ext.rl.objects.shown.Shown`; nothing by default.

    Raises:
        FlashNerdError: With its last sentence where it fails, or where a file of other options lies there.
    """
    from tqdm import tqdm

    from flashnerd_ext.rl.command import default_device

    coupled = name.endswith("_way")
    spec: dict[str, Any] = {
        "task": config.task,
        "physics": config.learned if coupled else config.physics,
        "bundle": config.bundle if coupled else "",
        "overrides": [*config.overrides, *([f"env.sim.physics.solver_cfg.coupling={name}"] if coupled else [])],
        "agent": config.agent,
        "num_envs": config.num_envs,
        "device": config.device or default_device(),
        "seed": config.seed,
        "object": config.object,
        "actions": list(config.actions),
        "steps": steps_of(config),
        "nudge": name == "disturbed",
    }
    if shown:
        spec["shown"] = dict(shown)
    result, request = folder / f"{name}.npz", folder / f"{name}.json"
    if result.is_file() and request.is_file():
        found = json.loads(request.read_text(encoding="utf-8"))
        found.pop("result", None)
        if found != spec:
            wrong = next(key for key in {**found, **spec} if found.get(key) != spec.get(key))
            raise FlashNerdError(
                f"folder={folder} holds a run '{name}' of {wrong}={found.get(wrong)}, but {wrong}={spec.get(wrong)} is "
                "given: type another folder=, or the same options."
            )
        return result
    result.unlink(missing_ok=True)
    write_json(request, spec | {"result": str(result)})
    log = Path(config.json).with_suffix(f".{name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "flashnerd_ext.rl.objects.child", str(request)]
    with tqdm(total=spec["steps"], unit="step", desc=name, disable=None) as bar:

        def progress(line: str) -> bool:
            mine = line.startswith(PROGRESS)
            bar.update(int(mine))
            return mine

        well, said = follow(command, log, progress)
    if not well or not result.is_file():
        raise FlashNerdError(f"the run '{name}' failed: {said}; its log is {log}.")
    return result


def steps_of(config: ObjectsConfig) -> int:
    """Control steps of a run.

    Raises:
        FlashNerdError: For a task that is not known.
    """
    from flashnerd_ext.rl.command import prepare_process

    prepare_process()
    import isaaclab_tasks  # noqa: F401
    from isaaclab.cli import load_external_tasks
    from isaaclab_tasks.utils import load_cfg_from_registry

    from flashnerd_ext.rl.overrides import check_task

    load_external_tasks()
    task: Any = load_cfg_from_registry(check_task(config.task, config.agent), "env_cfg_entry_point")
    return max(2, round(config.seconds / (float(task.sim.dt) * int(task.decimation))))


def summarise(config: ObjectsConfig, tracks: Mapping[str, compare.Track]) -> dict[str, Any]:
    """What the JSON file holds.

    Raises:
        FlashNerdError: When the runs did not start alike, so that nothing can be compared.
    """
    from flashnerd_ext.runtime import git_revision, machine_facts

    apart = compare.same_start({name: track for name, track in tracks.items() if name != "disturbed"})
    if apart > SAME:
        raise FlashNerdError(
            f"the runs' starts differ by {apart:.3g}, but the same are needed: the task draws its resets from a "
            "source that seed= does not reach."
        )
    reference = tracks["simulator"]
    kinds = kind_of_world(config.actions, config.num_envs)
    parts: dict[str, Any] = {"all": slice(None)} | {kind: kinds == i for i, kind in enumerate(config.actions)}
    results: dict[str, Any] = {}
    for name, track in tracks.items():
        if name == "simulator":
            continue
        found: dict[str, Any] = {}
        for kind, worlds in parts.items():
            one, other = compare.part(reference, worlds), compare.part(track, worlds)
            found[kind] = {
                "measures": compare.compare(one, other, config.bootstrap, config.seed),
                "pose": compare.pose_error(one, other, config.bootstrap, config.seed),
                "forces": compare.force_distance(one, other, config.bootstrap, config.seed),
            }
        found["steps"], found["fallen_back"] = track.steps, track.fallen_back
        results[name] = found
    return {
        "schema_version": SCHEMA,
        "task": config.task,
        "physics": config.physics,
        "learned": config.learned,
        "bundle": config.bundle,
        "num_envs": config.num_envs,
        "seconds": len(reference.ended) * reference.dt,
        "actions": list(config.actions),
        "seed": config.seed,
        "runs": results,
        "command": " ".join(sys.argv),
        "git": git_revision(),
        "machine": machine_facts(),
    }
