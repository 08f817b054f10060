"""Imports Isaac Lab once and forks for each job it is given; started by ``forked.py``, never by hand.

Jobs come as JSON lines on stdin: ``argv`` (a script and its words), ``cwd``, ``env``, ``out`` and ``err`` (files) and
``seconds``. Each is answered with a line that holds the job's exit status.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import random
import runpy
import signal
import sys
from pathlib import Path
from typing import Any, TextIO

MODULES = (
    "isaaclab_tasks.utils",
    "flashnerd_tasks",
    "isaaclab.envs",
    "isaaclab_newton.assets",
    "isaaclab_newton.sensors",
    "isaaclab_newton.physics.mjwarp_manager",
    "flashnerd_ext.physics.flashnerd_manager",
)


def load() -> None:
    """Everything that a simulation imports, without beginning one; without Isaac Lab, what its data need.

    Raises:
        RuntimeError: Where that started a thread, which a fork would lose.
    """
    from flashnerd_ext.robots.assets import activate

    complete = importlib.util.find_spec("isaaclab") is not None
    if complete:
        activate("local")
    # Newton imports rerun where it is installed, which starts threads; what records with it has a process of its own.
    sys.modules["rerun"] = None  # type: ignore[assignment]
    for name in MODULES if complete else ("torch", "h5py"):
        importlib.import_module(name)
    del sys.modules["rerun"]
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise RuntimeError(f"importing Isaac Lab started {threads - 1} threads, so it cannot be forked")
    # Objects that live until the end are not looked through again, so that their pages stay shared.
    gc.collect()
    gc.freeze()


def next_job(answers: TextIO) -> dict[str, Any] | None:
    """In a fork: its job. In the server: nothing, after the last one."""
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            answers.close()
            return job
        _, status = os.waitpid(child, 0)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), file=answers, flush=True)
    return None


def become(job: dict[str, Any]) -> None:
    """Be the process that ``python SCRIPT WORDS`` starts."""
    import numpy as np

    for number, (name, flags) in enumerate(
        ((os.devnull, os.O_RDONLY), (job["out"], os.O_WRONLY), (job["err"], os.O_WRONLY))
    ):
        file = os.open(name, flags)
        os.dup2(file, number)
        os.close(file)
    signal.alarm(job["seconds"])
    os.environ.clear()
    os.environ.update(job["env"])
    os.chdir(job["cwd"])
    # A fresh process draws its own numbers.
    random.seed()
    np.random.seed()
    sys.argv = job["argv"]
    sys.path[0] = str(Path(sys.argv[0]).parent)


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed while importing is no answer
    load()
    given = next_job(answers)
    if given is not None:
        become(given)
        runpy.run_path(sys.argv[0], run_name="__main__")
