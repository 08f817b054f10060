"""What an exported file must stand before it gets its name: USD's validators, no outside files, the right positions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.errors import FlashNerdError, one_line
from flashnerd_ext.robots.assets.pxr_api import Stage, Usd
from flashnerd_ext.usd.samples import matrices, read_back
from flashnerd_ext.usd.track import Track

UsdUtils: Any = import_module("pxr.UsdUtils")
UsdValidation: Any = import_module("pxr.UsdValidation")

TOLERANCE = 1e-5
"""Largest distance [m] of a body in the file to the simulator's, and largest difference of its rotation matrix."""


@dataclass(frozen=True)
class Findings:
    """What the validators say.

    Attributes:
        validators: How many were run.
        errors, warnings: ``name at path: message`` each.
    """

    validators: int
    errors: tuple[str, ...]
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        text = f"{self.validators} validators: {len(self.errors)} errors, {len(self.warnings)} warnings"
        kinds = Counter(line.split(" at ", 1)[0] for line in self.warnings)
        return text + "".join(f"\n  warning {name}: {count} times" for name, count in sorted(kinds.items()))


def validate(stage: Stage) -> Findings:
    """Run all validators that USD has, on a whole stage."""
    validators = UsdValidation.ValidationRegistry().GetOrLoadAllValidators()
    errors, warnings = [], []
    for found in UsdValidation.ValidationContext(validators).Validate(stage):
        if found.HasNoError():
            continue
        serious = found.GetType() == UsdValidation.ValidationErrorType.Error
        (errors if serious else warnings).append(f"{found.GetName()} at {_site(found)}: {one_line(found.GetMessage())}")
    return Findings(len(validators), tuple(errors), tuple(warnings))


def _site(found: Any) -> str:
    for site in found.GetSites():
        if site.IsProperty():
            return str(site.GetProperty().GetPath())
        if site.IsPrim():
            return str(site.GetPrim().GetPath())
    return "the stage"


def outside_files(path: Path) -> list[str]:
    """What the file needs that does not lie in its own folder, unresolvable names included."""
    layers, assets, unresolved = UsdUtils.ComputeAllDependencies(str(path))
    folder = path.resolve().parent
    named = [layer.realPath for layer in layers] + [str(asset) for asset in assets]
    return [name for name in named if not Path(name).resolve().is_relative_to(folder)] + [str(u) for u in unresolved]


def check_file(path: Path, track: Track) -> tuple[Findings, float]:
    """Open a written file and compare it with what was recorded.

    Returns:
        The validators' findings, and the largest distance [m] of a body at the first or the last frame.

    Raises:
        FlashNerdError: For an error of the validators, an outside file, or a body that is elsewhere.
    """
    stage = Usd.Stage.Open(str(path))
    findings = validate(stage)
    if findings.errors:
        raise FlashNerdError(f"the exported stage has {len(findings.errors)} errors, the first: {findings.errors[0]}")
    outside = outside_files(path)
    if outside:
        raise FlashNerdError(f"the exported stage needs {outside[0]}, which does not lie beside it.")
    off = 0.0
    for number in {0, len(track.frames) - 1}:
        shown, meant = read_back(stage, track.paths, float(number)), matrices(track.frames[number])
        turned = np.abs(shown[:, :3, :3] - meant[:, :3, :3]).max(axis=(1, 2))
        distance = np.abs(shown[:, :3, 3] - meant[:, :3, 3]).max(axis=1)
        off = max(off, float(distance.max()))
        for what, values, unit in (("off", distance, " m"), ("turned", turned, "")):
            worst = int(values.argmax())
            if not values[worst] <= TOLERANCE:
                raise FlashNerdError(
                    f"{track.paths[worst]} is {what} by {values[worst]:.1e}{unit} at frame {number} of the exported "
                    f"stage, allowed is {TOLERANCE:.0e}."
                )
    return findings, off
