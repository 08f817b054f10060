"""The main job, as `make demo` runs it: a policy trained in learned physics, tested in MuJoCo Warp, and a report.

python scripts/demo.py            finished stages of an earlier run are reused
python scripts/demo.py --fresh    everything anew
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from filelock import FileLock, Timeout

from flashnerd_ext.cli import parse
from flashnerd_ext.demo.page import write_page
from flashnerd_ext.demo.plan import DemoConfig, cartpole
from flashnerd_ext.demo.stages import StageRunner
from flashnerd_ext.errors import FlashNerdError, cli_main


def main() -> int:
    words = ["fresh=true" if word == "--fresh" else word for word in sys.argv[1:]]
    config = parse(DemoConfig, words, doc=__doc__)
    config.check()
    # A plain kill should end the running stage too, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    begun = time.monotonic()
    stages, files = cartpole(config, Path(__file__).resolve().parent.parent)
    files.folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(files.folder / ".lock", timeout=0):
            outcomes = StageRunner(files.folder, config.fresh).run(stages)
            summary = write_page(files, outcomes)
    except Timeout:
        raise FlashNerdError(f"another demo is running in {files.folder}: wait for it, or type out=OTHER.") from None
    print()
    print(summary)
    print(f"demo: done in {time.monotonic() - begun:.0f} s")
    print(f"demo: report  {files.report}")
    print(f"demo: clip    {files.clip}")
    print(f"demo: policy  {files.checkpoint()}")
    print(f"demo: data and logs  {files.folder}")
    return 0


if __name__ == "__main__":
    cli_main(main)
