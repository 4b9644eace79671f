"""``quietshelf schema``: infer what the columns of a product table mean, as a declaration to check and keep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column, Table
from rich.text import Text

from quietshelf.cli.console import Json, Products, Separator, counted, out, say, strict_json, writable

if TYPE_CHECKING:
    from quietshelf.data.tables import Schema

OF_LOGS = (
    *("bought", "booked", "chosen", "clicked", "customer", "order", "person", "purchase", "purchased", "round"),
    *("session", "user", "visit", "visitor"),
)
"""Column names typical of logs, with or without ``_id``."""
LOG = (
    "{names}: is this a log? A schema must come from the public product table: scales and levels measured on visitors' "
    "data leak into a private fit or a shelf without being counted in its cost."
)


def schema(
    products: Products,
    id: Annotated[  # noqa: A002 - the option's name
        str | None, typer.Option(help="Column of product ids; detected by its name by default.")
    ] = None,
    revenue: Annotated[str | None, typer.Option(help="Column of what a product earns.")] = None,
    available: Annotated[str | None, typer.Option(help="Column that says whether a product may be shown.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of groups, for limits.")] = None,
    separator: Separator = None,
    write: Annotated[Path | None, typer.Option("--out", help="Write the schema to this file, as JSON.")] = None,
    as_json: Json = False,
) -> None:
    """Infer what each column of a product table becomes, for you to read, change and keep.

    Example: quietshelf schema products.csv --id sku --revenue margin --out products.schema.json
    """
    from quietshelf.data.tables import infer

    writable(write)
    found = infer(products, id=id, revenue=revenue, available=available, group=group, separator=separator)
    if names := [name for name in found.items if name.lower().removesuffix("_id") in OF_LOGS]:
        say(LOG.format(names=", ".join(names)))
    if write is not None:
        write.parent.mkdir(parents=True, exist_ok=True)
        found.save(write)
    if as_json:
        typer.echo(strict_json(found.to_dict()))
        return
    _print(products.name, found)
    if write is not None:
        say(f"written: {write}")


def _print(name: str, found: Schema) -> None:
    features = counted(len(found.item_names), "feature")
    columns = (Column(heading, overflow="fold") for heading in ("column", "declaration", "becomes"))
    drawn = Table(*columns, title=f"{name}: {features} of a product, named by {found.id}")
    for each, column in found.items.items():
        drawn.add_row(*map(Text, (each, repr(column), ", ".join(column.names(each)) or "nothing")))
    out.print(drawn)
    told = {"what a sale earns": found.revenue, "whether it may be shown": found.available, "limits": found.group}
    for what, special in told.items():
        if special is not None:
            out.print(f"{what}: column {special}", markup=False)
