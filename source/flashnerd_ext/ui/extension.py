"""What Kit starts: it reads the rows, and shows the window where the application has ``omni.ui``.

Kit calls an extension enabled whether or not it could be started; ``tests/kit`` looks at what was logged and at
:data:`FlashNerdExtension.running`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from flashnerd_ext.ui.model import WindowModel

if TYPE_CHECKING:
    from flashnerd_ext.ui.window import FlashNerdWindow


def optional(name: str) -> Any | None:
    """A module of Kit, or None where this application (or plain Python) has none.

    A module that is there but cannot be imported is an error.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise
        return None


_ext = optional("omni.ext")
_Base: Any = object if _ext is None else _ext.IExt

logger = logging.getLogger(__name__)

GUARD_EVERY = 1.0
"""Seconds between looks at a running simulation's guard."""


class FlashNerdExtension(_Base):
    """Kit's entry.

    Attributes:
        running: The one that is started, or None.
        model: What the window shows.
        window: The window, or None in an application without ``omni.ui``.
    """

    running: ClassVar[FlashNerdExtension | None] = None
    model: WindowModel
    window: FlashNerdWindow | None = None

    def on_startup(self, ext_id: str) -> None:
        """Read the rows and show them."""
        self.model = WindowModel(opener())
        self.model.refresh()
        ui = optional("omni.ui")
        if ui is None:
            logger.info("%s: this application has no omni.ui, so that there is no window.", ext_id)
        else:
            from flashnerd_ext.ui.window import FlashNerdWindow

            self.window = FlashNerdWindow(self.model, ui)
            self._watch()
        FlashNerdExtension.running = self

    def on_shutdown(self) -> None:
        """Close the window."""
        self._subscription = None
        if self.window is not None:
            self.window.destroy()
            self.window = None
        FlashNerdExtension.running = None

    def _watch(self) -> None:
        """Look at the guard now and then while the application runs."""
        app = import_module("omni.kit.app").get_app()
        last = time.monotonic()

        def update(_: Any) -> None:
            nonlocal last
            if self.window is not None and time.monotonic() - last >= GUARD_EVERY:
                last = time.monotonic()
                self.window.update()

        self._subscription = app.get_update_event_stream().create_subscription_to_pop(update, name="flashnerd.guard")


def opener() -> Callable[[str], None] | None:
    """A function that opens a USD file in this application, or None where it has no ``omni.usd``."""
    usd = optional("omni.usd")
    if usd is None:
        return None

    def open_stage(path: str) -> None:
        usd.get_context().open_stage(path)

    return open_stage
