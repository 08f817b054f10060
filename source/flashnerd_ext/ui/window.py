"""The window itself, made of omni.ui; it shows :class:`flashnerd_ext.ui.model.WindowModel` and holds nothing."""

from __future__ import annotations

from typing import Any

from flashnerd_ext.ui.bundles import BundleRow
from flashnerd_ext.ui.model import WindowModel
from flashnerd_ext.ui.runs import RunRow

TITLE = "FlashNeRD"
_WIDTH, _HEIGHT = 640, 720
_GOOD, _BAD = 0xFF70C070, 0xFF5050E0
"""Text colours, alpha blue green red."""


class FlashNerdWindow:
    """Bundles, runs and the guard's state.

    Args:
        model: What is shown.
        ui: The ``omni.ui`` module.
    """

    def __init__(self, model: WindowModel, ui: Any) -> None:
        self.model, self.ui = model, ui
        self.window = ui.Window(TITLE, width=_WIDTH, height=_HEIGHT)
        self.rebuild()

    def rebuild(self) -> None:
        """Draw everything anew."""
        ui, model = self.ui, self.model
        self.window.frame.clear()
        with self.window.frame, ui.VStack(spacing=6, height=0):
            self._guard()
            with ui.HStack(height=24, spacing=6):
                ui.Label("Runs below", width=80)
                field = ui.StringField()
                field.model.set_value(str(model.logs))
                field.model.add_end_edit_fn(lambda value: self._logs(value.get_value_as_string()))
                ui.Button("Refresh", width=80, clicked_fn=self.refresh)
            ui.Label(model.message, word_wrap=True)
            with ui.CollapsableFrame(f"Bundles ({len(model.bundles)})"), ui.VStack(spacing=4, height=0):
                for row in model.bundles:
                    self._bundle(row)
            with ui.CollapsableFrame(f"Runs ({len(model.runs)})"), ui.VStack(spacing=4, height=0):
                for row in model.runs:
                    self._run(row)

    def refresh(self) -> None:
        """Read everything again and draw it."""
        self.model.refresh()
        self.rebuild()

    def update(self) -> None:
        """Draw again where a running simulation's guard has changed."""
        if self.model.look_at_guard():
            self.rebuild()

    def destroy(self) -> None:
        """Close the window."""
        self.window.destroy()

    def _guard(self) -> None:
        state = self.model.guard
        color = _GOOD if state.quiet else _BAD
        self.ui.Label(f"Guard: {state.text}", word_wrap=True, style={"color": color})

    def _bundle(self, row: BundleRow) -> None:
        ui = self.ui
        with ui.CollapsableFrame(f"{row.name}: {row.summary}", collapsed=True):
            ui.Label(row.card or row.problem, word_wrap=True, style={"color": _BAD} if row.problem else {})

    def _run(self, row: RunRow) -> None:
        ui = self.ui
        with ui.HStack(height=0, spacing=6):
            with ui.VStack(height=0):
                ui.Label(f"{row.path.name}: {row.task}", word_wrap=True)
                ui.Label(row.problem or row.physics, word_wrap=True)
                if not row.guard.quiet:
                    ui.Label(f"Guard: {row.guard.text}", word_wrap=True, style={"color": _BAD})
            ui.Button(f"Open ({len(row.recordings)})", width=80, clicked_fn=lambda: self._open(row))

    def _open(self, row: RunRow) -> None:
        self.model.open_run(row)
        self.rebuild()

    def _logs(self, folder: str) -> None:
        self.model.set_logs(folder)
        self.rebuild()
