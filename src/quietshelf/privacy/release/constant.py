"""The curator that learns nothing: it hands out one public release for ever."""

from __future__ import annotations

import sys

from quietshelf.model.types import Release, Round
from quietshelf.privacy.accounting import Ledger


class Constant:
    """A fixed release of public knowledge, such as none at all (`uniform`).

    Rounds are not read, so no release says anything about a visitor: its ledger stays empty, rho = 0.
    """

    ledger = Ledger()

    def __init__(self, release: Release) -> None:
        self._release = release

    @property
    def release(self) -> Release:
        """The release it was given."""
        return self._release

    def observe(self, round: Round) -> Release:  # noqa: A002, ARG002 - the noun on the arrow; not read on purpose
        """The same release again."""
        return self._release

    @property
    def steady(self) -> int:
        """For ever."""
        return sys.maxsize

    def observe_rounds(self, rounds: Round) -> Release:  # noqa: ARG002 - not read on purpose
        """The same release again."""
        return self._release
