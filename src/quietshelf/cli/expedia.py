"""``quietshelf expedia``: prepare the hotel searches of the paper's section 5.2 from the raw Kaggle file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.table import Table

from quietshelf.cli.console import Json, figures, out, progress, say, strict_json
from quietshelf.model.types import one_of, require

expedia = typer.Typer(
    help="Prepare the hotel searches of the Kaggle file 'Expedia Personalized Sort'.", no_args_is_help=True
)

Train = Annotated[Path, typer.Argument(help="train.csv as downloaded, or a zip of just this file.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="Output file (.npz).")]
Destination = Annotated[int | None, typer.Option(help="srch_destination_id; by default the most searched.")]
Outcome = Annotated[str, typer.Option(help="What counts as choosing a hotel: booking or click.")]
Impressions = Annotated[int, typer.Option(help="Drop hotels shown less often; not with --public.")]
Public = Annotated[
    bool,
    typer.Option(
        "--public",
        help="Encode each search from its own rows and public constants, for a private fit; needs --destination.",
    ),
]


@expedia.command()
def prepare(
    train: Train,
    output: Output,
    destination: Destination = None,
    outcome: Outcome = "booking",
    impressions: Impressions = 1,
    public: Public = False,
    as_json: Json = False,
) -> None:
    """Turn the raw file into searches of one destination, in bounded memory.

    Without --public it follows the paper, whose averages and trees look at all searches: no privacy can be promised.

    Example: quietshelf expedia prepare train.csv --public --destination 8192 -o hotels.npz
    """
    from quietshelf.data.logs.expedia import clean, encode, encode_publicly, read
    from quietshelf.data.logs.expedia.cleaning import OutcomeKind
    from quietshelf.data.logs.expedia.encoding import beside_the_paper

    if output.suffix != ".npz" or not output.parent.is_dir():
        raise ValueError(f"the output must be an .npz file in a folder that exists, got output={str(output)!r}")
    one_of("outcome", outcome, get_args(OutcomeKind))  # before a long file is read
    declared = not public or (destination is not None and impressions == 1)
    rule = "--public needs a --destination, given in advance, and takes no --impressions"
    require(declared, rule, destination=destination, impressions=impressions)
    with progress("reading", unit="bytes") as moved:
        raw = read(train, destination=destination, progress=moved)
    if public:
        searches = encode_publicly(raw, outcome=outcome)  # type: ignore[arg-type]  # checked
    else:
        searches = encode(clean(raw, outcome=outcome, impressions=impressions))  # type: ignore[arg-type]  # checked
    searches.save(output)
    found = beside_the_paper(searches)
    if as_json:
        beside = {name: {"found": here, "paper": there} for name, here, there in found}
        answer = {"output": str(output), "figures": beside, "choices": list(searches.notes)}
        typer.echo(strict_json(answer | {"preparation": asdict(searches.preparation)}))
        return
    out.print(_table(found))
    _print("Choices where the paper is silent or the file needs one:", searches.notes)
    if steps := searches.preparation.data_dependent:
        _print("Steps that looked at all searches, which rule out a private fit (--public avoids them):", steps)
    say(f"written: {output}")


@expedia.command()
def sample(
    output: Annotated[Path, typer.Argument(help="Output file (.csv).")],
    searches: Annotated[int, typer.Option(help="How many searches.")] = 1000,
    hotels: Annotated[int, typer.Option(help="Hotels of the top destination.")] = 60,
    seed: Annotated[int, typer.Option(help="Equal seeds write equal files.")] = 0,
) -> None:
    """Write simulated searches in the format of the raw file, to try the commands without it.

    Example: quietshelf expedia sample sample.csv
    """
    from quietshelf.data.logs.expedia import write_sample

    say(f"written: {write_sample(output, searches=searches, hotels=hotels, seed=seed)}")


def _print(title: str, lines: Iterable[str]) -> None:
    out.print(f"\n{title}")
    for line in lines:
        out.print(f"  - {line}", markup=False, highlight=False)


def _table(found: list[tuple[str, int, int]]) -> Table:
    drawn = Table("what", *figures("found", "paper"), title="found, and in the paper")
    for name, here, there in found:
        drawn.add_row(name, f"{here:,}", f"{there:,}")
    return drawn
