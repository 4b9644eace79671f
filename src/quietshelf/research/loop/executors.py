"""Who works through a list of parts: processes on this machine, or a Dask cluster. The same answers either way.

Answers come in the order of the parts. Parts of a worker that dies are done again, a few times at most; jobs must
therefore be functions of their part alone, and randomness is none of their business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

from quietshelf.__about__ import __version__
from quietshelf.model.types import integer
from quietshelf.research.loop.parallel import worker_environment

Part = TypeVar("Part")
T = TypeVar("T")

DEATHS = 3
"""How often workers may die over the same parts before the work is given up: a part too large for memory kills all."""
AHEAD = 3
"""Parts per worker that are under way, or done and not yet asked for: few, so that answers do not pile up."""


class Processes:
    """Processes on this machine, kept from one job to the next; close it, or use it in a ``with``.

    Always other processes, even if only one, so that linear algebra runs on one thread everywhere: its last bits may
    depend on that.

    Args:
        workers: How many.
    """

    def __init__(self, workers: int) -> None:
        self._workers = integer("workers", workers)
        self._pool: ProcessPoolExecutor | None = None

    def __call__(self, job: Callable[[Part], T], parts: Sequence[Part], /) -> Iterator[T]:
        """The answers, in the order of the parts."""
        waiting: deque[tuple[Part, Future[T]]] = deque()
        left, deaths = iter(parts), 0
        while True:
            try:
                while len(waiting) < AHEAD * self._workers and (part := next(left, None)) is not None:
                    waiting.append((part, self._submit(job, part)))
                if not waiting:
                    return
                answer = waiting[0][1].result()
            except BrokenProcessPool:
                deaths += 1
                if deaths > DEATHS:
                    raise RuntimeError(f"a worker died over each of {deaths} attempts at {waiting[0][0]!r}") from None
                self.close()
                waiting = deque((part, self._again(job, part, future)) for part, future in waiting)
                continue
            deaths = 0
            waiting.popleft()
            yield answer

    def close(self) -> None:
        """End the processes, without waiting for what they are at."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _submit(self, job: Callable[[Part], T], part: Part) -> Future[T]:
        with worker_environment():  # a process is started when there is work for it
            try:
                return self._opened().submit(job, part)
            except BrokenProcessPool:  # those who wait for an answer will hear of it
                self.close()
                return self._opened().submit(job, part)

    def _opened(self) -> ProcessPoolExecutor:
        if self._pool is None:
            # Spawned, not forked: a fork copies locks that other threads may hold.
            self._pool = ProcessPoolExecutor(self._workers, get_context("spawn"))
        return self._pool

    def _again(self, job: Callable[[Part], T], part: Part, future: Future[T]) -> Future[T]:
        """What is done stays done."""
        lost = not future.done() or future.cancelled() or isinstance(future.exception(), BrokenProcessPool)
        return self._submit(job, part) if lost else future


class Cluster:
    """An existing Dask cluster, whose workers have the same quietshelf and see the same files; made by `connected`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __call__(self, job: Callable[[Part], T], parts: Sequence[Part], /) -> Iterator[T]:
        """The answers, in the order of the parts; those of a worker that dies are Dask's to have done again."""
        waiting: deque[Any] = deque()
        left = iter(parts)
        while True:
            ahead = AHEAD * max(1, sum(self._client.nthreads().values()))
            while len(waiting) < ahead and (part := next(left, None)) is not None:
                waiting.append(self._client.submit(job, part, pure=False))
            if not waiting:
                return
            yield waiting.popleft().result()


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the Dask scheduler at this address, all of whose workers have this version."""
    with distributed().Client(address, set_as_default=False) as client:
        found = set(client.run(_version).values())
        if found - {__version__}:
            raise ValueError(f"all workers must have quietshelf {__version__}, got {', '.join(sorted(found))}")
        yield client


def distributed() -> Any:
    """Dask's module, or a message that says how to get it."""
    try:
        import distributed as module
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("a cluster needs dask.distributed: pip install '.[scale]' in a checkout") from error
    return module


def _version() -> str:
    return __version__
