"""Saving and loading bundles: a folder with ``weights.safetensors`` and ``card.json``."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashnerd_ext.bundle import weights as weights_file
from flashnerd_ext.bundle.card import Card, WeightsCard, format_card, parse_card, validate
from flashnerd_ext.bundle.folder import CARD_FILE, WEIGHTS_FILE, read_folder, staged
from flashnerd_ext.bundle.schema import MAX_CONFIG_NUMBER, REMEDY, Refusal, show
from flashnerd_ext.errors import FlashNerdError, nearest, one_line

if TYPE_CHECKING:
    import torch

    from flashnerd_ext.model.layout import StateLayout
    from flashnerd_ext.model.registry import DynamicsModel

DIRECT_BUILD = 2**23
"""Largest product of a configuration's three largest integers for which a model is built at once."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass
class Bundle:
    """A model with the card that says what it means.

    Attributes:
        card: What the weights mean.
        model: The network in eval mode, float32 with float64 statistics.
        path: Folder it was read from.
        hash: SHA-256 over weights and canonical card, hexadecimal: two bundles with one hash act alike.
    """

    card: Card
    model: DynamicsModel
    path: Path
    hash: str
    _double: Any = field(default=None, repr=False, compare=False)

    def double(self) -> DynamicsModel:
        """The network in float64 (a copy, made once)."""
        if self._double is None:
            self._double = copy.deepcopy(self.model).double().eval()
        return self._double

    def to(self, device: torch.device | str) -> Bundle:
        """Move the network to a device, in place."""
        self.model.to(device)
        self._double = None
        return self


def shipped_root() -> Path:
    """Folder of the bundles that come with the package."""
    return Path(str(resources.files("flashnerd_ext.bundle") / "shipped"))


def shipped() -> list[str]:
    """Names of the bundles that come with the package."""
    root = shipped_root()
    return sorted(item.name for item in root.iterdir() if (item / CARD_FILE).is_file()) if root.is_dir() else []


def find_bundle(name_or_path: str | os.PathLike[str]) -> Path:
    """Folder of a shipped bundle's name, else the path itself, else the bundle that lies with the user's own robot of
    that name; a shipped name wins over a folder of that name.

    Raises:
        FlashNerdError: When it is neither; with the nearest names.
    """
    text = os.fspath(name_or_path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise FlashNerdError(
            f"the bundle is {show(text)}, but a name or a folder is needed: type python scripts/bundle.py list."
        )
    path = Path(text).expanduser()
    if isinstance(name_or_path, str) and _NAME.fullmatch(text) and text in shipped():
        return shipped_root() / text
    try:
        exists = os.path.lexists(path)
    except OSError:
        exists = False
    if exists:
        return path
    if _NAME.fullmatch(text):
        from flashnerd_ext.robots.own import own_bundles

        own = own_bundles()
        if text in own:
            return own[text]
        hint = nearest(text, [*shipped(), *own]).rstrip(".")
        raise FlashNerdError(
            f"no bundle is named {show(text)} and no folder here either ({hint}): type python scripts/bundle.py list, "
            "or give a path."
        )
    if (path.parent / "robot.toml").is_file():
        robot = path.parent.name
        raise FlashNerdError(
            f"the robot in {show(str(path.parent), 160)} has no bundle yet: type python scripts/dataset.py "
            f"robot={robot}, then scripts/train_dynamics.py robot={robot} out={path}, or another physics."
        )
    raise FlashNerdError(
        f"the bundle folder {show(text, 160)} does not exist: give a folder, or a name that "
        "python scripts/bundle.py list shows."
    )


def bundle_hash(weights: bytes, card: Card) -> str:
    """SHA-256 over the weights file and the canonical card, hexadecimal."""
    digest = hashlib.sha256(weights)
    digest.update(card.canonical())
    return digest.hexdigest()


def load_bundle(name_or_path: str | os.PathLike[str], device: torch.device | str = "cpu") -> Bundle:
    """Load a bundle after checking everything that can be checked without a simulation.

    Args:
        name_or_path: A shipped name, e.g. ``cartpole``, or a folder. A shipped name wins over a folder of that
            name; write ``./name`` for the folder.
        device: Where the network goes.

    Raises:
        FlashNerdError: One sentence with the field, the value found, the value needed and what to type.
    """
    path = find_bundle(name_or_path)
    raw_card, raw_weights = read_folder(path)
    card = parse_card(raw_card)
    _check_weights(raw_weights, card)
    entries = weights_file.read_header(raw_weights)
    # A large configuration is built without memory first, so that one of another size allocates nothing; a small one
    # is not, since the first such build of a process costs a second.
    large = _largest(card.model.config) > DIRECT_BUILD
    model = build(card, meta=large)
    _check_options(card, model)
    _check_capacity(card, model)
    found = weights_file.differences(entries, model)
    if found:
        raise _explain(found, entries, card)
    _check_frame_names(card)
    model = build(card) if large else model
    model.load_state_dict(weights_file.deserialize(raw_weights), strict=True, assign=False)
    model.eval().requires_grad_(False)
    return Bundle(card, _move(model, device), path, bundle_hash(raw_weights, card))


def _move(model: Any, device: torch.device | str) -> Any:
    try:
        return model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise FlashNerdError(
            f"the device is {show(str(device))}, which cannot be used ({one_line(error, 100)}): type device=cpu."
        ) from None


def _check_weights(raw: bytes, card: Card) -> None:
    stored = card.weights
    if stored is None:
        raise Refusal("weights", "is null", "the hash of the weights is needed", REMEDY)
    if len(raw) != stored.bytes:
        raise FlashNerdError(
            f"{WEIGHTS_FILE} has {len(raw)} bytes, but the card says {stored.bytes}, so it is truncated or another "
            "file: fetch the bundle again."
        )
    actual = weights_file.sha256(raw)
    if actual != stored.sha256:
        raise FlashNerdError(
            f"{WEIGHTS_FILE} has the SHA-256 {actual[:12]}, but the card says {show(stored.sha256[:12])[1:-1]}, so it "
            "is damaged or another file: fetch the bundle again."
        )


def build(card: Card, config: dict[str, Any] | None = None, meta: bool = False) -> DynamicsModel:
    """The card's model with fresh weights; ``meta`` makes shapes only, no memory.

    Raises:
        FlashNerdError: When the card's configuration is not one of the model's.
    """
    import torch

    from flashnerd_ext.model.registry import build_model

    if card.simulation.quaternion_order != "xyzw":
        raise Refusal(
            "simulation.quaternion_order",
            f"is '{card.simulation.quaternion_order}'",
            "'xyzw' is needed, since the frame's encoder reads Newton's order",
            "convert the data set's quaternions to xyzw and train again",
        )
    config = card.model.config if config is None else config
    try:
        with torch.device("meta" if meta else "cpu"), torch.random.fork_rng(devices=[]):
            return build_model(card.model.name, card.layout, copy.deepcopy(config))
    except FlashNerdError as error:
        raise Refusal(
            "model", f"cannot be built ({one_line(error, 150).rstrip('.')})", "a known model is needed", REMEDY
        ) from None
    except Exception as error:  # a stranger's configuration may fail anywhere inside torch
        raise Refusal(
            "model.config",
            f"is {show(config, 80)}, which gives {type(error).__name__} ({one_line(error, 60)})",
            f"a configuration of '{card.model.name}' is needed",
            REMEDY,
        ) from None


def _largest(config: dict[str, Any]) -> int:
    numbers = sorted((value for value in config.values() if type(value) is int and value > 1), reverse=True)
    return math.prod(numbers[:3])


def _explain(
    found: list[weights_file.Difference], entries: dict[str, weights_file.TensorEntry], card: Card
) -> FlashNerdError:
    """The sentence for weights that do not fit the configuration, with the one override that would."""
    listed = "; ".join(str(item) for item in found[:2]) + (f"; and {len(found) - 2} more" if len(found) > 2 else "")
    override = _matching_override(found, entries, card)
    remedy = (
        f"the override {override} would match"
        if override
        else "no single override would match, so fetch the bundle again"
    )
    return FlashNerdError(
        one_line(f"{WEIGHTS_FILE} does not fit model.config ({one_line(listed, 220)}): {remedy}.", 390)
    )


def _matching_override(
    found: list[weights_file.Difference], entries: dict[str, weights_file.TensorEntry], card: Card
) -> str | None:
    """The one option that turns the card's configuration into one that the weights fit, if there is one."""
    if any(item.stored and item.current and item.stored[0] != item.current[0] for item in found):
        return None  # another dtype is no matter of sizes
    stored = {name: (entry.dtype, entry.shape) for name, entry in entries.items()}
    config = card.model.config
    for key, value in config.items():
        if type(value) is not int:
            continue
        for candidate in _candidates(value, found):
            changed = json.dumps({**config, key: candidate}, sort_keys=True)
            if _shapes(card.model.name, card.layout, changed) == stored:
                return f"options.{key}={candidate} (stored {candidate}, current {value})"
    return None


def _candidates(value: int, found: list[weights_file.Difference]) -> list[int]:
    """What an option may have been: a size that is ``a + b x option`` for a small ``b``, or a count of layers."""
    pairs = dict.fromkeys(
        (old, new)
        for item in found
        if item.stored and item.current and len(item.stored[1]) == len(item.current[1])
        for old, new in zip(item.stored[1], item.current[1], strict=True)
        if old != new
    )
    tries = [value + (old - new) // b for old, new in list(pairs)[:3] for b in (1, 2, 3, 4) if (old - new) % b == 0]
    tries += [old * value // new for old, new in list(pairs)[:3] if new and old * value % new == 0]
    if any(item.stored is None or item.current is None for item in found):
        tries += [value - 1, value + 1, value - 2, value + 2, value - 3, value + 3]
    return [item for item in dict.fromkeys(tries) if 1 <= item <= MAX_CONFIG_NUMBER and item != value]


@functools.lru_cache(maxsize=1024)
def _shapes(name: str, layout: StateLayout, config: str) -> dict[str, tuple[str, tuple[int, ...]]] | None:
    import torch

    from flashnerd_ext.model.registry import build_model

    try:
        with torch.device("meta"):
            return weights_file.shapes(build_model(name, layout, json.loads(config)))
    except Exception:  # a candidate that cannot be built is simply not the one
        return None


def _check_options(card: Card, model: DynamicsModel) -> None:
    """An option that is newer than the bundle has no stored value, and its default may change what the weights mean."""
    for key, value in model.config.items():
        if key not in card.model.config:
            text = json.dumps(value)
            raise Refusal(
                f"model.config.{key}",
                f"is not stored, current default {text}",
                "the value that the weights were trained with is needed",
                f'add "{key}": {text}, or another value, to model.config and type python scripts/bundle.py seal PATH',
            )


def _check_capacity(card: Card, model: DynamicsModel) -> None:
    if card.contacts.capacity != model.rows_capacity:
        raise Refusal(
            "contacts.capacity",
            f"is {card.contacts.capacity}",
            f"{model.rows_capacity}, the rows that the model takes, is needed",
            REMEDY,
        )


def _check_frame_names(card: Card) -> None:
    from flashnerd_ext.model.frame import frame_names

    names = tuple(frame_names(card.layout))
    stored = card.envelope.frame.names
    if names != stored:
        wrong = next(
            (i for i in range(min(len(names), len(stored))) if names[i] != stored[i]), min(len(names), len(stored))
        )
        raise Refusal(
            "envelope.frame.names",
            f"is {show(stored[wrong]) if wrong < len(stored) else 'absent'} at place {wrong}",
            f"{show(names[wrong]) if wrong < len(names) else 'nothing'} is needed there for this robot",
            REMEDY,
        )


def save_bundle(folder: str | os.PathLike[str], model: DynamicsModel, card: Card) -> Bundle:
    """Save a bundle so that its folder appears whole or not at all; an existing bundle is replaced.

    Args:
        folder: Where it goes; must be new, empty or a bundle.
        model: The trained network; its state is stored as it is.
        card: Its card; hash and digest are filled in.

    Returns:
        The saved bundle with a copy of the model, exactly as :func:`load_bundle` gives it.

    Raises:
        FlashNerdError: When card and model contradict each other or the folder cannot be written.
    """
    target = Path(folder)
    raw = weights_file.serialize(model)
    parameters = sum(value.numel() for value in model.parameters())
    sealed = card.sealed(
        WeightsCard(
            sha256=weights_file.sha256(raw), bytes=len(raw), tensors=len(model.state_dict()), parameters=parameters
        )
    )
    validate(sealed)
    text = format_card(sealed).encode()
    with staged(target) as temporary:
        (temporary / WEIGHTS_FILE).write_bytes(raw)
        (temporary / CARD_FILE).write_bytes(text)
        # What is saved must load: a card that the loader refuses is refused here, before it takes the place.
        bundle = load_bundle(temporary)
    bundle.path = target
    return bundle


def seal_bundle(folder: str | os.PathLike[str], change: Callable[[Card], Card] | None = None) -> Bundle:
    """Accept an edited ``card.json``: compute its digest anew, if it still parses and fits its weights.

    Args:
        folder: A bundle.
        change: Makes another card of the stored one, e.g. with measurements added; weights stay as they are.

    Raises:
        FlashNerdError: When anything but the digest is wrong.
    """
    target = Path(folder)
    raw_card, raw_weights = read_folder(target)
    card = parse_card(raw_card, sealed=False)
    if card.weights is None:
        raise Refusal("weights", "is null", "the hash of the weights is needed", REMEDY)
    weights, card = card.weights, change(card) if change else card
    validate(card)
    text = format_card(card.sealed(weights)).encode()
    with staged(target) as temporary:
        (temporary / WEIGHTS_FILE).write_bytes(raw_weights)
        (temporary / CARD_FILE).write_bytes(text)
        bundle = load_bundle(temporary)
    bundle.path = target
    return bundle


def self_test(bundle: Bundle) -> None:
    """Step the model once from states inside the training data; weights that load may still give NaN.

    Raises:
        FlashNerdError: When a prediction is not finite.
    """
    import torch

    ranges = bundle.card.envelope.frame
    model = bundle.model
    rows = None
    if model.rows_capacity:
        from flashnerd_ext.model.contacts import ROW_SIZE, ContactRows

        shape = (3, model.rows_capacity)
        rows = ContactRows(
            torch.zeros((*shape, ROW_SIZE)), torch.zeros(shape, dtype=torch.int64), torch.zeros(shape, dtype=torch.bool)
        )
    frames = torch.tensor([ranges.mean, ranges.min, ranges.max], dtype=torch.float32)
    with torch.no_grad():
        cache = model.init_cache(3)
        model.step(frames, cache, rows)
        out = model.step(frames, cache, rows)
    if not torch.isfinite(out).all():
        raise FlashNerdError(
            f"bundle {show(bundle.card.name, 30)} predicts NaN or infinity inside its own training data: "
            "train it again or fetch it anew."
        )
