"""What the window shows and does, without a window."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl.selectors import LOGS
from flashnerd_ext.ui.bundles import BundleRow, bundle_rows
from flashnerd_ext.ui.guard import NOTHING, GuardState, running
from flashnerd_ext.ui.runs import RunRow, run_rows

LOGS_VARIABLE = "FLASHNERD_LOGS"
BUNDLES_VARIABLE = "FLASHNERD_BUNDLES"


class WindowModel:
    """Rows of the window, and what its buttons do.

    Args:
        opener: Opens a USD file in the application; gets its path.
        logs: Folder of experiments; ``$FLASHNERD_LOGS``, else ``logs/rsl_rl``.
        bundles: Further folders of bundles; ``$FLASHNERD_BUNDLES``, separated like a path, else ``runs/dynamics``.

    Attributes:
        bundles, runs: What :meth:`refresh` found.
        guard: The state shown at the top.
        message: What the last button did, or why it could not.
    """

    def __init__(
        self,
        opener: Callable[[str], None] | None = None,
        logs: Path | None = None,
        bundles: Sequence[Path] | None = None,
    ) -> None:
        self.opener = opener
        self.logs = logs if logs is not None else Path(os.environ.get(LOGS_VARIABLE) or LOGS)
        named = os.environ.get(BUNDLES_VARIABLE) or str(Path("runs") / "dynamics")
        self.folders = tuple(bundles) if bundles is not None else tuple(map(Path, named.split(os.pathsep)))
        self.bundles: list[BundleRow] = []
        self.runs: list[RunRow] = []
        self.guard: GuardState = NOTHING
        self.message = ""

    def refresh(self) -> None:
        """Read everything again."""
        self.bundles, self.runs = bundle_rows(self.folders), run_rows(self.logs)
        self.guard = self.guard_state()
        self.message = f"{len(self.bundles)} bundles, {len(self.runs)} runs below {self.logs}"

    def guard_state(self) -> GuardState:
        """The running simulation's, else that of the newest run that has a case on record."""
        return running() or next((row.guard for row in self.runs if not row.guard.quiet), NOTHING)

    def look_at_guard(self) -> bool:
        """Read the guard of a running simulation again; returns whether what is shown has changed."""
        before, self.guard = self.guard, self.guard_state()
        return self.guard != before

    def set_logs(self, folder: str) -> None:
        """Show the runs below another folder."""
        self.logs = Path(folder).expanduser()
        self.refresh()

    def open_run(self, row: RunRow) -> bool:
        """Open the newest recording of a run; says in ``message`` what happened, and returns whether one was opened."""
        try:
            self.message = f"opened {self._opened(row)}"
        except FlashNerdError as error:
            self.message = str(error)
            return False
        return True

    def _opened(self, row: RunRow) -> Path:
        if not row.recordings:
            given = row.checkpoint or "latest"
            raise FlashNerdError(
                f"{row.path} has no recording: type python scripts/export_usd.py --task {row.task} "
                f"--checkpoint {given}."
            )
        path = row.recordings[0].resolve()
        if self.opener is None:
            raise FlashNerdError(f"this application cannot open stages (it has no omni.usd): open {path} in another.")
        self.opener(str(path))
        return path
