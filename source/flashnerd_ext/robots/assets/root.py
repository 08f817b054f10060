"""Decide which asset root this process uses, before Isaac Lab reads it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.robots.assets.manifest import MANIFEST, cache_folder, read_manifest, root_key

MODES = ("auto", "stock", "local")
_ROOT, _PROFILE, _MODE = "ISAACSIM_ASSET_ROOT", "ISAACSIM_ASSET_REGION_PROFILE", "FLASHNERD_ASSETS"


@dataclass(frozen=True)
class AssetRoot:
    """The root in force.

    Args:
        path: Local folder or address given by the user; ``None`` is Isaac Lab's own choice (the asset server).
        mode: ``local`` (built here), ``stock`` (the asset server) or ``custom`` (``ISAACSIM_ASSET_ROOT`` of the user).
        key: Key of the local build, else the mode.
    """

    path: Path | str | None
    mode: str
    key: str


def activate(mode: str = "auto") -> AssetRoot:
    """Point this process (and its children) at an asset root; call it before any ``import isaaclab*``.

    Args:
        mode: ``auto`` keeps a root or region profile that the user's environment names, and takes the local root
            otherwise; ``stock`` takes Isaac Lab's asset server; ``local`` builds what is missing and takes the local
            root. The environment variable ``FLASHNERD_ASSETS`` overrides it.

    Returns:
        The root in force. A warm call costs about a tenth of a second, the first one builds (seconds).

    Raises:
        FlashNerdError: For an unknown mode, a build that fails, or when Isaac Lab has already read another root.
    """
    root = _decide(_checked(mode))
    if root.mode == "stock":
        os.environ.pop(_ROOT, None) if _is_ours(os.environ.get(_ROOT)) else None
    else:
        os.environ[_ROOT] = str(root.path)
    _refuse_late(root)
    return root


def _checked(mode: str) -> str:
    name = _MODE if os.environ.get(_MODE) else "assets mode"
    mode = os.environ.get(_MODE) or mode
    if mode not in MODES:
        raise FlashNerdError(f"{name} is '{mode}', but one of {', '.join(MODES)} is needed: {nearest(mode, MODES)}")
    return mode


def _decide(mode: str) -> AssetRoot:
    given = os.environ.get(_ROOT)
    custom = given if given and not _is_ours(given) else None
    if mode == "auto" and custom:
        return AssetRoot(custom, "custom", "custom")
    if mode == "stock" or (mode == "auto" and os.environ.get(_PROFILE)):
        return AssetRoot(None, "stock", "stock")
    return AssetRoot(local_root(), "local", root_key())


def _is_ours(path: str | None) -> bool:
    return bool(path) and Path(str(path)).parent == cache_folder()


def _refuse_late(root: AssetRoot) -> None:
    loaded = sys.modules.get("isaaclab.utils.assets")
    read = getattr(loaded, "NUCLEUS_ASSET_ROOT_DIR", None)
    if read is None:
        return
    late = str(root.path).rstrip("/\\") != read if root.path is not None else _is_ours(read)
    if late:
        wanted = root.path if root.path is not None else "the asset server"
        raise FlashNerdError(
            f"Isaac Lab has already read its asset root ({read or 'none'}), but {wanted} is wanted: call "
            "flashnerd_ext.robots.assets.activate() before the first import of isaaclab."
        )


def local_root(build: bool = True) -> Path:
    """Folder of the local root of this installation, built in a process of its own when it is missing.

    Raises:
        FlashNerdError: When it cannot be built, or is missing and ``build`` is off.
    """
    folder = cache_folder() / root_key()
    if (folder / MANIFEST).is_file():
        return folder
    if not build:
        raise FlashNerdError("the local asset root is not built yet: type python scripts/assets.py build.")
    command = [sys.executable, "-m", "flashnerd_ext.robots.assets.build"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    print("building the local asset root (once, some seconds) ...", file=sys.stderr, flush=True)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0 or not (folder / MANIFEST).is_file():
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1].removeprefix("error: ") if lines else f"exit status {done.returncode}"
        raise FlashNerdError(f"the local asset root could not be built: {reason}")
    return folder


def asset_key(robot: str, mode: str = "auto") -> str:
    """The name that bundles, data sets and checkpoints record, such as ``cartpole@local-1a2b3c4d``.

    The digits of a local asset are a hash of what physics sees of it (masses, inertias, joints, limits, collision
    shapes), so a new colour keeps the key and another mass changes it. The asset server gives ``cartpole@stock``; a
    root of the user's own gives ``cartpole@custom-`` and a hash of the file.

    Raises:
        FlashNerdError: For a robot without a local asset.
    """
    root = _decide(_checked(mode))
    if root.mode == "stock":
        return f"{robot}@stock"
    if root.mode == "custom":
        from flashnerd_ext.robots.assets.descriptions import get_description

        path = Path(str(root.path)) / get_description(robot).outputs[0]
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8] if path.is_file() else "remote"
        return f"{robot}@custom-{digest}"
    return f"{robot}@local-{_facts(robot)['fingerprint']}"


def joint_order(robot: str) -> tuple[str, ...]:
    """Joint names of the local asset in its written (breadth-first) order."""
    return tuple(_facts(robot)["joints"])


def _facts(robot: str) -> dict:
    manifest = read_manifest(local_root())
    if robot in manifest["robots"]:
        return manifest["robots"][robot]
    if robot in manifest.get("missing", {}):
        raise FlashNerdError(str(manifest["missing"][robot]))
    raise FlashNerdError(f"no local asset is described for robot '{robot}': {nearest(robot, manifest['robots'])}")
