"""What holds for every robot of the local asset root: it equals its source and lies where stock configurations look."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

import pytest

from flashnerd_ext.robots.assets.descriptions import get_description
from flashnerd_ext.robots.assets.verify import verify


def installed(relative: str) -> str:
    """Text of a file that was installed with Isaac Lab."""
    return Path(str(distribution("isaaclab").locate_file(relative))).read_text()


def equals_its_source(name: str, folder: Path) -> None:
    """Masses, limits and mass matrix of what was written to ``folder`` against another parser of the source."""
    pytest.importorskip("pinocchio")
    checks = verify(get_description(name), folder)
    assert len(checks) == 4
    for check in checks:
        assert check.ok, check


def lies_where_stock_looks(name: str, module: str, variable: str, prefix: str) -> None:
    """Outputs against the paths in ``isaaclab_assets/robots/MODULE``, where ``variable`` stands for ``prefix``."""
    text = installed(f"isaaclab_assets/robots/{module}").replace(" = ", "=")
    for output in get_description(name).outputs:
        assert f'usd_path=f"{output.replace(prefix, variable, 1)}"' in text
