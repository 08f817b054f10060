"""The artifact that a user gets: the wheel's content, and that it works away from the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

COPIED = ("pyproject.toml", "setup.py", "extension.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def unpacked(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a freshly built wheel, unpacked; built from a copy, since setuptools writes beside setup.py."""
    tree = tmp_path_factory.mktemp("tree")
    for name in COPIED:
        shutil.copy(repo / name, tree / name)
    for name in ("source", "tasks"):
        shutil.copytree(repo / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    wheels = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(wheels)]
    done = subprocess.run([*command, str(tree)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    [wheel] = wheels.glob("*.whl")
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_wheel_holds_all_modules_and_the_bundles(repo: Path, unpacked: Path) -> None:
    for source, target in (("source/flashnerd_ext", "flashnerd_ext"), ("tasks", "flashnerd_tasks")):
        here = {str(file.relative_to(repo / source)) for file in (repo / source).rglob("*.py")}
        there = {str(file.relative_to(unpacked / target)) for file in (unpacked / target).rglob("*.py")}
        assert here - there == set(), f"a folder below {source} lacks its __init__.py"
    shipped = repo / "source/flashnerd_ext/bundle/shipped"
    for file in shipped.rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            assert (unpacked / "flashnerd_ext/bundle/shipped" / file.relative_to(shipped)).is_file(), file


def test_wheel_holds_nothing_else(unpacked: Path) -> None:
    names = {path.name for path in unpacked.iterdir() if not path.name.endswith(".dist-info")}
    assert names == {"flashnerd_ext", "flashnerd_tasks"}


def test_wheel_works_away_from_the_checkout(unpacked: Path, tmp_path: Path) -> None:
    code = "import flashnerd_ext; print(flashnerd_ext.__file__, flashnerd_ext.__version__)"
    env = {**os.environ, "PYTHONPATH": str(unpacked)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    file, version = done.stdout.split()
    assert Path(file).is_relative_to(unpacked)
    assert version[0].isdigit()
