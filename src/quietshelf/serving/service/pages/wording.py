"""Formats figures for people: rounded, with units, and never in a promise's favour."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from quietshelf.privacy.accounting.figures import rounded_down, rounded_up
from quietshelf.report.svg import tag
from quietshelf.serving.service.access.admin_log import words

UNITS = ((86400.0, "day", "days"), (3600.0, "h", "h"), (60.0, "min", "min"), (1.0, "s", "s"))
MAIL = re.compile(r"[A-Za-z0-9._+-]+@[A-Za-z0-9.-]+")
MINUS, THIN = "\N{MINUS SIGN}", "\N{NARROW NO-BREAK SPACE}"


def count(number: float) -> str:
    """A whole number.

    >>> count(12345)
    '12,345'
    """
    return f"{round(number):,}"


def lapse(seconds: float) -> str:
    """A duration in its largest unit.

    >>> [lapse(x).replace(THIN, " ") for x in (0.2, 59, 61, 7200, 90000, 200000)]
    ['0 s', '59 s', '1 min', '2 h', '1 day', '2 days']
    """
    for size, one, many in UNITS:
        if seconds >= size:
            number = int(seconds // size)
            return f"{number:,}{THIN}{one if number == 1 else many}"
    return f"0{THIN}s"


def rho(value: float | str) -> str:
    """A figure of a promise, rounded upwards.

    >>> rho(7.7612), rho("infinity")
    ('7.762', 'infinite')
    """
    return rounded_up(float(value))


def signed(value: float) -> str:
    """Two decimals, with a typographic sign.

    >>> signed(-0.456), signed(1.2)
    ('−0.46', '+1.20')
    """
    text = f"{abs(value):.2f}"
    return text if float(text) == 0 else (MINUS if value < 0 else "+") + text


def percent(share: float) -> str:
    """A share in percent; small ones keep one decimal.

    >>> percent(0.4237).replace(THIN, " "), percent(0.031).replace(THIN, " "), percent(1.0).replace(THIN, " ")
    ('42 %', '3.1 %', '100 %')
    """
    return f"{100 * share:.1f}{THIN}%" if 0 < share < 0.0995 else f"{100 * share:.0f}{THIN}%"


def percent_up(share: float) -> str:
    """A share in percent with one decimal, rounded upwards.

    >>> percent_up(0.26104).replace(THIN, " ")
    '26.2 %'
    """
    tenths = -int(-share * 1000 // 1)
    return f"{tenths / 10:.1f}{THIN}%"


def times(ratio: float) -> str:
    """A ratio.

    >>> times(0.002), times(0.45), times(12.3)
    ('< 0.01 ×', '0.45 ×', '12.3 ×')
    """
    return "< 0.01 ×" if ratio < 0.01 else f"{ratio:.3g} ×"


def rate(per_minute: float | None) -> str:
    """Arrivals per minute.

    >>> rate(None), rate(0.4), rate(1.0), rate(1234.5)
    ('–', '0.4', '1', '1,234')
    """
    if per_minute is None:
        return "–"
    return f"{per_minute:.1f}".removesuffix(".0") if 0 < per_minute < 10 else count(per_minute)


def milliseconds(seconds: float | None) -> str:
    """A short time.

    >>> milliseconds(0.0025).replace(THIN, " "), milliseconds(1.0).replace(THIN, " ")
    ('2.5 ms', '1 s')
    """
    if seconds is None:
        return "–"
    return f"{seconds:g}{THIN}s" if seconds >= 1 else f"{1e3 * seconds:g}{THIN}ms"


def day(iso: str) -> str:
    """A time to the minute, in UTC.

    >>> day("2026-03-02T14:05:09.120Z")
    '2 Mar 2026, 14:05 UTC'
    """
    moment = datetime.fromisoformat(iso).astimezone(UTC)
    return f"{moment.day} {moment:%b %Y, %H:%M} UTC"


def ago(iso: str, now: str) -> str:
    """How long ago something happened.

    >>> ago("2026-03-02T14:05:09Z", "2026-03-02T14:06:10Z").replace(THIN, " ")
    '1 min ago'
    """
    passed = (datetime.fromisoformat(now) - datetime.fromisoformat(iso)).total_seconds()
    return "just now" if passed < 1 else f"{lapse(passed)} ago"


def sentence(words: str) -> str:
    """Capitalise the first letter only.

    >>> sentence("shelf must exist, got shelf='Teas'")
    "Shelf must exist, got shelf='Teas'"
    """
    return words[:1].upper() + words[1:]


def tiny(value: float) -> str:
    """A delta.

    >>> tiny(1e-6), tiny(2e-6)
    ('10⁻⁶', '2e-06')
    """
    digits, _, power = f"{value:e}".partition("e")
    if float(digits) != 1:
        return f"{value:g}"
    return "10" + str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def contact(words: str) -> str:
    """An email or web address as a link; anything else as it is.

    >>> contact("me@shop.example")
    '<a href="mailto:me@shop.example">me@shop.example</a>'
    >>> contact("https://shop.example/?a&b"), contact("<ask>")
    ('<a href="https://shop.example/?a&amp;b">https://shop.example/?a&amp;b</a>', '<ask>')
    """
    if words.startswith("https://"):
        return tag("a", words, href=words)
    return tag("a", words, href=f"mailto:{words}") if MAIL.fullmatch(words) else words


FILTERS: dict[str, Any] = {
    each.__name__: each
    for each in (
        *(count, lapse, rho, rounded_down, signed, percent, percent_up, rate, milliseconds),
        *(day, ago, sentence, tiny, times, words, contact),
    )
}
