"""Column declarations by kind, and from plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from quietshelf.data.tables.columns import Column, category, embedding, flag, ignore, log_number, number
from quietshelf.model.types import require

KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (number, log_number, category, flag, embedding, ignore)}


def column_from(name: str, given: Any) -> Column:
    """The inverse of ``Column.to_dict``.

    >>> column_from("price", {"kind": "number", "scale": 2.0})
    number(scale=2.0, centre=0.0)
    >>> column_from("price", {"kind": "money"})
    Traceback (most recent call last):
    ...
    ValueError: price must be one of number, log_number, category, flag, embedding, ignore, got kind='money'
    """
    require(isinstance(given, Mapping), f'{name} must be declared as {{"kind": ...}}', **{name: given})
    kind = given.get("kind")
    rule = f"{name} must be one of {', '.join(KINDS)}"
    require(isinstance(kind, str) and kind in KINDS, rule, kind=kind)
    known, given = KINDS[str(kind)], {key: value for key, value in given.items() if key != "kind"}
    allowed = [each.name for each in fields(known)]
    strange = [key for key in given if key not in allowed]
    require(not strange, f"{name}: {kind} takes {', '.join(allowed) or 'nothing'}", unknown=strange)
    needed = [each.name for each in fields(known) if each.default is MISSING and each.name not in given]
    require(not needed, f"{name}: {kind} needs {', '.join(needed)}", given=sorted(given))
    try:
        return known(**given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None
