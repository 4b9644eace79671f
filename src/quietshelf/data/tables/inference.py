"""Infer a declaration of a public product table's columns, for a person to read and approve."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from quietshelf.data.tables.cells import as_flag, as_id, as_level, as_number, is_missing, listed, three_digits
from quietshelf.data.tables.columns import Column, category, embedding, flag, ignore, log_number, number
from quietshelf.data.tables.reading import Table, read_table
from quietshelf.data.tables.schema import Schema
from quietshelf.model.types import require

ID_NAMES = (
    *("id", "sku", "item", "item_id", "itemid", "product_id", "productid", "product", "article", "article_id", "asin"),
    *("ean", "gtin", "code", "isbn"),
)
"""Likely names of the id column, the likeliest first."""
STOCK_NAMES = ("stock", "inventory", "quantity", "qty", "stock_level", "units_in_stock", "on_hand")
"""Names of columns that count what is left: they change with every sale, and visitors do not see them."""
LEVELS = 20
"""The most levels of a category; the rest are "other"."""
RARE = 0.01
"""Levels in a smaller share of products are "other"; a larger share of missing cells gets a feature of its own."""
DISTINCT = 0.9
"""Text with a larger share of distinct values describes single products."""
FEW, EACH = 10, 5
"""Whole numbers with at most FEW values, each in EACH products or more on average, are categories."""
MOSTLY = 0.5
"""If a larger share of cells is numbers, text among them is a mistake."""
HEAVY = 1.0
"""Skewness above which the logarithm of a positive number is tried."""


def infer(
    products: Any,
    *,
    id: str | None = None,  # noqa: A002 - the name of the column, as in a schema
    revenue: str | None = None,
    available: str | None = None,
    group: str | None = None,
    visitors: Mapping[str, Column] | None = None,
    separator: str | None = None,
) -> Schema:
    """Infer what the columns of a public product table mean, with measured scales. Read it, change it, keep it.

    >>> infer([{"sku": "a", "price": 2.0, "kind": "tea"}, {"sku": "b", "price": 4.0, "kind": "coffee"},
    ...        {"sku": "c", "price": 3.0, "kind": "tea"}])
    Schema(
        id='sku',
        items={
            'price': number(scale=0.816, centre=3.0),
            'kind': category(levels=['tea', 'coffee']),
        },
    )

    Args:
        products: A data frame, an Arrow table, a path to CSV or Parquet, or a list of dicts.
        id: The id column; found by its name if left out.
        revenue: The column of revenues. It becomes a feature too, since visitors look at prices.
        available: The column that says whether a product may be shown.
        group: The column of groups, for limits.
        visitors: Declared attributes of visitors, which cannot be inferred.
        separator: Separator of a CSV file; detected in its first line if left out.
    """
    table = read_table(products, separator=separator)
    for name in (id, revenue, available, group):
        rule = "a special column must be in the table"
        require(name is None or name in table.columns, rule, column=name, columns=list(table.columns))
    named = _id_column(table) if id is None else id
    items = {name: _inferred(name, table) for name in table.columns if name not in (named, available)}
    found = Schema(items, visitors or {}, id=named, revenue=revenue, available=available, group=group)
    found.products(table)  # refuses repeated ids and bad revenues, with their rows
    return found


def _id_column(table: Table) -> str:
    """The likeliest column of unique ids."""
    ranked = [name for wanted in ID_NAMES for name in table.columns if name.strip().lower() == wanted]
    for name in ranked:
        if _ids(name, table.column(name)):
            return name
    if ranked:  # the schema will name the repeated or bad id
        return ranked[0]
    rule = f"the ids of products must be in a column named like {', '.join(ID_NAMES[:6])}, each value once"
    raise ValueError(f"{rule}: write id='...' with one of the columns {list(table.columns)}")


def _ids(name: str, cells: Sequence[Any]) -> bool:
    return _all(cells, lambda cell: as_id(name, cell)) and len(set(map(str, cells))) == len(cells)


def _inferred(name: str, table: Table) -> Column:
    """The likely declaration of one column."""
    cells = table.column(name)
    there = [cell for cell in cells if not is_missing(cell)]
    gaps = len(there) <= (1 - RARE) * len(cells)
    if not there:
        return ignore("no values")
    if (dim := _common_length(there)) is not None:
        return _embedding(there, dim)
    levels = _all(there, lambda cell: as_level(name, cell))
    if not levels or len({str(cell).strip() for cell in there}) > LEVELS:
        _check_numbers(name, table)
    if not levels and not _all(there, lambda cell: as_number(name, cell)):
        return ignore(f"values of type {type(there[0]).__name__} have no meaning here")
    if name.strip().lower() in STOCK_NAMES:
        return ignore("looks like a stock level, which is no taste: declare it if visitors choose by it")
    if len({str(cell).strip() for cell in there}) == 1 and not gaps:
        return ignore(f"always {str(there[0]).strip()[:40]!r}")
    if _looks_like_id(name, there):
        return ignore("an id")
    if _all(there, lambda cell: as_flag(name, cell)):
        return flag(missing=gaps)
    if _all(there, lambda cell: as_number(name, cell)) and not _few_integers(there):
        return _number(name, there, gaps)
    return _category(name, table)


def _check_numbers(name: str, table: Table) -> None:
    """Refuse a column of numbers with a little text in it, which would be useless as a category."""
    strange = [place for place, cell in enumerate(table.column(name)) if not is_missing(cell) and not _is_number(cell)]
    numbers = sum(not is_missing(cell) for cell in table.column(name)) - len(strange)
    if strange and numbers > MOSTLY * (numbers + len(strange)):
        rule = f"{name} must be numbers in every row, or text: {numbers:,} are numbers"
        advice = "leave such cells empty, or declare the column yourself"
        value = table.column(name)[strange[0]]
        raise ValueError(f"{rule}, got {name}={value!r} in {table.place(strange[0])} ({advice})")


def _is_number(cell: Any) -> bool:
    return _all([cell], lambda value: as_number("", value))


def _all(cells: Sequence[Any], read: Callable[[Any], Any]) -> bool:
    """Whether ``read`` accepts every cell."""
    try:
        return all(read(cell) is not None for cell in cells)
    except ValueError:
        return False


def _common_length(cells: Sequence[Any]) -> int | None:
    """The common length of lists of numbers; None if there is none."""
    parts = [listed(cell) for cell in cells]
    lengths = {None if part is None else len(part) for part in parts}
    if len(lengths) != 1 or not parts[0]:
        return None
    return len(parts[0]) if all(_all(part or [], lambda x: as_number("", x)) for part in parts) else None


def _embedding(cells: Sequence[Any], dim: int) -> embedding:
    values = np.array([listed(cell) for cell in cells], dtype=np.float64)
    return embedding(dim, three_digits(float(values.std(axis=0).mean())) or 1.0)


def _looks_like_id(name: str, cells: Sequence[Any]) -> bool:
    lowered = name.strip().lower()
    return (lowered in ID_NAMES or lowered.endswith(("_id", " id"))) and len(cells) > FEW and _ids(name, cells)


def _few_integers(cells: Sequence[Any]) -> bool:
    counted = {str(cell).strip() for cell in cells}
    integers = all(text.lstrip("+-").isdecimal() for text in counted)
    return integers and len(counted) <= FEW and len(cells) >= EACH * len(counted)


def _number(name: str, cells: Sequence[Any], gaps: bool) -> number:
    """A number, or its logarithm if that is less skewed."""
    values = np.array([as_number(name, cell) for cell in cells], dtype=np.float64)
    heavy = bool((values > 0).all()) and _skewness(values) > max(HEAVY, abs(_skewness(np.log(values))))
    kind = log_number if heavy else number
    return kind(missing=gaps).measure(kind().value(name, cell) for cell in cells)


def _skewness(values: Any) -> float:
    far = values - values.mean()
    spread = math.sqrt(float((far**2).mean()))
    return float(((far / spread) ** 3).mean()) if spread > 0 else 0.0


def _category(name: str, table: Table) -> Column:
    cells = table.column(name)
    levels = [as_level(name, cell) for cell in cells]
    counted = Counter(level for level in levels if level is not None and level != "other")
    if len(counted) > DISTINCT * len(cells):
        _check_numbers(name, table)  # few enough to be levels, but no two alike: a mistake in one cell, not a text
        return ignore(f"{len(counted)} of {len(cells)} values are different")
    ranked = sorted(counted, key=lambda level: (-counted[level], level))
    kept = [level for level in ranked[:LEVELS] if counted[level] >= RARE * len(cells)]
    if not kept:
        return ignore(f"{len(counted)} values, each in less than {100 * RARE:g} % of the products")
    rest = len(cells) - sum(counted[level] for level in kept)
    return category(kept, other=rest > 0)
