"""The writer: one thread that writes many requests per transaction, and answers each once it is durable.

Between transactions it runs the chores that are due.
"""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.exc import InterfaceError, OperationalError

from quietshelf.serving.service import logs
from quietshelf.serving.service.database.store import Store
from quietshelf.serving.service.problems import Failure, Problem, Unavailable

Operation = Callable[[Connection, Sequence[Any]], Sequence[Any]]
"""Turns payloads into answers, one each. A `Problem` as an answer means that nothing was changed."""
WAITING = 8192
"""Most requests of a kind waiting to be written. More are refused at once rather than too late."""
PAUSE = 1e-3
"""Seconds before an operation is repeated."""
Chores = Callable[[], float]
"""Does what is due; returns the seconds until there may be more."""
Settled = Callable[[bool, Sequence[Any]], None]
"""Called after each transaction: whether it was committed (False if unknown), and the payloads now answered."""
AGAIN: Final = object()
"""Not an answer: the operation must be repeated after the chores."""


WAKE: Final = object()
"""Queued to run the chores soon."""


class Contended(Exception):  # noqa: N818 - nothing is wrong: repeat
    """Another process changed what a transaction relies on. It is rolled back, and its operations are repeated."""


def end_process() -> None:
    """Ask this process to end, so that its supervisor starts another."""
    os.kill(os.getpid(), signal.SIGTERM)


@dataclass
class Job:
    """A queued write of one request."""

    operation: Operation
    payload: Any
    loop: asyncio.AbstractEventLoop
    reply: Callable[[Any], None]
    answer: Any = field(default=None)


class Writer:
    """The thread, and the queue that feeds it."""

    def __init__(
        self,
        store: Store,
        chores: Chores,
        *,
        group_limit: int,
        settled: Settled = lambda *_: None,
        died: Callable[[], None] = end_process,
    ) -> None:
        self._store, self._chores, self._limit, self._settled = store, chores, group_limit, settled
        self._died = died
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._asked: Counter[Operation] = Counter()  # written by the event loop alone
        self._taken: Counter[Operation] = Counter()  # written by the thread alone
        self._thread = threading.Thread(target=self._live, name="quietshelf-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is queued, then stop."""
        self._queue.put(None)
        self._thread.join()

    async def submit(self, operation: Operation, payload: Any) -> Any:
        """The operation's answer to this payload, once it is durable; raises a `Problem`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self.ask(operation, payload, loop, partial(_resolve, future))
        answer = await future
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask(
        self, operation: Operation, payload: Any, loop: asyncio.AbstractEventLoop, reply: Callable[[Any], None]
    ) -> None:
        """Queue a write; ``reply`` is called with the answer, which may be a `Problem`, once it is durable."""
        if self._asked[operation] - self._taken[operation] >= WAITING:  # a flood of answers costs no offers
            raise Unavailable("too many requests are waiting to be written; try again")
        receipt = getattr(payload, "receipt", None)
        if receipt is not None:
            receipt.queued = True
        self._asked[operation] += 1
        self._queue.put(Job(operation, payload, loop, reply))

    def wake(self) -> None:
        """Run the chores soon."""
        self._queue.put(WAKE)

    @property
    def alive(self) -> bool:
        """Whether the thread is running."""
        return self._thread.is_alive()

    def _live(self) -> None:
        """Run until stopped. Without this thread the process would refuse everything, so it ends if the thread dies."""
        try:
            self._run()
        except BaseException as error:
            logs.failed("writer", error)
            self._died()

    def _run(self) -> None:
        wait, running = 0.0, True
        again: list[Job] = []
        while running or again:
            jobs, more = self._take(wait, again)
            running = running and more
            wait, again = self._chore(), []
            for group in self._groups(jobs):
                self._commit(group)
                again += [job for job in group if job.answer is AGAIN]
                _reply([job for job in group if job.answer is not AGAIN])
                wait = PAUSE if again else 0.0

    def _take(self, wait: float, first: list[Job]) -> tuple[list[Job], bool]:
        """Jobs to repeat, then queued jobs, in order; and whether to continue after them."""
        jobs = list(first)
        try:
            job = self._queue.get(timeout=wait) if wait > 0 else self._queue.get_nowait()
            while job is not None:
                if job is not WAKE:
                    jobs.append(job)
                    self._taken[job.operation] += 1
                if job is WAKE or len(jobs) - len(first) >= self._limit:  # repeated jobs do not count against the limit
                    return jobs, True
                job = self._queue.get_nowait()
        except queue.Empty:
            return jobs, True
        return jobs, False

    def _groups(self, jobs: list[Job]) -> list[list[Job]]:
        """Group jobs into transactions: one on SQLite; on PostgreSQL offers and answers apart, to avoid deadlocks.

        Both lock shelves in order of their numbers, but the rows of a shelf in different orders.
        """
        if self._store.sqlite:
            return [jobs] if jobs else []
        groups: dict[Any, list[Job]] = {}
        for part, job in _parts(jobs):
            groups.setdefault((part, job.operation), []).append(job)
        return list(groups.values())

    def _chore(self) -> float:
        try:
            return max(self._chores(), 1e-3)
        except Exception as error:  # the thread must survive: the next round tries again
            logs.failed("chores", error)
            return 1.0

    def _commit(self, jobs: list[Job]) -> None:
        """Run one transaction. If a job fails it, each job gets its own, unless it may already be committed."""
        asked: list[bool] = []
        try:
            self._together(jobs, asked)
            self._settled(True, [job.payload for job in jobs if job.answer is not AGAIN])
        except Contended:
            self._settled(False, [])
            for job in jobs:
                job.answer = AGAIN
        except Exception as error:
            self._settled(False, [])
            shelves = _by_shelf(jobs) if not asked and _locked(error) else []
            if len(shelves) > 1:  # one of them is locked: the others need not wait for it
                for mine in shelves:
                    self._commit(mine)
                return
            away = bool(asked) or isinstance(error, (OperationalError, InterfaceError, OSError))
            if len(jobs) > 1 and not away:
                for job in jobs:
                    self._commit([job])
                return
            logs.failed("write", error)
            self._settled(False, [job.payload for job in jobs])
            for job in jobs:
                job.answer = Unavailable("the store cannot be written now; try again") if away else Failure()

    def _together(self, jobs: list[Job], asked: list[bool]) -> None:
        groups: dict[tuple[int, Operation], list[Job]] = {}
        for part, job in _parts(jobs):
            groups.setdefault((part, job.operation), []).append(job)
        found: list[tuple[Job, Any]] = []
        with self._store.write() as connection:
            for (_, operation), mine in groups.items():
                answers = operation(connection, [job.payload for job in mine])
                found += zip(mine, answers, strict=True)
            asked.append(True)  # from here on it may be committed even if we never learn so
        for job, answer in found:
            job.answer = answer


def _parts(jobs: list[Job]) -> Iterator[tuple[int, Job]]:
    """Split jobs into parts that must stay in order: a change by the shop precedes everything sent after it.

    Within a part, offers are taken together and so are answers, since their order does not matter.
    """
    part = 0
    for job in jobs:
        alone = callable(job.payload)
        part += alone
        yield part, job
        part += alone


def _by_shelf(jobs: list[Job]) -> list[list[Job]]:
    shelves: dict[Any, list[Job]] = {}
    for job in jobs:
        shelves.setdefault(getattr(job.payload, "shelf", None), []).append(job)
    return list(shelves.values())


def _locked(error: Exception) -> bool:
    """Whether PostgreSQL timed out waiting for a lock or found a deadlock, so that the store itself is fine."""
    return getattr(getattr(error, "orig", None), "sqlstate", None) in ("55P03", "40P01")


def _reply(jobs: list[Job]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[Job]] = {}
    for job in jobs:
        loops.setdefault(job.loop, []).append(job)
    for loop, mine in loops.items():
        try:
            loop.call_soon_threadsafe(_reply_all, mine)
        except RuntimeError:  # the loop has ended: nobody waits for the answers
            continue


def _reply_all(jobs: list[Job]) -> None:
    for job in jobs:
        try:
            job.reply(job.answer)
        except Exception as error:  # answer the others all the same
            logs.failed("reply", error)


def _resolve(future: asyncio.Future[Any], answer: Any) -> None:
    if not future.done():
        future.set_result(answer)


def problem_or(answer: Callable[[], Any]) -> Any:
    """A step's answer, or the problem that it raised before changing anything."""
    try:
        return answer()
    except Problem as problem:
        return problem
