"""Times as others read them: ISO 8601, in UTC, to the millisecond."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(seconds: float) -> str:
    """Seconds since 1970 as a text.

    >>> timestamp(1_800_000_000.25)
    '2027-01-15T08:00:00.250Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def timestamp_or_none(seconds: float | None) -> str | None:
    """The same, where nothing may have happened yet."""
    return None if seconds is None else timestamp(seconds)
