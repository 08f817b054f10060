"""What has no effect is said once; where the configuration is strict, it is refused."""

from __future__ import annotations

import logging

from flashnerd_ext.errors import FlashNerdError

logger = logging.getLogger(__name__)


class Notices:
    """One for each solver, so that a rebuilt simulation says everything again.

    Args:
        strict: Refuse instead.
    """

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict
        self._said: set[str] = set()

    def said(self, what: str) -> bool:
        """Whether ``what`` was said before, so that looking for it again can be spared."""
        return what in self._said

    def say(self, what: str, text: str) -> None:
        """Log ``text``, one sentence with a full stop, the first time that ``what`` comes up.

        Raises:
            FlashNerdError: With the same sentence, every time, where this is strict.
        """
        if self.strict:
            raise FlashNerdError(f"{text[:-1]} (refused because solver_cfg.strict is on).")
        self.warn(what, text)

    def warn(self, what: str, text: str) -> None:
        """As :meth:`say`, for what was asked for: never refused."""
        if what not in self._said:
            self._said.add(what)
            logger.warning("%s", text)
