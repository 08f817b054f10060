"""Joins this project to Isaac Lab's rsl_rl entry points without copying them.

The entry points call a handful of helpers by name; for the length of one call some of those names point to functions
that do their work and ours. A name that is missing in another version of Isaac Lab is answered with one sentence.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl import manifest, video
from flashnerd_ext.rl.overrides import check_applied, check_overrides, check_task, check_values

if TYPE_CHECKING:
    from flashnerd_ext.rl.refresh.options import RefreshOptions
    from flashnerd_ext.view.comparison import Comparison


@dataclass
class Run:
    """One train or play: our options, and what becomes known while Isaac Lab starts it."""

    action: str
    device: str
    steps: int | None = None
    trust_checkpoint: bool = False
    video_source: str = "auto"
    agent_device_given: bool = False
    refresh: RefreshOptions | None = None
    compare: tuple[str, str] | None = None
    """What steps the ghosts, and their mode; see :mod:`flashnerd_ext.view.ghost`."""
    comparison: Comparison | None = None
    video: bool = False
    facts: dict[str, str] = field(default_factory=dict)
    log_dir: str | None = None
    manifest_dir: str | None = None
    task: str = ""
    agent: str = ""
    words: list[str] = field(default_factory=list)
    started: bool = False
    """True once the environment stands; later failures are not the command line's."""


@contextmanager
def attached(module: ModuleType, run: Run) -> Iterator[None]:
    """Point the names in ``module`` (a rsl_rl entry point) to ours, and back.

    Raises:
        FlashNerdError: Where the entry point lacks a name that this release relies on.
    """
    replacements = _replacements(module, run)
    missing = [name for name in replacements if not hasattr(module, name)]
    if missing:
        raise FlashNerdError(
            f"{module.__name__} has no {', '.join(missing)}: this release is made for isaaclab 3.0.0, type "
            "pip install isaaclab==3.0.0."
        )
    originals = {name: getattr(module, name) for name in replacements}
    for name, function in replacements.items():
        setattr(module, name, function)
    try:
        yield
    finally:
        for name, function in originals.items():
            setattr(module, name, function)


def _replacements(module: ModuleType, run: Run) -> dict[str, Callable[..., Any]]:
    def original(name: str) -> Any:
        return getattr(module, name, None)

    resolve, record = original("resolve_task_config"), original("pre_launch_video_config")
    launch, make = original("launch_simulation"), original("create_isaaclab_env")
    write, playback = original("write_run_manifest"), original("run_playback")

    def resolve_task_config(task: str, agent: str, **options: Any) -> Any:
        words = list(sys.argv[1:])
        name = check_task(task, agent)
        # Isaac Lab reads the overrides from sys.argv.
        sys.argv[1:] = words = check_overrides(name, agent, words)
        env_cfg, agent_cfg = resolve(task, agent, **options)
        check_applied(name, agent, words, {"env": env_cfg, "agent": agent_cfg})
        check_values(env_cfg)
        if not run.agent_device_given:
            agent_cfg.device = run.device
        run.facts = manifest.physics_facts(name, env_cfg, words)
        run.task, run.agent, run.words = name, agent, words
        if run.refresh is not None and run.facts["bundle"] == "none":
            raise FlashNerdError(
                f"--refresh keeps a learned world honest, but physics={run.facts['physics']} is none: type "
                "physics=flashnerd, or leave --refresh out."
            )
        if run.refresh is not None:
            from flashnerd_ext.rl.record.program import robot_of

            run.refresh.check(robot_of(name).name)
        print(f"{run.action}: {manifest.describe(run.facts)}, device {run.device}")
        return env_cfg, agent_cfg

    def pre_launch_video_config(env_cfg: Any, args: Any) -> None:
        run.video = bool(args.video)
        if run.compare is not None:
            from flashnerd_ext.view.comparison import prepare

            left_out = prepare(env_cfg)
            if left_out:
                print(f"{run.action}: left out, since it differs from world to world: {', '.join(left_out)}.")
        video.prepare(env_cfg, args, run.video_source, run.compare is not None)
        record(env_cfg, args)

    @contextmanager
    def launch_simulation(*args: Any, **options: Any) -> Iterator[Any]:
        # Isaac Lab's launcher prints the traceback of whatever passes through it; an exit code passes silently.
        failure: Exception | None = None
        try:
            with launch(*args, **options) as value:
                try:
                    yield value
                except Exception as error:
                    failure = error
                    raise SystemExit(1) from None
        except SystemExit:
            if failure is None:
                raise
        if failure is not None:
            raise failure

    def create_isaaclab_env(*args: Any, **options: Any) -> Any:
        env = make(*args, **options)
        run.started = True
        run.facts.update(manifest.running_bundle())
        if run.manifest_dir is not None:
            manifest.update_manifest(run.manifest_dir, run.facts)
        if run.compare is not None:
            from flashnerd_ext.view.show import compare

            engine, mode = run.compare
            run.comparison = compare(env.unwrapped, mode, engine)
        return env

    def create_rsl_rl_runner(env: Any, agent_cfg: Any, log_dir: str | None = None) -> Any:
        from flashnerd_ext.rl.runner import create_runner

        run.log_dir = log_dir
        runner = create_runner(env, agent_cfg, log_dir, run.action == "train", run.trust_checkpoint)
        runner.facts = run.facts
        if run.action == "train" and not runner.logger.disable_logs and log_dir is not None:
            watch(runner, run)
        if run.refresh is not None:
            from flashnerd_ext.rl.refresh.loop import Refresh

            assert log_dir is not None
            runner.refresh = Refresh(run.refresh, Path(log_dir), run.task, run.agent, run.words, run.device)
            runner.refresh.attach(runner)
        return runner

    def write_run_manifest(log_dir: str, *, library: str, task: str, metadata: dict[str, str] | None = None) -> None:
        write(log_dir, library=library, task=task, metadata={**(metadata or {}), **run.facts})
        run.manifest_dir = log_dir

    def run_playback(step: Callable[[], None], **options: Any) -> None:
        playback(_limited(step, run.steps) if run.steps is not None else step, **options)

    def resolve_checkpoint_selector(
        log_root_path: str, selector: str, *, task: str, metadata: dict[str, str] | None = None, **_: Any
    ) -> str:
        from flashnerd_ext.rl.selectors import select

        return str(select(selector, task, metadata, log_root_path))

    found: dict[str, Callable[..., Any]] = {
        "resolve_checkpoint_selector": resolve_checkpoint_selector,
        "resolve_task_config": resolve_task_config,
        "pre_launch_video_config": pre_launch_video_config,
        "launch_simulation": launch_simulation,
        "create_isaaclab_env": create_isaaclab_env,
        "create_rsl_rl_runner": create_rsl_rl_runner,
    }
    announce = original("announce_new_run")

    def announce_new_run(*arguments: Any, **options: Any) -> None:
        # Isaac Lab makes the run's id with a function that newer wandb lacks; an id that is there is taken as it is.
        os.environ.setdefault("WANDB_RUN_ID", secrets.token_hex(4))
        announce(*arguments, **options)

    if run.action == "train":
        found["write_run_manifest"] = write_run_manifest
        found["announce_new_run"] = announce_new_run
    else:
        found["run_playback"] = run_playback
    return found


def watch(runner: Any, run: Run) -> None:
    """Log the guard and the times of a training, and keep its best policy where no refresh decides that."""
    from flashnerd_ext.rl.best import BestByReturn
    from flashnerd_ext.rl.live_log import LiveLog

    runner.live = LiveLog(runner)
    if run.refresh is None:
        runner.best = BestByReturn(runner, run.facts["physics"])


def _limited(step: Callable[[], None], steps: int) -> Callable[[], None]:
    """``step``, which after ``steps`` calls ends the playback the way Ctrl-C does; Isaac Lab closes clips then."""
    done = 0

    def limited() -> None:
        nonlocal done
        step()
        done += 1
        if done >= steps:
            print(f"played {done} steps.")
            raise KeyboardInterrupt

    return limited
