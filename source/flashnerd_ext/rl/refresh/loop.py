"""The refresh loop: called after every training iteration, it moves the refresh under way on by what has become ready.

A refresh is a checkpoint that goes through the phases of :data:`flashnerd_ext.rl.refresh.state.PHASES`. Each phase's
products lie on disk before the state says that they do, so that a kill at any point repeats one phase at most.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from flashnerd_ext.bundle.same_kind import check_contact_rows
from flashnerd_ext.data.dataset import FILE, fixed_of, read_summary
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import atomic_save
from flashnerd_ext.rl import manifest
from flashnerd_ext.rl.refresh.options import RefreshOptions
from flashnerd_ext.rl.refresh.report import (
    kept_text,
    line,
    read_scores,
    read_seconds,
    scalars,
    tuning_facts,
    write_report,
)
from flashnerd_ext.rl.refresh.state import FOLDER, Round, State, load_state
from flashnerd_ext.rl.refresh.work import Work

FAILURES = 2
"""Refreshes that may fail one after the other before the training ends with the reason."""


class Refresh:
    """Refreshes of one training.

    Args:
        options: Checked ones.
        run: Folder of the training run.
        task, agent, words: What the learner simulates; ``env.`` words go to the children too.
        device: The learner's.
    """

    def __init__(
        self, options: RefreshOptions, run: Path, task: str, agent: str, words: list[str], device: str
    ) -> None:
        self.options, self.run = options, run
        self._task, self._agent, self._device = task, agent, device
        self._overrides = child_words(words)
        self._work: Work | None = None
        self._failed = 0
        self.runner: Any = None
        self.state = State(str(self._solver().bundle.path.resolve()))
        card = self._solver().bundle.card
        options.check(card.robot.name)
        if card.contacts.capacity:
            fixed = fixed_of(read_summary(options.data))
            check_contact_rows(card.contacts, fixed, f"the bundle '{card.name}'", f"refresh.data={options.data}")

    # -- joining the learner ----------------------------------------------------------------------------------------

    def attach(self, runner: Any) -> None:
        """Be called after each of the runner's iterations, once it has logged."""
        self.runner = runner
        log = runner.logger.log

        def logged(*arguments: Any, **named: Any) -> None:
            log(*arguments, **named)
            self.after(int(named["it"]))

        runner.logger.log = logged

    def resume(self, run: Path, iteration: int) -> None:
        """Go on with the refreshes of the run that a checkpoint is from, as they stood at its iteration."""
        stored = load_state(run)
        if stored is None:
            return
        self.state = stored.back_to(iteration)
        if Path(self.state.bundle) != self._solver().bundle.path.resolve():
            self._swap(self.state.bundle)
        self._save()
        active = self.state.active
        print(
            f"refresh: {len(self.state.rounds)} so far, bundle {self.state.bundle}"
            + (f", the one of iteration {active.iteration} goes on with {active.phase}" if active else "")
        )

    def _solver(self) -> Any:
        from flashnerd_ext.physics.environment import running_robot

        solver = running_robot()
        if solver is None:
            raise FlashNerdError(
                "--refresh needs learned physics, but none runs: type physics=flashnerd, with a bundle of learned mode."
            )
        return solver

    # -- the phases -------------------------------------------------------------------------------------------------

    def after(self, iteration: int) -> None:
        """Move on after a training iteration; waits only where the learner does not go on beside."""
        last = max((item.iteration for item in self.state.rounds), default=-1)
        if self.state.active is None and iteration - last >= self.options.every:
            self._begin(iteration)
        while (item := self.state.active) is not None:
            if not self._advance(item, iteration, wait=not self.options.goes_on):
                return

    def finish(self, iteration: int) -> None:
        """Complete the refresh under way, and score the last policy."""
        while (item := self.state.active) is not None:
            self._advance(item, iteration, wait=True)
        scored = self.state.rounds and self.state.rounds[-1].iteration == iteration
        if self.options.final and not scored:
            item = self._begin(iteration, scores_only=True)
            while item.active:
                self._advance(item, iteration, wait=True)
        facts = next((item.facts for item in reversed(self.state.rounds) if "kept" in item.facts), None)
        if facts is not None:
            print(f"refresh: the last policy in the simulator: {kept_text(facts)}; bundle {self.state.bundle}")
        if self.state.best is not None:
            print(f"refresh: best checkpoint {self.state.best['path']} (iteration {self.state.best['iteration']})")

    def stop(self) -> None:
        """End what runs beside; its pieces are repeated when the training is resumed."""
        if self._work is not None:
            self._work.stop()

    def _begin(self, iteration: int, scores_only: bool = False) -> Round:
        number = 1 + max((item.number for item in self.state.rounds), default=-1)
        folder = (self.run / FOLDER / f"round-{number:03d}").resolve()
        if folder.exists():
            # Of a training that was resumed from before it.
            shutil.rmtree(folder)
        policy = self.run.resolve() / f"model_{iteration}.pt"
        self.runner.save(str(policy))
        item = Round(number, iteration, str(policy), str(folder), self.state.bundle, scores_only=scores_only)
        folder.mkdir(parents=True)
        self.state.rounds.append(item)
        self._save()
        print(f"refresh: {number} begins at iteration {iteration}")
        return item

    def _advance(self, item: Round, iteration: int, wait: bool) -> bool:
        """One phase further, if its work is done; returns whether it was."""
        if item.phase == "swap":
            self._take_over(item, iteration)
            return True
        if self._work is None:
            self._work = self._start(item)
        code = self._work.wait() if wait else self._work.poll()
        if code is None:
            return False
        work, self._work = self._work, None
        item.seconds |= read_seconds(Path(item.folder), work.kind)
        item.seconds[work.kind] = work.seconds
        if code != 0:
            self._fail(item, work)
        elif item.phase == "simulate":
            self._scored(item)
        else:
            item.facts["tuning"] = tuning_facts(Path(item.folder))
            item.phase = "swap"
            self._save()
        return True

    def _start(self, item: Round) -> Work:
        options, folder = self.options, Path(item.folder)
        folder.mkdir(parents=True, exist_ok=True)
        if item.phase == "tune":
            recorded = [r.data for r in self.state.rounds if (Path(r.data) / FILE).is_file()][-options.rounds :]
            spec: dict[str, Any] = {
                "bundle": item.bundle,
                "data": options.data,
                "more": options.more | {path: options.share / len(recorded) for path in recorded},
                "seed": item.number,
                "device": self._device,
                "options": {
                    name: getattr(options, name)
                    for name in ("updates", "minutes", "lr", "window", "batch", "power", "compiled")
                },
            }
            return Work("tune", folder, spec)
        older = [r.policy for r in self.state.rounds if r.number < item.number and Path(r.policy).is_file()]
        chosen = older[len(older) - options.older :] if len(older) > options.older else older
        spec = {
            "task": self._task,
            "agent": self._agent,
            "physics": options.physics,
            "overrides": self._overrides,
            "num_envs": options.num_envs,
            "device": self._device,
            "policies": [item.policy, *reversed(chosen)],
            "seeds": list(options.seeds),
            "score_steps": options.score_steps,
            "record": not item.scores_only,
            "steps": options.steps,
            "record_seed": 1000 + item.number,
            "noise": list(options.noise),
            "pushes": options.pushes,
            "data": options.data,
            "bundle": item.bundle,
        }
        return Work("simulate", folder, spec)

    def _scored(self, item: Round) -> None:
        item.facts |= read_scores(Path(item.folder))
        score = item.facts["simulator"]["return"]
        if self.state.best is None or score > self.state.best["return"]:
            best = self.run.resolve() / "best.pt"
            atomic_save(best, lambda temporary: shutil.copyfile(item.policy, temporary))
            self.state.best = {"iteration": item.iteration, "return": score, "path": str(best)}
        item.phase = "done" if item.scores_only else "tune"
        self._save()
        self._note(item)
        print(f"refresh: {item.number} of iteration {item.iteration}: {line(item.facts)}")

    def _fail(self, item: Round, work: Work) -> None:
        self._failed += 1
        item.phase, item.facts["reason"] = "failed", work.reason()
        self._save()
        text = f"refresh {item.number} failed in {work.kind}: {item.facts['reason']}; its log is {work.log}"
        if self._failed >= FAILURES:
            raise FlashNerdError(f"{text}. It was the second in a row: resume the training when that is mended.")
        print(f"warning: {text}. The training goes on without it.")

    def _take_over(self, item: Round, iteration: int) -> None:
        began = time.perf_counter()
        self._swap(item.tuned)
        item.seconds["swap"] = time.perf_counter() - began
        # First the checkpoint, then the state: a resume must find a checkpoint that is not older than the state.
        if self.runner is not None and self.runner.logger.writer is not None:
            self.runner.save(str(self.run.resolve() / f"model_{iteration}.pt"))
        item.phase, item.swapped_at = "done", iteration
        self._failed = 0
        self._save()
        self._note(item)
        parts = ", ".join(f"{name} {value:.1f}" for name, value in item.seconds.items())
        print(f"refresh: {item.number} took over at iteration {iteration} ({parts} s): {item.tuned}")

    def _swap(self, folder: str) -> None:
        from isaaclab.physics import PhysicsManager

        from flashnerd_ext.bundle.store import load_bundle
        from flashnerd_ext.solver.swap import swap_bundle

        cfg: Any = PhysicsManager._cfg
        swap_bundle(self._solver(), load_bundle(folder), float(cfg.solver_cfg.guard_margin))

    # -- what is said -----------------------------------------------------------------------------------------------

    def _save(self) -> None:
        """State first, then what is derived from it."""
        self.state.save(self.run)
        write_report(self.run, self.state)
        facts = manifest.running_bundle() | {"bundle_path": self.state.bundle}
        scored = [item for item in self.state.rounds if "kept" in item.facts]
        if scored:
            facts["kept"] = kept_text(scored[-1].facts)
        if self.state.best is not None:
            facts |= {"best": str(self.state.best["path"]), "best_iteration": str(self.state.best["iteration"])}
        manifest.update_manifest(self.run, facts)
        if self.runner is not None:
            self.runner.facts = {**self.runner.facts, **facts}

    def _note(self, item: Round) -> None:
        writer = self.runner.logger.writer if self.runner is not None else None
        if writer is not None:
            for name, value in scalars(item.facts, item.seconds).items():
                writer.add_scalar(name, value, item.iteration)
            if hasattr(writer, "flush"):
                writer.flush()


def child_words(words: list[str]) -> list[str]:
    """The learner's ``env.`` words that hold in another process and in other physics: not its number of worlds, its
    device, its seed, or settings of its solver."""
    own = ("env.sim.physics", "env.scene.num_envs", "env.sim.device", "env.seed", "env.log_dir")
    return [word for word in words if word.startswith("env.") and not word.startswith(own)]
