"""What a refresh found: the policy in both worlds, the kept ratio, the data, the errors; for files and live logs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from flashnerd_ext.files import write_json
from flashnerd_ext.rl.record.scores import BOOTSTRAP, Episode, from_json
from flashnerd_ext.rl.refresh.child import LEARNED, SECONDS, SIMULATOR
from flashnerd_ext.rl.refresh.state import State
from flashnerd_ext.rl.returns import ratio

SCHEMA = 1
REPORT = "refresh.json"


def read_scores(folder: Path) -> dict[str, Any]:
    """Scores of a refresh: ``simulator`` and ``learned`` summaries, ``kept`` (ratio and 95 % interval) of all episodes
    and of each bin of commands, ``seconds`` of the parts."""
    both = {name: json.loads((folder / file).read_text(encoding="utf-8")) for name, file in _FILES.items()}
    episodes = {name: from_json(content["episodes"]) for name, content in both.items()}
    bins = [name for name in both["simulator"]["summary"]["bins"] if name in both["learned"]["summary"]["bins"]]
    return {
        "simulator": both["simulator"]["summary"],
        "learned": both["learned"]["summary"] | {"held": both["learned"]["held"]},
        "kept": kept(episodes["simulator"], episodes["learned"]),
        "kept_bins": {
            name: kept(*([e for e in episodes[world] if e.bin == name] for world in ("simulator", "learned")))
            for name in bins
        },
    }


_FILES = {"simulator": SIMULATOR, "learned": LEARNED}


def kept(simulator: Iterable[Episode], learned: Iterable[Episode]) -> dict[str, Any] | None:
    """Return in the simulator as a share of that in the learned world, with its 95 % interval over episodes; ``None``
    where the learned world's return is not positive, since a share of it means nothing."""
    above, below = (np.array([episode.score for episode in part]) for part in (simulator, learned))
    if not len(above) or not len(below):
        return None
    found = ratio([above], [below], BOOTSTRAP, np.random.default_rng(0))
    return None if found is None else {"ratio": found[0], "interval": list(found[1])}


def read_seconds(folder: Path, kind: str) -> dict[str, float]:
    """Seconds of the parts of a piece of work; empty where it left none."""
    path = folder / SECONDS.format(kind=kind)
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def tuning_facts(folder: Path) -> dict[str, Any]:
    """One-step validation error before and after the fine-tuning, of the mix and of each data set."""
    path = folder / "bundle-run" / "history.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["history"]
    losses = [row for row in rows if "val_nrmse" in row]
    facts: dict[str, Any] = {"updates": losses[-1]["update"]} if losses else {}
    if losses:
        parts = sorted(key for key in losses[-1] if key.startswith("val_nrmse"))
        facts |= {f"first_{key}": losses[0][key] for key in parts} | {f"last_{key}": losses[-1][key] for key in parts}
    return facts


def write_report(run: Path, state: State) -> None:
    """``RUN/refresh.json``: every refresh so far, the best checkpoint, the bundle in force and its ancestors."""
    rows = [
        {
            "number": item.number,
            "iteration": item.iteration,
            "phase": item.phase,
            "policy": item.policy,
            "trained_in": item.bundle,
            "bundle": item.tuned if item.swapped_at is not None else None,
            "swapped_at": item.swapped_at,
            "seconds": item.seconds,
            **item.facts,
        }
        for item in state.rounds
    ]
    write_json(
        run / REPORT,
        {"schema_version": SCHEMA, "base": state.base, "bundle": state.bundle, "best": state.best, "rounds": rows},
    )


def scalars(facts: Mapping[str, Any], seconds: Mapping[str, float]) -> dict[str, float]:
    """Numbers for the live log."""
    found: dict[str, float] = {f"Refresh_seconds/{name}": value for name, value in seconds.items()}
    for world in _FILES:
        summary = facts.get(world)
        if summary is None:
            continue
        for prefix, part in {"Refresh": summary, **{f"Refresh_{n}": p for n, p in summary["bins"].items()}}.items():
            for name in ("return", "falls", "tracking_error", "drift"):
                if part.get(name) is not None:
                    found[f"{prefix}/{name}_{world}"] = part[name]
    if facts.get("kept"):
        low, high = facts["kept"]["interval"]
        found |= {"Refresh/kept": facts["kept"]["ratio"], "Refresh/kept_low": low, "Refresh/kept_high": high}
    for name, value in (facts.get("tuning") or {}).items():
        found[f"Refresh_tuning/{name}"] = float(value)
    return found


def kept_text(facts: Mapping[str, Any]) -> str:
    """``kept 93.1% [90.2%, 96.0%]``."""
    if not facts.get("kept"):
        return "kept: no share, since the return in the learned world is not positive"
    low, high = facts["kept"]["interval"]
    return f"kept {facts['kept']['ratio']:.1%} [{low:.1%}, {high:.1%}]"


def line(facts: Mapping[str, Any]) -> str:
    """The scores in one line."""
    parts = []
    for world in ("learned", "simulator"):
        summary = facts[world]
        low, high = summary["interval"]
        parts.append(f"{world} {summary['return']:.3f} [{low:.3f}, {high:.3f}], falls {summary['falls']:.1%}")
    return "; ".join([*parts, kept_text(facts)])
