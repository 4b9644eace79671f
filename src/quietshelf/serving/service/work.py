"""Two threads beside the writer's: one computes releases and writes nothing, the other does their database work.

The first (`Work`) sums batches, draws noise and fits estimates. Tasks are cut into steps, and before each step it picks
the most urgent task, so a small batch never waits for a large one. The second (`Beside`) makes the round trips to disk
and database that a release needs, so that visitors wait for none of them.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from quietshelf.serving.service import logs

YIELDS = 0.5
"""Rest after a step, as a fraction of the processor time it took: visitors come first.

Waiting does not count: a busy database must not delay releases."""
LONGEST_REST = 0.02


class Task:
    """A task made of steps; the lowest ``rank`` is done first."""

    def __init__(self, rank: tuple[int, float]) -> None:
        self.rank = rank
        self.done = False
        self.error: Exception | None = None

    def step(self) -> bool:
        """Do one step; whether there are more."""
        raise NotImplementedError

    def run(self) -> bool:
        """Do one step and keep any error; whether there are more steps."""
        try:
            more = self.step()
        except Exception as error:  # raised when the result is asked for
            self.error, more = error, False
        self.done = not more
        return more


class Once(Task):
    """A single call, which goes before everything that is cut into steps; ``found`` is its result."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(rank=(0, 0.0))
        self._call = call
        self.found: Any = None

    def step(self) -> bool:
        """Make the call."""
        self.found = self._call()
        return False


class Work:
    """A thread and its tasks; ``wake`` is called whenever a task is done.

    Before `start` and after `stop`, tasks run at once in the caller's thread.
    """

    def __init__(self, wake: Callable[[], None], name: str = "quietshelf-work") -> None:
        self._wake, self._name = wake, name
        self._tasks: list[Task] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current step, and drop the remaining tasks."""
        thread, self._thread = self._thread, None
        if thread is not None:
            with self._changed:
                self._tasks.clear()
                self._changed.notify()
            thread.join()

    @property
    def alive(self) -> bool:
        """Whether what is asked for will be done."""
        return self._thread is not None and self._thread.is_alive()

    def ask(self, task: Task) -> None:
        """Add a task."""
        if self._thread is None:
            while task.run():
                pass
            return
        with self._changed:
            self._tasks.append(task)
            self._changed.notify()

    def forget(self, task: Task) -> None:
        """Drop a task."""
        with self._changed:
            if task in self._tasks:
                self._tasks.remove(task)

    def _run(self) -> None:
        while self._thread is not None:
            with self._changed:
                if not self._tasks:
                    self._changed.wait()
                    continue
                task = min(self._tasks, key=lambda each: each.rank)
            began = time.thread_time()
            if not task.run():
                self.forget(task)
                self._told()
            time.sleep(min(LONGEST_REST, YIELDS * (time.thread_time() - began)))

    def _told(self) -> None:
        try:
            self._wake()
        except Exception as error:  # the thread must live on
            logs.failed("work", error)


class Beside:
    """Runs chores that wait for the disk in another thread, one after the other, in the order they were asked for.

    One thread, the writer's, asks for chores and settles them. Before `start` and after `stop` each runs at once.

    Attributes:
        failing: Names of chores whose last run failed.
        tried: When the earliest failed chore was asked for, by ``clock``; infinite if none failed since it was reset.
    """

    def __init__(self, wake: Callable[[], None], clock: Callable[[], float]) -> None:
        self._work, self._clock = Work(wake, "quietshelf-beside"), clock
        self._asked: dict[str, tuple[Once, Callable[[Any], None], float]] = {}
        self.failing: set[str] = set()
        self.tried = math.inf
        self.start, self.stop = self._work.start, self._work.stop

    @property
    def alive(self) -> bool:
        """Whether what is asked for will be done."""
        return self._work.alive

    def busy(self, name: str) -> bool:
        """Whether this chore is under way or not settled yet."""
        return name in self._asked

    def ask(self, name: str, call: Callable[[], Any], then: Callable[[Any], None] = lambda _: None) -> None:
        """Run a chore, unless it is under way; `settle` passes its result to ``then`` in the asking thread."""
        if name not in self._asked:
            task = Once(call)
            self._asked[name] = task, then, self._clock()
            self._work.ask(task)
            if task.done:
                self.settle()

    def settle(self) -> None:
        """Handle the results of finished chores; raises the error of a failed one."""
        error: Exception | None = None
        for name in [name for name, (task, _, _) in self._asked.items() if task.done]:
            task, then, asked = self._asked.pop(name)
            if task.error is None:
                self.failing.discard(name)
                then(task.found)
            else:
                self.failing.add(name)
                error, self.tried = task.error, min(asked, self.tried)
        if error is not None:
            raise error
