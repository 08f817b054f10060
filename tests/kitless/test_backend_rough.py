"""The rough task starts in both physics, and the learned one finds its contacts on the generator's mesh."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked import result_of

sys.path.insert(0, str(Path(__file__).parent))
from test_backend_legged import bundle_at

pytestmark = [pytest.mark.kitless, pytest.mark.slow]
CHILD = Path(__file__).with_name("rough_backend_child.py")


def run(physics: str, folder: Path) -> dict[str, Any]:
    bundle = bundle_at(folder / "bundle") if physics == "flashnerd" else ""
    return result_of(CHILD, physics, bundle, cwd=folder)[0]


def test_learned_physics_finds_contacts_on_the_terrain(tmp_path: Path) -> None:
    found = run("flashnerd", tmp_path)
    assert found["stage"] == "TerrainContactStage"
    # The robots stand on tiles of different heights, all four feet at the ground.
    assert len({round(origin[2], 3) for origin in found["origins"]}) > 1
    assert all(len(feet) == 4 for feet in found["feet"]), found
    assert np.abs(np.array(found["touching"])).max() < 0.025
    assert min(found["static"]) == 1.0 and np.mean(np.array(found["up"]) > 0.9) > 0.8
    assert found["finite"] and found["observations"] == 235


def test_analytical_physics_starts_and_stands(tmp_path: Path) -> None:
    found = run("newton_mjwarp", tmp_path)
    assert found["finite"] and found["observations"] == 235
    assert min(found["height"]) > 0.4
