"""``latest`` and ``best`` in place of a checkpoint's path, for every command that takes one.

A run says by its manifest (``run.json``) which task it trained and in which physics. ``latest`` is the last checkpoint
of the newest run that fits, ``best`` is that run's ``best.pt`` (:mod:`flashnerd_ext.rl.best`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl.manifest import MANIFEST

SELECTORS = ("latest", "best")
LOGS = Path("logs") / "rsl_rl"
BEST = "best.pt"


def select(selector: str, task: str, metadata: Mapping[str, str] | None = None, logs: str | Path = LOGS) -> Path:
    """The checkpoint that a selector stands for.

    Args:
        selector: One of :data:`SELECTORS`.
        task: Registered task id.
        metadata: What the run's manifest must say, for instance ``{"physics": "flashnerd"}``.
        logs: Folder of runs, or of experiments that are folders of runs.

    Raises:
        FlashNerdError: Where no run fits.
    """
    wanted = dict(metadata or {})
    name = task.split(":")[-1]
    for run in _newest_first(Path(logs), name, wanted):
        last = last_checkpoint(run)
        best = run / BEST
        if selector == "best" and best.is_file():
            return best.resolve()
        if last is None:
            continue
        if selector == "best":
            print(f"{run} has no {BEST} (too few episodes ended in it): its last checkpoint stands in.")
        return last.resolve()
    also = "".join(f", {key}={value}" for key, value in wanted.items())
    raise FlashNerdError(
        f"'{selector}' stands for a run below {logs}, but none is of task={name}{also}: train one, or give a file."
    )


def last_checkpoint(run: Path) -> Path | None:
    """The ``model_<iteration>.pt`` of the highest iteration in a run folder, or None."""
    numbered = [path for path in run.glob("model_*.pt") if re.fullmatch(r"model_\d+", path.stem)]
    return max(numbered, key=lambda path: int(path.stem.split("_")[1]), default=None)


def _newest_first(logs: Path, task: str, wanted: Mapping[str, str]) -> Iterator[Path]:
    runs = [
        (str(content["created_at"]), path.parent)
        for pattern in (f"*/{MANIFEST}", f"*/*/{MANIFEST}")
        for path in logs.glob(pattern)
        if (content := _manifest(path)) and _fits(content, task, wanted)
    ]
    return iter([run for _, run in sorted(runs, reverse=True)])


def _manifest(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and "created_at" in content else None


def _fits(content: Mapping[str, Any], task: str, wanted: Mapping[str, str]) -> bool:
    metadata = content.get("metadata")
    if content.get("library") != "rsl_rl" or content.get("task") != task:
        return False
    return all(isinstance(metadata, dict) and metadata.get(key) == value for key, value in wanted.items())
