"""What a data set holds: ranges, coverage, bad rows and who drew what, also of a set that the reader would refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.data.dataset import check_sum, read_shard, read_summary, shard_paths
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import atomic_save
from flashnerd_ext.robots.description import RobotDescription

BINS = 50
KEPT = 400_000
"""Steps kept in memory for quantiles and pictures, spread evenly over the shards."""


@dataclass
class Feature:
    """One number of the model's input, with the range that it is declared to have."""

    name: str
    unit: str
    low: float
    high: float
    declared: bool
    """False where nothing declares a range and the data's own 0.1 to 99.9 % stands in."""


@dataclass
class SplitReport:
    """Findings in one split; ``rows`` [n, F] is a sample of its valid steps."""

    name: str
    features: list[Feature] = field(default_factory=list)
    rows: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    trajectories: int = 0
    steps: int = 0
    valid: int = 0
    bad_rows: int = 0
    bad_valid: int = 0
    samplers: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def coverage(self, feature: int) -> tuple[float, float]:
        """Share of the range's bins that hold at least 10 steps (or 1e-5 of them), and share of steps outside it."""
        item, values = self.features[feature], self.rows[:, feature]
        counts, _ = np.histogram(values, BINS, (item.low, item.high))
        enough = max(1.0, min(10.0, 1e-5 * len(values)))
        return float((counts >= enough).mean()), float(((values < item.low) | (values > item.high)).mean())


def features_of(robot: RobotDescription, rows: np.ndarray) -> list[Feature]:
    """Names, units and ranges of the columns that :func:`inspect_split` samples."""
    layout = robot.layout
    features: list[Feature] = []
    column = 0

    def add(name: str, unit: str, bounds: tuple[float, float] | None) -> None:
        nonlocal column
        declared = bounds is not None
        if bounds is None:
            bounds = tuple(np.quantile(rows[:, column], (0.001, 0.999))) if len(rows) else (-1.0, 1.0)
        low, high = float(bounds[0]), float(bounds[1])
        features.append(Feature(name, unit, low, high if high > low else low + 1e-9, declared))
        column += 1

    for i in range(layout.q0):
        add(f"base_q{i}", "", None)
    for name, kind in zip(layout.joint_names, layout.joint_kinds, strict=True):
        limit = robot.valid_range.get(name) or robot.position_limit.get(name)
        turn = (-np.pi, np.pi) if kind == "continuous" else limit
        add(name, "m" if kind == "prismatic" else "rad", turn)
    for i in range(layout.v0):
        add(f"base_qd{i}", "", None)
    for name, kind in zip(layout.joint_names, layout.joint_kinds, strict=True):
        add(f"{name} velocity", "m/s" if kind == "prismatic" else "rad/s", None)
    for name in layout.actuated:
        prismatic = layout.joint_kinds[layout.joint_names.index(name)] == "prismatic"
        unit = ("N" if prismatic else "N m") if robot.actuation == "effort" else ("m" if prismatic else "rad")
        limit = robot.effort_limit.get(name) if robot.actuation == "effort" else None
        add(f"{name} {robot.actuation}", unit, None if limit is None else (-limit, limit))
    return features


def inspect_split(folder: Path, split: str, robot: RobotDescription, facts: dict[str, Any]) -> SplitReport:
    """Read the split shard by shard; a shard that cannot be read is a fault of the report, not an error.

    ``facts`` is the split's part of ``dataset.json``.
    """
    report = SplitReport(split)
    paths = shard_paths(folder, split)
    samples: list[np.ndarray] = []
    for path in paths:
        try:
            check_sum(path, facts)
            columns, attributes = read_shard(path, robot)
        except FlashNerdError as error:
            report.faults.append(str(error))
            continue
        q, qd, actuation = columns["joint_q"], columns["joint_qd"], columns["actuation"]
        valid = columns["valid"].astype(bool)
        frames = np.isfinite(q).all(-1) & np.isfinite(qd).all(-1)
        inputs = np.isfinite(actuation).all(-1)
        broken = valid & ~(frames[:, :-1] & frames[:, 1:] & inputs)
        report.trajectories += len(valid)
        report.steps += valid.size
        report.valid += int(valid.sum())
        report.bad_rows += int((~frames).sum() + (~inputs).sum())
        report.bad_valid += int(broken.sum())
        for name, count in zip(attributes["samplers"], np.bincount(columns["sampler"], minlength=256), strict=False):
            report.samplers[name] = report.samplers.get(name, 0) + int(count)
        rows = np.concatenate([part[valid & ~broken] for part in (q[:, :-1], qd[:, :-1], actuation)], 1)
        samples.append(rows[:: max(1, len(rows) * len(paths) // KEPT)])
    if report.bad_valid:
        report.faults.append(f"{split} has {report.bad_valid} steps that are marked valid but are not finite.")
    layout = robot.layout
    width = layout.nq + layout.nv + layout.nu
    report.rows = np.concatenate(samples) if samples else np.zeros((0, width))
    for i, kind in enumerate(layout.joint_kinds):
        if kind == "continuous":
            angle = report.rows[:, layout.q0 + i]
            report.rows[:, layout.q0 + i] = (angle + np.pi) % (2 * np.pi) - np.pi
    report.features = features_of(robot, report.rows)
    return report


def inspect_folder(folder: Path, robot: RobotDescription) -> list[SplitReport]:
    """All splits of a data set, with faults where ``dataset.json`` and the shards disagree."""
    summary = read_summary(folder)
    reports = []
    for split, facts in summary["splits"].items():
        report = inspect_split(folder, split, robot, facts)
        found = len(shard_paths(folder, split))
        if found != facts["shards"]:
            report.faults.append(f"{split} has {found} shards, but dataset.json says {facts['shards']}.")
        reports.append(report)
    return reports


def describe(reports: list[SplitReport], show: Callable[[str], Any] = print) -> None:
    """The findings as tables."""
    for report in reports:
        bad = f"{report.bad_rows} bad rows" + (f", {report.bad_valid} of them marked valid" if report.bad_valid else "")
        show(
            f"\n{report.name}: {report.trajectories:,} trajectories, {report.steps:,} steps, "
            f"{report.valid:,} valid, {bad}"
        )
        if len(report.rows):
            show(
                f"  {'feature':26s} {'unit':>8s} {'min':>10s} {'max':>10s} {'mean':>10s} {'std':>10s}"
                f" {'range':>20s} {'covered':>8s} {'outside':>8s}"
            )
        for i, item in enumerate(report.features if len(report.rows) else []):
            values = report.rows[:, i]
            covered, outside = report.coverage(i)
            bounds = f"{item.low:.3g} .. {item.high:.3g}" + ("" if item.declared else " *")
            show(
                f"  {item.name:26s} {item.unit:>8s} {values.min():10.3f} {values.max():10.3f} {values.mean():10.3f}"
                f" {values.std():10.3f} {bounds:>20s} {covered:8.0%} {outside:8.2%}"
            )
        drawn = [f"{name} {count:,}" for name, count in report.samplers.items() if count]
        if drawn:
            show("  samplers: " + ", ".join(drawn))
        for fault in report.faults:
            show(f"  FAULT: {fault}")
    show(
        f"\ncovered: share of {BINS} bins of the range that hold steps; outside: share of steps beyond it; "
        "* no range is declared: 0.1 to 99.9 % of the data. Continuous joints are wrapped to +-pi."
    )


def picture(reports: list[SplitReport], path: Path, title: str) -> Path:
    """Histograms of every feature over its range, all splits in one panel, and trajectories a sampler."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [report for report in reports if len(report.rows)]
    if not shown:
        raise FlashNerdError("the data set has no readable steps, so there is nothing to draw.")
    features = shown[0].features
    panels = len(features) + 1
    columns = min(3, panels)
    rows = -(-panels // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(4.6 * columns, 3.1 * rows), squeeze=False, layout="constrained")
    flat = axes.ravel()
    for i, item in enumerate(features):
        low = min(report.features[i].low for report in shown)
        high = max(report.features[i].high for report in shown)
        seen = np.concatenate([report.rows[:, i] for report in shown])
        bins = np.linspace(min(low, seen.min()), max(high, seen.max()), BINS + 9)
        for report in shown:
            flat[i].hist(report.rows[:, i], bins, density=True, histtype="step", linewidth=1.4, label=report.name)
        flat[i].axvspan(low, high, color="0.5", alpha=0.08)
        flat[i].set_xlabel(f"{item.name} [{item.unit}]" if item.unit else item.name)
        flat[i].set_yscale("log")
        flat[i].set_ylabel("density")
    flat[0].legend(fontsize=8)
    names = list(shown[0].samplers)
    height = 0.8 / len(shown)
    for k, report in enumerate(shown):
        total = max(sum(report.samplers.values()), 1)
        flat[len(features)].barh(
            np.arange(len(names)) + k * height, [report.samplers.get(n, 0) / total for n in names], height=height
        )
    flat[len(features)].set_yticks(np.arange(len(names)) + 0.3, names, fontsize=8)
    flat[len(features)].set_xlabel("share of trajectories")
    for axis in flat[panels:]:
        axis.set_axis_off()
    figure.suptitle(title, fontsize=11)
    try:
        return atomic_save(path, lambda temporary: figure.savefig(temporary, dpi=110))
    finally:
        plt.close(figure)
