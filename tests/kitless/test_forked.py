"""A script in a fork of the server is what it is in a fresh process, but for its start."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from forked import forked, fresh

pytestmark = pytest.mark.kitless

SCRIPT = """
import json, os, random, sys
from pathlib import Path
import beside
print(json.dumps([sys.argv[1:], os.getcwd(), os.environ.get("WORD"), __name__, beside.NUMBER, hasattr(json, "seen")]))
print(sys.stdin.read() == "", file=sys.stderr)
json.seen = True
Path(f"drawn-{sys.argv[2]}").write_text(str(random.random()))
if sys.argv[1] == "raise":
    raise ValueError("as asked")
sys.exit({"well": 0, "badly": 3}[sys.argv[1]])
"""


@pytest.mark.parametrize(("word", "code"), [("well", 0), ("badly", 3), ("raise", 1)])
def test_a_fork_does_as_a_fresh_process(tmp_path: Path, word: str, code: int) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("NUMBER = 7")
    environment = {**os.environ, "WORD": "given"}
    # Twice in a fork: the second knows nothing of the first.
    found = [start(tmp_path / "script.py", word, 1, cwd=tmp_path, env=environment) for start in (fresh, forked, forked)]
    assert [done.returncode for done in found] == [code] * 3
    assert found[0].stdout == found[1].stdout == found[2].stdout != ""
    assert [done.stderr.splitlines()[-1] for done in found] == [found[0].stderr.splitlines()[-1]] * 3
    assert ("ValueError: as asked" in found[1].stderr) == (word == "raise")


def test_forks_draw_numbers_of_their_own_and_time_ends_them(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("NUMBER = 7")
    for number in (1, 2):
        forked(tmp_path / "script.py", "well", number, cwd=tmp_path)
    assert (tmp_path / "drawn-1").read_text() != (tmp_path / "drawn-2").read_text()
    (tmp_path / "long.py").write_text("import time; time.sleep(60)")
    assert forked(tmp_path / "long.py", cwd=tmp_path, timeout=1).returncode == -signal.SIGALRM
