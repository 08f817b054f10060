"""Build the local asset root: in a temporary folder, under a lock, and published by one rename."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import FlashNerdError, cli_main
from flashnerd_ext.files import write_json
from flashnerd_ext.robots.assets.description import AssetDescription, UsdRobot
from flashnerd_ext.robots.assets.descriptions import all_descriptions
from flashnerd_ext.robots.assets.manifest import MANIFEST, cache_folder, root_key, source_versions

_LOCK_SECONDS = 300.0


def build_root(force: bool = False) -> Path:
    """Build the root of this installation unless it is there, and return its folder.

    Args:
        force: Build it anew and replace what is there.

    Raises:
        FlashNerdError: When another process holds the lock too long, or a source is not what it should be. A robot
            whose package is not installed is left out and named in the manifest instead.
    """
    from filelock import FileLock, Timeout

    key = root_key()
    folder = cache_folder() / key
    if (folder / MANIFEST).is_file() and not force:
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(str(folder) + ".lock", timeout=_LOCK_SECONDS):
            if (folder / MANIFEST).is_file() and not force:
                return folder
            temporary = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=folder.parent))
            try:
                temporary.chmod(0o755)
                write_json(temporary / MANIFEST, write_files(temporary, key))
                if folder.exists():
                    shutil.rmtree(folder)
                temporary.rename(folder)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
    except Timeout:
        raise FlashNerdError(
            f"another process has been building {folder} for {_LOCK_SECONDS:.0f} s: wait, or delete {folder}.lock."
        ) from None
    return folder


def write_files(folder: Path, key: str) -> dict[str, Any]:
    """Write every asset below ``folder``; returns the manifest."""
    from flashnerd_ext.robots.assets.props import PROPS

    for relative, write in PROPS.items():
        write(folder / relative)
    manifest: dict[str, Any] = {"schema": 1, "key": key, "versions": source_versions(), "props": sorted(PROPS)}
    manifest["robots"], manifest["missing"] = {}, {}
    for name, description in all_descriptions().items():
        try:
            description.source.path()
        except FlashNerdError as error:
            manifest["missing"][name] = str(error)
            continue
        manifest["robots"][name] = write_robot(description, folder)
    return manifest


def write_robot(description: AssetDescription, folder: Path) -> dict[str, Any]:
    """Convert one robot to all of its paths below ``folder`` and return its facts for the manifest.

    Raises:
        FlashNerdError: When the written joints are not the described ones.
    """
    from flashnerd_ext.robots.assets.readback import read_asset

    first, *others = (folder / relative for relative in description.outputs)
    if isinstance(description, UsdRobot):
        from flashnerd_ext.robots.assets.usd_robot import convert

        convert(description, first)
    else:
        from flashnerd_ext.robots.assets.urdf_robot import convert as convert_urdf

        convert_urdf(description, first)
    for other in others:
        other.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(first, other)
    asset = read_asset(first)
    joints = [joint.name for joint in asset.breadth_first()]
    if joints != list(description.joints):
        wrong = sorted(set(joints) ^ set(description.joints)) or "the order only"
        raise FlashNerdError(
            f"robot '{description.name}' was written with joints {joints}, but its description lists "
            f"{list(description.joints)} (different: {wrong}): correct descriptions/{description.name}.py."
        )
    return {
        "files": list(description.outputs),
        "fingerprint": asset.fingerprint(),
        "joints": joints,
        "bodies": {name: body.mass for name, body in asset.bodies.items()},
        "mass": asset.mass,
        "fixed_base": asset.fixed_base,
        "source": f"{description.source.distribution}: {description.source.file}",
        "licence": description.source.licence,
    }


def _main() -> None:
    print(build_root())


if __name__ == "__main__":
    # activate() builds in a process of its own: Kit must be the first to import pxr in the process that starts it.
    cli_main(_main)
