"""What is written when the guard held worlds: which, when, why, and what led there.

A dump is a folder ``step-<model step>`` with ``report.json`` and ``history.npz``; ``latest`` points to the newest.
There are never more than a set number, and their rate drops once that number is reached, so that a bad policy that
makes a world fail each step fills neither disk nor time.
"""

from __future__ import annotations

import io
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flashnerd_ext.files import atomic_write, write_json
from flashnerd_ext.solver.guard import GuardStage

logger = logging.getLogger(__name__)

MOST_WORLDS = 4096
"""Worlds whose history one dump holds; further ones are only named."""
SLOW_EVERY = 1000
"""Model steps between dumps once the number of kept dumps is reached."""
HELD = "they keep their last good state and end with the termination term flashnerd_guard"


class GuardDump:
    """Writes and prunes dumps.

    Args:
        folder: Where they go; made with the first one.
        keep: Dumps kept; 0 writes none.
        facts: JSON-able description of the run (bundle, hash, task).
        inputs: Name of each state dimension, then of each actuation input.
        effect: What happens to the worlds of a case, for the log.
    """

    def __init__(
        self, folder: Path, keep: int, facts: dict[str, Any], inputs: tuple[str, ...], effect: str = HELD
    ) -> None:
        self.folder, self.keep, self.facts, self.inputs, self.effect = folder, keep, facts, inputs, effect
        self.events = 0
        self.written: list[Path] = []
        self._last_step = -SLOW_EVERY
        self._count = 0

    def report(self, guard: GuardStage, step: int) -> Path | None:
        """Log and dump the failures since the last report; call it only where there are some.

        Args:
            guard: The guard after its step.
            step: Number of that model step.

        Returns:
            The dump's folder, or ``None`` where none was due.
        """
        worlds = guard.caught.nonzero().flatten()
        self.events += 1
        causes = explain(guard, worlds)
        first = f"world {worlds[0].item()}: {causes[0]}"
        level = logging.WARNING if self.events == 1 else logging.DEBUG
        logger.log(
            level,
            "FlashNeRD guard held %d of %d worlds at model step %d (%s); %s. Later cases are counted and dumped to %s.",
            len(worlds),
            len(guard.caught),
            step - int(guard.ago[worlds[0]]),
            first,
            self.effect,
            self.folder,
        )
        due = self._count < self.keep or step - self._last_step >= SLOW_EVERY
        if not self.keep or not due:
            return None
        self._last_step, self._count = step, self._count + 1
        try:
            return self._write(guard, worlds, causes, step)
        except OSError as error:
            # The simulation is worth more than its report.
            logger.warning("A guard dump could not be written to %s: %s.", self.folder, error)
            return None

    def _write(self, guard: GuardStage, worlds: torch.Tensor, causes: list[str], step: int) -> Path:
        target = self.folder / f"step-{step:09d}"
        stored = worlds[:MOST_WORLDS]
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            worlds=stored.cpu().numpy(),
            history=guard.window(stored).cpu().numpy(),
            rejected=guard.rejected[stored].cpu().numpy(),
            names=np.array(self.inputs),
            lower=np.array(guard.bounds.lower),
            upper=np.array(guard.bounds.upper),
        )
        atomic_write(target / "history.npz", buffer.getvalue())
        content = {
            **self.facts,
            "model_step": step,
            "worlds": worlds.tolist(),
            "failed_at": dict(zip(map(str, worlds.tolist()), (step - guard.ago[worlds]).tolist(), strict=True)),
            "causes": dict(zip(map(str, worlds.tolist()), causes, strict=True)),
            "held_so_far": int(guard.total.sum()),
            "history": "history.npz: history [worlds, steps, names], oldest step first, up to the one that failed; "
            "rejected is the prediction.",
        }
        write_json(target / "report.json", content)
        self._point(target)
        if target not in self.written:
            self.written.append(target)
        while len(self.written) > self.keep:
            shutil.rmtree(self.written.pop(0), ignore_errors=True)
        return target

    def _point(self, target: Path) -> None:
        link, temporary = self.folder / "latest", self.folder / f".latest-{os.getpid()}"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target.name)
        os.replace(temporary, link)


def explain(guard: GuardStage, worlds: torch.Tensor) -> list[str]:
    """Why each of the caught ``worlds`` was held, one phrase each."""
    sight = guard.sight[worlds].cpu()
    rejected, was_good = guard.rejected[worlds].cpu(), guard.good[worlds].cpu()
    lower, upper = torch.tensor(guard.bounds.lower), torch.tensor(guard.bounds.upper)
    size, phrases = rejected.shape[1], []
    for i in range(len(worlds)):
        command = sight[i, size:]
        if not bool(was_good[i]):
            phrases.append("the state written to the simulation is not finite")
        elif not bool(torch.isfinite(command).all()):
            phrases.append("the commanded actuation is not finite")
        elif not bool(torch.isfinite(rejected[i]).all()):
            phrases.append("the prediction is not finite")
        else:
            excess = torch.maximum(rejected[i] - upper, lower - rejected[i])
            worst = int(excess.argmax())
            phrases.append(
                f"{guard.bounds.names[worst]} would be {float(rejected[i, worst]):.6g}, outside of "
                f"[{float(lower[worst]):.6g}, {float(upper[worst]):.6g}]"
            )
    return phrases
