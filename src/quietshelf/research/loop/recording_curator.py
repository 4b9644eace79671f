"""A curator at work whose releases are written down: for diagnostics of a study, and for the attacker of an audit."""

from __future__ import annotations

from collections.abc import Callable

from quietshelf.model.types import Curator, Release, Round


class RecordingCurator:
    """As the curator inside does; after each round ``note`` hears the curator and its release."""

    def __init__(self, curator: Curator, note: Callable[[Curator, Release], None]) -> None:
        self._curator, self._note = curator, note

    @property
    def ledger(self) -> object:
        """As the curator has it; None for one that keeps none."""
        return getattr(self._curator, "ledger", None)

    @property
    def release(self) -> Release:
        """As the curator has it."""
        return self._curator.release

    def observe(self, round: Round) -> Release:  # noqa: A002 - the noun on the arrow
        """As the curator does; what is public afterwards is noted."""
        release = self._curator.observe(round)
        self._note(self._curator, release)
        return release
