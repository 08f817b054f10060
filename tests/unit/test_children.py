"""Child processes: what is progress, what was said last, and what ends with the parent."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from flashnerd_ext.rl.children import PROGRESS, follow


def said(tmp_path: Path, code: str) -> tuple[bool, str, list[str]]:
    lines: list[str] = []

    def progress(line: str) -> bool:
        if line.startswith(PROGRESS):
            lines.append(line.strip())
        return line.startswith(PROGRESS)

    return *follow([sys.executable, "-c", code], tmp_path / "log", progress), lines


@pytest.mark.parametrize(
    ("code", "well", "last"),
    [
        ("print('a'); print('PROGRESS 1'); print('b')", True, "b"),
        ("print('a'); print('error: no disk.'); print('bye'); exit(2)", False, "no disk"),
        ("print('error: first'); print('error: second'); exit(2)", False, "second"),
        ("pass", True, "it said nothing"),
        ("import sys; sys.stdout.buffer.write(bytes([255, 10]))", True, "\ufffd"),
    ],
)
def test_the_last_word_is_an_error_if_there_was_one(tmp_path: Path, code: str, well: bool, last: str) -> None:
    found = said(tmp_path, code)
    assert found[:2] == (well, last)
    assert found[2] == (["PROGRESS 1"] if "PROGRESS" in code else [])


def test_everything_is_in_the_log(tmp_path: Path) -> None:
    said(tmp_path, "import sys; print('PROGRESS 1'); print('out'); print('err', file=sys.stderr)")
    assert (tmp_path / "log").read_text().splitlines() == ["PROGRESS 1", "out", "err"]


def test_a_child_ends_when_the_parent_stops_waiting(tmp_path: Path) -> None:
    def stop(line: str) -> bool:
        raise KeyboardInterrupt

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        follow([sys.executable, "-c", "import time; print('up'); time.sleep(60)"], tmp_path / "log", stop)
    assert time.monotonic() - begun < 30
