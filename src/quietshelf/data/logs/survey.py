"""The first pass over a log in partitions: check every rule, that rounds are distinct, and find first rounds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from quietshelf.data.logs.collinear import root_of
from quietshelf.data.logs.encoded import encoded
from quietshelf.data.logs.layout import renamed
from quietshelf.data.logs.partitioned import Executor, PartitionedLog, Report, serial, watched
from quietshelf.data.logs.partitions import Batch, Form, Partition, batches
from quietshelf.data.logs.reading import BadLog, as_numbers, checked
from quietshelf.data.logs.searches import EncodedRounds
from quietshelf.data.logs.spill import Spill
from quietshelf.model.types import FloatArray, IntArray, require

TOGETHER = "the rows of a round must be together in one file, or a worker would miss some: sort the log by round"


class Found(NamedTuple):
    """The survey of one partition.

    Attributes:
        rounds: Number of rounds.
        ids: Their ids, a pyarrow array; None if there are none.
        persons: Distinct person ids; None if the log has none.
        places: The first round of each person here.
        names: Names of visitor and item features.
        largest: The largest absolute entry of x.
        root: R of all rows shown; None if not needed.
    """

    rounds: int = 0
    ids: Any = None
    persons: Any = None
    places: IntArray | None = None
    names: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    largest: float = 0.0
    root: FloatArray | None = None


def survey(
    parts: Sequence[Partition], form: Form, *, exact: bool, executor: Executor = serial, report: Report | None = None
) -> PartitionedLog:
    """Check a log and prepare it for an exact or a private fit.

    An exact fit counts every round. A private one counts the first round of each person if the log has person ids:
    first in the order of files and rows, which depends on that person's own rounds only.
    """
    parts = [part._replace(counted=None) for part in parts]
    most, counts, some, root, largest = sum(part.rows for part in parts), list[int](), Found(), None, 0.0
    with Spill(most) as rounds, Spill(most) as persons:
        job = partial(survey_of, form=form, exact=exact)
        for number, found in enumerate(watched(executor, job, parts, report)):
            counts.append(found.rounds)
            if found.rounds == 0:
                continue
            some, largest = found, max(largest, found.largest)
            root = found.root if root is None or found.root is None else _joined(root, found.root)
            rounds.add(found.ids, partition=number, place=np.arange(found.rounds))
            if found.persons is not None and found.places is not None:
                persons.add(found.persons, partition=number, place=found.places)
        require(sum(counts) > 0, "a log must have rows", rows=0)
        _refuse_split_rounds(rounds, parts)
        if some.persons is not None and not exact:
            parts, counts = _first_of_each(persons, parts, counts)
    visitor_names, item_names = some.names
    return PartitionedLog(
        partitions=tuple(parts),
        form=form,
        visitor_names=visitor_names,
        item_names=item_names,
        rounds=sum(counts),
        persons=some.persons is not None,
        largest=largest,
        root=root,
        executor=executor,
        report=report,
    )


def survey_of(partition: Partition, *, form: Form, exact: bool) -> Found:
    """Check one partition and summarise it; values are summarised for an exact fit only."""
    import pyarrow as pa

    ids, persons, found = list[Any](), list[Any](), Found()
    for batch in batches(partition, form.layout):
        table = _numbers(batch, partition, form)
        if not ids:
            one = form.log(table.iloc[:1])
            found = found._replace(names=(one.visitor_names, one.item_names))
        ids.append(_ids(batch, "round", form))
        persons.append(_ids(batch, "person", form))
        if exact:
            found = _with_values(found, encoded(form.log(table), form.feature_map).rounds)
    if not ids:
        return found
    if persons[0] is not None:
        people, places = _each_once(pa.concat_arrays(persons))
        found = found._replace(persons=people, places=places)
    everyone = pa.concat_arrays(ids)
    return found._replace(rounds=len(everyone), ids=everyone)


def _numbers(batch: Batch, partition: Partition, form: Form) -> Any:
    """A batch as a valid table of numbers; an error names the file and the row."""
    frame = renamed(batch.table.to_pandas(use_threads=False), form.layout)
    try:
        table = as_numbers(frame, form.schema, visitors=form.visitors, before=batch.before)
        return checked(table, before=batch.before)
    except ValueError as error:
        raise BadLog(f"{partition.path}: {error}") from None


def _ids(batch: Batch, name: str, form: Form) -> Any:
    """The round or person id of each round in a batch; None if there is no such column."""
    import pyarrow as pa

    theirs = form.layout.columns.get(name, name)
    if theirs not in batch.table.column_names:
        return None
    column = batch.table[theirs].take(pa.array(batch.starts))
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return column.cast(kind if pa.types.is_integer(kind) else pa.large_string()).combine_chunks()


def _each_once(persons: Any) -> tuple[Any, IntArray]:
    import pyarrow as pa

    places = np.flatnonzero(~persons.to_pandas().duplicated().to_numpy())
    return persons.take(pa.array(places)), places


def _with_values(found: Found, rounds: EncodedRounds) -> Found:
    """Add what an exact fit needs to know about x; a private fit must not look."""
    largest = max(found.largest, float(np.abs(rounds.features).max(initial=0.0)))
    return found._replace(largest=largest, root=root_of(rounds, after=found.root))


def _joined(root: FloatArray, other: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.qr(np.concatenate([root, other])).R)


def _refuse_split_rounds(ids: Spill, parts: Sequence[Partition]) -> None:
    for bucket in ids:
        again = np.flatnonzero(bucket["id"].duplicated().to_numpy())
        if again.size:
            twice = bucket["id"].iloc[again[0]]
            files = [parts[int(number)].path for number in bucket["partition"][bucket["id"] == twice]]
            require(False, TOGETHER, round=twice, files=sorted(set(files)))


def _first_of_each(persons: Spill, parts: Sequence[Partition], counts: list[int]) -> tuple[list[Partition], list[int]]:
    """Mark the first round of every person in the partitions; also return how many each has."""
    marks = [np.zeros((count + 7) // 8, dtype=np.uint8) for count in counts]
    for bucket in persons:
        first = bucket[~bucket["id"].duplicated()]  # equal ids are in partition order
        for number, places in first.groupby("partition")["place"]:
            place = places.to_numpy()
            np.bitwise_or.at(marks[number], place >> 3, (128 >> (place & 7)).astype(np.uint8))
    kept = [part._replace(counted=bits.tobytes()) for part, bits in zip(parts, marks, strict=True)]
    return kept, [int(np.bitwise_count(bits).sum()) for bits in marks]
