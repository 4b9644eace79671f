"""Work over processes, with one progress report for all of it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import get_context
from time import monotonic
from typing import TypeVar

T = TypeVar("T")
Part = TypeVar("Part")
Progress = Callable[[int, int], None]
Job = Callable[[range, Callable[[int], None]], T]

WORKER = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
    "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
}
"""The environment of a worker. One thread: the cores are taken by processes, and the last bits of linear algebra may
depend on it. The GNU allocator keeps what is freed: arrays of a megabyte come and go ten thousand times per second."""
INTERVAL = 0.25
"""Seconds between two reports, at least."""
STOP = -1
"""The place on the board that tells all parts to stop; the others hold the rounds that each has done."""


class Throttled:
    """A progress report that is not called too often."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._last = progress, total, monotonic()

    def __call__(self, done: int) -> None:
        """Report, unless it has just been done."""
        if self._progress is not None and monotonic() - self._last >= INTERVAL:
            self._last = monotonic()
            self._progress(done, self._total)

    def finish(self) -> None:
        """Report that all is done."""
        if self._progress is not None:
            self._progress(self._total, self._total)


def spread(job: Job[T], groups: list[range], report: Throttled) -> list[T]:
    """Do the job for each group, each in a process of its own if there are several; answers in the groups' order."""
    if len(groups) == 1:
        return [job(groups[0], report)]
    _check_picklable(job)
    answers = dict(in_processes(job, groups, len(groups), report))
    return [answers[place] for place in range(len(groups))]


def in_processes(
    job: Callable[[Part, Callable[[int], None]], T],
    parts: Sequence[Part],
    workers: int,
    report: Callable[[int], None],
) -> Iterator[tuple[int, T]]:
    """Do the job for each part, in other processes even if only in one; places and answers in the order of finishing.

    Args:
        job: Given a part, and what it calls with how much of it is done.
        parts: What there is to do, the longest first.
        workers: Processes, at most one per part.
        report: Called with how much of all parts is done.
    """
    if not parts:
        return
    # Spawned, not forked: a fork copies locks that other threads may hold.
    context = get_context("spawn")
    board = context.RawArray("q", len(parts) + 1)
    many = min(workers, len(parts))
    with worker_environment(), ProcessPoolExecutor(many, context, _share, (board,)) as pool:
        places = {pool.submit(_work, job, place, part): place for place, part in enumerate(parts)}
        waiting = set(places)
        try:
            while waiting:
                finished, waiting = wait(waiting, timeout=INTERVAL, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield places[future], future.result()
                report(sum(board[:STOP]))
        except BaseException:
            board[STOP] = 1
            pool.shutdown(cancel_futures=True)  # waited for: at exit Python would wake what is closing
            raise


@contextmanager
def worker_environment() -> Iterator[None]:
    """What is spawned meanwhile is a worker."""
    before = {name: os.environ.get(name) for name in WORKER}
    os.environ.update(WORKER)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _check_picklable(job: Job[T]) -> None:
    try:
        pickle.dumps(job)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            "with workers > 1 world and contestants must be picklable, made of module-level functions and classes, "
            f"got {error}"
        ) from error


_board: MutableSequence[int] = []


def _share(board: MutableSequence[int]) -> None:
    """Give a worker the board."""
    global _board
    _board = board


def _work(job: Callable[[Part, Callable[[int], None]], T], place: int, part: Part) -> T:
    """Do one part of the work, noting on the board how far it is; it stops when the board says so."""

    def tick(rounds: int) -> None:
        _board[place] = rounds
        if _board[STOP]:
            raise RuntimeError("stopped, because the work was interrupted or another part of it failed")

    return job(part, tick)
