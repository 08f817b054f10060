"""What the demos share: options, a task with learned robots and ghosts, and what a run leaves behind."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import atomic_save, atomic_write, write_json
from flashnerd_ext.view.choose import default_viewing, viewer_name

Act = Callable[[Any, int], Any]
"""``(observations, step) -> actions [2 P, A]``; called before each control step."""


@dataclass(frozen=True)
class Options:
    """What every demo takes on its command line."""

    viz: str
    video: bool
    output: Path
    seconds: float
    device: str
    seed: int


def read_options(name: str, doc: str, seconds: float, argv: Sequence[str] | None = None) -> Options:
    """The options from the command line.

    Args:
        name: Of the demo; its files go to ``outputs/demos/NAME`` by default.
        doc: Shown by ``--help``.
        seconds: Default length [s].
        argv: Words; ``None`` takes the process's own.

    Raises:
        FlashNerdError: For a viewer that cannot run here, or a length that is none.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viz", default="", help="newton | viser | rerun | kit | none; a live view, until Ctrl-C")
    parser.add_argument("--video", action="store_true", help="write a clip; the default without a display")
    parser.add_argument("--output", type=Path, default=Path("outputs/demos") / name, help="folder of the results")
    parser.add_argument("--seconds", type=float, default=seconds, help="length of the run [s]")
    parser.add_argument("--device", default="cpu", help="cpu or cuda:0")
    parser.add_argument("--seed", type=int, default=0, help="of the first states")
    given = parser.parse_args(argv)
    if not given.seconds > 0:
        raise FlashNerdError(f"--seconds is {given.seconds:g}, but a positive time is needed: type --seconds 5.")
    viz, video = given.viz, given.video
    if not viz and not video:
        words = default_viewing()
        viz, video = (words[1], False) if words[0] == "--viz" else ("", True)
    if viz:
        viewer_name(viz)
    given.output.mkdir(parents=True, exist_ok=True)
    return Options(viz or "none", video, given.output, given.seconds, given.device, given.seed)


@dataclass
class Report:
    """What a demo found, as a short table."""

    title: str
    rows: list[tuple[str, str]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)

    def add(self, what: str, value: str) -> None:
        """One line of the table."""
        self.rows.append((what, value))

    def text(self) -> str:
        """The table."""
        width = max((len(what) for what, _ in self.rows), default=0)
        return "\n".join([self.title, *(f"  {what:<{width}}  {value}" for what, value in self.rows)])

    def film(self, stem: Path, frames: Sequence[np.ndarray], rate: float, shown: float) -> None:
        """Write frames as a clip, and one of them as a picture; a line of the table says so.

        Args:
            stem: Path without suffix.
            frames: uint8 [H, W, 3] each.
            rate: Frames a second.
            shown: Place of the picture in the clip, 0 to 1.

        Raises:
            FlashNerdError: Where the clip shows nothing.
        """
        import imageio.v2 as imageio

        from flashnerd_ext.rl.video import write_clip

        facts = write_clip(stem.with_suffix(".mp4"), frames, round(rate))
        if facts.problem() is not None:
            raise FlashNerdError(f"the clip {facts.path} shows nothing: {facts.problem()}.")
        frame = frames[min(len(frames) - 1, int(shown * len(frames)))]
        picture = atomic_save(stem.with_suffix(".png"), lambda temporary: imageio.imwrite(temporary, frame))
        self.add("clip, picture", f"{facts}, {picture}")

    def write(self, stem: Path) -> None:
        """Write the table as ``.txt`` and ``.json``, and print it."""
        text = self.text()
        atomic_write(stem.with_suffix(".txt"), text + "\n")
        write_json(stem.with_suffix(".json"), {"title": self.title, "rows": self.rows, **self.facts})
        print(text)


class Stage:
    """A task in learned physics, with the simulator's robot as a ghost beside each learned one.

    Args:
        options: Of the demo.
        task: Registered task id.
        mode: Whether the ghost follows the policy or gets the learned robot's actions; see
            :mod:`flashnerd_ext.view.ghost`.
        pairs: Learned robots P.
        adjust: Changes the environment's configuration before it is built.
        stride: Every so many control steps become a frame.

    Attributes:
        env: Isaac Lab's environment (unwrapped), 2 P worlds.
        comparison: The two robots.
    """

    def __init__(
        self,
        options: Options,
        task: str,
        mode: str,
        pairs: int = 1,
        adjust: Callable[[Any], None] | None = None,
        stride: int = 2,
    ) -> None:
        from flashnerd_ext.rl.simulation import open_simulation
        from flashnerd_ext.view.comparison import prepare
        from flashnerd_ext.view.show import compare
        from flashnerd_ext.view.viewers import add_viewers

        def configure(env_cfg: Any) -> None:
            prepare(env_cfg)
            if adjust is not None:
                adjust(env_cfg)
            add_viewers(env_cfg, options.viz, options.video, list(range(2 * pairs)))

        self.options, self.stride = options, stride
        self.started = time.monotonic()
        self.simulation = open_simulation(
            task, "flashnerd", num_envs=2 * pairs, device=options.device, seed=options.seed, adjust=configure
        )
        self.env = self.simulation.unwrapped
        self.comparison = compare(self.env, mode)
        self.dt = float(self.env.step_dt)
        self.frames: list[np.ndarray] = []

    @property
    def steps(self) -> int:
        """Control steps of the run."""
        return max(1, round(self.options.seconds / self.dt))

    def run(self, act: Act, each: Callable[[int], None] | None = None) -> None:
        """Run once, and with a live viewer again and again until Ctrl-C.

        Args:
            act: The actions of each step.
            each: Called after each control step of the first run.
        """
        import torch
        from tqdm import tqdm

        live = self.options.viz != "none"
        # A reset of all worlds, so that the run begins where the options say.
        observations, _ = self.simulation.env.reset()
        with torch.inference_mode():
            for step in tqdm(range(self.steps), unit=" steps", disable=None):
                observations = self._step(act, observations, step, live)
                if each is not None:
                    each(step)
                if self.options.video and step % self.stride == self.stride - 1:
                    self._film()
            # The table is that of the first run, and of all for the comparison's own lines.
            with contextlib.suppress(KeyboardInterrupt):
                while live and not self.options.video:
                    observations, _ = self.simulation.env.reset()
                    for step in range(self.steps):
                        observations = self._step(act, observations, step, live)

    def _step(self, act: Act, observations: Any, step: int, live: bool) -> Any:
        begun = time.monotonic()
        observations = self.simulation.env.step(act(observations, step))[0]
        if live:
            time.sleep(max(0.0, self.dt - (time.monotonic() - begun)))
        return observations

    def _film(self) -> None:
        from flashnerd_ext.view.viewers import picture

        self.frames.append(picture(self.env))

    def finish(self, name: str, report: Report, shown: float = 0.5) -> None:
        """Write clip, picture and table, print the table, and close the simulation.

        Args:
            name: Of the files.
            report: The demo's own lines; those of the comparison are added.
            shown: Place of the picture in the clip, 0 to 1.

        Raises:
            FlashNerdError: Where the clip shows nothing.
        """
        for what, value in self.comparison.summary():
            report.add(what, value)
        used = f"{time.process_time():.0f} s of processor time"
        report.add("simulation and pictures", f"{time.monotonic() - self.started:.0f} s; the whole demo {used}")
        if self.frames:
            report.film(self.options.output / name, self.frames, 1.0 / (self.dt * self.stride), shown)
        report.write(self.options.output / name)
        self.simulation.close()
