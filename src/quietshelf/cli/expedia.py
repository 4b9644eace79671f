"""``quietshelf expedia``: the hotel searches of the paper's section 5.2, from the raw Kaggle file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.table import Table

from quietshelf.cli.console import Json, out, progress, say, strict_json
from quietshelf.types import one_of

expedia = typer.Typer(
    help="Prepare the hotel searches of the Kaggle file 'Expedia Personalized Sort'.", no_args_is_help=True
)


@expedia.command()
def prepare(
    train: Annotated[Path, typer.Argument(help="train.csv as downloaded, or a zip that holds it alone.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the result goes (.npz).")],
    destination: Annotated[
        int | None, typer.Option(help="srch_destination_id; the one searched most if not given.")
    ] = None,
    outcome: Annotated[str, typer.Option(help="booking or click: what counts as taking a hotel.")] = "booking",
    impute: Annotated[
        str, typer.Option(help="tree (as the paper) or constant (public) for a visitor's past.")
    ] = "tree",
    scaling: Annotated[str, typer.Option(help="data (as the paper) or public constants.")] = "data",
    impressions: Annotated[int, typer.Option(help="Drop hotels shown less often.")] = 1,
    as_json: Json = False,
) -> None:
    """Turn the raw file into searches of its top destination, in bounded memory.

    Example: quietshelf expedia prepare train.csv -o hotels.npz
    """
    from quietshelf.logs.expedia import clean, encode, read
    from quietshelf.logs.expedia.cleaning import Impute, Outcome
    from quietshelf.logs.expedia.encoding import Scaling, beside_the_paper

    if output.suffix != ".npz" or not output.parent.is_dir():
        raise ValueError(f"the output must be an .npz file in a folder that exists, got output={str(output)!r}")
    one_of("outcome", outcome, get_args(Outcome))  # before a long file is read
    one_of("impute", impute, get_args(Impute))
    one_of("scaling", scaling, get_args(Scaling))
    with progress("reading", unit="bytes") as moved:
        raw = read(train, destination=destination, progress=moved)
    cleaned = clean(raw, impute=impute, outcome=outcome, impressions=impressions)  # type: ignore[arg-type]  # checked
    searches = encode(cleaned, scaling=scaling)  # type: ignore[arg-type]  # checked inside
    searches.save(output)
    found = beside_the_paper(searches)
    if as_json:
        figures = {name: {"found": here, "paper": there} for name, here, there in found}
        typer.echo(strict_json({"output": str(output), "figures": figures, "choices": list(searches.notes)}))
        return
    out.print(_table(found))
    out.print("\nChoices made, where the paper is silent or the file needs one:")
    for note in searches.notes:
        out.print(f"  - {note}", markup=False, highlight=False)
    say(f"written: {output}")


@expedia.command()
def sample(
    output: Annotated[Path, typer.Argument(help="Where the made-up file goes (.csv).")],
    searches: Annotated[int, typer.Option(help="How many searches.")] = 1000,
    hotels: Annotated[int, typer.Option(help="Hotels of the top destination.")] = 60,
    seed: Annotated[int, typer.Option(help="Equal seeds write equal files.")] = 0,
) -> None:
    """Write made-up searches in the format of the raw file, for those who do not have it.

    Example: quietshelf expedia sample made-up.csv
    """
    from quietshelf.logs.expedia import write_sample

    say(f"written: {write_sample(output, searches=searches, hotels=hotels, seed=seed)}")


def _table(found: list[tuple[str, int, int]]) -> Table:
    drawn = Table(title="found, and in the paper")
    drawn.add_column("what")
    drawn.add_column("found", justify="right")
    drawn.add_column("paper", justify="right")
    for name, here, there in found:
        drawn.add_row(name, f"{here:,}", f"{there:,}")
    return drawn
