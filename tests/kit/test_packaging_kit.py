"""The extension in a bare Omniverse Kit (`pip install omniverse-kit`): found, enabled, its module imported."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.kit

PROGRAM = """
import sys
from omni.kit_app import KitApp

app = KitApp()
app.startup(["--no-window", "--allow-root", "--ext-folder", sys.argv[1], "--enable", "flashnerd"])
for _ in range(5):
    app.update()
import omni.kit.app

[found] = [e for e in omni.kit.app.get_app().get_extension_manager().get_extensions() if e["name"] == "flashnerd"]
print("FOUND", found["enabled"], found["version"][:3], "flashnerd_ext" in sys.modules)
app.shutdown()
"""


def _version(repo: Path) -> tuple[int, ...]:
    text = tomllib.loads((repo / "extension.toml").read_text())["package"]["version"]
    return tuple(int(part) for part in text.split("."))


def test_extension_starts_without_an_error(repo: Path, tmp_path: Path) -> None:
    if find_spec("omni") is None or find_spec("omni.kit_app") is None:
        pytest.skip("omniverse-kit is not installed")
    (tmp_path / "flashnerd").symlink_to(repo)
    env = {**os.environ, "OMNI_KIT_ACCEPT_EULA": "YES"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    output = done.stdout + done.stderr
    # Kit says "enabled" even when the module is missing; the logged errors and the import tell.
    assert f"FOUND True {_version(repo)} True" in output, output[-2000:]
    assert not [line for line in output.splitlines() if "[Error]" in line and "flashnerd" in line]
