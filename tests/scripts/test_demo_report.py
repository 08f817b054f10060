"""The report: one file with everything inside, and tables that show what the scripts measured."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from flashnerd_ext.demo.page import env_speed_table, error_table, model_speed_table, policy_table, ratio_text, read_json
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.evaluation.report import Clip, Command, Picture, Section, Table, Text, number, write_report

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class _Page(HTMLParser):
    """Addresses and visible text of a page, and whether its tags are closed in order."""

    VOID = ("meta", "img", "br")

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.text: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "poster")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def _parse(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text())
    assert page.open == []
    return page


def test_report_is_whole_and_self_contained(tmp_path: Path) -> None:
    picture, clip = tmp_path / "a.png", tmp_path / "b.mp4"
    picture.write_bytes(PNG)
    clip.write_bytes(b"not really a video")
    section = Section(
        "One <section>",
        [
            Text("5 < 6 & 'so on'"),
            Table(("model", "E1"), [["<b>x</b>", "1e-5"]], "caption", [(0, 1)]),
            Picture(picture, 'A "picture"'),
            Clip(clip, "A clip"),
            Command("python x.py a=[1,2] && y"),
        ],
    )
    path = write_report(tmp_path / "new" / "report.html", "T & t", [section], "lead", [("cpu", "<none>")])
    page = _parse(path)
    assert len(page.addresses) == 2
    assert all(address.startswith("data:") for address in page.addresses)
    assert base64.b64decode(page.addresses[0].split(",")[1]) == PNG
    assert "http" not in re.sub(r"data:[^\"]*", "", path.read_text())
    text = "".join(page.text)
    for shown in ("One <section>", "5 < 6 & 'so on'", "<b>x</b>", "python x.py a=[1,2] && y", "T & t", "<none>"):
        assert shown in text


def test_nothing_is_written_when_a_picture_is_missing(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    with pytest.raises(FlashNerdError, match=r"gone\.png' cannot be read"):
        write_report(report, "T", [Section("s", [Picture(tmp_path / "gone.png", "c")])])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "content", "said"), [("a.txt", b"x", "its ending"), ("a.png", b"", "is empty")])
def test_unfit_files_are_refused(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FlashNerdError, match=said):
        write_report(tmp_path / "r.html", "T", [Section("s", [Picture(tmp_path / name, "c")])])


def test_ragged_table_is_refused() -> None:
    with pytest.raises(FlashNerdError, match="row 1 of a table has 1 cells, but its header has 2"):
        Table(("a", "b"), [["1", "2"], ["3"]]).render()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.0, "0"),
        (4.41e-5, "4.41e-05"),
        (0.0599, "0.0599"),
        (1.0, "1"),
        (12.345, "12.3"),
        (999.6, "1,000"),
        (5234567.0, "5,234,567"),
        (-1234.5, "-1,234"),
        (float("nan"), "diverged"),
        (float("inf"), "diverged"),
    ],
)
def test_figures_are_readable(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_error_table_shows_every_horizon_and_the_best() -> None:
    errors = {"1": 1e-5, "15": 2e-4, "100": 3e-3, "200": 0.05}
    worse = {key: 3 * value for key, value in errors.items()}
    worse["200"] = float("nan")
    models = {
        "nerd": {"params": 2000, "E": worse, "median": worse, "diverged": 0.25},
        "flashnerd": {"params": 1000, "E": errors, "median": errors, "diverged": 0.0},
    }
    table = error_table({"dt": 1 / 60, "models": models})
    assert [row[0] for row in table.rows] == ["NeRD", "FlashNeRD"]
    assert table.rows[1][1:5] == ["1.00e-05", "2.00e-04", "0.003", "0.05"]
    assert table.rows[0][4] == "diverged"
    assert table.rows[0][6] == "25.0 %"
    assert list(table.best) == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert "16.7 ms" in table.caption


def test_model_speed_takes_the_best_of_each() -> None:
    rows = [
        {"batch": 16, "dtype": "float32", "model": "flashnerd", "compiled": False, "steps_per_s": 1000.0},
        {"batch": 16, "dtype": "float32", "model": "flashnerd", "compiled": True, "steps_per_s": 3000.0},
        {"batch": 1024, "dtype": "float32", "model": "nerd", "compiled": True, "steps_per_s": 50.0},
    ]
    table = model_speed_table({"rows": rows, "ratio": {}})
    assert table.header == ("model", "batch 16", "batch 1,024")
    assert table.rows == [["FlashNeRD", "3,000", "-"], ["NeRD", "-", "50"]]
    assert "3,000" in table.plain()


def test_env_speed_in_milliseconds() -> None:
    row = {"physics": "newton_mjwarp", "num_envs": 1024, "env_steps_per_s": 12345.6, "physics_s_per_step": 0.02}
    assert env_speed_table({"rows": [row]}).rows == [["MuJoCo Warp", "1,024", "12,346", "20.00 ms"]]


def test_ratio_in_words() -> None:
    text = ratio_text({"ratio": {"1024": {"env": 1.5, "physics": 4.0}}}).text
    assert "at 1,024 environments the whole step is 1.5 times and its physics part 4 times as fast" in text
    assert ratio_text({}).text == ""


def test_policy_table_names_both_simulators() -> None:
    cell = {"trained": "flashnerd", "return": 4.91, "interval": [4.9, 4.92], "survival": 0.995, "episodes": 256}
    cells = [{**cell, "evaluated": name} for name in ("flashnerd", "newton_mjwarp")]
    table = policy_table({"cells": cells, "dt": 1 / 60, "max_steps": 300})
    assert table.rows[1] == ["FlashNeRD", "MuJoCo Warp", "4.910", "4.900 to 4.920", "99.5 %", "256"]
    assert "up to 5 s" in table.caption


@pytest.mark.parametrize("content", ["", "[1]", "{"])
def test_broken_result_is_one_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(FlashNerdError, match="--fresh"):
        read_json(path)


def test_result_without_a_field_is_one_sentence() -> None:
    with pytest.raises(FlashNerdError, match="lacks the field 'models'"):
        error_table({"dt": 1.0})
