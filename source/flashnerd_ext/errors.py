"""One error type for people, and the wrapper that shows it.

A message is one sentence that names the field, the value found, the value needed and what to type.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches


class FlashNerdError(Exception):
    """Something that the user can mend; its text is a whole sentence."""


def nearest(name: str, known: Iterable[str], count: int = 3) -> str:
    """``", did you mean a, b?"`` with the closest of the known names, else all of them."""
    known = sorted(known)
    close = get_close_matches(name, known, n=count, cutoff=0.5)
    if close:
        return f"did you mean {', '.join(close)}?"
    return f"known: {', '.join(known)}." if known else "none is known."


def one_line(text: object, limit: int = 400) -> str:
    """The text as a single line of at most ``limit`` characters."""
    line = " ".join(str(text).split())
    return line if len(line) <= limit else line[: limit - 3] + "..."


def cli_main(main: Callable[[], int | None]) -> None:
    """Run a script's main: exit 0 or its code; a :class:`FlashNerdError` prints one sentence and exits 2.

    Ctrl-C exits 130 without a traceback. Other exceptions are faults of ours and keep their traceback.
    """
    try:
        code = main()
    except FlashNerdError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("stopped; what was finished is kept.", file=sys.stderr)
        sys.exit(130)
    sys.exit(code or 0)
