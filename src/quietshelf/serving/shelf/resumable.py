"""`Shelf.save` and `Shelf.load` (format: `saved`), and who owns a shelf's unreleased batches."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from threading import RLock
from typing import NoReturn, Self

from quietshelf.curation.coins import Coins
from quietshelf.privacy.release.noise import DiscreteGaussian, NoiseSource
from quietshelf.serving.shelf import saved
from quietshelf.serving.shelf.errors import OpenBatchDropped
from quietshelf.serving.shelf.saved import OwnerChanged, ResumeToken
from quietshelf.serving.shelf.state import State


class Resumable:
    """A shelf that can be saved to a file and resumed from it once."""

    def _start(self, state: State, source: NoiseSource | None = None, coins: Coins | None = None) -> None:
        self._state = state
        self._source: NoiseSource = DiscreteGaussian() if source is None else source
        self._coins = coins or Coins.derived(state.persons.key)
        self._lock = RLock()
        self._token: ResumeToken | None = None
        self._process = os.getpid()
        if any(slots.batch.grid != self._source.grid for slots in state.slots):
            self._drop("they were rounded to another grid than the noise is drawn on")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the shelf to one file, atomically, with the person key in a second file. You may keep using it.

        Only their owner can read the files: until a batch is released, they hold its visitors' raw features and the
        exact sums of their answers. Protect them, and every backup of them, like that data.
        """
        with self._lock:
            try:
                self._token = saved.write(Path(path), self._state, own=self._still_own)
            except OwnerChanged:  # what was written held batches that another shelf owns
                self._token = saved.write(Path(path), self._state, own=self._still_own)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a shelf cannot be copied: two copies would release the same visitors twice; save and load it")

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: str = "cpu") -> Self:
        """Load a shelf from a file. The first load resumes its open batches; no other can.

        A second load, a copy, a moved file, or a save that the shelf has continued from drops them with a warning
        (`OpenBatchDropped`), because the same visitors could otherwise be released twice. Dropping costs no privacy.
        Such a shelf does not know what was released or who was counted after the save, so from then on its promise is
        to each visit. A snapshot of the whole disk looks like the original: never load one while the original is used
        or after it was used again.
        """
        shelf = cls._loaded(path)
        shelf._state.stock = shelf._state.stock.on(device)
        return shelf

    @classmethod
    def _loaded(cls, path: str | os.PathLike[str], source: NoiseSource | None = None) -> Self:
        state, resumed, left_out = saved.read(Path(path))
        shelf = cls.__new__(cls)
        shelf._start(state, source)
        if not resumed:
            state.history_incomplete = True
            shelf._drop("this file is a copy, was loaded before, or the shelf went on after saving it", left_out)
        elif left_out:
            shelf._drop("this version bounds or rounds what a visitor contributes in another way", left_out)
        return shelf

    def _still_own(self) -> None:
        if not self._own():
            raise OwnerChanged

    def _own(self) -> bool:
        """Before anything public changes: make sure that nobody else has, or may resume, the unreleased batches.

        Returns False if somebody may; then they were dropped.
        """
        before = self._state.history_incomplete
        if self._process != os.getpid():  # a forked copy: the parent keeps the same visitors
            self._process, self._token, self._state.history_incomplete = os.getpid(), None, True
            self._drop("they belong to the process that this one was forked from")
        if self._token is not None and not self._token.take():
            self._state.history_incomplete = True
            self._drop("they were resumed from the last save")
        self._token = None
        return self._state.history_incomplete == before

    def _drop(self, why: str, before: int = 0) -> None:
        dropped = before + self._state.drop()
        if dropped:
            warnings.warn(
                f"{dropped} visitors who were not released yet are left out: {why}", OpenBatchDropped, stacklevel=4
            )
