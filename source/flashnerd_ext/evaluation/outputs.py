"""Where results go: refused before the work when it cannot be, and said in one sentence when it fails after all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flashnerd_ext.errors import FlashNerdError, one_line


def check_output(option: str, path: str) -> None:
    """Refuse a file that can never be written, before minutes are spent on its content.

    Args:
        option: Name of the command's option, for the message.
        path: File to write; empty and ``none`` write nothing.

    Raises:
        FlashNerdError: When it is a folder, or lies below a file or a folder without write permission.
    """
    if path in ("", "none"):
        return
    target = Path(path)
    if target.is_dir():
        raise FlashNerdError(f"{option} is '{path}', which is a folder: type {option}={path.rstrip('/')}/NAME.")
    parent = next((folder for folder in target.absolute().parents if folder.exists()), Path("/"))
    if not parent.is_dir():
        raise FlashNerdError(f"{option} is '{path}', but {parent} is a file, not a folder: type another {option}=.")
    if not os.access(parent, os.W_OK):
        raise FlashNerdError(f"{option} is '{path}', but {parent} cannot be written: type another {option}=.")


@contextmanager
def writing() -> Iterator[None]:
    """Turn a failed write (full disk, vanished folder) into one sentence."""
    try:
        yield
    except OSError as error:
        place = f" '{error.filename}'" if error.filename else ""
        raise FlashNerdError(
            f"the result{place} cannot be written: {one_line(error.strerror or error, 120)}."
        ) from None
