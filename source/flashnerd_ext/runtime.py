"""What a process sets once: threads, seeds, and the line that says which stack runs."""

from __future__ import annotations

import os
import platform
import random
import subprocess
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

from flashnerd_ext.errors import FlashNerdError, one_line

_STACK = {"torch": "2.11", "warp": "1.17", "newton": "1.6"}
"""Module -> version prefix that this release was built and measured with."""
_DISTRIBUTION = {"torch": "torch", "warp": "warp-lang", "newton": "newton"}


def set_threads(count: int | None = None) -> int:
    """Set torch's and OpenMP's thread count once, before heavy work.

    Args:
        count: Threads; ``None`` takes OMP_NUM_THREADS, else the cores this process may use. Unset
            settings were seen to cost up to 100x on busy machines (small tensors, two threads).

    Returns:
        The count in force.
    """
    if count is None:
        count = int(os.environ.get("OMP_NUM_THREADS", "0")) or len(os.sched_getaffinity(0))
    if count < 1:
        raise FlashNerdError(f"threads is {count}, but at least 1 is needed: type threads=1.")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(count)
    import torch

    torch.set_num_threads(count)
    # A flushed denormal costs nothing; a kept one slows late training, when updates become tiny.
    torch.set_flush_denormal(True)
    return count


def seed_everything(seed: int, deterministic: bool = False) -> None:
    """Seed python, numpy and torch; ``deterministic`` also asks torch for deterministic kernels."""
    import numpy as np
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    if deterministic:
        torch.use_deterministic_algorithms(True, warn_only=True)


def stack_versions(modules: tuple[str, ...] = ("torch", "warp", "newton")) -> str:
    """One line with version and file of each module, and a warning where it is not the one expected.

    A stale copy earlier on the path is the usual reason for errors that make no sense, and the file tells.
    """
    parts = []
    for name in modules:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            parts.append(f"{name} missing")
            continue
        # The file's own version, not the installed metadata: they differ when an older copy shadows it.
        try:
            version = str(getattr(import_module(name), "__version__", "?"))
        except Exception as error:  # newton on an older warp, for one: that is what the line is for
            parts.append(f"{name} !! cannot be imported ({one_line(error, 100)}) ({Path(spec.origin).parent})")
            continue
        note = ""
        if not version.startswith(_STACK.get(name, "")):
            note = f" !! expected {_STACK[name]}.x"
        else:
            try:
                installed = metadata.version(_DISTRIBUTION.get(name, name))
                if version.split("+")[0] != installed.split("+")[0]:
                    note = f" !! pip says {installed}"
            except metadata.PackageNotFoundError:
                note = " !! not installed by pip"
        parts.append(f"{name} {version}{note} ({Path(spec.origin).parent})")
    return "stack: " + "; ".join(parts)


def machine_facts() -> dict[str, object]:
    """Machine facts that belong beside every timing: cores, threads, load, processor."""
    import torch

    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def git_revision() -> str:
    """Short revision of the source tree with ``+dirty`` where it has changes, or ``unknown``."""
    try:
        folder = Path(__file__).resolve().parent
        base = ["git", "-C", str(folder)]
        revision = subprocess.run(
            [*base, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        )
        status = subprocess.run([*base, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
        return revision.stdout.strip() + ("+dirty" if status.stdout.strip() else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
