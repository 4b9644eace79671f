"""Shelves whose offers are made on visitors' devices: slots without features, contributions without choices.

Slots are taken like all others (`offers`), and contributions entered like all answers (`answers`): time, waiting,
persons, repeats, expiry and erasure work the same. The only difference is that the service does not know what was shown
(docs/proofs.md, section 6).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from quietshelf.curation.device import DEVICE, MOST_ITEMS
from quietshelf.model.types import Context
from quietshelf.serving.service.access.tickets import Visitor
from quietshelf.serving.service.catalogue.documents import edition
from quietshelf.serving.service.catalogue.views import View
from quietshelf.serving.service.database.learning import Row
from quietshelf.serving.service.database.timestamps import timestamp
from quietshelf.serving.service.database.vault import Ticket, Vault
from quietshelf.serving.service.models import OfferBody
from quietshelf.serving.service.problems import Invalid, NotFound
from quietshelf.serving.service.visitors.contributed import ON_DEVICE, Contributed, ContributionBody
from quietshelf.serving.service.visitors.inbox import Receipt
from quietshelf.serving.service.visitors.offers import OfferRequest, OfferTransaction
from quietshelf.serving.service.visitors.requests import anybody

COUNTS = b""
"""Stands for the features of what was shown: the visit counts, and its contribution has not come yet."""


@dataclass(frozen=True, eq=False)
class SlotRequest(OfferRequest):
    """A request for a slot; ``retry`` names its ticket, so the same ticket again is the same visit."""

    def visitor(self, view: View) -> Context:
        """R1: every visitor looks the same here, since everything private stays on the device."""
        if view.body.contributions != DEVICE:
            raise Invalid("slots need a shelf with contributions='device', got one whose offers are made here")
        if len(view.ids) > MOST_ITEMS:
            raise Invalid(f"a device chooses from at most {MOST_ITEMS:,} items, got {len(view.ids):,}")
        return anybody(view, self.body.model_copy(update={"features": [0.0] * view.settings.visitor_dim}))

    def nonce(self, vault: Vault, shelf: int, drawn: bytes) -> bytes:  # noqa: ARG002 - it has one of its own
        """The nonce that belongs to its ticket."""
        assert self.retry is not None  # noqa: S101 - a ticket has a name
        return vault.slot_nonce(shelf, self.retry)


def slot_request(visitor: Visitor, receipt: Receipt) -> SlotRequest:
    """Build the writer's request for a slot."""
    return SlotRequest(
        visitor.ticket.shelf, OfferBody.model_validate({"person": visitor.ticket.person}), visitor.visit, receipt
    )


def contribution(vault: Vault, offer: str, body: ContributionBody, visitor: Visitor, receipt: Receipt) -> Contributed:
    """Build the writer's request for a contribution, refused unless this ticket took the slot."""
    place = vault.ticket(offer)
    mine = b"" if place is None else vault.slot_nonce(place.shelf, visitor.visit)
    if place is None or not secrets.compare_digest(mine, place.nonce):
        raise NotFound("offer must be the one that was made for this ticket")
    return Contributed(vault, place, body, receipt, visitor.shelf)


def transaction_of(view: View) -> type[OfferTransaction]:
    """The kind of transaction that serves a shelf's visitors."""
    return SlotTransaction if view.body.contributions == DEVICE else OfferTransaction


class SlotTransaction(OfferTransaction):
    """Takes requests for slots of one shelf in one transaction, in order. Devices decide what to show."""

    @cached_property
    def _edition(self) -> str:
        return edition(self.connection, self.vault, self.slots.shelf)

    def _decide(self) -> None:
        for each in self.arrivals:
            each.row["items"] = ON_DEVICE
            each.row["rows"] = COUNTS if each.counts else None

    def _reply(self, row: Row, shown: Any = None) -> dict[str, Any]:  # noqa: ARG002 - nobody here knows
        """What the device needs beside public documents: its slot, and the coins of that slot."""
        view, coins = self.view, self.coins.of([(row["batch"], row["slot"])])
        assert view.release is not None  # noqa: S101 - somebody arrived
        drawn = coins.standard_normal((1, view.release.theta.size))[0].tolist() if view.release.draws.any() else None
        return {
            "offer": self.vault.offer_id(Ticket(row["shelf"], row["batch"], row["slot"], row["nonce"])),
            "release": row["release"],
            "batch": row["batch"],
            "catalogue": str(view.catalogue.version),
            "edition": self._edition,
            "capacity": view.settings.capacity,
            "fill": view.settings.fill,
            "expires": timestamp(row["made"] + view.body.window),
            "coins": coins.seeds[0],
            "normals": drawn,
        }
