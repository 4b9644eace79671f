"""``quietshelf shelf`` and ``quietshelf items``: set up a shelf of a running service and upload its products."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quietshelf.cli.console import Json, Products, Separator, counted, progress, strict_json
from quietshelf.cli.remote import Key, Url, reached
from quietshelf.model.types import require

if TYPE_CHECKING:
    from quietshelf.data.tables import Schema

TOLD = 1000
"""Items between two updates of the progress bar."""
shelf = typer.Typer(
    name="shelf",
    help="Create and change shelves of a running service.\n\nExample: quietshelf shelf put teas --rho 1 --capacity 4 "
    "--window 3600",
)
items = typer.Typer(
    name="items",
    help="Put products on a shelf of a running service.\n\nExample: quietshelf items put products.csv --shelf teas",
)


@shelf.command("put")
def put_shelf(
    name: Annotated[str, typer.Argument(help="Name of the shelf.")],
    url: Url,
    key: Key,
    capacity: Annotated[int, typer.Option(help="The most items shown.")],
    window: Annotated[float, typer.Option(help="Seconds to wait for an answer.")],
    rho: Annotated[float | None, typer.Option(help="The promise, in zCDP; or give --epsilon and --delta.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The promise, with --delta.")] = None,
    delta: Annotated[float | None, typer.Option(help="The delta that --epsilon is stated for.")] = None,
    schema: Annotated[Path | None, typer.Option(help="What columns mean: a file of `quietshelf schema`.")] = None,
    other: Annotated[
        list[str] | None, typer.Option("--set", help="Any other setting, as NAME=VALUE; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a shelf, or change the settings its guarantee allows to change; omitted settings stay as they are.

    Example: quietshelf shelf put teas --epsilon 2 --delta 1e-6 --capacity 4 --window 3600 --schema products.schema.json
    """
    from quietshelf.data.tables import Schema

    settings: dict[str, Any] = {"capacity": capacity, "window": window, "rho": rho, "epsilon": epsilon, "delta": delta}
    settings |= {"schema": None if schema is None else Schema.load(schema).to_dict(), **_assigned(other or [])}
    with reached(url, key) as service:
        new = service.put_shelf(name, **{each: value for each, value in settings.items() if value is not None})
    said = f"{name} is {'made' if new else 'up to date'}"
    typer.echo(strict_json({"shelf": name, "created": new}) if as_json else said)


@items.command("put")
def put_items(
    products: Products,
    shelf: Annotated[str, typer.Option(help="Name of the shelf; it must have a schema.")],
    url: Url,
    key: Key,
    schema: Annotated[
        Path | None, typer.Option(help="Your copy of the shelf's schema; refused if the shelf has another.")
    ] = None,
    separator: Separator = None,
    as_json: Json = False,
) -> None:
    """Put the products of a table on a shelf: add new ones, change known ones, keep the others.

    Example: quietshelf items put products.csv --schema products.schema.json --url http://127.0.0.1:8080 --shelf teas
    """
    from quietshelf.data.tables import read_table, service_items

    table = read_table(products, separator=separator)
    with reached(url, key) as service:
        declared = _schema_of(shelf, service.shelf(shelf)["settings"])
        if schema is not None:
            _check_same(declared, schema, table)
        found = service_items(table, declared)
        with progress("items", unit="items", kept="nothing is on the shelf until all are there") as move:
            total = service.upload_items(shelf, _told(found, move))
    said = f"{counted(total['added'], 'item')} added, {total['changed']:,} changed"
    said += f", {total['skipped']:,} skipped: retired meanwhile" if "skipped" in total else ""
    typer.echo(strict_json(total) if as_json else said)


def _told(found: Sequence[Mapping[str, Any]], move: Callable[[int, int], None]) -> Iterator[Mapping[str, Any]]:
    """The items, reporting progress as they are sent."""
    for sent, item in enumerate(found, start=1):
        yield item
        if sent % TOLD == 0 or sent == len(found):
            move(sent, len(found))


def _schema_of(shelf: str, settings: Mapping[str, Any]) -> Schema:
    from quietshelf.data.tables import Schema

    given: Any = settings.get("schema")
    line = f"quietshelf shelf put {shelf} --schema products.schema.json ..."
    require(given is not None, f"the shelf must have a schema, which `{line}` gives it", schema=given)
    return Schema.from_dict(given)


def _check_same(declared: Schema, path: Path, table: Any) -> None:
    """Refuse a schema file that differs from the shelf's."""
    from quietshelf.data.tables import Schema

    mine = Schema.load(path).measured(table)
    if mine == declared:
        return
    ours, theirs = _flat(mine.to_dict()), _flat(declared.to_dict())
    other = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    rule = f"{path} must be the schema of the shelf, or be left out"
    raise ValueError(f"{rule}, got {other[0]}={ours.get(other[0])!r}, where the shelf has {theirs.get(other[0])!r}")


def _flat(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema as a flat mapping, columns by side and name."""
    sides = ("items", "visitors")
    plain = {name: value for name, value in schema.items() if name not in sides}
    return plain | {f"{side}.{name}": column for side in sides for name, column in schema[side].items()}


def _assigned(texts: list[str]) -> dict[str, Any]:
    """Parse settings given as NAME=VALUE; a value that is not JSON is text.

    >>> _assigned(["fill=true", "feature_map=concat", "visitor_scale=[1, 2]"])
    {'fill': True, 'feature_map': 'concat', 'visitor_scale': [1, 2]}
    """
    pairs = [text.partition("=") for text in texts]
    for name, sign, _ in pairs:
        require(bool(sign and name), "a setting must be written NAME=VALUE", setting=name)
    return {name: _value(text) for name, _, text in pairs}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
