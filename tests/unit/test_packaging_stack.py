"""F31: an older copy of the stack first on the path is named in one readable line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def _line(path: Path | None) -> str:
    code = "from flashnerd_ext.runtime import stack_versions; print(stack_versions(('torch', 'warp', 'newton')))"
    env = dict(os.environ)
    if path is not None:
        env["PYTHONPATH"] = str(path)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    [line] = [line for line in done.stdout.splitlines() if line.startswith("stack:")]
    return line


def test_versions_and_files_in_one_line() -> None:
    line = _line(None)
    for name in ("torch 2.11", "warp 1.17", "newton 1.6"):
        assert name in line
    assert line.count("site-packages") == 3
    assert "!!" not in line


def test_older_warp_first_on_the_path_is_named(tmp_path: Path) -> None:
    (tmp_path / "warp").mkdir()
    (tmp_path / "warp" / "__init__.py").write_text("__version__ = '1.5.0'\n")
    line = _line(tmp_path)
    assert f"warp 1.5.0 !! expected 1.17.x ({tmp_path / 'warp'})" in line


def test_copy_of_another_patch_release_is_named(tmp_path: Path) -> None:
    (tmp_path / "warp").mkdir()
    (tmp_path / "warp" / "__init__.py").write_text("__version__ = '1.17.99'\n")
    line = _line(tmp_path)
    assert "warp 1.17.99 !! pip says 1.17.0" in line
