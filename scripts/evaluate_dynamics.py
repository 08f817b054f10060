"""Measure how far dynamics models drift from the simulator on test data that training never saw.

    python scripts/evaluate_dynamics.py robot=cartpole models=[flashnerd] json=out/error.json
    python scripts/evaluate_dynamics.py models=[flashnerd,nerd] bundles={flashnerd:[run0,run1,run2],nerd:runN} json=OUT

Without an entry in bundles, flashnerd is the bundle shipped under the robot's name, and any other model is what
scripts/train_dynamics.py has left in runs/dynamics/ROBOT-MODEL-sSEED. A list is one model, several seeds.
Contacts are detected in the kind that each bundle takes, so that models with variable and with fixed contacts can be
compared on one data set: models=[flashnerd,flashnerd_fixed] bundles={flashnerd:run0,flashnerd_fixed:run1}.
touches=2000 also splits E1 and E15 by what touches the ground where a rollout starts (base, thighs, ..., feet only) and
by what that touch does (steady, release, new touch), as a table, in the JSON and as a picture beside the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashnerd_ext.cli import parse
from flashnerd_ext.errors import FlashNerdError, cli_main

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flashnerd_ext.bundle.store import Bundle
    from flashnerd_ext.evaluation.dynamics import TestSet


def _help(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass
class EvaluateConfig:
    """Options of the command."""

    robot: str = _help("cartpole", "robot's name")
    models: list[str] = field(
        default_factory=lambda: ["flashnerd"],
        metadata={"help": "models to compare: flashnerd, nerd, nerd_optimized, or names of your own"},
    )
    # Any, since Hydra does not let a command line add keys to a typed dictionary; checked in `check`.
    bundles: Any = field(
        default=None, metadata={"help": "bundle of a model, or a list with one a seed: {NAME:PATH,NAME:[PATH,PATH]}"}
    )
    data: str = _help("", "data set folder; empty means data/ROBOT")
    split: str = _help("test", "split to test on: test or balance")
    json: str = _help("", "file for the figures; the picture and the clip go beside it")
    plot: str = _help("", "PNG of error over horizon; empty means beside json, none means no picture")
    clip: str = _help("", "mp4 or gif that overlays model and simulator; empty means beside json, none means no clip")
    horizons: list[int] = field(default_factory=lambda: [1, 15, 100, 200], metadata={"help": "horizons [model steps]"})
    rollouts: int = _help(512, "rollouts from initial states, at most")
    all_frames: int = _help(512, "rollouts from frames anywhere in a trajectory, at most; 0 for none")
    touches: int = _help(
        0,
        "rollouts from frames anywhere for the error split by contact (robots with contact rows), at most; 0 for none",
    )
    noise: str = _help("rounding", "rounding, mujoco_warp, model (simulator disturbed as the model errs) or none")
    batch: int = _help(256, "rollouts stepped together")
    panels: int = _help(4, "rollouts in the clip")
    device: str = _help("cpu", "device of the models")
    threads: int = _help(0, "threads of torch; 0 takes OMP_NUM_THREADS, else all cores")
    seed: int = _help(0, "chooses the rollouts")


def main() -> int:
    config = parse(EvaluateConfig, doc=__doc__)
    check(config)

    from tqdm import tqdm

    from flashnerd_ext.bundle.same_kind import check_contact_rows
    from flashnerd_ext.data.dataset import load_trajectories
    from flashnerd_ext.evaluation.dynamics import add_touches, error_table, evaluate_model, make_test_set
    from flashnerd_ext.evaluation.outputs import writing
    from flashnerd_ext.evaluation.predictors import detector_of
    from flashnerd_ext.evaluation.touches import touch_table
    from flashnerd_ext.robots.registry import get_robot
    from flashnerd_ext.runtime import set_threads

    set_threads(config.threads or None)
    robot = get_robot(config.robot)
    bundles = find_bundles(config)
    folder = Path(config.data or f"data/{config.robot}")
    if not folder.is_dir():
        raise FlashNerdError(
            f"data={folder} is not there: make the data with "
            f"'python scripts/dataset.py robot={config.robot} out={folder}'."
        )
    data = load_trajectories(folder, config.split, robot)
    test = make_test_set(data, robot.layout, config.horizons, config.rollouts, config.all_frames, config.seed)
    test = add_touches(test, data, robot, config.touches, config.seed)
    first = next(iter(bundles.values()))[0]
    if config.noise == "model" and first.model.rows_capacity:
        # Its one-step error is taken on the recorded rows.
        check_contact_rows(first.card.contacts, data.meta["fixed"], f"noise=model: {first.path}", f"data={folder}")
    detectors = {name: detector_of(seeds, folder) for name, seeds in bundles.items()}
    report: dict[str, Any] = {}
    curves: dict[str, Any] = {}
    shared: dict[tuple[str, ...], str] = {}
    same: set[str] = set()
    with tqdm(total=sum(len(b) for b in bundles.values()) * test.rollouts, unit=" rollouts", disable=None) as bar:
        for name, seeds in bundles.items():
            bar.set_description(name)
            key = tuple(bundle.hash for bundle in seeds)
            if key in shared:  # nerd and nerd_optimized with one set of weights are one function
                report[name], curves[name] = shared_report(seeds, report[shared[key]], shared[key]), curves[shared[key]]
                same.add(shared[key])
                bar.update(len(seeds) * test.rollouts)
                continue
            report[name], curves[name] = evaluate_model(
                seeds, test, config.batch, config.device, bar.update, detectors[name]
            )
            shared[key] = name
    floor, floor_curve, floor_label = measure_floor(config, robot, folder, test)
    chaos = measure_chaos(config, robot, folder, data, test, first)
    content = {
        "robot": config.robot,
        "dt": robot.dt,
        "test_set": test.facts,
        "models": report,
        "reference_noise": floor,
        "disturbed_simulator": chaos,
        **provenance(),
    }
    for name in same:  # one line in the picture, not two on top of each other
        del curves[name]
    with writing():
        write(
            config, content, curves, floor_curve, floor_label, test, {name: bundles[name] for name in curves}, detectors
        )
    print(f"{config.robot}, split {config.split}: {len(test.windows['initial'].start)} rollouts from initial states")
    print(error_table(report, floor, sorted(config.horizons)))
    if test.touches is not None:
        print(
            f"\n{len(test.touches.kind):,} rollouts from frames anywhere, by what touches at the start and a step later"
        )
        print(touch_table({name: of["by_touch"] for name, of in {**report, "reference noise": floor}.items() if of}))
    return 0


def check(config: EvaluateConfig) -> None:
    """Refuse values that cannot work, one sentence each."""
    from flashnerd_ext.evaluation.outputs import check_output

    for name in ("json", "plot", "clip"):
        check_output(name, getattr(config, name))
    for name in ("rollouts", "batch", "panels"):
        if getattr(config, name) < 1:
            raise FlashNerdError(f"{name} is {getattr(config, name)}, but at least 1 is needed: type {name}=4.")
    if config.all_frames < 0 or config.threads < 0:
        raise FlashNerdError("all_frames and threads must be 0 or more.")
    if config.touches < 0:
        raise FlashNerdError(f"touches is {config.touches}, but 0 or more is needed: type touches=2000.")
    if not config.horizons or min(config.horizons) < 1:
        raise FlashNerdError(
            f"horizons is {config.horizons}, but numbers of 1 or more are needed: type horizons=[1,15]."
        )
    if not config.models or len(set(config.models)) != len(config.models):
        raise FlashNerdError(
            f"models is {config.models}, but a list of different names is needed: type models=[flashnerd]."
        )
    if config.noise not in ("rounding", "mujoco_warp", "model", "none"):
        raise FlashNerdError(f"noise is '{config.noise}', but rounding, mujoco_warp, model or none is needed.")
    if not isinstance(config.bundles, dict | None):
        raise FlashNerdError(f"bundles is {config.bundles!r}, but bundles={{NAME:PATH}} is needed.")
    for name in config.bundles or {}:
        if name not in config.models:
            raise FlashNerdError(
                f"bundles has an entry for '{name}', which is not evaluated: "
                f"type models=[{','.join([*config.models, name])}]."
            )
    if config.clip not in ("", "none") and Path(config.clip).suffix not in (".mp4", ".gif"):
        raise FlashNerdError(f"clip is '{config.clip}', but a name that ends in .mp4 or .gif is needed.")


def find_bundles(config: EvaluateConfig) -> dict[str, list[Bundle]]:
    """Bundles of each model: from the command line, else shipped, else what scripts/train_dynamics.py has made here."""
    from flashnerd_ext.bundle.store import load_bundle
    from flashnerd_ext.evaluation.predictors import load_models

    found = {}
    for name in config.models:
        given = (config.bundles or {}).get(name)
        paths = [str(path) for path in given] if isinstance(given, list) else [str(given)] if given else []
        paths = paths or default_bundles(config.robot, name)
        found[name] = load_models(name, paths, config.robot, load_bundle)
    return found


def default_bundles(robot: str, name: str) -> list[str]:
    """Bundles of a model that was given none: the shipped one of the robot, else runs/dynamics/ROBOT-MODEL-sSEED."""
    from flashnerd_ext.bundle.store import shipped

    if name == "flashnerd" and robot in shipped():
        return [robot]
    # Both forms of NeRD hold the same weights, so one training run serves both.
    for model in {"nerd": ("nerd", "nerd_optimized"), "nerd_optimized": ("nerd_optimized", "nerd")}.get(name, (name,)):
        runs = sorted(path.parent for path in Path("runs/dynamics").glob(f"{robot}-{model}-s*/card.json"))
        if runs:
            print(f"{name}: {', '.join(map(str, runs))}")
            return [str(path) for path in runs]
    raise FlashNerdError(
        f"no bundle of model '{name}' is shipped for robot={robot} or lies in runs/dynamics: train one with "
        f"'python scripts/train_dynamics.py robot={robot} model={name}', or type bundles={{{name}:FOLDER}}, "
        "or leave it out of models."
    )


def shared_report(seeds: list[Bundle], other: dict[str, Any], name: str) -> dict[str, Any]:
    """Report of a model that has the weights of one measured before; only its cost differs."""
    from flashnerd_ext.evaluation.flops import count_flops_per_step

    note = f"same weights and function as {name}; its rollouts are shown"
    return {**other, "flops_per_step": count_flops_per_step(seeds[0].model), "note": note}


def measure_floor(config: EvaluateConfig, robot: Any, folder: Path, test: TestSet) -> tuple[Any, Any, str]:
    """Reference noise on the same rollouts; without the simulator it is left out with one sentence."""
    if config.noise in ("none", "model"):
        return None, None, ""
    from flashnerd_ext.evaluation.dynamics import roll_out, seed_report
    from flashnerd_ext.evaluation.predictors import reference_noise

    try:
        predictor, label = reference_noise(robot, folder, config.noise, config.device)
    except ImportError as error:
        print(f"reference noise is left out, since {error.name} is not installed here (noise=none says so by itself).")
        return None, None, ""
    errors = roll_out(predictor, test, config.batch)
    return {"what": label, **seed_report(errors, test)}, errors["initial"].curve()[0], label


def measure_chaos(
    config: EvaluateConfig, robot: Any, folder: Path, data: Any, test: TestSet, bundle: Bundle
) -> dict[str, Any]:
    """With noise=model: the simulator against itself, disturbed at every step like the first model errs, and less."""
    if config.noise != "model":
        return {}
    from flashnerd_ext.data.engines import build_engine, load_or_export
    from flashnerd_ext.evaluation.chaos import FACTORS, disturbed_predictor, one_step_error
    from flashnerd_ext.evaluation.dynamics import error_table, roll_out, seed_report

    engine = build_engine("mujoco_c", load_or_export(robot, folder))
    step = bundle.card.simulation
    spread = one_step_error(bundle.model, step.dt, step.inner_steps, data)
    found = {}
    for factor in FACTORS:
        predictor = disturbed_predictor(engine, robot.layout, factor * spread, config.seed)
        found[f"x{factor:g}"] = seed_report(roll_out(predictor, test, config.batch), test)
    rows = {
        f"simulator, {name}": {**report, "params": 0, "flops_per_step": 0, "seeds": [report]}
        for name, report in found.items()
    }
    print("the simulator against itself, disturbed at every step like the first model errs:")
    print(error_table(rows, None, sorted(config.horizons)))
    return found


def provenance() -> dict[str, Any]:
    """What has to stand beside figures so that they can be made again."""
    import shlex
    import sys

    from flashnerd_ext.runtime import git_revision, machine_facts

    command = "python scripts/evaluate_dynamics.py " + shlex.join(sys.argv[1:])
    return {"command": command, "git": git_revision(), "machine": machine_facts()}


def write(
    config: EvaluateConfig,
    content: dict[str, Any],
    curves: dict[str, Any],
    floor: Any,
    floor_label: str,
    test: TestSet,
    bundles: dict[str, list[Bundle]],
    detectors: Mapping[str, Any] | None = None,
) -> None:
    """JSON, pictures and clip, each whole or not at all."""
    from flashnerd_ext.evaluation.dynamics import curve_of
    from flashnerd_ext.evaluation.palette import PAPER, label_of
    from flashnerd_ext.evaluation.plots import plot_error
    from flashnerd_ext.evaluation.touch_plot import plot_touches
    from flashnerd_ext.files import write_json

    def beside(option: str, suffix: str) -> Path | None:
        if option == "none" or not (option or config.json):
            return None
        return Path(option) if option else Path(config.json).with_suffix(suffix)

    if config.json:
        print(f"figures: {write_json(config.json, content)}")
    plot, clip = beside(config.plot, ".png"), beside(config.clip, ".mp4")
    if plot is not None:
        count = len(test.windows["initial"].start)
        missing = [name for name in config.models if name not in curves]
        note = f"{config.robot}, split {config.split}: {count} rollouts from initial states; {test.facts['engine']}"
        note += "".join(f"; {label_of(name)} lies on a line shown: same weights" for name in missing)
        path = plot_error(
            plot,
            {name: curve_of(errors) for name, errors in curves.items()},
            f"{config.robot}: rollout error on test data",
            note,
            floor,
            floor_label,
            PAPER.get(config.robot),
            sorted(config.horizons),
            content["dt"],
        )
        print(f"picture: {path}")
        if test.touches is not None:
            path = plot_touches(
                plot.with_suffix(".touches.png"),
                {name: content["models"][name]["by_touch"] for name in curves},
                f"{config.robot}: error by contact",
                f"{config.robot}, split {config.split}: {len(test.touches.kind)} rollouts from frames anywhere; "
                f"{test.facts['engine']}",
            )
            print(f"picture: {path}")
    if clip is not None:
        print(f"clip:    {make_clip(config, clip, test, bundles, content['dt'], detectors)}")


def make_clip(
    config: EvaluateConfig,
    path: Path,
    test: TestSet,
    bundles: dict[str, list[Bundle]],
    dt: float,
    detectors: Mapping[str, Any] | None = None,
) -> Path:
    """Overlay of the first seed of each model on some rollouts, spread over the samplers."""
    import numpy as np
    from tqdm import tqdm

    from flashnerd_ext.evaluation.clip import write_clip
    from flashnerd_ext.evaluation.predictors import model_predictor

    windows = test.windows["initial"]
    steps = int(windows.length.max())
    full = np.flatnonzero(windows.length == steps)
    samplers = test.sampler[windows.trajectory[full]]
    # One rollout of each sampler in turn, so that the clip shows different kinds of motion.
    turn = np.zeros(len(full), dtype=np.int64)
    for kind in np.unique(samplers):
        turn[samplers == kind] = np.arange(int((samplers == kind).sum()))
    rows = windows.trajectory[full[np.lexsort((samplers, turn))[: config.panels]]]
    q = np.swapaxes(test.joint_q[rows, : steps + 1], 0, 1)
    u = np.swapaxes(test.actuation[rows, :steps], 0, 1)
    predicted = {}
    for name, seeds in bundles.items():
        step = seeds[0].card.simulation
        found = (detectors or {}).get(name)
        predict = model_predictor(seeds[0].model, step.dt, step.inner_steps, config.device, detector=found)
        worlds = {name: values[rows] for name, values in test.worlds.items()}
        predicted[name] = predict(q[0], test.joint_qd[rows, 0], u, worlds)[0]
    with tqdm(desc="clip", unit=" frames", disable=None) as bar:
        return write_clip(path, config.robot, test.layout, q, predicted, dt, progress=bar.update)


if __name__ == "__main__":
    cli_main(main)
