"""Scripts as modules and as programs, in this process: a process of their own costs seconds of imports a case."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import ModuleType

import pytest


@contextmanager
def loaded(path: Path) -> Iterator[ModuleType]:
    """A script imported as a module, so that its functions can be called."""
    spec = importlib.util.spec_from_file_location(f"{path.stem}_script", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[spec.name]


@pytest.fixture(scope="session")
def load_script(repo: Path) -> Callable[[str], AbstractContextManager[ModuleType]]:
    """Function of a script's name that imports it as a module, for as long as the context lasts."""
    return lambda name: loaded(repo / "scripts" / name)


@pytest.fixture
def here(repo: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[object, list[str]]]:
    """Function of a script's name and words that runs it as a program: exit code, and lines of stderr."""

    def run(name: str, *words: str) -> tuple[object, list[str]]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", [name, *words])
            patch.delenv("RANK", raising=False)
            patch.delenv("WORLD_SIZE", raising=False)
            with pytest.raises(SystemExit) as left:
                runpy.run_path(str(repo / "scripts" / name), run_name="__main__")
        return left.value.code, capfd.readouterr().err.strip().splitlines()

    return run
