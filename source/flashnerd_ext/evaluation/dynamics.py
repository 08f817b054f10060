"""Evaluation of dynamics models on test data: every figure of the error table, as plain numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.evaluation.figures import mean_of, number, show, text_table
from flashnerd_ext.evaluation.flops import count_flops_per_step
from flashnerd_ext.evaluation.plots import ErrorCurve
from flashnerd_ext.evaluation.predictors import model_predictor
from flashnerd_ext.evaluation.rollout_error import (
    DIVERGED_AT,
    Predictor,
    RolloutErrors,
    Windows,
    make_windows,
    rollout_errors,
)
from flashnerd_ext.evaluation.touches import (
    HORIZONS,
    TOUCHING,
    Touches,
    classify_windows,
    link_groups,
    mean_touches,
    touch_report,
)
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.metric import state_std

Progress = Callable[[int], object]


@dataclass(frozen=True)
class TestSet:
    """Recorded trajectories and the rollouts that are made on them, the same for every model."""

    __test__ = False  # not a test class, whatever its name suggests to a test runner

    joint_q: NDArray[Any]
    """Positions, shape [n, T + 1, nq]."""
    joint_qd: NDArray[Any]
    """Velocities, shape [n, T + 1, nv]."""
    actuation: NDArray[Any]
    """Actuation, shape [n, T, nu]."""
    sampler: NDArray[Any]
    """Sampler of each trajectory, shape [n]."""
    samplers: tuple[str, ...]
    """Names of the samplers."""
    layout: StateLayout
    std: NDArray[np.float64]
    """Standard deviation of each state dimension over all valid frames, shape [D]."""
    windows: dict[str, Windows]
    """``initial``: rollouts from initial states; ``all_frames``: starts spread over the trajectories; ``touches``: the
    same, for the split by contact."""
    horizons: tuple[int, ...]
    worlds: dict[str, NDArray[Any]] = field(default_factory=dict)
    """What differs between trajectories: ``condition`` [n, C] and ``friction`` [n], where the data have them."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What the JSON file says about the data."""
    touches: Touches | None = None
    """Classes of the rollouts of ``windows["touches"]``."""

    @property
    def rollouts(self) -> int:
        """Rollouts that one model makes."""
        return sum(len(windows.start) for windows in self.windows.values())


def make_test_set(
    data: Any, layout: StateLayout, horizons: Sequence[int], rollouts: int, all_frames: int, seed: int
) -> TestSet:
    """Choose rollouts on loaded trajectories.

    Args:
        data: ``Trajectories`` of the split.
        layout: Joints of the robot.
        horizons: Horizons to report [model steps].
        rollouts: Most rollouts from initial states.
        all_frames: Most rollouts from frames anywhere in a trajectory; 0 for none.
        seed: Chooses both.
    """
    longest = max(horizons)
    std = state_std(layout, data.joint_q, data.joint_qd, data.valid)
    windows = {"initial": make_windows(data.valid, longest, 1, rollouts, seed)}
    if all_frames:
        windows["all_frames"] = make_windows(data.valid, longest, None, all_frames, seed + 1)
    facts = {
        "folder": str(data.meta.get("folder", "")),
        "split": str(data.meta.get("split", "")),
        "trajectories": len(data.valid),
        "steps": int(data.valid.shape[1]),
        "transitions": int(data.valid.sum()),
        "samplers": list(data.meta.get("samplers", ())),
        "engine": " ".join(str(data.meta[k]) for k in ("engine", "engine_version") if k in data.meta),
        "seed": int(data.meta.get("seed", -1)),
        "std": [float(value) for value in std],
        "rollouts": {name: len(w.start) for name, w in windows.items()},
        "diverged_means": f"not finite, or error of a frame above {DIVERGED_AT:g} std, within the longest horizon",
    }
    return TestSet(
        data.joint_q, data.joint_qd, data.actuation, data.sampler, tuple(data.meta.get("samplers", ())), layout, std,
        windows, tuple(sorted(horizons)),
        {name: data.extra[name] for name in ("condition", "friction") if name in getattr(data, "extra", {})}, facts,
    )  # fmt: skip


def add_touches(test: TestSet, data: Any, robot: Any, count: int, seed: int) -> TestSet:
    """The test set with rollouts for the split by contact: see :mod:`flashnerd_ext.evaluation.touches`.

    They start at frames anywhere, drawn evenly, so that a class has as many as the data have of it.

    Args:
        test: What :func:`make_test_set` has made of the same data.
        data: ``Trajectories`` of the split.
        robot: RobotDescription of the data.
        count: Most rollouts; 0 leaves the test set as it is.
        seed: Chooses them.

    Raises:
        FlashNerdError: For data without contact rows or without a trajectory that is long enough.
    """
    if not count:
        return test
    folder = data.meta.get("folder", "")
    if "rows" not in data.extra or robot.contacts is None:
        raise FlashNerdError(
            f"touches is {count}, but the data of robot={robot.name} in {folder} have no contact rows: type touches=0."
        )
    longest = max(HORIZONS)
    windows = make_windows(data.valid, longest, None, count, seed + 2, least=longest)
    if not len(windows.start):
        raise FlashNerdError(
            f"touches is {count}, but no trajectory in {folder} has the {longest} valid steps that E{longest} needs: "
            "type touches=0, or take data of longer trajectories."
        )
    groups = link_groups(robot.links, robot.contacts.feet, robot.base_link)
    facts = {
        "rollouts": {**test.facts["rollouts"], "touches": len(windows.start)},
        "touching_means": f"a contact row at a distance of {TOUCHING:g} m or less",
        "link_groups": {name: list(links) for name, links in groups.items()},
    }
    return replace(
        test,
        windows={**test.windows, "touches": windows},
        touches=classify_windows(data, windows, robot.links, groups),
        facts={**test.facts, **facts},
    )


def roll_out(
    predict: Predictor, test: TestSet, batch: int, progress: Progress | None = None
) -> dict[str, RolloutErrors]:
    """Errors of one predictor on every set of rollouts."""
    return {
        name: rollout_errors(
            predict, test.layout, test.joint_q, test.joint_qd, test.actuation, windows, test.std, test.sampler, batch,
            progress, test.worlds,
        )
        for name, windows in test.windows.items()
    }  # fmt: skip


def seed_report(errors: Mapping[str, RolloutErrors], test: TestSet) -> dict[str, Any]:
    """Figures of one predictor (one seed), JSON-able; what cannot be a number (not finite) is null."""
    initial = errors["initial"]
    at = {h: initial.at(h) for h in test.horizons}
    longest = at[test.horizons[-1]]
    report: dict[str, Any] = {
        "E": {str(h): number(x.mean) for h, x in at.items()},
        "interval95": {str(h): [number(x.low), number(x.high)] for h, x in at.items()},
        "median": {str(h): number(x.median) for h, x in at.items()},
        "diverged": number(longest.diverged),
        "rollouts": {str(h): x.rollouts for h, x in at.items()},
        "by_sampler": {},
    }
    for index, name in enumerate(test.samplers):
        rows = initial.sampler == index
        if rows.any():
            split = {h: initial.at(h, rows, resamples=0) for h in test.horizons}
            report["by_sampler"][name] = {
                "E": {str(h): number(x.mean) for h, x in split.items()},
                "median": {str(h): number(x.median) for h, x in split.items()},
                "diverged": number(split[test.horizons[-1]].diverged),
                "rollouts": split[test.horizons[-1]].rollouts,
            }
    if "all_frames" in errors:
        spread = {h: errors["all_frames"].at(h) for h in test.horizons}
        report["all_frames"] = {
            "E": {str(h): number(x.mean) for h, x in spread.items()},
            "median": {str(h): number(x.median) for h, x in spread.items()},
            "rollouts": {str(h): x.rollouts for h, x in spread.items()},
        }
    if test.touches is not None:
        report["by_touch"] = touch_report(errors["touches"], test.touches)
    return report


def model_report(seeds: Sequence[dict[str, Any]], horizons: Sequence[int]) -> dict[str, Any]:
    """Means over seeds, with the seeds beside them."""
    report: dict[str, Any] = {
        key: {str(h): mean_of([seed[key][str(h)] for seed in seeds]) for h in horizons} for key in ("E", "median")
    }
    report["diverged"] = mean_of([seed["diverged"] for seed in seeds])
    if all("all_frames" in seed for seed in seeds):
        report["all_frames"] = {
            "E": {str(h): mean_of([seed["all_frames"]["E"][str(h)] for seed in seeds]) for h in horizons}
        }
    if all("by_touch" in seed for seed in seeds):
        report["by_touch"] = mean_touches([seed["by_touch"] for seed in seeds])
    report["seeds"] = list(seeds)
    return report


def curve_of(errors: Sequence[RolloutErrors]) -> ErrorCurve:
    """What the picture shows of a model: mean over seeds of E_h, quantiles over the rollouts of all seeds."""
    curves = [item.curve() for item in errors]
    mean = np.mean([mean for mean, _ in curves], axis=0)
    bands = np.mean([bands for _, bands in curves], axis=0)
    return ErrorCurve(mean=mean, low=bands[0], high=bands[4], median=bands[2])


def evaluate_model(
    bundles: Sequence[Any],
    test: TestSet,
    batch: int,
    device: str = "cpu",
    progress: Progress | None = None,
    detector: Any = None,
) -> tuple[dict[str, Any], list[RolloutErrors]]:
    """Report of one model over its seeds, and the errors of its rollouts from initial states."""
    seeds, initial = [], []
    for bundle in bundles:
        step = bundle.card.simulation
        errors = roll_out(
            model_predictor(bundle.model, step.dt, step.inner_steps, device, detector=detector), test, batch, progress
        )
        seeds.append({"bundle": str(bundle.path), "hash": bundle.hash[:16], **seed_report(errors, test)})
        initial.append(errors["initial"])
    first = bundles[0].model
    report = {"params": first.parameter_count(), "flops_per_step": count_flops_per_step(first), "config": first.config}
    return {**report, **model_report(seeds, test.horizons)}, initial


def error_table(
    models: Mapping[str, Mapping[str, Any]], floor: Mapping[str, Any] | None, horizons: Sequence[int]
) -> str:
    """The error table as text for a terminal."""
    head = [
        "model",
        "params",
        "flops/step",
        *(f"E{h}" for h in horizons),
        *(f"med{h}" for h in horizons[-1:]),
        "diverged",
    ]
    rows = [head]
    for name, report in models.items():
        many = f" ({len(report['seeds'])} seeds)" if len(report["seeds"]) > 1 else ""
        rows.append(
            [f"{name}{many}", f"{report['params']:,}", f"{report['flops_per_step']:,}"]
            + _cells(report, report["seeds"][0]["rollouts"], horizons)
        )
    if floor is not None:
        rows.append(["reference noise", "", ""] + _cells(floor, floor["rollouts"], horizons))
    return text_table(rows)


def _cells(report: Mapping[str, Any], rollouts: Mapping[str, int], horizons: Sequence[int]) -> list[str]:
    """Errors, the last median and the share that diverged; ``-`` where no trajectory is long enough."""

    def cell(key: str, horizon: int) -> str:
        return show(report[key][str(horizon)]) if rollouts[str(horizon)] else "-"

    diverged = f"{100 * (report['diverged'] or 0.0):.1f} %" if rollouts[str(horizons[-1])] else "-"
    return [*(cell("E", h) for h in horizons), cell("median", horizons[-1]), diverged]
