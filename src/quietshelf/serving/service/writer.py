"""One thread that writes: many requests share one transaction, and each is answered after it is on the disk.

Between two groups the thread runs the chores that are due (releases above all), so that nothing else ever writes.
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
"""Payloads in, as many answers out; an answer may be a `Problem`, then it changed nothing."""
WAITING = 8192
"""Requests that may wait to be written; more are refused at once rather than late."""
PAUSE = 1e-3
"""Seconds before an operation is asked again."""
Chores = Callable[[], float]
"""Do what is due; the seconds until there may be more to do."""
Settled = Callable[[bool, Sequence[Any]], None]
"""Told after each transaction whether it was committed (if that is unknown, False), and which payloads are answered."""
AGAIN: Final = object()
"""An answer that is none: the operation is to be asked again, after the chores."""


WAKE: Final = object()
"""In the queue: the chores have something to do."""


class Contended(Exception):  # noqa: N818 - nothing is wrong: come again
    """Another process changed what a transaction rests on: it is undone, and its operations are asked again."""


def end_process() -> None:
    """Ask this process to end: whoever started it starts another."""
    os.kill(os.getpid(), signal.SIGTERM)


@dataclass
class Job:
    """One request's write."""

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
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what was asked for, then end."""
        self._queue.put(None)
        self._thread.join()

    async def submit(self, operation: Operation, payload: Any) -> Any:
        """The operation's answer to this payload, once it is durable; a `Problem` is raised."""
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
        """Let the writer write; ``reply`` is called with the answer, which may be a `Problem`, once it is durable."""
        if self._asked[operation] - self._taken[operation] >= WAITING:  # of its own kind: others' answers cost no offer
            raise Unavailable("too many requests are waiting to be written; try again")
        receipt = getattr(payload, "receipt", None)
        if receipt is not None:
            receipt.queued = True
        self._asked[operation] += 1
        self._queue.put(Job(operation, payload, loop, reply))

    def wake(self) -> None:
        """Let the chores run soon."""
        self._queue.put(WAKE)

    @property
    def alive(self) -> bool:
        """Whether what is asked for will be written."""
        return self._thread.is_alive()

    def _live(self) -> None:
        """Work until the end; without this thread a process would refuse everything and never recover."""
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
        """Those to be asked again, then what is in the queue, in order; whether to go on after them."""
        jobs = list(first)
        try:
            job = self._queue.get(timeout=wait) if wait > 0 else self._queue.get_nowait()
            while job is not None:
                if job is not WAKE:
                    jobs.append(job)
                    self._taken[job.operation] += 1
                if job is WAKE or len(jobs) - len(first) >= self._limit:  # who waits for a release keeps nobody out
                    return jobs, True
                job = self._queue.get_nowait()
        except queue.Empty:
            return jobs, True
        return jobs, False

    def _groups(self, jobs: list[Job]) -> list[list[Job]]:
        """What shares a transaction: all of it, or where others write too, offers or answers: no deadlocks.

        Both take shelves in the order of their numbers, and of a shelf its rows in an order of their own.
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
        except Exception as error:  # the thread must live on: the next round tries again
            logs.failed("chores", error)
            return 1.0

    def _commit(self, jobs: list[Job]) -> None:
        """One transaction; if a job spoils it, each gets one of its own, unless it may have been committed already."""
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
            if len(shelves) > 1:  # one of them is in somebody's hands: the others do not wait for it
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
            asked.append(True)  # from here on it may be committed even if we never hear of it
        for job, answer in found:
            job.answer = answer


def _parts(jobs: list[Job]) -> Iterator[tuple[int, Job]]:
    """Jobs by the part of the queue they are in: whatever the shop changes comes before all that was sent after it.

    Within a part offers are taken together, and answers: in which order does not matter to either.
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
    """Whether PostgreSQL would not wait longer for a lock, or found a deadlock: nothing is wrong with the store."""
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
        except Exception as error:  # the others are answered all the same
            logs.failed("reply", error)


def _resolve(future: asyncio.Future[Any], answer: Any) -> None:
    if not future.done():
        future.set_result(answer)


def problem_or(answer: Callable[[], Any]) -> Any:
    """What a step answers, or the problem it raised before it changed anything."""
    try:
        return answer()
    except Problem as problem:
        return problem
