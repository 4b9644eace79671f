"""What clients were told, against what the store holds: nothing acknowledged is lost, and sums are exact."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from tests.hostile.shoppers import Shopper
from tests.service.harness import ITEMS

from quietshelf.choice.maps import feature_map
from quietshelf.curation.contributions import contributions
from quietshelf.curation.fields import record_from
from quietshelf.release.quiet import OpenBatch
from quietshelf.service import learning, restore, schema, verify
from quietshelf.service.settings import Settings
from quietshelf.service.store import Store
from quietshelf.service.vault import Ticket, Vault
from quietshelf.service.views import shelf_row

FEATURES = {str(item["id"]): item["features"] for item in ITEMS}


def compared(database: str, folder: Path, shoppers: Sequence[Shopper], *, exact: bool = False) -> dict[str, int]:
    """Figures of what was acknowledged and what became of it; ``exact``: noise was none, so sums are compared too.

    The ledger must agree with the releases, whoever was told of an offer must be counted, and no offer be told twice.
    """
    store = Store(Settings(database=database).url, Vault(folder / "secrets"))
    offers = {name: offer for shopper in shoppers for name, offer in shopper.offers.items()}
    chosen = {name: item for shopper in shoppers for name, item in shopper.chosen.items()}
    with store.read() as connection:
        shelf = shelf_row(connection, "teas")
        released = {row["batch"]: row for row in learning.release_rows(connection, shelf["shelf"])}
        mine = sa.select(schema.offers).where(schema.offers.c.shelf == shelf["shelf"])
        kept = {(row.batch, row.slot): row for row in connection.execute(mine)}
        events = learning.stored_events(connection, shelf["shelf"])
        assert verify.verify(connection, shelf) == []
    # a kill between the announcement of a release and its commit: the batch is left out, and its cost entered
    left_out = {int(event.batch) for event in events if event.detail == restore.BURNT}
    missing = shelf["arrivals"] - len(kept) - sum(row["size"] for row in released.values())
    # slots that a killed process had leased and nobody took are released as zeros: they count in a release's size
    assert missing <= 0 or left_out
    assert shelf["arrivals"] >= len(offers)  # whoever was told of an offer is counted
    tickets = {name: store.vault.ticket(name) for name in offers}
    store.close()
    assert len(set(tickets.values())) == len(offers)
    gone = {*released, *left_out}
    return {
        "offers_acknowledged": len(offers),
        "choices_acknowledged": len(chosen),
        "offers_lost": sum(not _there(ticket, kept, gone) for ticket in tickets.values()),
        "choices_lost_or_changed": sum(not _answered(tickets[name], kept, item) for name, item in chosen.items()),
        "releases": len(released),
        "releases_lost": max(0, _told(offers) - len(released)),
        "sums_compared_with_acknowledged_choices": sum_again(released, tickets, shoppers) if exact else 0,
        "batches_left_out_and_entered_in_the_ledger": len(left_out),
    }


def _told(offers: dict[str, dict[str, object]]) -> int:
    """The latest release that somebody was told of."""
    return max((int(str(offer["release"])) for offer in offers.values()), default=0)


def _there(ticket: Ticket | None, kept: dict[tuple[int, int], sa.Row[Any]], gone: set[int]) -> bool:
    """Whether an acknowledged offer is stored, or its batch was released, or left out and said so."""
    assert ticket is not None
    row = kept.get((ticket.batch, ticket.slot))
    return ticket.batch in gone or (row is not None and row.nonce == ticket.nonce)


def _answered(ticket: Ticket | None, kept: dict[tuple[int, int], sa.Row[Any]], item: str | None) -> bool:
    """Whether an acknowledged choice is stored as it was told, as long as its offer is kept."""
    assert ticket is not None
    row = kept.get((ticket.batch, ticket.slot))
    return row is None or bool(row.answer == (-1 if item is None else json.loads(row.items).index(item)))


def sum_again(released: dict[int, learning.Row], tickets: dict[str, Ticket | None], shoppers: Sequence[Shopper]) -> int:
    """The exact sum of every batch whose visitors all had their answers acknowledged, against what was released."""
    by_batch: dict[int, list[tuple[Shopper, str]]] = defaultdict(list)
    for shopper in shoppers:
        for name in shopper.offers:
            ticket = tickets[name]
            assert ticket is not None
            by_batch[ticket.batch].append((shopper, name))
    compared = 0
    for number, row in released.items():
        visits = by_batch[number]
        if len(visits) < row["size"] or any(name not in shopper.chosen for shopper, name in visits):
            continue  # somebody was still waiting for an acknowledgement when the test ended
        record = record_from(learning.from_row(row))
        nothing = np.zeros((1, *record.coordinates.shape))  # what was expected does not enter a contribution
        parts = record.theta, record.coordinates, record.scales, nothing, record.spread
        frozen = OpenBatch(number, record.size, *parts)
        total: Any = np.zeros(0)
        for shopper, name in visits:
            shown = [str(item) for item in shopper.offers[name]["items"]]  # type: ignore[attr-defined]
            x = feature_map("concat").dense(
                np.array(shopper.visitors[name]), np.array([FEATURES[item] for item in shown])
            )
            item = shopper.chosen[name]
            place = -1 if item is None else shown.index(item)
            (one,) = contributions([x], [place], frozen, row["grid"])
            head = one[: record.score.size]
            total = head if total.size == 0 else total + head
        score = learning.unpacked(row["score"], -1)
        np.testing.assert_allclose(score, total, rtol=1e-9, atol=1e-9)
        compared += 1
    return compared
