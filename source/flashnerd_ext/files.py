"""Files that appear whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any


def atomic_write(path: str | Path, data: bytes | str) -> Path:
    """Write ``data`` to ``path`` through a temporary file in the same folder and a rename."""
    raw = data.encode() if isinstance(data, str) else data
    return atomic_save(path, lambda temporary: temporary.write_bytes(raw))


def atomic_save(path: str | Path, save: Callable[[Path], object]) -> Path:
    """Let ``save(temporary)`` write a file, then rename it to ``path``; nothing is left when it fails.

    The temporary name keeps the suffix of ``path``, since writers such as matplotlib choose the format by it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        save(temporary)
        # mkstemp makes private files; the result should be as readable as any other file of the user.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def write_json(path: str | Path, content: Any) -> Path:
    """Write ``content`` as JSON with two-space indents, atomically; NaN is refused, since it is not JSON."""
    return atomic_write(path, json.dumps(content, indent=2, allow_nan=False) + "\n")
