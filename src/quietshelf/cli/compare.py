"""``quietshelf compare``: the learned policy against the shop's present ranking, from releases alone."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Column, Table

from quietshelf.cli.console import Json, figures, out, strict_json
from quietshelf.cli.database_options import Config, Database, Secrets, existing
from quietshelf.report.numbers import number

ARMS = {"learned": "learned policy", "present": "present ranking"}
HONEST = (
    "Intervals include the noise and hold for all looks together: look as often as you like, and stop when one "
    "excludes zero."
)


def compare(
    shelf: Annotated[str, typer.Argument(help="Name of the shelf.")],
    config: Config = None,
    database: Database = None,
    secrets: Secrets = None,
    as_json: Json = False,
) -> None:
    """Show whether the learned policy earns more than what you show today. Looking costs no privacy.

    Example: quietshelf compare teas --database sqlite:///shop.db --secrets shop-secrets
    """
    with existing(config, database, secrets) as store:
        from quietshelf.serving.service import queries
        from quietshelf.serving.service.problems import NotFound

        with store.read() as connection:
            try:
                found = queries.comparison(connection, queries.latest_row(connection, shelf))
            except NotFound as problem:
                raise ValueError(str(problem)) from None
    if as_json:
        typer.echo(strict_json({"shelf": shelf, **found}))
    else:
        _print(shelf, found)


def _print(shelf: str, found: dict[str, Any]) -> None:
    if not found["comparison"]:
        out.print(f"shelf {shelf} runs no comparison: none of its rho is set aside for one (setting `comparison`)")
        return
    right = figures("visitors", "chose something, %", "revenue per visitor")
    drawn = Table(Column("served by", no_wrap=True), *right, title=f"shelf {shelf}, {found['batches']:,} releases")
    for arm, words in ARMS.items():
        chosen, revenue = found["arms"]["chosen"][arm], found["arms"]["revenue"][arm]
        drawn.add_row(words, f"{found['visitors'][arm]:,}", _interval(chosen, 100.0), _interval(revenue, 1.0))
    out.print(drawn)
    out.print(f"{found['verdict'][:1].upper()}{found['verdict'][1:]}.")
    if found["fallen_back"]:
        out.print("Offers have fallen back to your present ranking, which clearly earns more (setting `guard`).")
    out.print(HONEST)


def _interval(each: dict[str, float | None], unit: float) -> str:
    if each["estimate"] is None or each["low"] is None or each["high"] is None:
        return "nobody yet"
    low, high = (number(unit * value) for value in (each["low"], each["high"]))
    return f"{number(unit * each['estimate'])} [{low}, {high}]"
