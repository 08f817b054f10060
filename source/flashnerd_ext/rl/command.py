"""``scripts/rsl_rl/train.py`` and ``play.py``: Isaac Lab's commands with our defaults, checks and options."""

from __future__ import annotations

import importlib
import os
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from flashnerd_ext.errors import FlashNerdError, nearest, one_line
from flashnerd_ext.rl.refresh.options import take_options

OPTIONS_HELP = """options of this script, beside Isaac Lab's:
  --headless            accepted for command lines of Isaac Lab 2.x; headless is the default now
  --steps N             (play) end after N environment steps
  --viz NAME            newton | viser | rerun | kit | none; with --video a clip is made beside it, and rerun also
                        writes its recording. (play) Without --viz, --video and --steps: a window where there is a
                        display, else a clip
  --video_source NAME   auto | newton_gl | warp_camera; where --video takes its frames from
  --compare mujoco_c    (play) the simulator's robot as a ghost beside the learned one, contacts as arrows, the guard's
                        verdict as colour, and the error over time; --num_envs is the number of pairs, 1 by default
  --compare_mode NAME   policy | actions; whether the ghost follows the policy too, or gets the learned robot's actions
  --trust_checkpoint    load a checkpoint that holds Python objects; such a file can run code
  --refresh N           (train) every N iterations the policy is rolled out in the simulator and scored there, the
                        learned world is fine-tuned on what it visited, and takes over; 0 is off. More options are
                        typed as refresh.KEY=VALUE: data, physics, num_envs, steps, score_steps, seeds, noise, older,
                        pushes, share, rounds, minutes, updates, lr, window, batch, compiled, beside, final
  --device NAME         follows the machine when it is not given: cuda:0, else cpu; agent.device follows it
"""
_NUMBERS = ("--num_envs", "--max_iterations", "--video_length", "--video_interval", "--steps")
_NOTICE = "note: --headless is deprecated and does nothing: runs are headless unless --viz is given."


def train(argv: Sequence[str] | None = None) -> int:
    """Train a policy with rsl_rl; all flags of ``isaaclab train`` and :data:`OPTIONS_HELP`."""
    return _command("train", list(sys.argv[1:] if argv is None else argv))


def play(argv: Sequence[str] | None = None) -> int:
    """Play a policy, export it and record a clip; all flags of ``isaaclab play`` and :data:`OPTIONS_HELP`."""
    return _command("play", list(sys.argv[1:] if argv is None else argv))


def _command(action: str, words: list[str]) -> int:
    if "-h" in words or "--help" in words:
        print(OPTIONS_HELP)
    if "--headless" in words:
        words = [word for word in words if word != "--headless"]
        print(_NOTICE, file=sys.stderr)
    trust = "--trust_checkpoint" in words
    words = [word for word in words if word != "--trust_checkpoint"]
    words, source = _take(words, "--video_source")
    words, compare = _take_compare(words, action)
    words, every = _take(words, "--refresh")
    words, refresh = take_options(words, every)
    if refresh is not None and (action != "train" or "--distributed" in words):
        raise FlashNerdError("--refresh belongs to a training of one process: leave it, or --distributed, out.")
    words, library = _take(words, "--rl_library")
    if library not in (None, "rsl_rl"):
        raise FlashNerdError(
            f"--rl_library is '{library}', but this script runs rsl_rl: type isaaclab {action} instead."
        )
    _check_numbers(words)
    _check_checkpoint(_value(words, "--checkpoint"))
    words = _last_of_run(words) if action == "train" else words
    words, steps = _take(words, "--steps")
    if steps is not None and action == "train":
        raise FlashNerdError("--steps belongs to play: type --max_iterations to end a training.")
    words = _viewing(words, action, steps)

    prepare_process()
    from flashnerd_ext.rl.hooks import Run, attached
    from flashnerd_ext.rl.video import report_clips

    device = _value(words, "--device")
    if device is None:
        device = default_device()
        words += ["--device", device]
    run = Run(
        action,
        device,
        steps=int(steps) if steps is not None else None,
        trust_checkpoint=trust,
        video_source=source or "auto",
        agent_device_given=any(word.startswith("agent.device=") for word in words),
        refresh=refresh,
        compare=compare,
    )
    from isaaclab_rl.entrypoints.dispatch import run_cli

    try:
        module = importlib.import_module(f"isaaclab_rl.entrypoints.backends.{action}_rsl_rl")
        with attached(module, run):
            code = run_cli(action, ["--rl_library", "rsl_rl", *words])
    except (FlashNerdError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise FlashNerdError(explain(action, error, run.started)) from error
    report_clips(run.video and code == 0 and (action == "play" or run.log_dir is not None))
    return code


def explain(action: str, error: Exception, started: bool) -> str:
    """One sentence for an exception from below, with the file that holds its traceback."""
    path = Path("logs") / "errors" / f"{action}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    stage = "stopped" if started else "could not start with these settings"
    text = one_line(str(error).strip().split("\n")[0], 240) or "no message"
    return f"{action} {stage}: {type(error).__name__}: {text.rstrip('.')}; the traceback is in {path}."


def default_device() -> str:
    """``cuda:0`` where there is one, else ``cpu``."""
    import torch

    return "cuda:0" if torch.cuda.is_available() else "cpu"


def prepare_process() -> None:
    """Activate the asset root and set the thread count; call it before anything imports isaaclab."""
    # The asset root is read when isaaclab is imported, so this comes first.
    from flashnerd_ext.robots import assets

    assets.activate()
    from flashnerd_ext.runtime import set_threads

    # Policies are small: more threads than one only wait for each other on a CPU.
    set_threads(None if "OMP_NUM_THREADS" in os.environ else 1)


def _value(words: Sequence[str], option: str) -> str | None:
    """Last value of ``option`` in either spelling, without taking it out."""
    return _take(list(words), option)[1]


def _take(words: list[str], option: str) -> tuple[list[str], str | None]:
    """Remove ``option VALUE`` and ``option=VALUE``; the last one counts.

    Raises:
        FlashNerdError: Where the value is missing.
    """
    rest: list[str] = []
    value: str | None = None
    items = iter(words)
    for word in items:
        if word == option:
            value = next(items, None)
            if value is None:
                raise FlashNerdError(f"{option} needs a value.")
        elif word.startswith(f"{option}="):
            value = word.split("=", 1)[1]
        else:
            rest.append(word)
    return rest, value


def _viewing(words: list[str], action: str, steps: str | None) -> list[str]:
    """The words with ``--viz`` in Isaac Lab's names, and what is shown where nobody says."""
    from flashnerd_ext.view.choose import default_viewing, viewer_name

    for option in ("--visualizer", "--viz"):
        words, named = _take(words, option)
        if named is not None:
            return [*words, "--viz", viewer_name(named)]
    if action == "train" or steps is not None or {"--video", "-h", "--help"} & {*words}:
        return words
    shown = default_viewing()
    print(f"play: {' '.join(shown)} is the default here; --viz none shows nothing.")
    return [*words, *shown]


def _take_compare(words: list[str], action: str) -> tuple[list[str], tuple[str, str] | None]:
    """Remove ``--compare`` and ``--compare_mode``: the engine and the mode. Each robot gets a world for its ghost."""
    words, engine = _take(words, "--compare")
    words, mode = _take(words, "--compare_mode")
    if engine is None:
        if mode is not None:
            raise FlashNerdError("--compare_mode needs --compare: type --compare mujoco_c.")
        return words, None
    from flashnerd_ext.view.ghost import MODES, check_engine

    check_engine(engine)
    if action != "play":
        raise FlashNerdError("--compare belongs to play: leave it out.")
    if mode is not None and mode not in MODES:
        raise FlashNerdError(f"--compare_mode is '{mode}', which is not known: {nearest(mode, MODES)}")
    _check_numbers(words)
    words, pairs = _take(words, "--num_envs")
    return [*words, "--num_envs", str(2 * int(pairs or 1))], (engine, mode or "policy")


def _check_checkpoint(text: str | None) -> None:
    """Refuse a checkpoint path that is not there, before anything is loaded; selectors and addresses pass."""
    if text is None or text in ("latest", "best", "pretrained") or ":" in text or Path(text).exists():
        return
    raise FlashNerdError(f"there is no checkpoint at {text}: give a file or run folder with --checkpoint, or 'latest'.")


def _last_of_run(words: list[str]) -> list[str]:
    """A run folder after ``--checkpoint`` becomes its last checkpoint: Isaac Lab 3.0 looks for a file of the folder's
    own name in it."""
    from flashnerd_ext.rl.record.program import checkpoints

    given = _value(words, "--checkpoint")
    if given is None or not Path(given).is_dir():
        return words
    rest, _ = _take(words, "--checkpoint")
    return [*rest, "--checkpoint", str(checkpoints(given)[0])]


def _check_numbers(words: Sequence[str]) -> None:
    for option in _NUMBERS:
        text = _value(words, option)
        if text is None:
            continue
        if not text.lstrip("-").isdigit() or int(text) < (0 if option == "--video_interval" else 1):
            raise FlashNerdError(f"{option} is '{text}', but a whole number of at least 1 is needed.")
