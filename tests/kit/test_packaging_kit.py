"""The extension in a bare Omniverse Kit, as `make test-kit` runs it: it starts without an error, not without a module.

Kit's licence is the user's to agree to: without OMNI_KIT_ACCEPT_EULA these are skipped, and the make target stops.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.kit

CHECK = Path(__file__).with_name("check_extension.py")
COPIED = ("extension.toml", "README.md", "CHANGELOG.md", "source")


@pytest.fixture(scope="module")
def kit() -> dict[str, str]:
    """The environment that Kit starts with."""
    if find_spec("omni") is None or find_spec("omni.kit_app") is None:
        pytest.skip("omniverse-kit is not installed here: type OMNI_KIT_ACCEPT_EULA=YES make test-kit")
    if os.environ.get("OMNI_KIT_ACCEPT_EULA", "").lower() not in ("y", "yes", "1"):
        pytest.skip("OMNI_KIT_ACCEPT_EULA does not say that you agree to NVIDIA's licence")
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def check(checkout: Path, environment: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, str(CHECK), str(checkout)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def copy(repo: Path, tmp_path: Path) -> Path:
    """A copy of the extension that may be damaged."""
    for name in COPIED:
        source, target = repo / name, tmp_path / "copy" / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            target.parent.mkdir(exist_ok=True)
            shutil.copy(source, target)
    return tmp_path / "copy"


def test_extension_starts_without_an_error(repo: Path, kit: dict[str, str]) -> None:
    code, output = check(repo, kit)
    assert code == 0, output
    assert output.splitlines()[-1].startswith("ok: flashnerd")


@pytest.mark.parametrize("module", ["ui/runs.py", "errors.py"])
def test_a_missing_module_fails(copy: Path, kit: dict[str, str], module: str) -> None:
    (copy / "source" / "flashnerd_ext" / module).unlink()
    code, output = check(copy, kit)
    assert code == 1, output
    assert "[Error]" in output and "the module flashnerd_ext.ui was not imported" in output


def test_a_start_that_raises_fails(copy: Path, kit: dict[str, str]) -> None:
    file = copy / "source" / "flashnerd_ext" / "ui" / "extension.py"
    text = file.read_text()
    assert text.count("self.model.refresh()") == 1
    file.write_text(text.replace("self.model.refresh()", 'raise RuntimeError("broken on purpose")'))
    code, output = check(copy, kit)
    assert code == 1, output
    assert "broken on purpose" in output and "on_startup did not come to its end" in output
