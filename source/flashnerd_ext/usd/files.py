"""Textures and other files that a stage names: copied beside it, or taken out where they cannot be read."""

from __future__ import annotations

import hashlib
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from flashnerd_ext.files import atomic_write
from flashnerd_ext.robots.assets.pxr_api import Layer

UsdUtils: Any = import_module("pxr.UsdUtils")
Ar: Any = import_module("pxr.Ar")


def gather(layer: Layer, output: Path) -> tuple[list[Path], list[str]]:
    """Let a layer name copies of its files that lie in ``<stem>_files`` beside ``output``.

    Args:
        layer: A flattened layer; its asset paths are absolute. It is changed in place.
        output: File that the layer is going to be.

    Returns:
        The copies, and the paths that lead to no file here, which the layer no longer names.
    """
    folder = output.parent / f"{output.stem}_files"
    resolver, copies, lost = Ar.GetResolver(), {}, set()

    def moved(path: str) -> str:
        if not path:
            return path
        found = str(resolver.Resolve(path))
        if not found or not os.path.isfile(found):
            lost.add(path)
            return ""
        if found not in copies:
            content = Path(found).read_bytes()
            name = f"{Path(found).stem}-{hashlib.sha256(content).hexdigest()[:8]}{Path(found).suffix}"
            copies[found] = atomic_write(folder / name, content)
        return f"./{folder.name}/{copies[found].name}"

    UsdUtils.ModifyAssetPaths(layer, moved)
    return sorted(copies.values()), sorted(lost)
