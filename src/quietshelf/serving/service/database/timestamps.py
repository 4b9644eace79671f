"""Converts times to and from ISO 8601, in UTC, to the millisecond."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601.

    >>> timestamp(1_800_000_000.25)
    '2027-01-15T08:00:00.250Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds(text: str) -> float:
    """Parse a time or a day into seconds since 1970; UTC unless it says otherwise.

    >>> seconds("2027-01-15T08:00:00.250Z"), timestamp(seconds("2027-01-15"))
    (1800000000.25, '2027-01-15T00:00:00.000Z')
    """
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"a time must be written like 2027-01-15 or 2027-01-15T08:00:00Z, got {text!r}") from None


def timestamp_or_none(seconds: float | None) -> str | None:
    """A timestamp, or None for None."""
    return None if seconds is None else timestamp(seconds)
