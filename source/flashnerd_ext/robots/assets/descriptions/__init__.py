"""One file a robot: each module here holds ``DESCRIPTION``, and adding a file is all that a new robot needs."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.robots.assets.description import AssetDescription


def all_descriptions() -> dict[str, AssetDescription]:
    """Robot name -> description, sorted by name."""
    found: dict[str, AssetDescription] = {}
    for module in sorted(entry.name for entry in iter_modules(__path__)):
        description = import_module(f"{__name__}.{module}").DESCRIPTION
        found[description.name] = description
    return dict(sorted(found.items()))


def get_description(robot: str) -> AssetDescription:
    """The description of ``robot``.

    Raises:
        FlashNerdError: For an unknown name, with the nearest ones.
    """
    known = all_descriptions()
    if robot not in known:
        raise FlashNerdError(f"no local asset is described for robot '{robot}': {nearest(robot, known)}")
    return known[robot]
