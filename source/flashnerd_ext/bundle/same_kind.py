"""What goes on from a bundle, or is used beside it, must be of its kind: contact rows and options of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flashnerd_ext.bundle.card import Card, ContactCard
from flashnerd_ext.bundle.schema import show
from flashnerd_ext.errors import FlashNerdError, one_line


def check_contact_rows(contacts: ContactCard, fixed: Sequence[str], bundle: str, data: str) -> None:
    """Refuse recorded contact rows that are not of the kind that a bundle takes.

    Args:
        contacts: The card's section; of a model that takes rows.
        fixed: Links of the data's fixed rows; empty for variable ones.
        bundle, data: What to call the two, as they were typed.

    Raises:
        FlashNerdError: Names both kinds.
    """
    if contacts.fixed == tuple(fixed):
        return
    kind = "fixed" if fixed else "variable"
    if kind == contacts.kind:
        raise FlashNerdError(
            f"{bundle} takes fixed contacts of the links {show(', '.join(contacts.fixed))}, but those of {data} are of "
            f"{show(', '.join(fixed))}: make the data anew with scripts/dataset.py contacts=fixed."
        )
    raise FlashNerdError(
        f"{bundle} takes contacts={contacts.kind} rows, but {data} has contacts={kind} ones: give data that "
        f"scripts/dataset.py made with contacts={contacts.kind}."
    )


def check_model_config(card: Card, name: str, config: Mapping[str, Any]) -> None:
    """Refuse a configuration that is not the stored one, e.g. when training goes on from a bundle.

    Args:
        name: Model that the command asks for.
        config: Its options.

    Raises:
        FlashNerdError: Lists field, stored value, current value and the overrides that would match.
    """
    wrong: list[tuple[str, Any, Any]] = [] if name == card.model.name else [("model", card.model.name, name)]
    if not wrong:
        for key in dict.fromkeys((*card.model.config, *config)):
            stored, current = card.model.config.get(key), config.get(key)
            if stored != current:
                wrong.append((f"options.{key}", stored, current))
    if wrong:
        listed = "; ".join(
            f"{key} is stored as {show(stored)}, current {show(current)}" for key, stored, current in wrong[:4]
        )
        more = f"; and {len(wrong) - 4} more" if len(wrong) > 4 else ""
        overrides = " ".join(f"{key}={show(stored).strip(chr(39))}" for key, stored, _ in wrong if stored is not None)
        raise FlashNerdError(
            one_line(
                f"bundle {show(card.name, 30)}: {listed}{more}; type {overrides or 'the stored model'} to match.", 390
            )
        )
