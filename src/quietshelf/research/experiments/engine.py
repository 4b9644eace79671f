"""Units -> rows in the store, by local processes or a Dask cluster, with identical rows."""

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
    """Run the pending units, writing each as soon as it is finished."""
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
        """Each unit with its rows, in order of completion."""
        # Always another process, even for a single worker, so that linear algebra runs on one thread everywhere: its
        # last bits may depend on that.
        for place, done in in_processes(run_unit, units, min(self._workers, _room(units)), report):
            yield units[place], done


def _room(units: list[Unit]) -> int:
    """How many units fit into free memory side by side: at least one; all if the system does not tell."""
    if "SC_AVPHYS_PAGES" not in getattr(os, "sysconf_names", ()):
        return len(units)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, free // max([1, *(unit.memory for unit in units)]))


class Cluster:
    """An existing Dask cluster whose workers have the same quietshelf. Dask redoes the work of a dead worker."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __call__(self, units: list[Unit], report: Callable[[int], None]) -> Iterator[tuple[Unit, Done]]:
        """Each unit with its rows, in order of completion."""
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
