"""A shelf's errors by type, so that callers can tell a late answer from a wrong one."""

from __future__ import annotations


class ShelfError(ValueError):
    """The shelf refuses a request. Nothing was changed."""


class UnknownOffer(ShelfError):  # noqa: N818 - says what happened
    """No offer of this shelf has that id."""


class OfferExpired(ShelfError):  # noqa: N818 - says what happened
    """The offer's batch is closed, so its answer can no longer count."""


class AnswerConflict(ShelfError):  # noqa: N818 - says what happened
    """The offer was answered differently before. The first answer stands."""


class OpenBatchDropped(UserWarning):
    """Unreleased visitors were left out: they may be counted elsewhere, or an earlier version rounded them."""
