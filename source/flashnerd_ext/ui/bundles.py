"""A row for each bundle, read without torch: Kit's own Python has none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from flashnerd_ext.bundle.card import parse_card
from flashnerd_ext.bundle.folder import CARD_FILE, read_folder
from flashnerd_ext.bundle.store import bundle_hash, shipped, shipped_root
from flashnerd_ext.bundle.table import card_table
from flashnerd_ext.errors import FlashNerdError, one_line


@dataclass(frozen=True)
class BundleRow:
    """A bundle as the window lists it.

    Attributes:
        name: The card's, or the folder's where the card cannot be read.
        summary: Robot, mode, step and error in one line.
        card: The whole card as text; empty where it cannot be read.
        problem: Why it cannot be used; empty where it can.
        path: Its folder.
    """

    name: str
    summary: str
    card: str
    problem: str
    path: Path


def bundle_rows(folders: Iterable[Path] = ()) -> list[BundleRow]:
    """The shipped bundles, then those in ``folders`` (a bundle, or a folder of bundles)."""
    found = [shipped_root() / name for name in shipped()]
    for folder in folders:
        inside = sorted(path.parent for path in folder.glob(f"*/{CARD_FILE}"))
        found += [folder] if (folder / CARD_FILE).is_file() else inside
    return [bundle_row(path) for path in dict.fromkeys(found)]


def bundle_row(path: Path) -> BundleRow:
    """The row of one bundle; a damaged one says what is wrong with it."""
    try:
        raw, weights = read_folder(path)
        card = parse_card(raw)
    except FlashNerdError as error:
        return BundleRow(path.name, f"cannot be used: {one_line(error, 160)}", "", one_line(error), path)
    mode = "learned" if card.coupling is None else "coupled"
    errors = ", ".join(f"{key} {card.measured[key]:.3g}" for key in ("E1", "E15", "E100") if key in card.measured)
    parts = [f"robot {card.robot.name}", f"{mode} mode", f"step {card.dt * 1e3:.3g} ms", errors]
    return BundleRow(
        card.name, ", ".join(filter(None, parts)), card_table(card, path, bundle_hash(weights, card)), "", path
    )
