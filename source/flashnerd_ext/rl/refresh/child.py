"""What runs beside the learner, a process a piece of work: ``python -m flashnerd_ext.rl.refresh.child SPEC.json``.

``simulate`` scores a policy in the simulator, records what it and its variants visit, and scores it in the learned
world. ``tune`` fine-tunes the bundle. Finished files are not made again, so that a killed piece may be repeated.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from flashnerd_ext.data.dataset import FILE
from flashnerd_ext.errors import cli_main
from flashnerd_ext.files import write_json

SIMULATOR, LEARNED, SECONDS = "simulator.json", "learned.json", "seconds-{kind}.json"
_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """End this process when its parent ends, however that ends; Linux."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It ended before the line above.
        sys.exit(1)


def main() -> int:
    """Do what the specification says."""
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    die_with(spec["parent"])
    seconds = {"simulate": simulate, "tune": tune}[spec["kind"]](spec)
    write_json(Path(spec["folder"]) / SECONDS.format(kind=spec["kind"]), seconds)
    return 0


def simulate(spec: dict[str, Any]) -> dict[str, float]:
    """Scores in both worlds and a data set; returns the seconds of each part."""
    from flashnerd_ext.rl.record.program import robot_of

    folder, robot = Path(spec["folder"]), robot_of(spec["task"])
    seconds: dict[str, float] = {}
    record = bool(spec["record"]) and not (folder / "data" / FILE).exists()
    if record or not (folder / SIMULATOR).exists():
        with _Timer(seconds, "start"):
            simulation = _open(spec, spec["physics"], spec["bundle"], spec["seeds"][0])
        try:
            if not (folder / SIMULATOR).exists():
                with _Timer(seconds, "score"):
                    _score(spec, simulation, robot, folder / SIMULATOR)
            if record:
                with _Timer(seconds, "record"):
                    if robot.layout.conditions:
                        # Masses are drawn when the environments are made: each refresh records other ones.
                        simulation.close()
                        simulation = _open(spec, spec["physics"], spec["bundle"], spec["record_seed"])
                    _record(spec, simulation, robot, folder)
        finally:
            simulation.close()
    if not (folder / LEARNED).exists():
        with _Timer(seconds, "learned"):
            simulation = _open(spec, "flashnerd", spec["bundle"], spec["seeds"][0])
            try:
                _score(spec, simulation, robot, folder / LEARNED)
            finally:
                simulation.close()
    return seconds


class _Timer:
    """Adds the time of a block [s] to a table."""

    def __init__(self, table: dict[str, float], name: str) -> None:
        self.table, self.name = table, name

    def __enter__(self) -> None:
        self.begin = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.table[self.name] = time.perf_counter() - self.begin


def _open(spec: dict[str, Any], physics: str, bundle: str, seed: int) -> Any:
    from flashnerd_ext.rl.simulation import open_simulation

    return open_simulation(
        spec["task"],
        physics,
        agent=spec["agent"],
        bundle=bundle,
        overrides=spec["overrides"],
        num_envs=spec["num_envs"],
        device=spec["device"],
        seed=seed,
        graphs=False,
    )


def _score(spec: dict[str, Any], simulation: Any, robot: Any, target: Path) -> None:
    """Mean actions on the validation seeds, with all bins of commands alike."""
    from flashnerd_ext.rl.record.commands import reachable, velocity_term
    from flashnerd_ext.rl.record.program import held_worlds
    from flashnerd_ext.rl.record.roll import RollPlan, roll
    from flashnerd_ext.rl.record.scores import summarise, to_json
    from flashnerd_ext.rl.rollouts import load_policy

    policy = load_policy(simulation.env, simulation.agent_cfg, Path(spec["policies"][0]))
    term = velocity_term(simulation.unwrapped)
    bins = dict.fromkeys(reachable(term), 1.0) if term is not None else {}
    episodes = []
    for seed in spec["seeds"]:
        episodes += roll(simulation, robot, [policy], RollPlan(spec["score_steps"], seed, bins=bins), None).episodes
    content = {
        "physics": simulation.facts,
        "policy": spec["policies"][0],
        "seeds": spec["seeds"],
        "steps": spec["score_steps"] or simulation.max_steps,
        "held": held_worlds(),
        "summary": summarise(episodes),
        "episodes": to_json(episodes),
    }
    write_json(target, content)


def _record(spec: dict[str, Any], simulation: Any, robot: Any, folder: Path) -> None:
    """Mean actions and noise, older checkpoints, pushes, and more of the commands that fall."""
    from flashnerd_ext.rl.record.program import RecordConfig, roll_and_write

    bins = json.loads((folder / SIMULATOR).read_text(encoding="utf-8"))["summary"]["bins"]
    weights = {name: 0.2 + facts["falls"] for name, facts in bins.items() if name != "task"}
    config = RecordConfig(
        task=spec["task"],
        policy=spec["policies"],
        out=str(folder / "data"),
        physics=spec["physics"],
        num_envs=spec["num_envs"],
        steps=spec["steps"],
        seed=spec["record_seed"],
        noise=spec["noise"],
        bins=weights,
        pushes=spec["pushes"],
        # Fixed shares of so few worlds would leave a split without any.
        val=max(0.1, 1.0 / spec["num_envs"]),
        like=spec["data"],
        overrides=spec["overrides"],
        agent=spec["agent"],
        device=spec["device"],
    )
    config.check()
    roll_and_write(config, simulation, robot, [Path(path) for path in spec["policies"]])


def tune(spec: dict[str, Any]) -> dict[str, float]:
    """Fine-tune the bundle on base and recorded data; returns the seconds."""
    from flashnerd_ext.bundle.folder import CARD_FILE
    from flashnerd_ext.bundle.store import load_bundle
    from flashnerd_ext.training.checkpoint import NAME
    from flashnerd_ext.training.config import TrainDynamicsConfig, TrainOptions
    from flashnerd_ext.training.dynamics import train_dynamics

    out = Path(spec["folder"]) / "bundle"
    if (out / CARD_FILE).exists():
        load_bundle(out)  # whole, or refused
        return {}
    bundle = load_bundle(spec["bundle"])
    options = spec["options"]
    began = time.perf_counter()
    train_dynamics(
        TrainDynamicsConfig(
            robot=bundle.card.robot.name,
            model=bundle.card.model.name,
            data=spec["data"],
            more=spec["more"],
            out=str(out),
            init=spec["bundle"],
            seed=spec["seed"],
            rollouts=0,
            resume=(out.parent / f"{out.name}-run" / NAME).exists(),
            device="cpu" if spec["device"] == "cpu" else "auto",
            options=dict(bundle.card.model.config),
            train=TrainOptions(
                updates=options["updates"],
                minutes=options["minutes"],
                lr=options["lr"],
                window=options["window"],
                batch=options["batch"],
                power=options["power"],
                compiled=options["compiled"],
                checkpoint_seconds=20.0,
            ),
        )
    )
    return {"tune": time.perf_counter() - began}


if __name__ == "__main__":
    cli_main(main)
