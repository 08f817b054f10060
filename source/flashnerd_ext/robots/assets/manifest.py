"""Where the local asset root lies, what its name is made from, and what it says about itself; loads nothing heavy."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import FlashNerdError

MANIFEST = "manifest.json"
_DISTRIBUTIONS = ("newton", "example-robot-data", "usd-core", "usd-exchange", "numpy", "scipy", "trimesh")
"""Distributions whose version can change what is written: the sources and the libraries of the converter."""


def cache_folder() -> Path:
    """Folder that holds one asset root per key (``$XDG_CACHE_HOME/flashnerd/assets`` on Linux)."""
    from platformdirs import user_cache_path

    return user_cache_path("flashnerd") / "assets"


def source_versions() -> dict[str, str]:
    """Distribution -> installed version, ``absent`` where it is not installed."""
    found = {}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


@lru_cache(maxsize=1)
def root_key() -> str:
    """Sixteen hex digits over the package versions and every source file of this converter."""
    digest = hashlib.sha256(json.dumps(source_versions(), sort_keys=True).encode())
    here = Path(__file__).parent
    for path in sorted(here.rglob("*.py")):
        digest.update(path.relative_to(here).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a built root.

    Raises:
        FlashNerdError: When the folder holds none or a broken one.
    """
    try:
        content = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("robots"), dict):
        raise FlashNerdError(f"{folder} holds no local asset root: type python scripts/assets.py build.")
    return content
