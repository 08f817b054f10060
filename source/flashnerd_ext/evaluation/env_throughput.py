"""Environment throughput: two physics backends, one process each, taking short turns with the same actions."""

from __future__ import annotations

import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flashnerd_ext.errors import FlashNerdError, one_line
from flashnerd_ext.evaluation.ratios import quotients

START_LIMIT_S = 900.0
"""Longest wait for an environment; a first run compiles Warp kernels."""
STEP_LIMIT_S = 300.0
"""Longest wait for one turn."""


class Worker:
    """An environment in its own process; idle (blocked in a read) while another has its turn.

    Args:
        command: What to run; answers one line of JSON to each request.
        name: For messages.
    """

    def __init__(self, command: Sequence[str], name: str) -> None:
        self.name = name
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (lives as long as the process)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, bufsize=1
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def ready(self) -> dict[str, Any]:
        """Facts of the environment, once it stands."""
        return self._receive(START_LIMIT_S)["ready"]

    def steps(self, count: int, seed: int, split: bool = True, stages: bool = False) -> dict[str, Any]:
        """Take ``count`` environment steps; see ``env_worker.run_steps``."""
        return self._ask({"count": count, "seed": seed, "split": split, "stages": stages}, STEP_LIMIT_S)

    def soak(self, count: int, seed: int, limit: float) -> dict[str, Any]:
        """A long run, see ``soak.run_soak``, of at most ``limit`` seconds."""
        return self._ask({"soak": True, "count": count, "seed": seed}, limit)

    def _ask(self, request: dict[str, Any], limit: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
        except BrokenPipeError:
            raise self._failed("ended early") from None
        return self._receive(limit)

    def _receive(self, limit: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=limit)
        except queue.Empty:
            raise self._failed(f"gave no answer in {limit:.0f} s") from None
        if line is None:
            raise self._failed("ended early")
        content = json.loads(line)
        if "error" in content:
            raise FlashNerdError(f"the environment with physics={self.name} failed: {one_line(content['error'], 300)}")
        return content

    def _failed(self, what: str) -> FlashNerdError:
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 2000))
        tail = [line for line in self._log.read().decode(errors="replace").splitlines() if line.strip()]
        last = one_line(tail[-1], 200) if tail else "it printed nothing"
        return FlashNerdError(f"the environment with physics={self.name} {what}; its last line: {last}")

    def close(self) -> None:
        """End the process: politely, then firmly."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(timeout=5)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()


@dataclass
class EnvResult:
    """What one backend did at one number of environments."""

    physics: str
    num_envs: int
    facts: dict[str, Any]
    wall: list[float] = field(default_factory=list)
    """Time of one environment step in each round [s]."""
    inside: list[float] = field(default_factory=list)
    """Time inside the physics manager for one environment step in each round [s]."""
    resets: int = 0
    """Episodes that ended."""
    steps: int = 0
    """Environment steps in each round."""

    def row(self) -> dict[str, Any]:
        """Entry of the results; medians over rounds."""
        step = statistics.median(self.wall)
        return {
            "physics": self.physics,
            "num_envs": self.num_envs,
            "env_steps_per_s": self.num_envs / step,
            "physics_s_per_step": statistics.median(self.inside),
            "step_s": step,
            "low": self.num_envs / max(self.wall),
            "high": self.num_envs / min(self.wall),
            "rounds": len(self.wall),
            "steps_per_round": self.steps,
            "resets": self.resets,
            **{key: self.facts[key] for key in ("manager", "decimation", "sim_dt") if key in self.facts},
        }


def worker_command(task: str, physics: str, num_envs: int, device: str, seed: int, bundle: str = "") -> list[str]:
    """Command line of an environment process."""
    command = [sys.executable, "-m", "flashnerd_ext.evaluation.env_worker", f"--task={task}", f"--physics={physics}"]
    command += [f"--num_envs={num_envs}", f"--device={device}", f"--seed={seed}"]
    return command + ([f"--bundle={bundle}"] if bundle else [])


def measure(
    commands: dict[str, list[str]],
    num_envs: int,
    rounds: int,
    seconds: float,
    warm_up: int = 20,
    on_gpu: bool = False,
    progress: Callable[[str], None] | None = None,
) -> list[EnvResult]:
    """Step all backends in turns.

    Every backend takes the same number of steps with the same actions in a round; that number is chosen so that the
    slowest needs about ``seconds``.

    Args:
        commands: Command of each backend's process.
        num_envs: Environments in each.
        rounds: Turns that each backend gets.
        seconds: Length of a turn of the slowest [s].
        warm_up: Steps before anything is timed.
        on_gpu: Time the whole step and the physics part in separate turns, since timing the part waits for the GPU.
        progress: Called with a word at each start and each turn.
    """
    say = progress or (lambda text: None)
    workers: dict[str, Worker] = {}
    try:
        results = {}
        for name, command in commands.items():
            # One after the other: two first runs that compile the same kernels at once only slow each other down.
            say(f"start {name}, {num_envs} environments")
            workers[name] = Worker(command, name)
            results[name] = EnvResult(name, num_envs, workers[name].ready())
        slowest = 0.0
        for name, worker in workers.items():
            say(f"warm up {name}")
            worker.steps(warm_up, seed=0)
            trial = worker.steps(warm_up, seed=1)
            slowest = max(slowest, trial["wall"] / trial["steps"])
        count = max(2, round(seconds / slowest))
        names = list(workers)
        for turn in range(rounds):
            for name in names if turn % 2 == 0 else reversed(names):
                say(f"{num_envs} environments, {name}")
                whole = workers[name].steps(count, seed=2 + turn, split=not on_gpu)
                part = workers[name].steps(count, seed=2 + turn) if on_gpu else whole
                result = results[name]
                result.wall.append(whole["wall"] / count)
                result.inside.append(part["physics"] / count)
                result.resets += whole["resets"]
                result.steps = count
        return list(results.values())
    finally:
        for worker in workers.values():
            worker.close()


def ratios(rows: Sequence[dict[str, Any]], first: str, second: str) -> dict[str, dict[str, float]]:
    """How many times faster ``first`` is than ``second``: the whole step and the physics part, by num_envs."""

    def column(physics: str, name: str) -> dict[int, float]:
        return {row["num_envs"]: row[name] for row in rows if row["physics"] == physics}

    whole = quotients(column(first, "env_steps_per_s"), column(second, "env_steps_per_s"))
    inner = quotients(column(second, "physics_s_per_step"), column(first, "physics_s_per_step"))
    return {count: {"env": value, "physics": inner[count]} for count, value in whole.items()}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Results as text for a terminal."""
    head = ("num_envs", "physics", "env steps/s", "step [ms]", "physics [ms]", "resets")
    lines = [head] + [
        (
            f"{row['num_envs']:,}",
            row["physics"],
            f"{row['env_steps_per_s']:,.0f}",
            f"{1e3 * row['step_s']:.3f}",
            f"{1e3 * row['physics_s_per_step']:.3f}",
            f"{row['resets']:,}",
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines)


def medians(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Median of each entry over runs that have the same ones."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}
