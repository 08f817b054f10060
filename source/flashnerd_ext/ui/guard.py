"""What the guard of learned physics holds: in the simulation of this process, else in a run's newest dump."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import one_line


@dataclass(frozen=True)
class GuardState:
    """The guard at one moment.

    Attributes:
        source: ``running``, the dump's folder, or ``none``.
        held: Cases so far; None where nothing is known.
        worlds: Worlds that are held now, or were in the dump.
        text: One line for people.
    """

    source: str
    held: int | None
    worlds: int
    text: str

    @property
    def quiet(self) -> bool:
        """Whether nothing was held, as far as is known."""
        return not self.held


NOTHING = GuardState("none", None, 0, "no case is on record")


def running() -> GuardState | None:
    """The guard of the simulation that runs in this process, or None; imports no simulator."""
    environment = sys.modules.get("flashnerd_ext.physics.environment")
    if environment is None or "isaaclab" not in sys.modules:
        return None
    solver = environment.running_solver()
    if solver is None:
        return None
    guard = solver.guard
    held, now, rows = int(guard.total.sum()), int(guard.pending.sum()), len(guard.total)
    text = f"bundle {solver.bundle.card.name}: {now} of {rows} worlds held now, {held} cases since the start"
    return GuardState("running", held, now, text)


def dumped(folder: Path) -> GuardState:
    """What a run's newest guard dump says."""
    path = folder / "latest" / "report.json"
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        worlds, causes, held = content["worlds"], content["causes"], int(content["held_so_far"])
        step = int(content["model_step"])
        cause = causes[str(worlds[0])]
    except FileNotFoundError:
        return NOTHING
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        return GuardState(str(path.parent), None, 0, f"{path} cannot be read: {one_line(error, 80)}")
    text = f"{held} cases up to model step {step}, {len(worlds)} worlds in the last: {one_line(cause, 160)}"
    return GuardState(str(path.parent), held, len(worlds), text)
