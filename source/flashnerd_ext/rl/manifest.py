"""The run manifest: which physics and which bundle a policy was trained in, kept in Isaac Lab's ``run.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.files import write_json

MANIFEST = "run.json"
COMPARED = ("physics", "solver", "bundle", "bundle_hash")
"""Fields that say what a policy was trained in; a difference at play is warned about."""


def physics_facts(task: str, env_cfg: Any, words: Sequence[str]) -> dict[str, str]:
    """Facts about the physics of a resolved environment configuration.

    Args:
        task: Registered task id.
        env_cfg: Resolved configuration (presets replaced).
        words: The command line's overrides, which name the preset.

    Returns:
        ``physics`` (preset name), ``solver`` (class of the solver or backend settings), ``bundle`` and
        ``bundle_hash`` ("none" where the physics is not learned).
    """
    physics = env_cfg.sim.physics
    solver = getattr(physics, "solver_cfg", None)
    facts = {
        "physics": preset_name(task, physics, words),
        "solver": type(solver if solver is not None else physics).__name__,
        "bundle": "none",
        "bundle_hash": "none",
    }
    bundle = getattr(solver, "bundle", None)
    if bundle:
        facts["bundle"] = str(bundle)
        # "auto" is decided by the robot in the scene; running_bundle tells once that stands.
        facts["bundle_hash"] = "undecided" if bundle == "auto" else _hash(str(bundle))
    return facts


def _hash(bundle: str) -> str:
    from flashnerd_ext.bundle.store import load_bundle

    return load_bundle(bundle).hash


def running_bundle() -> dict[str, str]:
    """``bundle`` and ``bundle_hash`` of this process's learned simulation; empty for analytical physics."""
    from flashnerd_ext.physics.environment import running_solver

    solver = running_solver()
    return {} if solver is None else {"bundle": solver.bundle.card.name, "bundle_hash": solver.bundle.hash}


def update_manifest(run: str | Path, facts: Mapping[str, str]) -> None:
    """Put ``facts`` into the metadata of a run's manifest; the file is replaced whole."""
    path = Path(run) / MANIFEST
    content = json.loads(path.read_text(encoding="utf-8"))
    content["metadata"].update(facts)
    write_json(path, content)


def preset_name(task: str, physics: Any, words: Sequence[str]) -> str:
    """Name of the physics preset in force: the one typed, else the name of the task's default."""
    from isaaclab_tasks.utils.hydra import collect_presets
    from isaaclab_tasks.utils.parse_cfg import load_cfg_from_registry

    fields = collect_presets(load_cfg_from_registry(task, "env_cfg_entry_point")).get("sim.physics", {})
    named = dict(word.split("=", 1) for word in words if "=" in word)
    for key in ("env.sim.physics", "physics", "presets"):
        for name in named.get(key, "").split(","):
            if name.strip() in fields:
                return name.strip()
    default = fields.get("default", physics)
    for name, value in fields.items():
        if name != "default" and (value is default or _same(value, default)):
            return name
    return "default"


def _same(first: Any, second: Any) -> bool:
    try:
        return type(first) is type(second) and first.to_dict() == second.to_dict()
    except Exception:
        return False


def read_manifest(run: str | Path) -> dict[str, str]:
    """The metadata of a run folder; empty where the run was not made by Isaac Lab's entry points.

    Raises:
        FlashNerdError: Where the file is there but is not a manifest.
    """
    path = Path(run) / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {str(key): str(value) for key, value in content["metadata"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise FlashNerdError(f"{path} is not a run manifest: remove it, or train the policy again.") from None


def compare(trained: Mapping[str, str], playing: Mapping[str, str]) -> list[str]:
    """Lines to print at play: both sides, then one warning that names each difference.

    Args:
        trained: Manifest metadata; without ``physics`` it says nothing about the training.
        playing: Facts of the running environment (:func:`physics_facts`).
    """
    lines = [f"playing under: {describe(playing)}"]
    if "physics" not in trained:
        lines.insert(0, "trained under: unknown")
        return [*lines, "warning: the run has no manifest with its physics, so it cannot be compared."]
    lines.insert(0, f"trained under: {describe(trained)}")
    names = [key for key in COMPARED if trained.get(key, "none") != playing.get(key, "none")]
    if names:
        parts = [f"{key} {trained.get(key, 'none')} -> {playing.get(key, 'none')}" for key in names]
        hint = f"; type physics={trained['physics']} to play what was trained" if "physics" in names else ""
        lines.append(f"warning: the policy was trained in other physics ({', '.join(parts)}){hint}.")
    return lines


def describe(facts: Mapping[str, str]) -> str:
    """``physics=flashnerd (FlashNerdSolverCfg), bundle cartpole, hash ab12``."""
    text = f"physics={facts.get('physics', 'unknown')} ({facts.get('solver', 'unknown')})"
    if facts.get("bundle", "none") != "none":
        text += f", bundle {facts['bundle']}, hash {facts.get('bundle_hash', 'none')[:16]}"
    return text
