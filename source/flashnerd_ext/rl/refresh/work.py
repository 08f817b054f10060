"""Starts the processes beside the learner and looks after them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import one_line
from flashnerd_ext.files import write_json


class Work:
    """One child process.

    Args:
        kind: ``simulate`` or ``tune``.
        folder: Folder of the refresh; specification and log go there.
        spec: What :mod:`flashnerd_ext.rl.refresh.child` reads.
    """

    def __init__(self, kind: str, folder: Path, spec: dict[str, Any]) -> None:
        self.kind, self.log = kind, folder / f"{kind}.log"
        request = folder / f"{kind}.json"
        write_json(request, {"kind": kind, "folder": str(folder), "parent": os.getpid(), **spec})
        command = [sys.executable, "-m", "flashnerd_ext.rl.refresh.child", str(request)]
        self.began = time.perf_counter()
        with self.log.open("a", encoding="utf-8") as stream:
            # One core for the learner, one for this.
            threads = os.environ.get("OMP_NUM_THREADS", "1")
            self._process = subprocess.Popen(
                command, stdout=stream, stderr=subprocess.STDOUT, env={**os.environ, "OMP_NUM_THREADS": threads}
            )

    def poll(self) -> int | None:
        """Exit code, ``None`` while it runs."""
        return self._process.poll()

    def wait(self) -> int:
        """Exit code, once it has ended."""
        return self._process.wait()

    def stop(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def seconds(self) -> float:
        """Time since it began [s]."""
        return time.perf_counter() - self.began

    def reason(self) -> str:
        """The last thing that it said, in one line."""
        lines = [line.strip() for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines()]
        errors = [line for line in lines if line.startswith("error: ")]
        said = errors or [line for line in lines if line]
        return one_line(said[-1].removeprefix("error: ").rstrip(".") if said else "it said nothing", 200)
