"""A row for each training run: what it trained, its checkpoints, its recordings, and what the guard held."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl.manifest import MANIFEST, describe, read_manifest
from flashnerd_ext.rl.selectors import BEST, LOGS, last_checkpoint
from flashnerd_ext.ui.guard import GuardState, dumped

RECORDINGS = "usd"
"""Folder of a run that ``scripts/export_usd.py`` writes to."""
SUFFIXES = (".usd", ".usdc", ".usda")


@dataclass(frozen=True)
class RunRow:
    """A run as the window lists it.

    Attributes:
        path: Its folder.
        task: Task id.
        created: When it began, as the manifest says.
        physics: Physics and bundle in one line.
        checkpoint: ``best.pt``, else the last checkpoint, or None.
        recordings: USD stages of it, newest first.
        guard: What the guard held in it.
        problem: Why its manifest cannot be read; empty where it can.
    """

    path: Path
    task: str
    created: str
    physics: str
    checkpoint: Path | None
    recordings: tuple[Path, ...]
    guard: GuardState
    problem: str = ""


def run_rows(logs: Path = LOGS) -> list[RunRow]:
    """All runs below a folder of experiments, newest first."""
    rows = [run_row(path.parent) for path in logs.glob(f"*/*/{MANIFEST}")]
    return sorted(rows, key=lambda row: (row.created, str(row.path)), reverse=True)


def run_row(path: Path) -> RunRow:
    """The row of one run folder."""
    recordings = [item for item in (path / RECORDINGS).glob("*") if item.suffix in SUFFIXES and item.name[0] != "."]
    recordings.sort(key=lambda item: item.stat().st_mtime, reverse=True)
    best = path / BEST
    checkpoint = best if best.is_file() else last_checkpoint(path)
    guard = dumped(path / "flashnerd_guard")
    try:
        facts = read_manifest(path)
        content: dict[str, Any] = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except (FlashNerdError, OSError, ValueError) as error:
        return RunRow(path, "unknown", "", "unknown", checkpoint, tuple(recordings), guard, str(error))
    task, created = str(content.get("task", "unknown")), str(content.get("created_at", ""))
    return RunRow(path, task, created, describe(facts), checkpoint, tuple(recordings), guard)
