"""A process that does one part of a job: its output goes to a log, its progress to whoever waits."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from flashnerd_ext.errors import one_line

PROGRESS = "PROGRESS"
"""Lines that begin with it are a child's progress."""


def follow(
    command: Sequence[str], log: Path, progress: Callable[[str], bool], cwd: Path | None = None
) -> tuple[bool, str]:
    """Run a command to its end; whatever ends this process ends it too.

    Args:
        command: What to run.
        log: File for all that it says.
        progress: Called with each line; whether it was about progress.
        cwd: Where it runs; here when empty.

    Returns:
        Whether it ended well, and the last thing that it said, an error if there was one.
    """
    said = "error: it said nothing"
    with (
        log.open("w", encoding="utf-8") as stream,
        subprocess.Popen(
            list(command), cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        ) as process,
    ):  # fmt: skip
        try:
            spoke = False
            for line in process.stdout or ():
                stream.write(line)
                if progress(line) or not line.strip():
                    continue
                if line.startswith("error: ") or not (spoke and said.startswith("error: ")):
                    said, spoke = line.strip(), True
        except BaseException:
            process.kill()
            raise
    return process.returncode == 0, one_line(said.removeprefix("error: ").rstrip("."), 200)
