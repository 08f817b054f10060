"""A recorded run becomes a file: clones, physics off, samples, files beside it, checks, and only then its name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import atomic_save
from flashnerd_ext.usd import stage as stages
from flashnerd_ext.usd.check import Findings, check_file
from flashnerd_ext.usd.files import gather
from flashnerd_ext.usd.samples import animate
from flashnerd_ext.usd.track import Track

logger = logging.getLogger(__name__)

SUFFIXES = (".usd", ".usdc", ".usda")
MOST_NAMED = 3


@dataclass(frozen=True)
class Written:
    """What an export came to.

    Attributes:
        path: The file.
        bodies, frames: How many bodies move, for how many frames.
        rigid: Rigid bodies of the scene whose physics was taken off.
        files: Copies beside it. lost: Names of files that cannot be read here.
        findings: Of the validators. off: Largest distance [m] to the simulator.
    """

    path: Path
    bodies: int
    frames: int
    rigid: int
    files: tuple[Path, ...]
    lost: tuple[str, ...]
    findings: Findings
    off: float


def check_output(path: Path) -> Path:
    """Refuse a name that no USD file can have.

    Raises:
        FlashNerdError: For another suffix.
    """
    if path.suffix not in SUFFIXES:
        raise FlashNerdError(
            f"--output is '{path}', but a name that ends with {', '.join(SUFFIXES)} is needed: type --output run.usd."
        )
    return path


def write_run(scene: Any, plan: Any, track: Track, output: Path, facts: Mapping[str, str], envs: int = 0) -> Written:
    """Write a run of a scene.

    Args:
        scene: Isaac Lab's interactive scene; it stays as it is.
        plan: Its clone plan.
        track: What was recorded.
        output: ``.usd``, ``.usdc`` or ``.usda``.
        facts: What the recording is of, kept as ``customLayerData["flashnerd"]``.
        envs: Environments in the file; 0 is all.

    Returns:
        What was written, checked.

    Raises:
        FlashNerdError: Where the file would not stand the checks; nothing is left then but copied textures.
    """
    check_output(output)
    if not track.frames or not track.paths:
        raise FlashNerdError(
            f"the run has {len(track.frames)} frames of {len(track.paths)} bodies: at least one of each is needed."
        )
    stage = stages.standalone(scene, plan, track.paths)
    gone = stages.keep_environments(stage, scene, envs) if envs else []
    if gone:
        keep = ~track.only(gone)
        paths = tuple(path for path, kept in zip(track.paths, keep, strict=True) if kept)
        track = Track(paths, track.dt, [frame[keep] for frame in track.frames])
    rigid = stages.take_physics_off(stage)
    if rigid > len(track.paths):
        logger.warning(
            "%d of the scene's %d rigid bodies were not recorded: they stand still in %s.",
            rigid - len(track.paths),
            rigid,
            output,
        )
    animate(stage, track)
    stages.describe(stage, track.dt, len(track.frames), dict(facts))
    layer = stage.GetRootLayer()
    files, lost = gather(layer, output)
    for name in lost[:MOST_NAMED]:
        logger.warning("%s cannot be read here, so that the exported stage goes without it.", name)
    if len(lost) > MOST_NAMED:
        logger.warning("So it is with %d more files.", len(lost) - MOST_NAMED)
    found: list[tuple[Findings, float]] = []

    def save(temporary: Path) -> None:
        # It lies in the folder of the result, which the files beside it are named from.
        if not layer.Export(str(temporary)):
            raise FlashNerdError(f"{temporary} could not be written: is the disk full?")
        found.append(check_file(temporary, track))

    atomic_save(output, save)
    [(findings, off)] = found
    return Written(output, len(track.paths), len(track.frames), rigid, tuple(files), tuple(lost), findings, off)
