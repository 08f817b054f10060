"""Compare the motion of a learned world with the simulator's: is it as lively, as slippery, as hard?

    python scripts/evaluate_gates.py robot=anymal_c data=data/anymal_c json=out/gates.json

Both start from the same states and get the same targets; statistics are compared, each with its gate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashnerd_ext.cli import parse
from flashnerd_ext.errors import FlashNerdError, cli_main, nearest


def _help(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass
class GatesConfig:
    """Options of the command."""

    robot: str = _help("anymal_c", "robot of the registry")
    bundle: str = _help("", "bundle (name or folder); empty takes the shipped one of the robot")
    data: str = _help("", "data set folder, whose engine model is the simulator; default data/ROBOT")
    json: str = _help("", "file for the figures")
    seconds: float = _help(10.0, "length of a motion [s]")
    worlds: int = _help(64, "robots in each kind of motion")
    motions: list[str] = field(
        default_factory=lambda: ["stand", "gait", "explore", "smooth"], metadata={"help": "samplers of the robot"}
    )
    seed: int = _help(0, "seed of the starts and targets")
    workers: int = _help(1, "threads of the simulator")
    threads: int = _help(0, "threads; 0 takes OMP_NUM_THREADS or the cores of this process")


def main() -> int:
    config = parse(GatesConfig, doc=__doc__)
    from flashnerd_ext.evaluation.outputs import check_output

    check_output("json", config.json)
    for name in ("seconds", "worlds", "workers"):
        if not getattr(config, name) > 0:
            raise FlashNerdError(f"{name} is {getattr(config, name)}, but more than 0 is needed: type {name}=10.")

    import numpy as np
    from tqdm import tqdm

    from flashnerd_ext.bundle.store import load_bundle
    from flashnerd_ext.data.engines.exported import ExportedModel
    from flashnerd_ext.data.engines.mujoco_c import MujocoC
    from flashnerd_ext.data.engines.rows import RowDetector
    from flashnerd_ext.data.samplers import samplers_of
    from flashnerd_ext.data.writer import draw_worlds, lift_starts, rollout_policy
    from flashnerd_ext.evaluation import gates
    from flashnerd_ext.evaluation.predictors import model_predictor
    from flashnerd_ext.robots.registry import get_robot
    from flashnerd_ext.runtime import git_revision, machine_facts, set_threads

    set_threads(config.threads or None)
    robot = get_robot(config.robot)
    if robot.contacts is None:
        raise FlashNerdError(f"robot is '{robot.name}', which touches nothing: gates are for robots on the ground.")
    bundle = load_bundle(config.bundle or config.robot)
    if bundle.card.robot.name != robot.name:
        raise FlashNerdError(f"bundle is of robot '{bundle.card.robot.name}', but robot={robot.name} is compared.")
    known = samplers_of(robot.name)
    for name in config.motions:
        if name not in known:
            raise FlashNerdError(
                f"motions has '{name}', which robot={robot.name} does not have: {nearest(name, known)}"
            )
    engine = MujocoC(ExportedModel.load(Path(config.data or f"data/{config.robot}")), config.workers)
    # What is measured is what touches, whichever contacts the model takes.
    detector = RowDetector(engine, fixed=())
    inputs = RowDetector(engine, bundle.card.contacts.fixed)
    predict = model_predictor(bundle.model, bundle.card.dt, bundle.card.simulation.inner_steps, detector=inputs)
    feet = [robot.links.index(name) for name in robot.contacts.feet]
    steps = round(config.seconds / robot.dt)
    simulator, model = {}, {}
    for name in tqdm(config.motions, unit=" motions", disable=None):
        rng = np.random.default_rng([config.seed, list(known).index(name)])
        start = known[name].draw(rng, config.worlds, steps)
        ((_, (q, qd, policy)),) = lift_starts(engine, [(0, start)], [rng])
        condition, friction = draw_worlds(robot, rng, config.worlds)
        worlds = {"condition": condition, "friction": friction}
        engine.set_worlds(condition, friction)
        columns = rollout_policy(engine, q, qd, policy, steps)
        q_sim, qd_sim, targets = (np.swapaxes(column, 0, 1) for column in columns[:3])
        simulator[name] = gates.observe(detector, robot.layout, feet, q_sim, qd_sim, worlds)
        q_own, qd_own = predict(q, qd, targets, worlds)
        model[name] = gates.observe(detector, robot.layout, feet, q_own, qd_own, worlds)
    found = gates.compare(robot.layout, robot.dt, simulator, model)
    print(f"{robot.name}, bundle {bundle.card.name} ({bundle.hash[:12]}): {config.worlds} robots, {config.seconds:g} s")
    print(gates.table(found))
    if config.json:
        from flashnerd_ext.evaluation.outputs import writing
        from flashnerd_ext.files import write_json

        content = {
            "robot": robot.name,
            "bundle": bundle.hash,
            "gates": [gate.to_dict() for gate in found],
            "seconds": config.seconds,
            "worlds": config.worlds,
            "seed": config.seed,
            "git": git_revision(),
            "machine": machine_facts(),
        }
        with writing():
            print(f"figures: {write_json(config.json, content)}")
    return 0


if __name__ == "__main__":
    cli_main(main)
