"""Training checkpoints: whole files, read without running code from them, and only into the run that made them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import atomic_save
from flashnerd_ext.training.config import TrainDynamicsConfig

NAME = "checkpoint.pt"
# Gauss-Newton iterations do not depend on how many will follow: a finished run can be resumed with a larger number.
_FREE = (
    "out",
    "resume",
    "rollouts",
    "threads",
    "device",
    "train.checkpoint_seconds",
    "train.compiled",
    "train.newton",
    "train.validate_every",
)


def flatten(config: TrainDynamicsConfig) -> dict[str, Any]:
    """The options that decide the result, as ``train.lr`` -> value."""
    flat: dict[str, Any] = {}
    for key, value in dataclasses.asdict(config).items():
        if isinstance(value, dict):
            flat |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            flat[key] = value
    return {key: value for key, value in flat.items() if key not in _FREE}


def save_checkpoint(folder: Path, content: dict[str, Any]) -> None:
    """Write the checkpoint through a temporary file."""
    atomic_save(folder / NAME, lambda path: torch.save(content, path))


def load_checkpoint(folder: Path, config: TrainDynamicsConfig, device: torch.device) -> dict[str, Any]:
    """Read a checkpoint of the same run.

    Raises:
        FlashNerdError: When it is missing, damaged, or was made with other options; each of them is listed with the
            override that would match.
    """
    path = folder / NAME
    if not path.exists():
        raise FlashNerdError(f"resume=true, but {path} does not exist: type resume=false, or the out= of that run.")
    try:
        content = torch.load(path, map_location=device, weights_only=True)
        stored = {key: value for key, value in content["config"].items() if key not in _FREE}
    except Exception as error:
        raise FlashNerdError(f"{path} cannot be read as a checkpoint ({type(error).__name__}): delete it.") from None
    current = flatten(config)
    wrong = [
        f"{key}: stored {stored.get(key)!r}, now {current.get(key)!r} (type {key}={stored.get(key)})"
        for key in sorted(set(stored) | set(current))
        if stored.get(key) != current.get(key)
    ]
    if wrong:
        raise FlashNerdError(f"{path} was made with other options: {'; '.join(wrong)}.")
    return content
