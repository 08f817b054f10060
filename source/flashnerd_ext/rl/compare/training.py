"""Trains what is not trained yet, one process a training; what has finished is stamped and not repeated."""

from __future__ import annotations

import json
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import write_json
from flashnerd_ext.rl.children import follow
from flashnerd_ext.rl.compare.curve import events
from flashnerd_ext.rl.compare.options import CompareConfig, facts_of, words_of
from flashnerd_ext.rl.record.program import checkpoints

COMMAND = (sys.executable, "-m", "flashnerd_ext.rl.compare.child")
STAMP, LOG = "finished.json", "train.log"
ITERATION = re.compile(r"Learning iteration (\d+)/(\d+)")
"""What rsl_rl prints after each iteration."""


@dataclass(frozen=True)
class Run:
    """A finished training.

    Attributes:
        physics: What it was trained in. seed: ``None`` of a run that was given and not trained here.
        folder: Isaac Lab's run folder.
        wall: Seconds of the whole process; ``None`` of a given run.
    """

    physics: str
    seed: int | None
    folder: Path
    wall: float | None

    @property
    def checkpoint(self) -> Path:
        """The last one."""
        return checkpoints(str(self.folder))[0]


def place_of(config: CompareConfig, physics: str, seed: int) -> Path:
    """Working folder of a training."""
    return config.folder / f"{physics}-s{seed}"


def finished(config: CompareConfig, physics: str, seed: int) -> Run | None:
    """The run of a training that has finished with these options, if there is one."""
    place = place_of(config, physics, seed)
    try:
        stamp = json.loads((place / STAMP).read_text(encoding="utf-8"))
        folder, wall = place / stamp["folder"], float(stamp["wall"])
        if stamp["facts"] != json.loads(json.dumps(dict(facts_of(config, physics, seed)))):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Run(physics, seed, folder, wall) if events(folder) and any(folder.glob("model_*.pt")) else None


def all_runs(config: CompareConfig) -> list[Run]:
    """Every run of the comparison, in the order of ``physics``; trains those that are missing.

    Raises:
        FlashNerdError: With the first training that fails; those that had finished are kept.
    """
    from tqdm import tqdm

    wanted = [(name, seed) for seed in config.seeds for name in config.physics if name not in config.runs]
    known = {key: run for key in wanted if (run := finished(config, *key)) is not None}
    missing = [key for key in wanted if key not in known]
    if known:
        print(f"{len(known)} of {len(wanted)} trainings are there already, in {config.folder}")
    failed = threading.Event()

    def one(key: tuple[str, int], done: Callable[[int], Any]) -> Run:
        if failed.is_set():
            raise FlashNerdError("another training failed.")
        try:
            return train(config, *key, done)
        except BaseException:
            # Those that wait are not begun; they come after this one, so that its error is the one that is seen.
            failed.set()
            raise

    with (
        tqdm(total=len(missing) * config.max_iterations, unit="it", desc="training", disable=None) as bar,
        ThreadPoolExecutor(config.jobs) as pool,
    ):
        tasks = {key: pool.submit(one, key, bar.update) for key in missing}
        try:
            known |= {key: task.result() for key, task in tasks.items()}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    runs = []
    for name in config.physics:
        runs += [Run(name, None, Path(folder), None) for folder in config.runs.get(name, ())]
        runs += [known[name, seed] for seed in config.seeds if (name, seed) in known]
    return runs


def train(config: CompareConfig, physics: str, seed: int, done: Callable[[int], Any]) -> Run:
    """One training from the beginning; ``done`` gets the number of iterations that were made since its last call.

    Raises:
        FlashNerdError: With the last error of the process, where it fails.
    """
    place, facts = place_of(config, physics, seed), facts_of(config, physics, seed)
    if place.exists():
        # Of a training that was killed, or that had other options.
        shutil.rmtree(place)
    place.mkdir(parents=True)
    log, began, reached = place / LOG, time.perf_counter(), 0

    def progress(line: str) -> bool:
        nonlocal reached
        found = ITERATION.search(line)
        if found:
            number = min(int(found[1]) + 1, config.max_iterations)
            done(number - reached)
            reached = number
        return bool(found)

    well, said = follow([*COMMAND, *words_of(config, physics, seed)], log, progress, place)
    runs = sorted(place.glob("logs/rsl_rl/*/*/"))
    if not well or len(runs) != 1 or not events(runs[0]):
        raise FlashNerdError(f"the training in {physics} with seed {seed} failed: {said}; its log is {log}.")
    done(config.max_iterations - reached)
    wall = time.perf_counter() - began
    write_json(place / STAMP, {"facts": facts, "folder": str(runs[0].relative_to(place)), "wall": wall})
    return Run(physics, seed, runs[0], wall)
