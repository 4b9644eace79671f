"""The first pass over a log in partitions: every rule of a log, rounds told apart, the first round of each person."""

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

TOGETHER = "the rows of a round must stand together in one file, or a worker would miss some: sort the log by round"


class Found(NamedTuple):
    """What one partition says of itself.

    Attributes:
        rounds: How many.
        ids: Their ids, an array of pyarrow; None if there are none.
        persons: The ids of those who came, each once; None if the log does not say.
        places: The first round of each of them here.
        names: Of visitor and of item features.
        largest: The largest entry of x in size.
        root: R of all rows shown; None if it was not asked for.
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
    """Check a log, and make it ready for an exact or for a private fit.

    An exact fit counts every round; a private one the first of each person, where the log says who came: the first in
    the order of files and rows, which only that person's own rounds decide.
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
    """Check one partition, and say what is in it; of the values in it, only for an exact fit."""
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
    """The table of a batch as numbers, if it keeps to every rule; otherwise the file is named beside the row."""
    frame = renamed(batch.table.to_pandas(use_threads=False), form.layout)
    try:
        table = as_numbers(frame, form.schema, visitors=form.visitors, before=batch.before)
        return checked(table, before=batch.before)
    except ValueError as error:
        raise BadLog(f"{partition.path}: {error}") from None


def _ids(batch: Batch, name: str, form: Form) -> Any:
    """The ids of the rounds of a batch, or of who came; None if there is no such column."""
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
    """What an exact fit needs to know of x; a private one would be looking at the log."""
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
    """The partitions with the first round of every person marked, and how many of them each has."""
    marks = [np.zeros((count + 7) // 8, dtype=np.uint8) for count in counts]
    for bucket in persons:
        first = bucket[~bucket["id"].duplicated()]  # equal ids stand in the order of their partitions
        for number, places in first.groupby("partition")["place"]:
            place = places.to_numpy()
            np.bitwise_or.at(marks[number], place >> 3, (128 >> (place & 7)).astype(np.uint8))
    kept = [part._replace(counted=bits.tobytes()) for part, bits in zip(parts, marks, strict=True)]
    return kept, [int(np.bitwise_count(bits).sum()) for bits in marks]
