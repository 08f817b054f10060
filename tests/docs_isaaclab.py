"""Run by ``test_docs.py``: train and play commands as far as Isaac Lab's own parsers and the task's configuration go.

Its argument is a JSON file of ``[action, ours, words]``; what is wrong with them is printed as a JSON list of texts,
empty where nothing is. ``ours`` is true for scripts/rsl_rl, false for ``isaaclab train`` and ``play``.
"""

from __future__ import annotations

import importlib
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from isaaclab_rl.entrypoints import dispatch

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.rl import command, hooks


def look(action: str, words: list[str]) -> int:
    """What an entry point does before it starts a simulation: parse the words, resolve the task."""
    module: Any = importlib.import_module(f"isaaclab_rl.entrypoints.backends.{action}_rsl_rl")
    if "--rl_library" not in words:
        return 0  # a page that names the program only
    library = words.index("--rl_library")
    options = module._parse_args([*words[:library], *words[library + 2 :]])
    module.resolve_task_config(options.task, options.agent)
    return 0


def wrong(action: str, ours: bool, words: list[str]) -> str:
    """What is wrong with one command, or nothing."""
    said = StringIO()
    kept = list(sys.argv)
    try:
        with redirect_stdout(said), redirect_stderr(said):
            if ours:
                command._command(action, words)
            else:
                module = importlib.import_module(f"isaaclab_rl.entrypoints.backends.{action}_rsl_rl")
                with hooks.attached(module, hooks.Run(action, "cpu", agent_device_given=True)):
                    look(action, words)
    except FlashNerdError as error:
        return str(error)
    except SystemExit as end:
        return said.getvalue().strip().splitlines()[-1] if end.code else ""
    finally:
        sys.argv[:] = kept
    return ""


def main() -> None:
    """Look at every command."""
    dispatch.run_cli = look
    # Files of a reader's are not here; that what is missing is said is tested elsewhere.
    command._check_checkpoint = lambda text: None
    command._last_of_run = lambda words: words
    jobs = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps([wrong(*job) for job in jobs]))


if __name__ == "__main__":
    main()
