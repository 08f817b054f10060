"""What pyproject.toml, setup.py and extension.toml promise to pip, to Kit and to Isaac Lab."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

OWN = {"flashnerd_ext", "flashnerd_tasks"}
KIT_ONLY = {"carb", "omni"}
LIGHT = ("bundle", "data/dataset.py", "evaluation/report.py", "evaluation/rollout_error.py", "model", "training", "ui")
HEAVY = ("isaaclab", "isaaclab_newton", "mujoco", "mujoco_warp", "newton", "omni", "warp")


@pytest.fixture(scope="module")
def project(repo: Path) -> dict[str, Any]:
    return tomllib.loads((repo / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def extension(repo: Path) -> dict[str, Any]:
    return tomllib.loads((repo / "extension.toml").read_text())


def test_version_stands_in_one_place(repo: Path, project: dict[str, Any], extension: dict[str, Any]) -> None:
    version = extension["package"]["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert project["project"]["dynamic"] == ["version"]
    assert version not in (repo / "setup.py").read_text()
    assert f"## {version}" in (repo / "CHANGELOG.md").read_text()
    assert metadata.version("flashnerd-ext") == version, "type pip install -e . --no-deps after a version change"


def test_no_pin_against_isaaclab(project: dict[str, Any]) -> None:
    isaaclab = {canonicalize_name(Requirement(line).name) for line in metadata.requires("isaaclab") or []}
    for line in project["project"]["dependencies"]:
        requirement = Requirement(line)
        if canonicalize_name(requirement.name) in isaaclab:
            assert not requirement.specifier, f"{line}: Isaac Lab already decides its version"


def test_every_imported_package_is_declared(repo: Path, project: dict[str, Any]) -> None:
    declared = {canonicalize_name(Requirement(line).name) for line in project["project"]["dependencies"]}
    # What Isaac Lab requires in any case comes with it; newton[sim] brings its solver.
    for line in [*(metadata.requires("isaaclab") or []), *(metadata.requires("newton") or [])]:
        requirement = Requirement(line)
        if requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in ("", "sim", "viser", "test", "ovphysx")
        ):
            declared.add(canonicalize_name(requirement.name))
    distributions = metadata.packages_distributions()
    undeclared: dict[str, str] = {}
    for file in _sources(repo):
        for name in _imported(file):
            owners = {canonicalize_name(owner) for owner in distributions.get(name, [])}
            if not owners & (declared | {"isaaclab"}):
                undeclared[name] = str(file.relative_to(repo))
    assert not undeclared, f"imported but not in pyproject.toml's dependencies: {undeclared}"


def _sources(repo: Path) -> list[Path]:
    return [file for folder in ("source", "tasks", "scripts") for file in sorted((repo / folder).rglob("*.py"))]


def _imported(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    beside = {path.stem for path in file.parent.iterdir()}
    return names - set(sys.stdlib_module_names) - OWN - KIT_ONLY - beside


KIT_KEYS = {
    "package": {"version", "title", "description", "category", "readme", "changelog", "keywords", "license"},
    "dependencies": None,
    "python": {"module"},
}
"""Sections and keys of extension.toml that we use, all of them Kit's; None: the names are free."""


def test_kit_metadata(repo: Path, extension: dict[str, Any]) -> None:
    assert set(extension) == set(KIT_KEYS), "Kit ignores a section whose name is misspelt"
    for section, keys in KIT_KEYS.items():
        assert keys is None or set(extension[section]) == keys, section
    required = [name for name, spec in extension["dependencies"].items() if spec.get("optional") is not True]
    assert not required, f"Kit without {required} could not load the extension"
    for module in extension["python"]["module"]:
        assert set(module) == {"name", "path"}
        file = repo / module["path"] / Path(*module["name"].split("."))
        assert (file / "__init__.py").is_file() or file.with_suffix(".py").is_file(), module
    assert [module["name"] for module in extension["python"]["module"]] == ["flashnerd_ext", "flashnerd_ext.ui"]
    for key in ("readme", "changelog"):
        assert (repo / extension["package"][key]).is_file()


def test_kits_modules_import_without_kit_numpy_or_torch(repo: Path, extension: dict[str, Any]) -> None:
    """A bare Kit has Python's own library only; one class in them is what Kit starts."""
    names = [module["name"] for module in extension["python"]["module"]]
    code = f"""
import importlib, sys
sys.path.insert(0, {str(repo / "source")!r})
sys.modules.update(dict.fromkeys({[*HEAVY, "numpy", "torch", "pxr"]!r}))  # importing one of them now fails
modules = [importlib.import_module(name) for name in {names!r}]
print([name for module in modules for name in vars(module) if hasattr(vars(module)[name], "on_startup")])
from flashnerd_ext.ui.model import WindowModel
model = WindowModel()
model.refresh()
print(len(model.bundles))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    classes, bundles = done.stdout.splitlines()
    assert classes == "['FlashNerdExtension']" and int(bundles) >= 4


def test_isaaclab_finds_the_tasks(repo: Path, project: dict[str, Any]) -> None:
    from isaaclab.cli.commands import list_envs

    wanted = project["project"]["entry-points"]["isaaclab.tasks"]
    found = {entry.name: entry.value for entry in metadata.entry_points(group="isaaclab.tasks")}
    assert wanted.items() <= found.items()
    # list_envs reads pyproject.toml by itself, from any folder below it.
    assert list_envs._find_project_task_modules(repo / "scripts") == tuple(wanted.values())
    assert Path(str(importlib.import_module("flashnerd_tasks").__file__)) == repo / "tasks" / "__init__.py"


def test_readme_names_what_exists(repo: Path) -> None:
    text = (repo / "README.md").read_text()
    for script in set(re.findall(r"python (scripts/[\w/]+\.py)", text)):
        assert (repo / script).is_file(), f"README names {script}"
    targets = set(re.findall(r"^([a-z-]+):", (repo / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE)) <= targets
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (repo / link).exists(), f"README links to {link}"


def test_learning_parts_import_without_a_simulator(repo: Path) -> None:
    source = repo / "source"
    modules = ["flashnerd_ext"]
    for part in LIGHT:
        path = source / "flashnerd_ext" / part
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            if file.name != "__main__.py":
                modules.append(".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__"))
    code = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({HEAVY!r}))  # importing one of them now fails
for name in {modules!r}:
    importlib.import_module(name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_importing_the_package_is_light() -> None:
    code = "import flashnerd_ext, sys; print([name for name in ('torch', 'numpy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", "the package root must import nothing heavy"
