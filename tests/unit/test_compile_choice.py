"""solver_cfg.compile: who compiles and who does not."""

from __future__ import annotations

import pytest

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.solver.stream import COMPILE_FROM, wants_compiled


def test_auto_compiles_large_cpu_runs_where_a_compiler_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "c++")
    assert wants_compiled("auto", COMPILE_FROM, "cpu")
    assert not wants_compiled("auto", COMPILE_FROM - 1, "cpu")
    assert not wants_compiled("auto", COMPILE_FROM, "cuda")
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    assert not wants_compiled("auto", COMPILE_FROM, "cpu")


def test_the_other_choices_and_a_wrong_one() -> None:
    assert wants_compiled("always", 1, "cpu")
    assert not wants_compiled("never", 10**6, "cpu")
    with pytest.raises(FlashNerdError, match=r"solver_cfg.compile is 'alwys', which is not known: did you mean always"):
        wants_compiled("alwys", 1, "cpu")
