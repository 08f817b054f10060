"""Hydra-style command lines for our own scripts: ``key=value`` overrides on a typed dataclass.

Hydra's compose API is used without its launcher, so that a script keeps its working folder, starts fast, and
answers a wrong override with one sentence.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
import warnings
from collections.abc import Sequence
from typing import Any, TypeVar, cast

from flashnerd_ext.errors import FlashNerdError, nearest, one_line

T = TypeVar("T")


def parse(config: type[T], argv: Sequence[str] | None = None, doc: str | None = None) -> T:
    """Build ``config`` from its defaults and the command line.

    Args:
        config: A dataclass; fields may be dataclasses, lists, dicts and optionals (OmegaConf structured config).
        argv: Words such as ``train.minutes=5``; ``None`` takes the process's own.
        doc: Text shown above the options by ``--help``.

    Raises:
        FlashNerdError: For an unknown key (with the nearest name) or a value of the wrong type.
    """
    from hydra import compose, initialize
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    words = list(sys.argv[1:] if argv is None else argv)
    if any(word in ("-h", "--help") for word in words):
        print(help_text(config, doc))
        sys.exit(0)
    overrides: list[str] = []
    for word in words:
        key = word.split("=", 1)[0].lstrip("+~")
        if "=" not in word:
            raise FlashNerdError(
                f"'{word}' is not an option: type key=value, for example {_example(config)}; or --help."
            )
        free = _check_key(config, key, word)
        # Hydra adds keys to a dict only when told so; a person should not have to know.
        overrides.append(f"++{word.lstrip('+~')}" if free and not word.startswith("~") else word)
    ConfigStore.instance().store(name="flashnerd_cli", node=config)
    GlobalHydra.instance().clear()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with initialize(version_base=None, config_path=None):
                composed = compose(config_name="flashnerd_cli", overrides=overrides)
        return cast(T, OmegaConf.to_object(composed))
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        cause = error.__cause__ or error
        text = one_line(str(cause).split("\n")[0] or error, 240)
        raise FlashNerdError(f"the command line '{one_line(' '.join(words), 120)}' cannot be used: {text}") from None
    finally:
        GlobalHydra.instance().clear()


def _fields(config: type) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(config)}


def _nested(field: dataclasses.Field[Any], owner: type) -> type | None:
    hint = typing.get_type_hints(owner).get(field.name)
    return hint if isinstance(hint, type) and dataclasses.is_dataclass(hint) else None


def _check_key(config: type, key: str, word: str) -> bool:
    """Refuse a key that is not in the configuration; True where it is a dict or lies in one, whose keys are free."""
    current: type | None = config
    hint: Any = config
    for part in key.split("."):
        if current is None:
            if _is_dict(hint):
                return True
            raise FlashNerdError(f"'{key}' in '{word}' goes into an option that has no parts: type --help.")
        fields = _fields(current)
        if part not in fields:
            raise FlashNerdError(f"unknown option '{part}' in '{word}': {nearest(part, fields)}")
        hint = typing.get_type_hints(current).get(part)
        current = _nested(fields[part], current)
    return _is_dict(hint)


def _is_dict(hint: Any) -> bool:
    return hint is Any or typing.get_origin(hint) is dict


def _example(config: type) -> str:
    for field in dataclasses.fields(config):
        if isinstance(field.default, (str, int, float)):
            return f"{field.name}={field.default}"
    return "key=value"


def help_text(config: type, doc: str | None = None, prefix: str = "") -> str:
    """The options, their types and defaults, one a line; field docstrings come from ``metadata['help']``."""
    lines = [doc.strip(), ""] if doc else []
    if not prefix:
        lines.append("options (key=value):")
    for field in dataclasses.fields(config):
        nested = _nested(field, config)
        if nested is not None:
            lines.append(help_text(nested, None, f"{prefix}{field.name}."))
            continue
        default = field.default
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        shown = "required" if default is dataclasses.MISSING else default
        text = field.metadata.get("help", "")
        lines.append(f"  {prefix}{field.name}={shown}" + (f"   {text}" if text else ""))
    return "\n".join(lines)
