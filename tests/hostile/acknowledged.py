"""What clients were told, against what the store holds: nothing is lost, doubled or early, and sums are exact."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from tests.hostile.shoppers import Shopper, Told
from tests.serving.service.harness import ITEMS

from quietshelf.curation.contributions import sum_of
from quietshelf.curation.fields import record_from
from quietshelf.model.choice.maps import feature_map
from quietshelf.privacy.release.quiet import OpenBatch
from quietshelf.serving.service.catalogue.views import shelf_row
from quietshelf.serving.service.database import learning, schema
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.database.vault import Ticket, Vault
from quietshelf.serving.service.releases import losses, verify
from quietshelf.serving.service.settings import ServiceSettings

FEATURES = {str(item["id"]): np.array(item["features"]) for item in ITEMS}
BROKEN = (
    "offers_lost",
    "offers_told_twice",
    "choices_lost_or_changed",
    "releases_lost",
    "releases_early",
    "visits_lost",
    "visits_doubled",
    "sums_that_differ",
    "faults_in_the_ledger",
    "wrong_replies",
)
"""Figures that are 0 where nothing is lost, doubled or early."""
Sums = tuple[int, int]
"""How many were compared, and how many differ."""


def compared(database: str, folder: Path, shoppers: Sequence[Shopper], *, exact: bool = False) -> dict[str, int]:
    """Figures of what was acknowledged and what became of it; ``exact``: noise was none, so sums are compared too."""
    store = Store(ServiceSettings(database=database).url, Vault(folder / "secrets"))
    offers = {name: offer for shopper in shoppers for name, offer in shopper.offers.items()}
    chosen = {name: item for shopper in shoppers for name, item in shopper.chosen.items()}
    with store.read() as connection:
        shelf = shelf_row(connection, "teas")
        released = {row["batch"]: row for row in learning.release_rows(connection, shelf["shelf"])}
        mine = sa.select(schema.offers).where(schema.offers.c.shelf == shelf["shelf"])
        kept = {(row.batch, row.slot): row for row in connection.execute(mine)}
        events = learning.stored_events(connection, shelf["shelf"])
        faults = verify.verify(connection, shelf)
    tickets = {name: store.vault.ticket(name) for name in offers}
    store.close()
    # a kill between the announcement of a release and its commit: the batch is left out, and its cost entered
    left_out = {int(event.batch) for event in events if event.detail == losses.BURNT}
    gone = {*released, *left_out}
    # slots that a killed process had leased and nobody took are released as zeros: they count in a release's size
    missing = shelf["arrivals"] - len(kept) - sum(row["size"] for row in released.values())
    # those whom scenarios send in between come without a person
    doubled = shelf["arrivals"] - shelf["anonymous"] - sum(shopper.visits for shopper in shoppers)
    sums = sum_again(released, tickets, shoppers) if exact else (0, 0)
    return {
        "offers_acknowledged": len(offers),
        "choices_acknowledged": len(chosen),
        "offers_lost": sum(not _there(ticket, kept, gone) for ticket in tickets.values()),
        "offers_told_twice": sum(len(shopper.offers) for shopper in shoppers) - len({*tickets.values()} - {None}),
        "choices_lost_or_changed": sum(not _answered(tickets[name], kept, item) for name, item in chosen.items()),
        "choices_refused_as_late": sum(shopper.late for shopper in shoppers),
        "releases": len(released),
        "releases_lost": max(0, max((offer.release for offer in offers.values()), default=0) - len(released)),
        "releases_early": _early(released, offers, tickets, json.loads(shelf["config"])["window"]),
        "visits_lost": max(len(offers) - shelf["arrivals"], 0 if left_out else missing, 0),
        "visits_doubled": max(0, doubled),
        "sums_compared_with_acknowledged_choices": sums[0],
        "sums_that_differ": sums[1],
        "faults_in_the_ledger": len(faults),
        "wrong_replies": sum(len(shopper.wrong) for shopper in shoppers),
        "batches_left_out_and_entered_in_the_ledger": len(left_out),
    }


def _there(ticket: Ticket | None, kept: dict[tuple[int, int], sa.Row[Any]], gone: set[int]) -> bool:
    """Whether an acknowledged offer is stored, or its batch was released, or left out and said so."""
    if ticket is None:
        return False
    row = kept.get((ticket.batch, ticket.slot))
    return ticket.batch in gone or (row is not None and row.nonce == ticket.nonce)


def _answered(ticket: Ticket | None, kept: dict[tuple[int, int], sa.Row[Any]], item: str | None) -> bool:
    """Whether an acknowledged choice is stored as it was told, as long as its offer is kept."""
    row = kept.get((ticket.batch, ticket.slot)) if ticket else None
    return row is None or bool(row.answer == (-1 if item is None else json.loads(row.items).index(item)))


def _early(
    released: Mapping[int, learning.Row],
    offers: Mapping[str, Told],
    tickets: Mapping[str, Ticket | None],
    window: float,
) -> int:
    """Releases that somebody was told of, by their own watch, before a window was over for all who are in them."""
    last: dict[int, float] = defaultdict(float)
    first = dict.fromkeys((row["number"] for row in released.values()), np.inf)
    for name, offer in offers.items():
        ticket = tickets[name]
        if ticket is not None:
            last[ticket.batch] = max(last[ticket.batch], offer.asked)
        if offer.release in first:
            first[offer.release] = min(first[offer.release], offer.told)
    return sum(first[row["number"]] < last[batch] + window for batch, row in released.items() if batch in last)


def sum_again(released: Mapping[int, learning.Row], tickets: dict[str, Ticket | None], who: Sequence[Shopper]) -> Sums:
    """The exact sum of every batch whose visitors all had their answers acknowledged, against what was released.

    Slots of a lease that ended, or whose process was killed, may have been taken by nobody: they contribute zero.
    """
    by_batch: dict[int, list[tuple[Shopper, str]]] = defaultdict(list)
    for shopper, name in itertools.chain.from_iterable(((each, name) for name in each.offers) for each in who):
        ticket = tickets[name]
        if ticket is not None:
            by_batch[ticket.batch].append((shopper, name))
    compared = differ = 0
    certain = all(shopper.visits == len(shopper.offers) for shopper in who)  # then other slots are known to be empty
    for number, row in released.items():
        visits = by_batch[number]
        doubt = len(visits) < row["size"] and not certain
        if doubt or any(name not in shopper.chosen for shopper, name in visits):
            continue  # somebody was still waiting for an acknowledgement when the test ended
        compared += 1
        mine = _score(number, row, visits)
        differ += not np.allclose(learning.unpacked(row["score"], -1), mine, rtol=1e-9, atol=1e-9)
    return compared, differ


def _score(number: int, row: learning.Row, visits: Sequence[tuple[Shopper, str]]) -> Any:
    record = record_from(learning.from_row(row))
    nothing = np.zeros((1, *record.coordinates.shape))  # what was expected does not enter a contribution
    frozen = OpenBatch(number, record.size, record.theta, record.coordinates, record.scales, nothing, record.spread)
    dense = feature_map("concat").dense
    rows, chosen = [], []
    for shopper, name in visits:
        shown, item = shopper.offers[name].items, shopper.chosen[name]
        rows.append(dense(np.array(shopper.visitors[name]), np.array([FEATURES[each] for each in shown])))
        chosen.append(-1 if item is None else shown.index(item))
    return sum_of(rows, chosen, frozen, row["grid"])[: record.score.size]
