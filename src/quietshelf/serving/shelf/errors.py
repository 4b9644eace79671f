"""What a shelf refuses, by type, so that a caller can tell a late answer from a wrong one."""

from __future__ import annotations


class ShelfError(ValueError):
    """Something was asked of a shelf that it cannot do; nothing was changed."""


class UnknownOffer(ShelfError):  # noqa: N818 - says what happened
    """No offer of this shelf has that id."""


class OfferExpired(ShelfError):  # noqa: N818 - says what happened
    """The offer's batch is closed: whatever the answer is, it can no longer count."""


class AnswerConflict(ShelfError):  # noqa: N818 - says what happened
    """The offer was answered before, and differently. The first answer stands."""


class OpenBatchDropped(UserWarning):
    """Visitors not released yet were left out: they may be counted elsewhere, or an earlier version rounded them."""
