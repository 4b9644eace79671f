"""Compare the ids of a log larger than memory exactly, through buckets on disk that each fit into memory.

The bucket is a hash of the id, so equal ids share one; within it the ids themselves are compared. Only one bucket is in
memory at a time. On disk a round takes its id and twelve bytes, in a temporary folder that only its owner can read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

import numpy as np

from quietshelf.data.logs.files import pandas
from quietshelf.model.types import IntArray

BUCKET = 1 << 20
"""Approximate ids per bucket: a few hundred megabytes at most."""


class Spill:
    """Collects ids with their places, in the order they are added.

    >>> import pyarrow as pa
    >>> with Spill(3) as spill:
    ...     spill.add(pa.array(["ann", "bob"]), partition=0, place=np.array([0, 1]))
    ...     spill.add(pa.array(["ann"]), partition=1, place=np.array([5]))
    ...     [bucket.to_dict("list") for bucket in spill]
    [{'id': ['ann', 'bob', 'ann'], 'partition': [0, 0, 1], 'place': [0, 1, 5]}]

    Args:
        most: The largest possible number of ids.
    """

    def __init__(self, most: int) -> None:
        self._buckets, self._kept = 1 + most // BUCKET, ExitStack()
        self._folder = Path(self._kept.enter_context(TemporaryDirectory(prefix="quietshelf-")))
        self._writers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for writer in self._writers.values():
            writer.close()
        self._kept.close()

    def add(self, ids: Any, *, partition: int, place: IntArray) -> None:
        """Add ids of a partition, a pyarrow array, with the place of each in it."""
        import pyarrow as pa

        which = np.full(len(ids), partition, dtype=np.int32)
        batch = pa.RecordBatch.from_arrays([ids, pa.array(which), pa.array(place)], ["id", "partition", "place"])
        if self._buckets == 1:
            self._writer(0, batch.schema).write_batch(batch)
            return
        bucket = pandas().util.hash_array(ids.to_numpy(zero_copy_only=False)) % np.uint64(self._buckets)
        order = np.argsort(bucket, kind="stable")
        ends = np.searchsorted(bucket[order], np.arange(self._buckets + 1, dtype=np.uint64))
        sorted_batch = batch.take(pa.array(order))
        for number in np.flatnonzero(np.diff(ends)).tolist():
            part = sorted_batch.slice(ends[number], ends[number + 1] - ends[number])
            self._writer(number, batch.schema).write_batch(part)

    def __iter__(self) -> Iterator[Any]:
        """Each bucket as a data frame: all places of its ids."""
        import pyarrow as pa

        for number, writer in sorted(self._writers.items()):
            writer.close()
            with pa.OSFile(str(self._path(number))) as source, pa.ipc.open_stream(source) as stream:
                yield stream.read_all().to_pandas()

    def _writer(self, number: int, schema: Any) -> Any:
        import pyarrow as pa

        if number not in self._writers:
            self._writers[number] = pa.ipc.new_stream(str(self._path(number)), schema)
        return self._writers[number]

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.arrow"
