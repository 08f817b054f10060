"""Strict JSON: text from a stranger becomes a typed dataclass, or one sentence says what is wrong with it."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Iterable
from typing import Any

from flashnerd_ext.errors import FlashNerdError, nearest, one_line

MAX_TEXT = 20_000
"""Longest string accepted [characters]."""
MAX_ITEMS = 100_000
"""Longest list or object accepted."""
MAX_CONFIG_NUMBER = 4_096
"""Largest magnitude of an integer in a model configuration; a wrong one must not ask for all of the memory."""
MAX_CONFIG_ENTRIES = 1_000
"""Most values in a model configuration, at any depth."""


def rule(
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    choices: Iterable[str] | None = None,
    size: int | None = None,
    min_size: int | None = None,
    word: bool = False,
    optional: bool = False,
    help: str = "",
) -> dict[str, Any]:
    """Field metadata: bounds of each number, allowed words, lengths; ``help`` is shown by the table.

    An ``optional`` field is one that is newer than cards of its schema version: it may be missing and then has its
    default, at which it is not written either, so that those cards keep their text and hash.
    """
    return {
        "ge": ge,
        "gt": gt,
        "le": le,
        "choices": tuple(choices) if choices else None,
        "size": size,
        "min_size": min_size,
        "word": word,
        "optional": optional,
        "help": help,
    }


def show(value: object, limit: int = 60) -> str:
    """A stored value as it may stand in a sentence: one printable line, short."""
    text = value if isinstance(value, float | int | bool) or value is None else repr(value)
    try:
        text = json.dumps(text) if isinstance(text, bool) or text is None else str(text)
    except ValueError:  # an integer with thousands of digits
        text = "a very long integer"
    text = "".join(c if c.isprintable() else "?" for c in text)
    return one_line(text, limit)


class Refusal(FlashNerdError):
    """A value of a card that does not fit; ``field`` is its dotted path."""

    def __init__(self, field: str, found: str, needed: str, remedy: str) -> None:
        super().__init__(f"card.json: field '{one_line(field, 100)}' {found}, but {needed}: {remedy}.")
        self.field = field


REMEDY = "fetch the bundle again or save it anew with scripts/train_dynamics.py"


def loads(raw: bytes, what: str, remedy: str = REMEDY) -> dict[str, Any]:
    """Parse JSON text into an object; duplicate keys, NaN, infinities and deep nesting are refused.

    Raises:
        FlashNerdError: One sentence that starts with ``what``.
    """

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in items:
            if key in result:
                raise FlashNerdError(f"{what} has the key {show(key)} twice, but each may stand once: {remedy}.")
            result[key] = value
        return result

    def constant(word: str) -> Any:
        raise FlashNerdError(f"{what} holds {word}, but every number must be finite: {remedy}.")

    try:
        content = json.loads(raw.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        cause = "nested too deeply" if isinstance(error, RecursionError) else one_line(error, 80)
        raise FlashNerdError(f"{what} is not JSON text ({cause}), but a JSON object is needed: {remedy}.") from None
    if not isinstance(content, dict):
        raise FlashNerdError(f"{what} holds {_kind(content)}, but a JSON object is needed: {remedy}.")
    return content


def dumps(content: Any) -> bytes:
    """The one canonical text of a JSON value: sorted keys, no spaces, shortest floats; the hash is taken over it."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def plain(value: Any) -> Any:
    """Dataclasses and tuples as JSON objects and lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]
        return {
            field.name: plain(item)
            for field, item in fields
            if not (field.metadata.get("optional") and item == field.default)
        }
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def parse[T](cls: type[T], content: Any, path: str = "") -> T:
    """Build ``cls`` from parsed JSON; every field must be there, no other may, and each must fit its rule.

    Raises:
        Refusal: For the first field that does not fit.
    """
    where = path or "(top level)"
    if not isinstance(content, dict):
        raise Refusal(where, f"is {_kind(content)}", "an object is needed", REMEDY)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    prefix = f"{path}." if path else ""
    for key in content:
        if key not in fields:
            text = show(str(key), 40).strip("'\"")
            hint = nearest(str(key)[:80], fields)
            raise Refusal(
                prefix + text,
                "is not known",
                "only fields of this schema may stand here",
                one_line(hint, 150).rstrip(".?") + "; " + REMEDY,
            )
    hints = _hints(cls)
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name not in content and field.metadata.get("optional"):
            values[name] = field.default
            continue
        if name not in content:
            raise Refusal(prefix + name, "is missing", f"{_needed(hints[name], field.metadata)} is needed", REMEDY)
        values[name] = _convert(hints[name], content[name], prefix + name, field.metadata)
    return cls(**values)


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "true or false",
        int: "an integer",
        float: "a number",
    }
    return names.get(type(value), type(value).__name__)


def _needed(hint: Any, meta: typing.Mapping[str, Any]) -> str:
    if meta.get("choices"):
        return "one of " + ", ".join(meta["choices"])
    bounds = [
        f"{text} {meta[key]:g}"
        for key, text in (("ge", "at least"), ("gt", "above"), ("le", "at most"))
        if meta.get(key) is not None
    ]
    limits = f" {' and '.join(bounds)}" if bounds else ""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_needed(item, meta) for item in arguments if item is not type(None)) + " or null"
    if origin is tuple:
        size = f"{meta['size']} " if meta.get("size") is not None else ""
        return f"a list of {size}values, each {_needed(arguments[0], {**meta, 'size': None})}"
    if origin is dict:
        return f"an object whose values are each {_needed(arguments[1], meta)}"
    if dataclasses.is_dataclass(hint):
        return "an object"
    return {str: "a text", bool: "true or false", int: "an integer", float: "a number"}.get(hint, "a value") + limits


def _convert(hint: Any, value: Any, path: str, meta: typing.Mapping[str, Any]) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)

    def refuse(needed: str | None = None) -> Refusal:
        return Refusal(path, f"is {show(value)}", f"{needed or _needed(hint, meta)} is needed", REMEDY)

    if hint is Any:
        return _free(value, path, [0])
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        (inner,) = [item for item in arguments if item is not type(None)]
        return _convert(inner, value, path, meta)
    if origin is tuple:
        size, least = meta.get("size"), meta.get("min_size")
        if not isinstance(value, list) or len(value) > MAX_ITEMS or (size is not None and len(value) != size):
            raise refuse()
        if least is not None and len(value) < least:
            raise refuse(f"a list of at least {least} values")
        inner = {**meta, "size": None, "min_size": None}
        return tuple(_convert(arguments[0], item, f"{path}[{i}]", inner) for i, item in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict) or len(value) > MAX_ITEMS:
            raise refuse()
        if arguments[1] is Any:
            return _free(value, path, [0])
        for key in value:
            _text(key, f"{path} (a key)", {"word": False})
        return {key: _convert(arguments[1], item, f"{path}.{key}", meta) for key, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return parse(typing.cast(type, hint), value, path)
    if hint is str:
        return _text(value, path, meta)
    if hint is bool:
        if not isinstance(value, bool):
            raise refuse()
        return value
    if isinstance(value, bool) or not isinstance(value, int if hint is int else int | float):
        raise refuse()
    if hint is int and abs(value) > 2**63:
        raise refuse("an integer of at most 64 bits")
    try:
        number = value if hint is int else float(value)
    except OverflowError:
        raise refuse("a finite number") from None
    if not math.isfinite(number):
        raise refuse("a finite number")
    if (
        (meta.get("ge") is not None and number < meta["ge"])
        or (meta.get("gt") is not None and number <= meta["gt"])
        or (meta.get("le") is not None and number > meta["le"])
    ):
        raise refuse()
    return number


def _text(value: Any, path: str, meta: typing.Mapping[str, Any]) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise Refusal(path, f"is {show(value)}", f"a text of at most {MAX_TEXT} characters is needed", REMEDY)
    # Control characters could rewrite the terminal of whoever prints the card.
    if not value.isprintable():
        raise Refusal(path, f"is {show(value)}", "a text of printable characters is needed", REMEDY)
    if meta.get("choices") and value not in meta["choices"]:
        raise Refusal(path, f"is {show(value)}", f"one of {', '.join(meta['choices'])} is needed", REMEDY)
    if meta.get("word") and not value:
        raise Refusal(path, "is empty", "a name is needed", REMEDY)
    return value


def _free(value: Any, path: str, count: list[int], depth: int = 0) -> Any:
    """A value of a model configuration: plain JSON, small."""
    count[0] += 1
    if depth > 8 or count[0] > MAX_CONFIG_ENTRIES:
        raise Refusal(path, "is too large", f"at most {MAX_CONFIG_ENTRIES} values, 8 levels deep, are allowed", REMEDY)
    if isinstance(value, dict):
        for key in value:
            _text(key, f"{path} (a key)", {})
        return {key: _free(item, f"{path}.{key}", count, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_free(item, f"{path}[{i}]", count, depth + 1) for i, item in enumerate(value)]
    if isinstance(value, str):
        return _text(value, path, {})
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) > MAX_CONFIG_NUMBER:
        raise Refusal(path, f"is {show(value)}", f"an integer of at most {MAX_CONFIG_NUMBER} is needed", REMEDY)
    if isinstance(value, float) and not math.isfinite(value):
        raise Refusal(path, f"is {show(value)}", "a finite number is needed", REMEDY)
    return value
