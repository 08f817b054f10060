"""Stage 0: contacts that the model takes as inputs, and what contact sensors read.

A model without contact rows predicts no contact forces. Contact sensors then read exactly 0 for every component
(normal and friction): they are cleared here each step, so that nothing stale from the analytical solver is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashnerd_ext.errors import FlashNerdError
from flashnerd_ext.model.contacts import ContactRows

if TYPE_CHECKING:
    from newton import Contacts

    from flashnerd_ext.bundle.card import Card


class ContactStage:
    """Gathers contact rows of every robot; this version runs models that take none.

    Raises:
        FlashNerdError: For a bundle whose model takes contact rows.
    """

    def __init__(self, card: Card) -> None:
        if card.contacts.capacity:
            raise FlashNerdError(
                f"the bundle '{card.name}' takes {card.contacts.capacity} contact rows a robot from the detector "
                f"'{card.contacts.detector}', but this version of the backend gives none: "
                "use a bundle without contacts."
            )

    def rows(self) -> ContactRows | None:
        """Rows for this step, or ``None`` where the model takes none."""
        return None

    @staticmethod
    def clear(contacts: Contacts | None) -> None:
        """Let contact sensors read no contact and no force."""
        if contacts is None:
            return
        contacts.rigid_contact_count.zero_()
        if contacts.force is not None:
            contacts.force.zero_()
