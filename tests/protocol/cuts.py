"""Where a machine stops: at a durable step of a release, or of a group of writes."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection

from quietshelf.serving.service.service import Service
from quietshelf.serving.service.writer import AGAIN, Writer

TURNS = 300


class Stopped(BaseException):
    """The machine stops here: no handler of the service may catch it."""


def cut_notes(service: Service, *, committed: bool) -> None:
    """Stop once a release is announced in the epoch file, or once it is committed and would be noted there."""
    note: Callable[..., None] = service.vault.note

    def cut(content: Any) -> None:
        if committed and _announced(service):
            raise Stopped
        note(content)
        if not committed and _announced(service):
            raise Stopped

    service.vault.note = cut  # type: ignore[method-assign]


def count_arrivals(service: Service) -> list[Any]:
    """The replies to arrivals that this machine has taken, as it takes them; from its first request on."""
    place, taken = service.writing.place, list[Any]()

    def noted(connection: Connection, requests: Any) -> list[Any]:
        replies = place(connection, requests)
        taken.extend(reply for reply in replies if reply is not AGAIN)
        return replies

    service.writing.place = noted  # type: ignore[method-assign]
    return taken


def cut_writes(service: Service, taken: list[Any], waiting: Callable[[], int], *, after: bool) -> None:
    """Stop in the first transaction that takes arrivals, before its commit, or after the one that takes the last.

    Args:
        service: The machine.
        taken: What it has taken since it was last asked to write.
        waiting: How many arrivals it had received by then.
        after: Whether to stop after the commit.
    """
    store, write = service.store, service.store.write

    @contextlib.contextmanager
    def cut() -> Iterator[Connection]:
        before = len(taken)
        with write() as connection:
            yield connection
            if len(taken) > before and not after:
                raise Stopped
        if len(taken) > before and len(taken) >= waiting():  # never in a write of answers alone: it may be the target's
            raise Stopped

    store.write = cut  # type: ignore[method-assign]


def limit_turns(writer: Writer) -> None:
    """A worker that turns round and round waits for a release that nobody makes: those behind it wait for good."""
    turns, chore = itertools.count(), Writer._chore

    def counted() -> float:
        assert next(turns) < TURNS, "a worker waits for a release that waits for it"
        return chore(writer)

    writer._chore = counted  # type: ignore[method-assign]


def _announced(service: Service) -> list[int]:
    return [batch for mark in service.vault.epoch.get("shelves", {}).values() for batch in mark["announced"]]
