"""Checks task ids, physics presets and ``env.`` / ``agent.`` overrides before Isaac Lab applies them.

Isaac Lab sets a misspelt ``agent.max_itarations=5`` as a new attribute and trains with the default, and shows wrong
presets as tracebacks. Here every word is compared with the task's own configuration first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flashnerd_ext.errors import FlashNerdError, nearest, one_line

SELECTORS = ("physics", "renderer", "presets")
TASK_PREFIXES = ("Isaac", "FlashNeRD")


def check_task(task: str | None, agent: str | None = "rsl_rl_cfg_entry_point") -> str:
    """Check a task id and its agent entry; return the id without its namespace.

    Raises:
        FlashNerdError: Without a task, for an unknown id (with the nearest names), or without such an agent entry.
    """
    import gymnasium as gym

    if not task:
        raise FlashNerdError("no task is given: type --task FlashNeRD-Cartpole; `isaaclab list_envs` shows all ids.")
    name = task.split(":")[-1]
    if name not in gym.registry:
        known = [key for key in gym.registry if key.startswith(TASK_PREFIXES)]
        hint = nearest(name, known)
        if hint.startswith("known"):
            hint = "`isaaclab list_envs` shows all ids."
        raise FlashNerdError(f"the task '{name}' is not registered: {hint}")
    kwargs = gym.registry[name].kwargs
    if agent and agent not in kwargs:
        entries = [key for key in kwargs if key.startswith("rsl_rl")]
        raise FlashNerdError(f"the task '{name}' has no agent configuration '{agent}': {nearest(agent, entries)}")
    return name


def check_overrides(task: str, agent: str | None, words: Sequence[str]) -> list[str]:
    """Check every word that Isaac Lab's parser left over against the task's configuration.

    Returns:
        The words for Isaac Lab. Hydra's ``+key=value`` and ``++key=value`` lose their signs, since a key that the
        configuration lacks is refused either way.

    Raises:
        FlashNerdError: For a word without ``=``, an unknown key, preset or value type; one sentence each.
    """
    configs = _load(task, agent)
    presets = _presets(configs)
    cleaned = [word.lstrip("+") for word in words]
    for word in cleaned:
        if word.startswith("~"):
            raise FlashNerdError(f"'{word}' would delete a setting, which Isaac Lab's configurations cannot do.")
        _check_word(word, task, configs, presets)
    return cleaned


def check_applied(task: str, agent: str | None, words: Sequence[str], configs: Mapping[str, Any]) -> None:
    """Check overrides below a preset against the alternative that was chosen.

    Isaac Lab sets ``env.sim.physics.solver_cfg.bundle=X`` under ``physics=newton_mjwarp`` too, as an attribute that
    nothing reads.

    Args:
        task: Registered task id.
        agent: Its agent entry.
        words: The overrides, checked by :func:`check_overrides`.
        configs: Resolved ``env`` and ``agent`` configurations.

    Raises:
        FlashNerdError: Naming the field and the class that lacks it.
    """
    presets = _presets(_load(task, agent))
    for word in words:
        key = word.split("=", 1)[0]
        if not any(key.startswith(f"{path}.") for path in presets):
            continue
        section, *parts, leaf = key.split(".")
        node = configs[section]
        for part in parts:
            node = node[part] if isinstance(node, Mapping) else getattr(node, part)
        fields = getattr(type(node), "__dataclass_fields__", None)
        if fields is not None and leaf not in fields:
            raise FlashNerdError(f"'{word}' has no effect here: {type(node).__name__} has no '{leaf}'.")


def check_values(env_cfg: Any) -> None:
    """Check the numbers that Isaac Lab divides by.

    Raises:
        FlashNerdError: Naming the field, the value and what to type.
    """
    for key, value, smallest in (
        ("env.sim.dt", env_cfg.sim.dt, 0.0),
        ("env.decimation", env_cfg.decimation, 0),
        ("env.scene.num_envs", env_cfg.scene.num_envs, 0),
        ("env.episode_length_s", env_cfg.episode_length_s, 0.0),
    ):
        if not value > smallest:
            raise FlashNerdError(f"{key} is {value}, but more than 0 is needed: type another {key}=VALUE.")


def _load(task: str, agent: str | None) -> dict[str, Any]:
    from isaaclab_tasks.utils.parse_cfg import load_cfg_from_registry

    configs: dict[str, Any] = {"env": load_cfg_from_registry(task, "env_cfg_entry_point")}
    if agent:
        configs["agent"] = load_cfg_from_registry(task, agent)
    return configs


def _presets(configs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    from isaaclab_tasks.utils.hydra import collect_presets

    return {
        (f"{section}.{path}" if path else section): fields
        for section, config in configs.items()
        for path, fields in collect_presets(config).items()
    }


def _check_word(word: str, task: str, configs: dict[str, Any], presets: dict[str, dict[str, Any]]) -> None:
    if "=" not in word:
        kind = "option" if word.startswith("-") else "override"
        raise FlashNerdError(f"'{word}' is not an {kind} of this command: type key=value overrides, or --help.")
    key, value = word.split("=", 1)
    if key in SELECTORS:
        _check_selector(key, value, task, presets)
        return
    section = key.split(".", 1)[0]
    if section not in configs:
        known = [*SELECTORS, *(f"{name}." for name in configs)]
        raise FlashNerdError(f"unknown override '{word}': a key begins with one of {', '.join(known)}")
    parsed = _parse(value)
    if key in presets:
        if isinstance(parsed, str) and parsed not in presets[key]:
            raise FlashNerdError(f"'{word}' names no preset of {key}: {nearest(parsed, presets[key])}")
        return
    _check_value(word, _lookup(word, key, configs, presets), parsed)


def _check_selector(key: str, value: str, task: str, presets: dict[str, dict[str, Any]]) -> None:
    from isaaclab_tasks.utils.preset_target import PresetTarget

    target: Any = {item.value: item for item in PresetTarget}.get(key)
    known: set[str] = set()
    for fields in presets.values():
        for name, config in fields.items():
            if name != "default" and (target is None or not target.base_classes or target.matches(config)):
                known.add(name)
    names = [name.strip() for name in value.split(",") if name.strip()]
    if not names:
        raise FlashNerdError(f"'{key}=' names no preset: {nearest('', known)}")
    aliases = PresetTarget.all_legacy_aliases()
    for name in names:
        if name not in known and aliases.get(name) not in known:
            raise FlashNerdError(f"the task '{task}' has no {key} preset '{name}': {nearest(name, known)}")


def _lookup(word: str, key: str, configs: dict[str, Any], presets: dict[str, dict[str, Any]]) -> list[Any]:
    """Values that ``key`` can have now: several where the path goes through a preset, one for each alternative."""
    section, *parts = key.split(".")
    nodes: list[Any] = [configs[section]]
    path = section
    for part in parts:
        nodes = [item for node in nodes for item in _alternatives(node)]
        found = [item for node in nodes if (item := _child(node, part)) is not _ABSENT]
        if not found:
            known = {name for node in nodes for name in _names(node)}
            raise FlashNerdError(f"unknown key '{part}' in '{word}': {path} has no such field, {nearest(part, known)}")
        nodes, path = found, f"{path}.{part}"
    return nodes


_ABSENT = object()


def _alternatives(node: Any) -> list[Any]:
    from isaaclab_tasks.utils.hydra import PresetCfg, _preset_fields

    if not isinstance(node, PresetCfg):
        return [node]
    return [item for value in _preset_fields(node).values() for item in _alternatives(value)]


def _child(node: Any, name: str) -> Any:
    if isinstance(node, Mapping):
        return node.get(name, _ABSENT)
    return getattr(node, name, _ABSENT) if name in _names(node) else _ABSENT


def _names(node: Any) -> list[str]:
    if isinstance(node, Mapping):
        return [str(key) for key in node]
    return [*vars(node), *getattr(node, "__dataclass_fields__", {})] if hasattr(node, "__dict__") else []


def _parse(value: str) -> Any:
    from isaaclab_tasks.utils.hydra import _parse_val

    return _parse_val(value)


def _check_value(word: str, current: list[Any], value: Any) -> None:
    """Refuse a value whose type fits none of the current ones; an unset (None) field takes anything."""
    import math
    from dataclasses import MISSING

    if isinstance(value, float) and not math.isfinite(value):
        raise FlashNerdError(f"'{word}' is not finite: give a finite number.")
    if any(item is None or item is MISSING or _fits(item, value) for item in current) or value is None:
        return
    if any(hasattr(item, "__dataclass_fields__") for item in current):
        raise FlashNerdError(f"'{word}' would replace a whole section with {value!r}: set one of its fields instead.")
    kinds = sorted({type(item).__name__ for item in current})
    shown = one_line(repr(current[0]), 60)
    raise FlashNerdError(
        f"'{one_line(word, 120)}' has the wrong type: {' or '.join(kinds)} is needed, such as {shown}."
    )


def _fits(current: Any, value: Any) -> bool:
    if isinstance(current, bool):
        return isinstance(value, bool)
    if isinstance(current, int):
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(current, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if isinstance(current, str):
        return isinstance(value, str)
    if isinstance(current, (list, tuple)):
        return isinstance(value, (list, tuple))
    if isinstance(current, Mapping):
        return isinstance(value, Mapping)
    return not hasattr(current, "__dataclass_fields__")
