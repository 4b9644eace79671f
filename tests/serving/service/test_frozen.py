"""What a batch froze is read once, and forgotten with a transaction that was undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from tests.serving.service.harness import FIRST, FakeClock
from tests.serving.service.machines import machine, shop, visitors

from quietshelf.curation.batches import Batch
from quietshelf.curation.fields import batch_from
from quietshelf.serving.service.database import schema
from quietshelf.serving.service.database.frozen import MOVING, FrozenBatches
from quietshelf.serving.service.database.learning import from_row
from quietshelf.serving.service.service import Service


@pytest.fixture
def service(database: str, tmp_path: Path) -> Iterator[Service]:
    """A shop whose first batch is open."""
    made = machine(database, tmp_path / "secrets", FakeClock())
    made.prepare()
    shop(made)
    visitors(made, FIRST - 1)
    yield made
    made.store.close()


def found(service: Service, known: FrozenBatches) -> tuple[Batch, dict[str, Any]]:
    """The open batch as the writer reads it, and its whole row."""
    with service.store.read() as connection:
        row = dict(connection.execute(sa.select(schema.batches)).mappings().one())
        (batch,) = known.batches(connection, [{name: row[name] for name in MOVING}]).values()
    return batch, row


def changed(service: Service, **values: Any) -> None:
    """Change the batch as nobody ever would."""
    with service.store.write() as connection:
        connection.execute(sa.update(schema.batches).values(values))


def same(one: Batch, other: Batch) -> bool:
    """Whether all numbers and arrays of two batches are equal, to the last bit."""
    mine, theirs = (list[Any]([*each.frozen, *each[1:]]) for each in (one, other))
    return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in zip(mine, theirs, strict=True))


def test_a_batch_is_as_its_row_says(service: Service) -> None:
    """Read for the first time, and from what is known; nobody can write to what is shared."""
    known = FrozenBatches()
    first, row = found(service, known)
    known.settled(True)
    again, _ = found(service, known)
    whole = batch_from(from_row(row))
    assert same(first, whole)
    assert same(again, whole)
    assert not again.frozen.theta.flags.writeable


def test_arrays_are_read_once_and_what_moves_each_time(service: Service) -> None:
    """A taken slot is seen at once; the arrays of a committed transaction are never asked for again."""
    known = FrozenBatches()
    before, _ = found(service, known)
    known.settled(True)
    changed(service, taken=before.taken + 1, theta=np.ones_like(before.frozen.theta).tobytes())
    after, _ = found(service, known)
    assert after.taken == before.taken + 1
    assert np.array_equal(after.frozen.theta, before.frozen.theta)


def test_what_a_transaction_read_that_was_undone_is_read_again(service: Service) -> None:
    """It may have opened the batch itself, which the next one opens otherwise."""
    known = FrozenBatches()
    before, _ = found(service, known)
    known.settled(False)
    changed(service, theta=np.ones_like(before.frozen.theta).tobytes())
    after, _ = found(service, known)
    assert (after.frozen.theta == 1.0).all()


def test_a_number_that_is_opened_again_is_another_batch(service: Service) -> None:
    """A lost commit sets a number free; what it froze then is not what the next batch of that number freezes."""
    known = FrozenBatches()
    before, row = found(service, known)
    known.settled(True)
    changed(service, theta=np.ones_like(before.frozen.theta).tobytes(), opened_at=row["opened_at"] + 1.0)
    after, _ = found(service, known)
    assert (after.frozen.theta == 1.0).all()


def test_a_batch_that_is_gone_between_two_statements_is_not_there(service: Service) -> None:
    """Another process may have deleted it, or opened another of that number."""
    with service.store.read() as connection:
        row = dict(connection.execute(sa.select(schema.batches)).mappings().one())
    with service.store.write() as connection:
        assert FrozenBatches().batches(connection, [{**row, "opened_at": row["opened_at"] - 1.0}]) == {}
        connection.execute(sa.delete(schema.batches))
        assert FrozenBatches().batches(connection, [row]) == {}


def test_no_more_is_kept_than_fits(service: Service) -> None:
    """What was used last stays."""
    small = FrozenBatches(most=0)
    found(service, small)
    small.settled(True)
    before, _ = found(service, small)
    small.settled(True)
    changed(service, theta=np.ones_like(before.frozen.theta).tobytes())
    after, _ = found(service, small)
    assert (after.frozen.theta == 1.0).all()
