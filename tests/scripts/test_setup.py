"""`make setup` without its nine gigabytes: pythons and pip are small stand-ins in temporary folders."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# What the scripts call; the PATH of the tests holds these and nothing else, above all no other Python.
TOOLS = (
    "awk",
    "bash",
    "cat",
    "cut",
    "df",
    "dirname",
    "env",
    "flock",
    "grep",
    "id",
    "mkdir",
    "mv",
    "rm",
    "sed",
    "sha256sum",
)
SORT = ("sort",)


class Sandbox:
    """A copy of the setup scripts in an empty checkout, with a PATH that the test fills."""

    def __init__(self, repo: Path, folder: Path) -> None:
        self.root = folder / "checkout"
        self.bin = folder / "bin"
        self.home = folder / "home"
        self.calls = folder / "calls"
        for path in (self.root, self.bin, self.home):
            path.mkdir()
        for name in (*TOOLS, *SORT):
            found = shutil.which(name)
            if found is not None:
                (self.bin / name).symlink_to(found)
        for name in ("pyproject.toml", "setup.py", "extension.toml"):
            shutil.copy(repo / name, self.root / name)
        shutil.copytree(repo / "scripts/setup", self.root / "scripts/setup")

    def run(self, script: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a setup script with an environment of its own."""
        settings = {"PATH": str(self.bin), "HOME": str(self.home), "FLASHNERD_SYSTEM_PACKAGES": "0", **env}
        command = [str(self.root / "scripts/setup" / script), *words]
        return subprocess.run(command, env=settings, capture_output=True, text=True, timeout=60, check=False)

    def program(self, path: Path, text: str) -> Path:
        """An executable shell script."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
        return path

    def fake_venv(self, pip: str = "exit 0") -> Path:
        """A `.venv` whose Python notes its arguments, claims to be a 3.12 and answers pip with ``pip``."""
        venv = self.root / ".venv"
        self.program(venv / "bin/python", f'echo "$*" >>{self.calls}\nif [ "$2" = pip ]; then {pip}; fi\nexit 0')
        self.program(venv / "bin/pip", "exit 0")
        (venv / "pyvenv.cfg").write_text("")
        (venv / "lib/python3.12/site-packages/torch").mkdir(parents=True)
        return venv

    def pip_calls(self) -> list[str]:
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [line for line in lines if "pip install" in line]


@pytest.fixture
def sandbox(repo: Path, tmp_path: Path) -> Sandbox:
    return Sandbox(repo, tmp_path)


def _base_python() -> Path:
    """The interpreter behind this virtual environment (a symlink to a venv's own would look up its site)."""
    return Path(sys.base_prefix) / "bin" / "python3.12"


def test_python_on_the_path_is_found(sandbox: Sandbox) -> None:
    (sandbox.bin / "python3.12").symlink_to(_base_python())
    done = sandbox.run("find_python.sh")
    assert done.returncode == 0, done.stderr
    assert subprocess.run([done.stdout.strip(), "-V"], capture_output=True, text=True, check=True).stdout == (
        "Python " + ".".join(map(str, sys.version_info[:3])) + "\n"
    )


def test_broken_shim_is_passed_over_for_pyenvs_version(sandbox: Sandbox) -> None:
    sandbox.program(sandbox.bin / "python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127")
    place = sandbox.home / ".pyenv/versions/3.12.9/bin/python3.12"
    place.parent.mkdir(parents=True)
    place.symlink_to(_base_python())
    done = sandbox.run("find_python.sh")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).exists()


def test_uvs_python_is_found(sandbox: Sandbox) -> None:
    sandbox.program(sandbox.bin / "uv", f'[ "$1 $2" = "python find" ] && echo {_base_python()}')
    assert sandbox.run("find_python.sh").returncode == 0


def test_no_python_is_one_sentence(sandbox: Sandbox) -> None:
    sandbox.program(sandbox.bin / "python3", "exit 1")
    done = sandbox.run("find_python.sh")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("error: no Python 3.12 was found")
    assert "uv python install 3.12" in done.stderr
    assert done.stderr.count("\n") == 1


def test_python_without_venv_names_the_package(sandbox: Sandbox) -> None:
    sandbox.program(sandbox.bin / "python3.12", 'case "$2" in *ensurepip*) exit 1 ;; *) exit 0 ;; esac')
    done = sandbox.run("find_python.sh")
    assert done.returncode == 1
    assert "python3.12-venv" in done.stderr


@pytest.mark.parametrize("value", ["/nowhere/python", "OLD"])
def test_wrong_choice_of_python_is_refused(sandbox: Sandbox, value: str) -> None:
    if value == "OLD":
        value = str(
            sandbox.program(sandbox.bin / "old", 'case "$2" in *platform*) echo is Python 3.9.1 ;; *) exit 1 ;; esac')
        )
    (sandbox.bin / "python3.12").symlink_to(_base_python())
    done = sandbox.run("find_python.sh", PYTHON=value)
    assert done.returncode == 1, "a named Python must not be replaced by another in silence"
    assert f"PYTHON={value}" in done.stderr
    assert "3.12" in done.stderr


def test_second_run_does_not_install(sandbox: Sandbox) -> None:
    sandbox.fake_venv()
    first = sandbox.run("setup.sh")
    assert first.returncode == 0, first.stderr
    second = sandbox.run("setup.sh")
    assert second.returncode == 0, second.stderr
    assert len(sandbox.pip_calls()) == 1
    assert "up to date" in second.stdout
    assert "done in" in second.stdout


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.py", "extension.toml"])
def test_changed_metadata_installs_again(sandbox: Sandbox, name: str) -> None:
    sandbox.fake_venv()
    assert sandbox.run("setup.sh").returncode == 0
    with (sandbox.root / name).open("a") as file:
        file.write("# changed\n")
    assert sandbox.run("setup.sh").returncode == 0
    assert len(sandbox.pip_calls()) == 2


def test_failed_install_leaves_no_stamp(sandbox: Sandbox) -> None:
    venv = sandbox.fake_venv(pip="exit 1")
    done = sandbox.run("setup.sh")
    assert done.returncode == 1
    assert "error: pip could not install the packages" in done.stderr
    assert not list(venv.glob(".flashnerd-setup*"))


def test_asset_root_is_built_unless_packages_only(sandbox: Sandbox) -> None:
    sandbox.fake_venv()
    assert sandbox.run("setup.sh", "--packages-only").returncode == 0
    assert "flashnerd_ext.robots.assets" not in sandbox.calls.read_text()
    assert sandbox.run("setup.sh").returncode == 0
    assert "flashnerd_ext.robots.assets" in sandbox.calls.read_text()


def test_folder_that_is_no_environment_is_not_removed(sandbox: Sandbox) -> None:
    kept = sandbox.root / ".venv" / "notes.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    done = sandbox.run("setup.sh")
    assert done.returncode == 1
    assert "no virtual environment" in done.stderr
    assert kept.read_text() == "mine"


def test_full_disk_is_said_before_downloading(sandbox: Sandbox) -> None:
    venv = sandbox.fake_venv()
    shutil.rmtree(venv / "lib")
    (sandbox.bin / "df").unlink()
    sandbox.program(sandbox.bin / "df", "printf 'head\\n/dev/x 9 9 4194304 9%% /\\n'")
    done = sandbox.run("setup.sh")
    assert done.returncode == 1
    assert "only 4 GB are free" in done.stderr
    assert sandbox.pip_calls() == []


def test_unknown_argument(sandbox: Sandbox) -> None:
    done = sandbox.run("setup.sh", "--fresh")
    assert done.returncode == 2
    assert "unknown argument '--fresh'" in done.stderr


def test_missing_libraries_are_named_and_left_alone(sandbox: Sandbox) -> None:
    sandbox.program(sandbox.bin / "dpkg-query", "exit 1")
    sandbox.program(sandbox.bin / "apt-get", f"echo called >>{sandbox.calls}")
    done = sandbox.run("system_packages.sh")
    assert done.returncode == 0
    assert "libegl1" in done.stdout
    assert not sandbox.calls.exists(), "FLASHNERD_SYSTEM_PACKAGES=0 leaves the system alone"
