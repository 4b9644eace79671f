"""The curator that learns nothing: it always hands out the same public release."""

from __future__ import annotations

import sys

from quietshelf.model.types import Release, Round
from quietshelf.privacy.accounting import Ledger


class Constant:
    """Always the same release of public knowledge, such as none at all (`uniform`).

    Rounds are not read, so the release says nothing about any visitor: the ledger stays empty, rho = 0.
    """

    ledger = Ledger()

    def __init__(self, release: Release) -> None:
        self._release = release

    @property
    def release(self) -> Release:
        """The fixed release."""
        return self._release

    def observe(self, round: Round) -> Release:  # noqa: A002, ARG002 - the noun on the arrow; not read on purpose
        """The same release again."""
        return self._release

    @property
    def steady(self) -> int:
        """Rounds until the release changes: practically infinitely many."""
        return sys.maxsize

    def observe_rounds(self, rounds: Round) -> Release:  # noqa: ARG002 - not read on purpose
        """The same release again."""
        return self._release
