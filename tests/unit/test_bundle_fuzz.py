"""Damage of every kind given to the loader: an equal bundle or one sentence, and nothing else happens on disk."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from flashnerd_ext.bundle.example import example_bundle
from flashnerd_ext.bundle.store import load_bundle
from flashnerd_ext.errors import FlashNerdError

Pair = tuple[bytes, bytes]
"""card.json and weights.safetensors."""
LEAVES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 4096, 10**9, 10**400, -1.5, 0.0, 1e-300, 1e308, "", "x", "xyzw", "wxyz",
    "y" * 30_000, "\x1b[2J", "\u202e", "\ud800", [], {}, [1], {"a": 1}, [[[]]], float("nan"), float("inf"),
]  # fmt: skip


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Pair]:
    """Files of a bundle of learned mode (False) and of coupled mode (True)."""
    found = {}
    for coupled in (False, True):
        folder = tmp_path_factory.mktemp("original") / "bundle"
        example_bundle(folder, coupled=coupled)
        found[coupled] = (folder / "card.json").read_bytes(), (folder / "weights.safetensors").read_bytes()
    return found


def sealed(content: Any, weights: bytes) -> Pair:
    """Both files with hashes that fit: what someone writes who means to deceive the loader."""
    content = copy.deepcopy(content)
    if isinstance(content, dict):
        if isinstance(content.get("weights"), dict):
            content["weights"] |= {"sha256": hashlib.sha256(weights).hexdigest(), "bytes": len(weights)}
        if "digest" in content:
            rest = {key: value for key, value in content.items() if key != "digest"}
            text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
            content["digest"] = hashlib.sha256(text.encode()).hexdigest()
    return json.dumps(content).encode(), weights


def flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8, 64))):
        changed[rng.randrange(len(changed))] ^= rng.randrange(1, 256)
    return bytes(changed)


def cut(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data))
    how = rng.randrange(4)
    if how == 0:
        return data[:place]
    if how == 1:
        return data[place:]
    if how == 2:
        return data[:place] + data[place + rng.randrange(1, 64) :]
    return data + rng.randbytes(rng.randrange(1, 64))


def noise(rng: random.Random) -> bytes:
    size = rng.choice((0, 1, 7, 8, 9, 100, 5000))
    return rng.choice((rng.randbytes(size), b"\0" * size, b"[" * size, b"{}", b'"a"', b"null", b"\xef\xbb\xbf{}"))


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


def at(content: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        content = content[key]
    return content


def change_json(content: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """One value replaced, removed, renamed, repeated or added, anywhere in the card."""
    content = copy.deepcopy(content)
    # Sections are drawn first: most leaves are numbers of the envelope.
    section = rng.choice(list(content))
    path = rng.choice([path for path in paths(content) if path[0] == section])
    owner, key = at(content, path[:-1]), path[-1]
    how = rng.randrange(6)
    if how == 0:
        del owner[key]
    elif how == 1 and isinstance(owner, dict):
        owner[rng.choice(("extra", "", "a\nb", "z" * 500, str(key) + "s"))] = owner[key]
    elif how == 1:
        owner.append(owner[key])
    elif how == 2 and isinstance(owner, dict):
        owner[str(key).upper()] = owner.pop(key)
    elif how == 3 and isinstance(owner[key], int | float) and not isinstance(owner[key], bool):
        owner[key] = rng.choice((-owner[key], owner[key] * 2, owner[key] + 1, str(owner[key]), [owner[key]]))
    else:
        owner[key] = copy.deepcopy(rng.choice(LEAVES))
    return content


def change_header(weights: bytes, rng: random.Random) -> bytes:
    """A safetensors file whose header lies."""
    length = int.from_bytes(weights[:8], "little")
    header, data = json.loads(weights[8 : 8 + length]), weights[8 + length :]
    name = rng.choice([key for key in header if key != "__metadata__"])
    entry = header[name]
    how = rng.randrange(12)
    if how == 0:
        lie = rng.choice((0, 1, length - 1, length + 1, len(weights), 2**31, 2**63 - 1, 2**64 - 1))
        return lie.to_bytes(8, "little") + weights[8:]
    if how == 1:
        entry["dtype"] = rng.choice(("F16", "F64", "F32", "I64", "BOOL", "C64", "", None, 7, "F8_E4M3", []))
    elif how == 2:
        entry["shape"] = rng.choice(([], [0], [-1], [2**40], [2**62, 4], [1.5], "8", None, [True], [1] * 50, [8, 9]))
    elif how == 3:
        entry["shape"] = [*entry["shape"], 1] if rng.random() < 0.5 else entry["shape"][::-1]
    elif how == 4:
        begin, end = entry["data_offsets"]
        entry["data_offsets"] = rng.choice(
            ([end, begin], [begin, end + 4], [begin - 4, end], [0, 2**63], [begin], "0", None, [0.0, 4.0], [-8, -4])
        )
    elif how == 5:
        header[name + "_"] = header.pop(name)
    elif how == 6:
        del header[name]
    elif how == 7:
        header["extra"] = {"dtype": "F32", "shape": [2], "data_offsets": [len(data), len(data) + 8]}
        data += b"\0" * 8
    elif how == 8:
        header["__metadata__"] = rng.choice(({"a": 1}, [], "x", {"a": {"b": "c"}}))
    elif how == 9:
        header[name] = rng.choice(LEAVES)
    elif how == 10:
        header = rng.choice((LEAVES, [header], {}, {str(i): entry for i in range(50)}))
    else:
        entry[rng.choice(("dtype", "shape", "data_offsets", "more"))] = 1
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def poison(weights: bytes, rng: random.Random) -> bytes:
    """Numbers of the data block replaced: NaN, infinities, or any bits."""
    length = int.from_bytes(weights[:8], "little")
    data = bytearray(weights)
    place = 8 + length + rng.randrange((len(data) - 8 - length) // 8) * 8
    data[place : place + 8] = rng.choice((b"\xff" * 8, b"\0\0\x80\x7f" * 2, b"\0\0\0\0\0\0\xf0\x7f", rng.randbytes(8)))
    return bytes(data)


FAMILIES: dict[str, tuple[int, Callable[[bytes, bytes, random.Random], Pair]]] = {
    "card bytes": (160, lambda card, weights, rng: (flip(card, rng), weights)),
    "card cut": (60, lambda card, weights, rng: (cut(card, rng), weights)),
    "card noise": (40, lambda card, weights, rng: (noise(rng), weights)),
    "card values": (160, lambda card, weights, rng: (json.dumps(change_json(json.loads(card), rng)).encode(), weights)),
    "card values, sealed": (360, lambda card, weights, rng: sealed(change_json(json.loads(card), rng), weights)),
    "weights bytes": (80, lambda card, weights, rng: (card, flip(weights, rng))),
    "weights cut": (40, lambda card, weights, rng: (card, cut(weights, rng))),
    "weights noise": (40, lambda card, weights, rng: (card, noise(rng))),
    "weights bytes, sealed": (120, lambda card, weights, rng: sealed(json.loads(card), flip(weights, rng))),
    "weights cut, sealed": (60, lambda card, weights, rng: sealed(json.loads(card), cut(weights, rng))),
    "weights noise, sealed": (30, lambda card, weights, rng: sealed(json.loads(card), noise(rng))),
    "weights header, sealed": (240, lambda card, weights, rng: sealed(json.loads(card), change_header(weights, rng))),
    "weights numbers, sealed": (60, lambda card, weights, rng: sealed(json.loads(card), poison(weights, rng))),
}


def test_there_are_a_thousand_mutations() -> None:
    assert sum(count for count, _ in FAMILIES.values()) >= 1000


@pytest.mark.parametrize(
    ("family", "coupled"),
    [*((family, False) for family in FAMILIES), *((family, True) for family in FAMILIES if "card values" in family)],
)
def test_mutation_gives_an_equal_bundle_or_one_sentence(
    family: str, coupled: bool, originals: dict[bool, Pair], tmp_path: Path
) -> None:
    count, mutate = FAMILIES[family]
    folder, original = tmp_path / "bundle", originals[coupled]
    example_bundle(folder, coupled=coupled)
    reference = load_bundle(folder)
    refused = 0
    for number in range(count):
        files = mutate(*original, random.Random(f"{family} {number}"))
        (folder / "card.json").write_bytes(files[0])
        (folder / "weights.safetensors").write_bytes(files[1])
        try:
            bundle = load_bundle(folder)
        except FlashNerdError as error:
            refused += 1
            text = str(error)
            assert text and "\n" not in text and len(text) < 400 and text.isprintable(), (number, text)
            assert text.endswith("."), (number, text)
        else:
            state = bundle.model.state_dict()
            assert all(torch.isfinite(value).all() for value in state.values()), number
            if "sealed" not in family:  # the hashes were not made anew, so nothing may differ
                assert bundle.hash == reference.hash, number
                assert all(torch.equal(value, state[name]) for name, value in reference.model.state_dict().items())
        # Looking changes nothing.
        assert sorted(item.name for item in folder.iterdir()) == ["card.json", "weights.safetensors"]
        assert ((folder / "card.json").read_bytes(), (folder / "weights.safetensors").read_bytes()) == files
    assert [item.name for item in tmp_path.iterdir()] == ["bundle"]
    # A loader that accepts everything, or a mutation that never bites, would make this test worthless.
    assert refused >= 0.4 * count
