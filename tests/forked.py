"""Scripts in processes that have Isaac Lab in them already.

A simulation lives once in a process, so that a test of one needs a process of its own; but importing Isaac Lab costs a
fresh one some ten seconds of a core before anything begins. So each test process has one server that imports it, and
each script runs in a fork of it: as alone as in a fresh process, and knowing nothing of the others.

What users type is also run in a fresh process once: what a script imports, and in which order, is a part of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import IO, Any

SERVER = Path(__file__).with_name("fork_server.py")
SETTINGS = {"OMP_NUM_THREADS": "1", "FLASHNERD_ASSETS": "local", "CUDA_VISIBLE_DEVICES": ""}
"""Of the server and all that runs in it. GPUs are hidden, since CUDA does not survive a fork."""


@cache
def server() -> tuple[subprocess.Popen[str], IO[str]]:
    """The server of this process, which ends with it, as its stdin closes; and what the server itself says."""
    # USD would start threads as soon as Newton is imported, and a fork has only the one that forks.
    said = tempfile.TemporaryFile("w+")  # noqa: SIM115  (open for as long as the server runs)
    process = subprocess.Popen(
        [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True,
        env={**os.environ, **SETTINGS, "PXR_WORK_THREAD_LIMIT": "1"},
    )  # fmt: skip
    return process, said


def fresh(
    script: Path, *words: object, cwd: Path, env: dict[str, str] | None = None, timeout: int = 900
) -> subprocess.CompletedProcess[str]:
    """``python SCRIPT WORDS`` as a user starts it, but on one thread; arguments as those of :func:`forked`."""
    argv = [sys.executable, str(script), *(str(word) for word in words)]
    environment = {**(env or os.environ), "OMP_NUM_THREADS": "1"}
    return subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout, check=False)


def forked(
    script: Path, *words: object, cwd: Path, env: dict[str, str] | None = None, timeout: int = 900
) -> subprocess.CompletedProcess[str]:
    """``python SCRIPT WORDS`` on the local asset root and the CPU, as :func:`subprocess.run` would run it.

    Args:
        script: Path of a Python file.
        cwd: Folder to run in.
        env: Environment; that of this process by default.
        timeout: Time after which it is ended [s]; its exit code is then that of a signal.

    Raises:
        RuntimeError: Where the server has ended.
    """
    argv = [str(script), *(str(word) for word in words)]
    environment = {**(env or os.environ), **SETTINGS}
    process, said = server()
    assert process.stdin is not None and process.stdout is not None
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        out.touch()
        err.touch()
        job = {"argv": argv, "cwd": str(cwd), "env": environment, "out": str(out), "err": str(err), "seconds": timeout}
        print(json.dumps(job), file=process.stdin, flush=True)
        answer = process.stdout.readline()
        if not answer:
            code = process.wait()
            said.seek(0)
            raise RuntimeError(f"the server of forks has ended with {code}: {said.read()[-3000:]}")
        return subprocess.CompletedProcess(argv, json.loads(answer)["status"], out.read_text(), err.read_text())


def result_of(script: Path, *words: object, cwd: Path) -> tuple[Any, str]:
    """The JSON that a script prints behind ``RESULT`` at its end, and everything else that it printed."""
    done = forked(script, *words, cwd=cwd)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert done.returncode == 0 and lines, (done.returncode, done.stdout[-1500:], done.stderr[-3000:])
    return json.loads(lines[-1].removeprefix("RESULT")), (done.stdout + done.stderr).replace(lines[-1], "")
