"""What a refreshed training has done so far; a file that is replaced whole, so that a kill at any point resumes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import write_json

SCHEMA = 1
FOLDER, FILE = "refresh", "state.json"
PHASES = ("simulate", "tune", "swap", "done", "failed")
"""Phases of a refresh; each is entered once what the one before makes lies on disk."""


@dataclass
class Round:
    """One refresh.

    Attributes:
        number: From 0 on. iteration: Training iteration after which it began.
        policy: Its checkpoint, at that iteration.
        folder: Everything that it makes.
        bundle: Bundle of the learned world that the policy was trained in. tuned: The fine-tuned one.
        phase: One of :data:`PHASES`.
        scores_only: Whether it ends with the scores.
        swapped_at: Iteration after which the fine-tuned bundle took over.
        seconds: Time of each part [s].
        facts: Scores in both worlds, kept ratio, data, errors: what ``refresh.json`` shows.
    """

    number: int
    iteration: int
    policy: str
    folder: str
    bundle: str
    phase: str = "simulate"
    scores_only: bool = False
    swapped_at: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def tuned(self) -> str:
        """Folder of the fine-tuned bundle."""
        return str(Path(self.folder) / "bundle")

    @property
    def data(self) -> str:
        """Folder of the recorded data set."""
        return str(Path(self.folder) / "data")

    @property
    def active(self) -> bool:
        """Whether something is left to do."""
        return self.phase not in ("done", "failed")


@dataclass
class State:
    """All refreshes of a training.

    Attributes:
        base: Bundle that the training began with.
        rounds: Oldest first.
        best: ``iteration``, ``return`` and ``path`` of the checkpoint with the highest return in the simulator.
    """

    base: str
    rounds: list[Round] = field(default_factory=list)
    best: dict[str, Any] | None = None

    def save(self, run: Path) -> None:
        """Write ``RUN/refresh/state.json``."""
        write_json(run / FOLDER / FILE, {"schema_version": SCHEMA, **asdict(self)})

    @property
    def active(self) -> Round | None:
        """The refresh that is under way."""
        return next((item for item in self.rounds if item.active), None)

    @property
    def bundle(self) -> str:
        """The bundle in force."""
        swapped = [item for item in self.rounds if item.swapped_at is not None]
        return swapped[-1].tuned if swapped else self.base

    def back_to(self, iteration: int) -> State:
        """The state as of a checkpoint: later refreshes are forgotten, later swaps are still to be done."""
        rounds = [item for item in self.rounds if item.iteration <= iteration]
        for item in rounds:
            if item.swapped_at is not None and item.swapped_at > iteration:
                item.swapped_at, item.phase = None, "swap"
        best = self.best if self.best is not None and self.best["iteration"] <= iteration else None
        return State(self.base, rounds, best)


def load_state(run: Path) -> State | None:
    """State of a run folder; ``None`` where it was not refreshed.

    Raises:
        FlashNerdError: Where the file is damaged.
    """
    path = run / FOLDER / FILE
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("schema_version") != SCHEMA:
            raise ValueError("schema_version")
        rounds = [Round(**item) for item in content["rounds"]]
        if any(item.phase not in PHASES for item in rounds):
            raise ValueError("phase")
        return State(str(content["base"]), rounds, content["best"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FlashNerdError(
            f"{path} is not the state of a refreshed training ({type(error).__name__}: {error}): remove it, and the "
            "training goes on with the bundle that you name."
        ) from None
