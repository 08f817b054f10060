"""Models by name: every command takes ``model=flashnerd|nerd|nerd_optimized``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from flashnerd_ext.errors import FlashNerdError, nearest
from flashnerd_ext.model.base import DynamicsModel
from flashnerd_ext.model.flashnerd import FlashNerd, FlashNerdConfig
from flashnerd_ext.model.layout import StateLayout
from flashnerd_ext.model.nerd import Nerd, NerdConfig, NerdOptimized

MODELS: dict[str, tuple[Callable[[StateLayout, Any], DynamicsModel], type]] = {
    "flashnerd": (FlashNerd, FlashNerdConfig),
    "nerd": (Nerd, NerdConfig),
    "nerd_optimized": (NerdOptimized, NerdConfig),
}


def build_model(name: str, layout: StateLayout, config: Mapping[str, Any] | None = None) -> DynamicsModel:
    """A freshly initialised model.

    Args:
        name: One of :data:`MODELS`.
        layout: The robot's coordinates.
        config: Options that differ from the defaults of the model's config class.

    Raises:
        FlashNerdError: For an unknown name or option (the nearest is named), or a value of the wrong type.
    """
    if name not in MODELS:
        raise FlashNerdError(f"model is '{name}', which is not known: {nearest(name, MODELS)}")
    build, config_class = MODELS[name]
    fields = {field.name: field for field in dataclasses.fields(config_class)}
    values = dict(config or {})
    for key, value in values.items():
        if key not in fields:
            raise FlashNerdError(f"model={name} has no option '{key}': {nearest(key, fields)}")
        wanted = type(fields[key].default)
        if type(value) is not wanted:
            raise FlashNerdError(
                f"the option '{key}' of model={name} is {value!r}, but a value of type {wanted.__name__} is needed."
            )
    return build(layout, config_class(**values))
