"""The demo's page: what was run, its tables and pictures, from the JSON files that the scripts wrote."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flashnerd_ext import __version__
from flashnerd_ext.demo.plan import BUNDLE, TASK, Files
from flashnerd_ext.demo.stages import Outcome
from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.evaluation.palette import label_of
from flashnerd_ext.evaluation.report import Block, Clip, Command, Picture, Section, Table, Text, number, write_report
from flashnerd_ext.files import atomic_save
from flashnerd_ext.runtime import git_revision, machine_facts

HORIZONS = ("1", "15", "100", "200")
Json = dict[str, Any]


def read_json(path: Path) -> Json:
    """A script's result.

    Raises:
        FlashNerdError: If it is missing or is no JSON object.
    """
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise FlashNerdError(f"the result '{path}' cannot be read ({error}): type make demo ARGS=--fresh.") from None
    if not isinstance(content, dict):
        raise FlashNerdError(f"the result '{path}' is not a JSON object: type make demo ARGS=--fresh.")
    return content


def error_table(result: Json) -> Table:
    """Error E_H of each model over the horizons, from ``evaluate_dynamics.py``."""
    models: Json = _field(result, "models")
    rows = []
    for name, facts in models.items():
        errors = _field(facts, "E")
        rows.append(
            [
                label_of(name),
                *(number(errors.get(horizon)) for horizon in HORIZONS),
                number(_field(facts, "median").get(HORIZONS[-1])),
                f"{100 * float(facts.get('diverged') or 0):.1f} %",
                f"{int(facts['params']):,}" if facts.get("params") else "-",
            ]
        )
    best = [
        (min(range(len(rows)), key=lambda row: _sortable(list(models.values())[row]["E"].get(horizon))), column)
        for column, horizon in enumerate(HORIZONS, start=1)
        if len(rows) > 1
    ]
    steps = f"1 step is {1000 * float(result['dt']):.1f} ms" if result.get("dt") else ""
    return Table(
        ("model", "E1", "E15", "E100", "E200", "median E200", "diverged", "parameters"),
        rows,
        f"Error of recursive rollouts in standard deviations of the test data, lower is better. {steps}".strip(),
        best,
    )


def model_speed_table(result: Json) -> Table:
    """Model-only throughput, the best way to run each model, from ``benchmark.py what=model``."""
    best: dict[tuple[str, int], float] = {}
    for row in _field(result, "rows"):
        key = (str(row["model"]), int(row["batch"]))
        best[key] = max(best.get(key, 0.0), float(row["steps_per_s"]))
    names = list(dict.fromkeys(name for name, _ in best))
    batches = sorted({batch for _, batch in best})
    rows = [[label_of(name), *(number(best.get((name, batch))) for batch in batches)] for name in names]
    return Table(
        ("model", *(f"batch {batch:,}" for batch in batches)),
        rows,
        "Robot steps per second of the networks alone, inputs in memory",
    )


def env_speed_table(result: Json) -> Table:
    """Whole environment steps and their physics part, from ``benchmark.py what=env``."""
    rows = [
        [
            label_of(str(row["physics"])),
            f"{int(row['num_envs']):,}",
            number(row.get("env_steps_per_s")),
            f"{1000 * float(row['physics_s_per_step']):.2f} ms" if row.get("physics_s_per_step") else "-",
        ]
        for row in _field(result, "rows")
    ]
    return Table(
        ("physics", "environments", "environment steps per second", "physics per step"),
        rows,
        "The unmodified stock task in both backends, in turns, with the same actions",
    )


def ratio_text(result: Json) -> Text:
    """How many times faster learned physics is, from the ``ratio`` of ``benchmark.py what=env``."""
    parts = [
        f"at {int(count):,} environments the whole step is {number(ratio['env'])} times and its physics part "
        f"{number(ratio['physics'])} times as fast"
        for count, ratio in result.get("ratio", {}).items()
    ]
    return Text("Against MuJoCo Warp, " + "; ".join(parts) + "." if parts else "")


def time_table(outcomes: Sequence[tuple[str, float, bool]]) -> Table:
    """Title, seconds and whether it was reused, for every stage."""
    total = sum(seconds for _, seconds, _ in outcomes)
    rows = [[title, f"{seconds:.0f} s", "earlier run" if reused else "this run"] for title, seconds, reused in outcomes]
    return Table(("stage", "time", "made in"), [*rows, ["together", f"{total:.0f} s", ""]])


def write_page(files: Files, outcomes: Sequence[Outcome]) -> str:
    """Write the report and put the policy's clip beside it.

    Args:
        files: Where the stages left their results.
        outcomes: All stages, in order.

    Returns:
        The main tables as text, for the terminal.
    """
    recorded = files.recorded()
    if recorded is None:
        raise FlashNerdError(f"no clip is below {files.training}: type make demo ARGS=--fresh.")
    atomic_save(files.clip, lambda temporary: shutil.copyfile(recorded, temporary))
    policies = policy_table(read_json(files.policies))
    errors = error_table(read_json(files.dynamics))
    speeds = read_json(files.env_speed)
    env_speed = env_speed_table(speeds)
    model_speed = model_speed_table(read_json(files.model_speed))
    line = {outcome.name: outcome.command for outcome in outcomes}
    sections = [
        Section(
            "The policy",
            [
                Text(
                    f"PPO trained a policy to balance the pole in {TASK}, where every physics step is one step of the "
                    f"shipped model '{BUNDLE}'. The same policy was then run, with its mean actions, in that model and "
                    "in the simulator that the model was learned from."
                ),
                Clip(files.clip, "The trained policy in learned physics"),
                policies,
                *_picture(files.policies.with_suffix(".png"), "Returns of the policy in both simulators"),
                Command(line["train"]),
                Command(line["policy"]),
            ],
        ),
        Section("How far the model is from the simulator", _error_blocks(files, errors, line["dynamics"])),
        Section(
            "How fast it is",
            [env_speed, ratio_text(speeds), Command(line["env-speed"]), model_speed, Command(line["model-speed"])],
        ),
        Section("How this page was made", [time_table([(o.title, o.seconds, o.reused) for o in outcomes])]),
    ]
    lead = (
        "A neural network steps the physics of an unmodified Isaac Lab task: data, dynamics model, policy and its test "
        "in MuJoCo Warp, with the command that made each figure."
    )
    write_report(files.report, "CartPole in learned physics, end to end", sections, lead, _facts())
    return "\n\n".join(table.plain() for table in (policies, errors, env_speed))


def policy_table(result: Json) -> Table:
    """Mean return of each policy in each simulator, from ``evaluate_policy.py``."""
    rows = []
    for cell in _field(result, "cells"):
        low, high = cell["interval"]
        rows.append(
            [
                label_of(str(cell["trained"])),
                label_of(str(cell["evaluated"])),
                f"{cell['return']:.3f}",
                f"{low:.3f} to {high:.3f}",
                f"{100 * cell['survival']:.1f} %",
                f"{int(cell['episodes']):,}",
            ]
        )
    seconds = float(result["dt"]) * int(result["max_steps"])
    return Table(
        ("trained in", "evaluated in", "mean return", "95 % interval", "survived", "episodes"),
        rows,
        f"Returns of whole episodes of up to {seconds:.0f} s; survived means reached the time limit",
    )


def _error_blocks(files: Files, errors: Table, command: str) -> list[Block]:
    """The table, and the picture and the overlay that ``evaluate_dynamics.py`` writes beside its JSON file."""
    overlay = files.dynamics.with_suffix(".mp4")
    caption = "Error over the length of the rollout; the test data were not in training"
    clips = [Clip(overlay, "Model and simulator from the same start, with the same forces")] if overlay.exists() else []
    return [errors, *_picture(files.dynamics.with_suffix(".png"), caption), *clips, Command(command)]


def _picture(path: Path, caption: str) -> list[Picture]:
    return [Picture(path, caption)] if path.exists() else []


def _facts() -> list[tuple[str, str]]:
    facts = {**machine_facts(), "revision": git_revision(), "package": __version__}
    return [(name.replace("_", " "), str(value)) for name, value in facts.items() if value is not None]


def _field(content: Json, name: str) -> Any:
    if name not in content:
        raise FlashNerdError(
            f"a result lacks the field '{name}' (it has {', '.join(content)}): type make demo ARGS=--fresh."
        )
    return content[name]


def _sortable(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and value == value else float("inf")
