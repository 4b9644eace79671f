"""Threads beside the writer's: one for what takes long, which writes nothing, and one for what releases write.

On the first batches are added up, noise is drawn, estimates are made. Tasks are cut in steps, and before each the most
urgent one is chosen: a small batch does not wait for a large one. What is written, or compared, for a release takes a
few round trips to the disk and the database: on a thread of its own (`Beside`), so that visitors wait for none of them.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

from quietshelf.serving.service import logs

YIELDS = 0.5
"""How long the thread rests after a step, as a part of the processor time that it took: visitors come first.

Not of the time that it waited: a busy database is no reason to be late."""
LONGEST_REST = 0.02


class Task:
    """Something to do; ``rank``: the lowest is done first."""

    def __init__(self, rank: tuple[int, float]) -> None:
        self.rank = rank
        self.done = False
        self.error: Exception | None = None

    def step(self) -> bool:
        """Do some of it; whether there is more to do."""
        raise NotImplementedError

    def run(self) -> bool:
        """A step, whatever comes of it; whether there is more to do."""
        try:
            more = self.step()
        except Exception as error:  # told to whoever asks for what it found
            self.error, more = error, False
        self.done = not more
        return more


class Once(Task):
    """A call that cannot be cut, and goes before everything that can; ``found`` is what it answered."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__(rank=(0, 0.0))
        self._call = call
        self.found: Any = None

    def step(self) -> bool:
        """All of it."""
        self.found = self._call()
        return False


class Work:
    """The thread, and what it has to do; ``wake`` is called whenever a task is done.

    Before `start` and after `stop` a task is done at once, by whoever asks for it.
    """

    def __init__(self, wake: Callable[[], None], name: str = "quietshelf-work") -> None:
        self._wake, self._name = wake, name
        self._tasks: list[Task] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the step that is being done, and end; what is left is done by nobody."""
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
        """Do this, too."""
        if self._thread is None:
            while task.run():
                pass
            return
        with self._changed:
            self._tasks.append(task)
            self._changed.notify()

    def forget(self, task: Task) -> None:
        """Nobody needs this any longer."""
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
    """Chores that wait for the disk, one after the other in the order in which they are asked for, on another thread.

    Asked for and settled by one thread, the writer's. Before `start` and after `stop` each is done at once.

    Attributes:
        failing: Names of chores that failed the last time.
        tried: When the first that failed since this was infinite was asked for, by ``clock``.
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
        """Whether this chore was asked for and is not settled."""
        return name in self._asked

    def ask(self, name: str, call: Callable[[], Any], then: Callable[[Any], None] = lambda _: None) -> None:
        """Do this, unless it is under way; ``then`` is told what it answered by the thread that asks."""
        if name not in self._asked:
            task = Once(call)
            self._asked[name] = task, then, self._clock()
            self._work.ask(task)
            if task.done:
                self.settle()

    def settle(self) -> None:
        """Deal with all that is done; raises what one of them failed with."""
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
