"""Run a list of commands as stages: timed, logged, resumed after an interruption, stopped at the first failure.

A finished stage leaves a stamp with the hash of its command, its inputs and the stages that it builds on; it is done
again when that hash changes, when one of its files is gone, or with ``fresh``.
"""

from __future__ import annotations

import codecs
import fcntl
import hashlib
import json
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flashnerd_ext.errors import FlashNerdError, one_line
from flashnerd_ext.files import write_json

HEARTBEAT = 15.0
"""Seconds between lines of progress where the output is not a terminal."""
COLUMNS = 100
"""Width that progress bars of the commands get."""


@dataclass(frozen=True)
class Stage:
    """One command of the job."""

    name: str
    title: str
    command: Callable[[], list[str]]
    """Builds the command when its turn has come (a checkpoint's path is known only then)."""
    outputs: Callable[[], Sequence[Path]]
    """Files that the stage leaves; it counts as finished only while all of them exist."""
    inputs: Sequence[Path] = ()
    """Files that decide the result beside the command, such as the bundle's weights."""
    after: Sequence[str] = ()
    """Names of earlier stages whose files this one reads."""
    cwd: Path | None = None
    limit_s: float = 1800.0
    """A stage that runs longer is ended [s]."""


@dataclass
class Outcome:
    """What became of a stage."""

    name: str
    title: str
    command: str
    seconds: float
    """Of the run that made the files [s], also when they were reused."""
    reused: bool
    log: Path


@dataclass
class StageRunner:
    """Runs stages in order into one folder; logs are in ``folder/logs``, stamps in ``folder/.stages``."""

    folder: Path
    fresh: bool = False
    outcomes: list[Outcome] = field(default_factory=list)

    def run(self, stages: Sequence[Stage]) -> list[Outcome]:
        """Run or reuse every stage.

        Raises:
            FlashNerdError: At the first stage that fails, with its name, command and log.
        """
        keys: dict[str, str] = {}
        for count, stage in enumerate(stages, start=1):
            outcome, keys[stage.name] = self._one(
                stage, f"[{count}/{len(stages)}]", [keys[name] for name in stage.after]
            )
            self.outcomes.append(outcome)
        return self.outcomes

    def _one(self, stage: Stage, place: str, earlier: Sequence[str]) -> tuple[Outcome, str]:
        command = stage.command()
        line = shlex.join(_shown(command))
        key = _fingerprint(earlier, line, stage.inputs)
        log = self.folder / "logs" / f"{stage.name}.log"
        stamp = self.folder / ".stages" / f"{stage.name}.json"
        seconds = None if self.fresh else _finished(stamp, key, stage.outputs)
        if seconds is not None:
            _say(f"{place} {stage.title}: reused (took {seconds:.0f} s)")
            return Outcome(stage.name, stage.title, line, seconds, True, log), key
        stamp.unlink(missing_ok=True)
        _say(f"{place} {stage.title}")
        _say(f"    {line}")
        begun = time.monotonic()
        code, last = run_logged(command, log, stage.cwd, stage.limit_s)
        # As the stamp keeps it, so that a reused stage reports the same time.
        seconds = round(time.monotonic() - begun, 2)
        if code != 0:
            reason = f"ran longer than {stage.limit_s:.0f} s and was ended"
            if code is not None:
                reason = f"ended with exit code {code}"
            raise FlashNerdError(
                f"the demo's stage '{stage.name}' {reason} ({one_line(last, 200)}); its command was: {line}; its log "
                f"is {log}; the stages before it are kept, so make demo goes on from here."
            )
        missing = [str(path) for path in stage.outputs() if not path.exists()]
        if missing or not stage.outputs():
            what = ", ".join(missing) or "file of its own"
            raise FlashNerdError(
                f"the demo's stage '{stage.name}' ended well but left no {what}; its command was: {line}; its log is "
                f"{log}."
            )
        write_json(stamp, {"key": key, "seconds": seconds, "command": line})
        _say(f"    done in {seconds:.0f} s")
        return Outcome(stage.name, stage.title, line, seconds, False, log), key


def run_logged(command: Sequence[str], log: Path, cwd: Path | None, limit_s: float) -> tuple[int | None, str]:
    """Run a command with its output in ``log`` and its last line as progress on the terminal.

    Args:
        command: Program and arguments.
        log: File that takes stdout and stderr together; made anew.
        cwd: Working folder, made if it is missing.
        limit_s: The command and its children are ended after this time [s].

    Returns:
        Exit code (None where the limit ended it) and the last line of the output.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    if cwd is not None:
        cwd.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    # A terminal of its own, since progress bars (rate, time left) show nothing on a pipe.
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    process = subprocess.Popen(
        list(command),
        cwd=cwd,
        stdout=slave,
        stderr=slave,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TQDM_MININTERVAL": "2", "TERM": "dumb", "NO_COLOR": "1"},
        start_new_session=True,  # a group of its own, so that its children end with it
    )
    os.close(slave)
    progress = _Progress(begun)
    rest = ""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        with log.open("w", encoding="utf-8") as file:
            file.write(f"$ {shlex.join(command)}\n")
            while True:
                ended = process.poll() is not None
                chunk = _read(master, wait_s=0.0 if ended else 1.0)
                # Carriage returns, with which progress bars redraw, become lines of the log.
                *lines, rest = re.split(r"[\r\n]+", rest + decoder.decode(chunk))
                lines += [rest] if ended and not chunk else []
                file.writelines(f"{line}\n" for line in lines if line.strip())
                file.flush()
                progress.show(next((line for line in reversed(lines) if line.strip()), ""))
                if ended and not chunk:
                    return process.returncode, progress.last
                if time.monotonic() - begun > limit_s:
                    return None, progress.last
    finally:
        progress.clear()
        _end(process)
        os.close(master)


def _read(master: int, wait_s: float) -> bytes:
    """What the command wrote, at most after ``wait_s`` seconds; empty when there is nothing."""
    ready, _, _ = select.select([master], [], [], wait_s)
    if not ready:
        return b""
    try:
        return os.read(master, 65536)
    except OSError:  # EIO: the command and all its children have closed their side
        time.sleep(min(wait_s, 0.2))
        return b""


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command's whole group, politely first; what it had finished is already on disk."""
    for sign, wait in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, sign)
            process.wait(timeout=wait)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


class _Progress:
    """Seconds and the newest line: redrawn in place on a terminal, else now and then on a line of its own."""

    def __init__(self, begun: float) -> None:
        self.begun = begun
        self.last = ""
        self.terminal = sys.stdout.isatty()
        self.shown = begun
        self.width = 0

    def show(self, line: str) -> None:
        if line.strip():
            self.last = one_line(line, 500)
        now = time.monotonic()
        if now - self.shown < (1.0 if self.terminal else HEARTBEAT):
            return
        self.shown = now
        text = f"    {now - self.begun:4.0f} s  {one_line(self.last, 90)}"
        if self.terminal:
            print("\r" + text.ljust(self.width), end="", flush=True)
            self.width = len(text)
        else:
            print(text, flush=True)

    def clear(self) -> None:
        if self.terminal and self.width:
            print("\r" + " " * self.width + "\r", end="", flush=True)


def _finished(stamp: Path, key: str, outputs: Callable[[], Sequence[Path]]) -> float | None:
    """Seconds of the run that left the stamp, or None where the stage has to run."""
    try:
        content = json.loads(stamp.read_text())
        seconds = float(content["seconds"])
        if content["key"] != key:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    files = outputs()
    return seconds if files and all(path.exists() for path in files) else None


def _fingerprint(earlier: Sequence[str], line: str, inputs: Sequence[Path]) -> str:
    digest = hashlib.sha256("\n".join([*earlier, line]).encode())
    for path in inputs:
        digest.update(path.read_bytes() if path.is_file() else b"missing")
    return digest.hexdigest()


def _shown(command: Sequence[str]) -> list[str]:
    """The command as a person would type it: ``python``, and paths below the working folder relative."""
    words = ["python" if command[0] == sys.executable else command[0], *command[1:]]
    here = str(Path.cwd()) + os.sep
    return [word.replace(here, "") for word in words]


def _say(text: str) -> None:
    print(f"demo: {text}", flush=True)
