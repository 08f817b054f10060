"""The window in Kit without Kit: its rows, its buttons, and what Kit starts."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from flashnerd_ext.bundle.store import shipped, shipped_root
from flashnerd_ext.ui import FlashNerdExtension
from flashnerd_ext.ui import guard as guards
from flashnerd_ext.ui.bundles import bundle_rows
from flashnerd_ext.ui.model import WindowModel
from flashnerd_ext.ui.window import FlashNerdWindow

MANIFEST = {
    "version": 1,
    "library": "rsl_rl",
    "task": "FlashNeRD-Cartpole",
    "created_at": "2026-01-01T00:00:00+00:00",
    "metadata": {"physics": "flashnerd", "solver": "S", "bundle": "cartpole", "bundle_hash": "ab" * 32},
}
DUMP = {"worlds": [4, 7], "causes": {"4": "pole.vel would be 99"}, "held_so_far": 12, "model_step": 300}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """An experiment of two runs: an older one with a dump and recordings, and a newer one with neither."""
    for name, created in (("old", "2026-01-01T00:00:00+00:00"), ("new", "2026-01-02T00:00:00+00:00")):
        run = tmp_path / "logs" / "cartpole" / name
        run.mkdir(parents=True)
        (run / "run.json").write_text(json.dumps({**MANIFEST, "created_at": created}))
        (run / "model_9.pt").touch()
        (run / "model_10.pt").touch()
    old = tmp_path / "logs" / "cartpole" / "old"
    dump = old / "flashnerd_guard" / "step-000000300"
    dump.mkdir(parents=True)
    (dump / "report.json").write_text(json.dumps(DUMP))
    (old / "flashnerd_guard" / "latest").symlink_to(dump.name)
    (old / "usd").mkdir()
    for age, name in enumerate(("second.usd", "first.usd")):
        path = old / "usd" / name
        path.touch()
        os.utime(path, (1000.0 - age, 1000.0 - age))
    (old / "usd" / ".third-partial.usd").touch()
    return tmp_path / "logs"


def test_every_shipped_bundle_is_listed_with_its_card(tmp_path: Path) -> None:
    rows = bundle_rows([tmp_path / "none"])
    assert [row.name for row in rows] == shipped() and not [row for row in rows if row.problem]
    cartpole = next(row for row in rows if row.name == "cartpole")
    assert "robot cartpole, learned mode, step" in cartpole.summary and "E1 " in cartpole.summary
    assert "cart_to_pole" in cartpole.card and "hash" in cartpole.card


def test_own_bundles_and_damaged_ones_are_listed_too(tmp_path: Path) -> None:
    for name in ("mine", "damaged"):
        shutil.copytree(shipped_root() / "cartpole", tmp_path / name)
    card = tmp_path / "damaged" / "card.json"
    card.write_text(card.read_text().replace('"dt": ', '"dt": 1'))
    rows = bundle_rows([tmp_path])[len(shipped()) :]
    assert [row.path.name for row in rows] == ["damaged", "mine"]
    assert rows[0].problem and rows[0].card == "" and rows[0].summary.startswith("cannot be used: ")
    assert not rows[1].problem
    assert [row.path for row in bundle_rows([tmp_path / "mine"])][-1] == tmp_path / "mine"


def test_runs_newest_first_with_checkpoint_recordings_and_guard(logs: Path) -> None:
    model = WindowModel(logs=logs, bundles=[])
    model.refresh()
    new, old = model.runs
    assert (new.path.name, old.path.name) == ("new", "old") and new.task == "FlashNeRD-Cartpole"
    assert "physics=flashnerd" in new.physics and "bundle cartpole" in new.physics
    assert new.checkpoint == new.path / "model_10.pt" and new.recordings == () and new.guard == guards.NOTHING
    assert [path.name for path in old.recordings] == ["second.usd", "first.usd"]
    assert old.guard.held == 12 and old.guard.worlds == 2 and "pole.vel would be 99" in old.guard.text
    assert model.guard == old.guard
    (old.path / "best.pt").touch()
    (new.path / "run.json").write_text("{")
    (old.path / "flashnerd_guard" / "latest" / "report.json").write_text("{}")
    model.refresh()
    by_name = {row.path.name: row for row in model.runs}
    assert "not a run manifest" in by_name["new"].problem and by_name["old"].checkpoint == old.path / "best.pt"
    assert by_name["old"].guard.held is None and "cannot be read" in by_name["old"].guard.text


def test_opening_a_run_opens_its_newest_recording(logs: Path) -> None:
    opened: list[str] = []
    model = WindowModel(opened.append, logs, [])
    model.refresh()
    new, old = model.runs
    assert model.open_run(old) and opened == [str((old.path / "usd" / "second.usd").resolve())]
    assert not model.open_run(new) and len(opened) == 1
    assert "python scripts/export_usd.py --task FlashNeRD-Cartpole --checkpoint" in model.message
    assert str(new.checkpoint) in model.message
    model.opener = None
    assert not model.open_run(old) and "no omni.usd" in model.message


def test_the_running_simulations_guard_comes_first(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert guards.running() is None
    held = SimpleNamespace(total=torch.tensor([3, 0, 1]), pending=torch.tensor([True, False, False]))
    solver = SimpleNamespace(guard=held, bundle=SimpleNamespace(card=SimpleNamespace(name="made")))
    fake = SimpleNamespace(running_solver=lambda: solver)
    monkeypatch.setitem(sys.modules, "flashnerd_ext.physics.environment", fake)
    monkeypatch.setitem(sys.modules, "isaaclab", ModuleType("isaaclab"))
    model = WindowModel(logs=logs, bundles=[])
    model.refresh()
    assert (model.guard.source, model.guard.held, model.guard.worlds) == ("running", 4, 1)
    assert not model.look_at_guard()
    held.total[1] = 5
    assert model.look_at_guard() and model.guard.held == 9
    fake.running_solver = lambda: None
    assert model.look_at_guard() and model.guard.held == 12


class FakeUi(ModuleType):
    """The part of omni.ui that the window uses: it keeps what is shown and what can be clicked."""

    def __init__(self) -> None:
        super().__init__("omni.ui")
        self.shown: list[str] = []
        self.buttons: dict[str, Any] = {}
        self.fields: list[Any] = []
        self.windows: list[Any] = []

    @contextmanager
    def VStack(self, spacing: int = 0, height: int = 0) -> Any:
        yield

    HStack = VStack

    @contextmanager
    def CollapsableFrame(self, title: str, collapsed: bool = False) -> Any:
        self.shown.append(title)
        yield

    def Label(self, text: str, width: int = 0, word_wrap: bool = False, style: Any = None) -> None:
        self.shown.append(text)

    def Button(self, text: str, clicked_fn: Any, width: int = 0) -> None:
        self.buttons.setdefault(text, []).append(clicked_fn)

    def StringField(self) -> Any:
        model = SimpleNamespace(set_value=self.shown.append, add_end_edit_fn=self.fields.append)
        return SimpleNamespace(model=model)

    def Window(self, title: str, width: int, height: int) -> Any:
        outer = self

        class Frame:
            def clear(self) -> None:
                outer.shown.clear()
                outer.buttons.clear()

            def __enter__(self) -> None: ...

            def __exit__(self, *_: object) -> None: ...

        window = SimpleNamespace(frame=Frame(), destroyed=False)
        window.destroy = lambda: setattr(window, "destroyed", True)
        self.windows.append(window)
        return window


def test_the_window_shows_the_rows_and_its_buttons_work(logs: Path, tmp_path: Path) -> None:
    opened: list[str] = []
    model, ui = WindowModel(opened.append, logs, []), FakeUi()
    model.refresh()
    window = FlashNerdWindow(model, ui)
    text = "\n".join(ui.shown)
    for name in shipped():
        assert f"{name}: robot {name}" in text
    assert "Guard: 12 cases up to model step 300" in text and "new: FlashNeRD-Cartpole" in text
    assert "cart_to_pole" in text  # the card itself
    [press] = ui.buttons["Open (2)"]
    press()
    assert len(opened) == 1 and f"opened {opened[0]}" in ui.shown
    ui.buttons["Open (0)"][0]()
    assert "has no recording" in "\n".join(ui.shown)
    shutil.rmtree(logs / "cartpole" / "old")
    ui.buttons["Refresh"][0]()
    assert "Runs (1)" in ui.shown
    ui.fields[-1](SimpleNamespace(get_value_as_string=lambda: str(tmp_path / "other")))
    assert "Runs (0)" in ui.shown and model.logs == tmp_path / "other"
    window.destroy()
    assert ui.windows[0].destroyed


def test_kit_starts_and_stops_it_with_and_without_a_window(monkeypatch: pytest.MonkeyPatch, logs: Path) -> None:
    monkeypatch.setenv("FLASHNERD_LOGS", str(logs))
    extension = FlashNerdExtension()
    extension.on_startup("flashnerd-0.1.0")
    assert FlashNerdExtension.running is extension and extension.window is None
    assert len(extension.model.runs) == 2 and len(extension.model.bundles) >= len(shipped())
    extension.on_shutdown()
    assert FlashNerdExtension.running is None

    updates: list[Any] = []
    stream = SimpleNamespace(create_subscription_to_pop=lambda function, name: updates.append(function))
    app = ModuleType("omni.kit.app")
    app.get_app = lambda: SimpleNamespace(get_update_event_stream=lambda: stream)  # type: ignore[attr-defined]
    opened: list[str] = []
    usd = ModuleType("omni.usd")
    usd.get_context = lambda: SimpleNamespace(open_stage=opened.append)  # type: ignore[attr-defined]
    ui = FakeUi()
    package = ModuleType("omni")
    package.__path__ = []  # type: ignore[attr-defined]
    kit = ModuleType("omni.kit")
    kit.__path__ = []  # type: ignore[attr-defined]
    for name, module in {"omni": package, "omni.ui": ui, "omni.usd": usd, "omni.kit": kit, "omni.kit.app": app}.items():
        monkeypatch.setitem(sys.modules, name, module)
    extension = FlashNerdExtension()
    extension.on_startup("flashnerd-0.1.0")
    assert extension.window is not None and "Runs (2)" in ui.shown and len(updates) == 1
    updates[0](None)
    ui.buttons["Open (2)"][0]()
    assert opened and opened[0].endswith("second.usd")
    extension.on_shutdown()
    assert ui.windows[0].destroyed and FlashNerdExtension.running is None
