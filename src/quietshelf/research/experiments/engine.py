"""Units -> rows in the store: over local processes, or an existing Dask cluster. The same rows either way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from quietshelf.model.types import integer
from quietshelf.research.experiments.store import RowStore
from quietshelf.research.experiments.units import Done, Unit, run_unit
from quietshelf.research.loop.executors import connected, distributed
from quietshelf.research.loop.parallel import Progress, in_processes

Engine = Callable[[list[Unit], Callable[[int], None]], Iterator[tuple[Unit, Done]]]


def run_study(store: RowStore, engine: Engine, progress: Progress | None = None) -> None:
    """Do what is not done yet, writing each unit as soon as it is finished."""
    pending = store.pending
    total = sum(unit.work for unit in pending)

    def report(done: int) -> None:
        if progress is not None:
            progress(done, total)

    report(0)
    for unit, rows in engine(pending, report):
        store.write(unit, rows)
    report(total)


class Local:
    """Processes on this machine, one per core unless told otherwise."""

    def __init__(self, workers: int | None = None) -> None:
        self._workers = integer("workers", workers or os.cpu_count() or 1)

    def __call__(self, units: list[Unit], report: Callable[[int], None]) -> Iterator[tuple[Unit, Done]]:
        """Each unit with its rows, in the order in which they are finished."""
        # Always another process, even if only one, so that the linear algebra runs on one thread everywhere: its last
        # bits may depend on that.
        for place, done in in_processes(run_unit, units, min(self._workers, _room(units)), report):
            yield units[place], done


def _room(units: list[Unit]) -> int:
    """How many units fit into memory side by side; at least one is always tried, and all where no system says."""
    if "SC_AVPHYS_PAGES" not in getattr(os, "sysconf_names", ()):
        return len(units)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, free // max([1, *(unit.memory for unit in units)]))


class Cluster:
    """An existing Dask cluster; its workers need the same quietshelf. Work of a worker that dies is done by another."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __call__(self, units: list[Unit], report: Callable[[int], None]) -> Iterator[tuple[Unit, Done]]:
        """Each unit with its rows, in the order in which they are finished."""
        done = 0
        with connected(self._address) as client:
            futures = {client.submit(_alone, unit, pure=False, key=f"quietshelf-{unit.name}"): unit for unit in units}
            for future in distributed().as_completed(list(futures), loop=client.loop):
                unit = futures.pop(future)
                yield unit, future.result()
                done += unit.work
                report(done)


def _alone(unit: Unit) -> Done:
    return run_unit(unit, lambda _: None)
