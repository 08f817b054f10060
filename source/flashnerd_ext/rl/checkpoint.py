"""Reading and writing rsl_rl checkpoints: no code runs from a file, and the random state travels along."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from flashnerd_ext.errors import FlashNerdError, one_line
from flashnerd_ext.files import atomic_save

STATE_KEY = "flashnerd"
"""Key under a checkpoint's ``infos`` that holds the random state and the logger's statistics."""
LATEST = "latest.pt"
"""Link in a run's folder to its newest checkpoint."""
_MODELS = ("actor_state_dict", "critic_state_dict", "student_state_dict", "teacher_state_dict")


def read_checkpoint(path: str | Path, map_location: Any = None, trust: bool = False) -> dict[str, Any]:
    """Load a checkpoint with tensors and plain values only.

    Args:
        path: A ``model_<iteration>.pt``.
        map_location: As for ``torch.load``.
        trust: Also load files that hold other Python objects. Such a file runs code of whoever wrote it.

    Raises:
        FlashNerdError: Where the file is missing, no checkpoint, or would have to run code.
    """
    path = Path(path)
    if not path.is_file():
        raise FlashNerdError(f"there is no checkpoint at {path}: give a file with --checkpoint, or 'latest'.")
    with path.open("rb") as stream:
        head = stream.read(64)
    if head.startswith(b"version https://git-lfs"):
        raise FlashNerdError(f"{path} is a Git LFS pointer, not a checkpoint: type git lfs pull.")
    try:
        loaded = torch.load(path, weights_only=True, map_location=map_location)
    except Exception as error:
        # Torch's own words are several lines with advice to switch the protection off.
        if "weights" not in str(error).lower() or not head.startswith(b"PK"):
            raise FlashNerdError(f"{path} cannot be read as a checkpoint: {one_line(error, 120)}") from None
        if not trust:
            raise FlashNerdError(
                f"{path} holds Python objects beside weights, and loading them would run code from the file: "
                "type --trust_checkpoint if you trust who made it."
            ) from None
        print(f"warning: {path} is loaded with its Python objects, which can run code from the file.")
        loaded = _load_trusted(path, map_location)
    if not isinstance(loaded, dict) or "iter" not in loaded or not any(key in loaded for key in _MODELS):
        raise FlashNerdError(f"{path} is not an rsl_rl checkpoint: it needs 'iter' and a model's weights.")
    return loaded


def _load_trusted(path: Path, map_location: Any) -> Any:
    try:
        return torch.load(path, weights_only=False, map_location=map_location)
    except Exception as error:
        raise FlashNerdError(f"{path} cannot be read as a checkpoint: {one_line(error, 120)}") from None


def write_checkpoint(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write a checkpoint through a temporary file and a rename, so that a kill leaves the old one."""
    atomic_save(path, lambda temporary: torch.save(dict(content), temporary))


def point_latest(path: Path) -> None:
    """Let ``latest.pt`` beside a ``model_<iteration>.pt`` point to it, in one step; other names are left alone."""
    if not re.fullmatch(r"model_\d+\.pt", path.name):
        return
    temporary = path.with_name(f".latest-{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(path.name)
    os.replace(temporary, path.with_name(LATEST))


def check_weights(
    name: str, stored: Mapping[str, torch.Tensor], current: Mapping[str, torch.Tensor], path: str
) -> None:
    """Compare names and shapes of a model's weights with the configured model.

    Raises:
        FlashNerdError: Naming the first differing weight, both shapes, and the override that would match.
    """
    for key in [*current, *stored]:
        ours = tuple(current[key].shape) if key in current else None
        theirs = tuple(stored[key].shape) if key in stored else None
        if ours == theirs:
            continue
        raise FlashNerdError(
            f"{path} does not fit the configured {name}: {key} is {theirs or 'missing'} in the file and "
            f"{ours or 'missing'} in the configuration; {_override(name, key, stored)}"
        )


def _override(name: str, key: str, stored: Mapping[str, torch.Tensor]) -> str:
    normalised = any(item.startswith("obs_normalizer.") for item in stored)
    if key.startswith("obs_normalizer."):
        word = f"agent.{name}.obs_normalization={normalised}"
        return f"type {word}, or play the task it was trained on."
    layers = sorted(
        (int(item.split(".")[1]), tensor.shape[0])
        for item, tensor in stored.items()
        if item.startswith("mlp.") and item.endswith(".weight") and item.split(".")[1].isdigit()
    )
    if layers:
        hidden = ",".join(str(size) for _, size in layers[:-1])
        return f"the file was made with agent.{name}.hidden_dims=[{hidden}], on the task of its run."
    return "use the agent settings in the run's params/agent.yaml."


def random_state() -> dict[str, Any]:
    """Random state of python, numpy and torch as tensors and plain values, so that weights-only loading reads it."""
    version, words, gauss = random.getstate()
    numpy_state: Any = np.random.get_state()
    state: dict[str, Any] = {
        "python": [version, list(words), gauss],
        "numpy": [torch.from_numpy(numpy_state[1].astype(np.int64)), int(numpy_state[2]), int(numpy_state[3])]
        + [float(numpy_state[4])],
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def restore_random_state(state: Mapping[str, Any]) -> None:
    """Set what :func:`random_state` gave; a device that is not here is skipped."""
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state(("MT19937", keys.cpu().numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(state["torch"].cpu())
    if "cuda" in state and torch.cuda.is_available():
        for index, item in enumerate(state["cuda"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(item.cpu(), index)
