"""Where robots of the user's own are looked for."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from flashnerd_ext.errors import FlashNerdError, one_line
from flashnerd_ext.robots.own.schema import FILE, OwnRobot, load_own

VARIABLE = "FLASHNERD_ROBOTS"
"""Folders that hold robots, with the path separator of the system between them; each may also be a robot itself."""
DEFAULT = "robots"
"""Where robots are looked for in the working folder unless :data:`VARIABLE` is set."""


def roots() -> list[Path]:
    """Folders that are looked through.

    Raises:
        FlashNerdError: When the environment names one that is not there.
    """
    given = os.environ.get(VARIABLE)
    if given is None:
        return [Path(DEFAULT).absolute()]
    found = [Path(text).expanduser().absolute() for text in given.split(os.pathsep) if text]
    for path in found:
        if not path.is_dir():
            raise FlashNerdError(f"{VARIABLE} names {path}, which is not a folder: make it, or correct the variable.")
    return found


def own_folders() -> list[Path]:
    """Every folder with a ``robot.toml``, in the order of the roots and then by name."""
    found: list[Path] = []
    for root in roots():
        if (root / FILE).is_file():
            found.append(root)
        elif root.is_dir():
            found += sorted(path.parent for path in root.glob(f"*/{FILE}"))
    return found


def own_robots() -> dict[str, OwnRobot]:
    """Every robot of the user's own by name; of a folder that cannot be used, what is wrong is said once."""
    found, broken = _read()
    for text in broken.values():
        _warn(text)
    return found


def find_own(name: str) -> OwnRobot | None:
    """The user's own robot of that name, or ``None``.

    Raises:
        FlashNerdError: When the folder of that name cannot be used.
    """
    found, broken = _read()
    if name not in found and name in broken:
        raise FlashNerdError(broken[name])
    return found.get(name)


def own_bundles() -> dict[str, Path]:
    """Name -> folder of the bundles that lie with the user's own robots, ``robots/NAME/bundle``."""
    return {name: robot.bundle for name, robot in own_robots().items() if robot.has_bundle}


def _read() -> tuple[dict[str, OwnRobot], dict[str, str]]:
    """Robots by name, and what is wrong with the folders that hold none, by the folder's name."""
    from flashnerd_ext.robots.registry import ROBOTS

    found: dict[str, OwnRobot] = {}
    broken: dict[str, str] = {}
    for folder in own_folders():
        try:
            robot = _load(folder, (folder / FILE).stat().st_mtime_ns)
        except FlashNerdError as error:
            broken[folder.name] = str(error)
            continue
        if robot.name in ROBOTS:
            broken[folder.name] = (
                f"the robot in {folder} is called '{robot.name}', as one of the package is: give it another name in "
                f"its {FILE}."
            )
        elif robot.name in found:
            broken[folder.name] = (
                f"{found[robot.name].folder} and {folder} both hold a robot called '{robot.name}': rename one in its "
                f"{FILE}."
            )
        else:
            found[robot.name] = robot
    return found, broken


@functools.lru_cache(maxsize=64)
def _load(folder: Path, changed: int) -> OwnRobot:
    del changed  # a part of the key: an edited file is read again
    return load_own(folder)


@functools.cache
def _warn(text: str) -> None:
    print(f"warning: a robot of your own is left out: {one_line(text)}", file=sys.stderr)
