"""``quietshelf reproduce``: run a study, the paper's or your own, and write its report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from quietshelf.cli.console import Delta, Json, Workers, out, processes, progress, say, strict_json
from quietshelf.model.types import require
from quietshelf.privacy.accounting import DELTA
from quietshelf.report import write_page
from quietshelf.research.experiments import PAPER, Reproduced, names, study_named
from quietshelf.research.experiments import reproduce as run
from quietshelf.research.experiments.engine import Cluster, Local
from quietshelf.research.experiments.gauntlet import as_data, in_words
from quietshelf.research.experiments.study import SEEDS

QUICK = {"horizon": 1000, "replicates": 4}
UNTESTED = "the study must have another size for it"
SIGNS = {"holds": "✔", "fails": "✘", "undecided": "?"}

Name = Annotated[str, typer.Argument(help=f"{', '.join(names())}, all (the paper's four), or a TOML file.")]
Folder = Annotated[Path, typer.Option("--out", help="Output folder; each study gets a folder in it.")]
Replicates = Annotated[int | None, typer.Option(help="Independent replicates, instead of the study's own number.")]
Horizon = Annotated[int | None, typer.Option(help="Visitors per replicate, instead of the study's own number.")]
Seed = Annotated[int | None, typer.Option(help="Seed, instead of the study's own; equal seeds give equal rows.")]
Seeds = Annotated[
    str,
    typer.Option(help="report, or tuning: separate seeds for choosing settings, in studies that have them."),
]
Full = Annotated[bool, typer.Option("--full", help="The paper's own length, for expedia.")]
Data = Annotated[
    Path | None, typer.Option(help="File of searches, for the studies of hotels: see `quietshelf expedia`.")
]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick",
        help="A small version, 4 replicates of 1,000 visitors or in proportion: enough to see the report, "
        "too small to decide most claims.",
    ),
]
ClusterAddress = Annotated[str | None, typer.Option(help="Address of a Dask scheduler, tcp://HOST:PORT.")]


def reproduce(
    name: Name,
    folder: Folder = Path("out/reproduce"),
    replicates: Replicates = None,
    horizon: Horizon = None,
    seed: Seed = None,
    seeds: Seeds = SEEDS[0],
    full: Full = False,
    data: Data = None,
    quick: Quick = False,
    delta: Delta = DELTA,
    workers: Workers = 0,
    cluster: ClusterAddress = None,
    as_json: Json = False,
) -> None:
    """Run a study, test its claims on the rows, draw its figures and write report.html.

    An interrupted study resumes where it stopped.

    Example: quietshelf reproduce privacy-level --quick

    Example: quietshelf reproduce gauntlet --seeds tuning
    """
    size = {"horizon": horizon, "replicates": replicates}
    if quick:
        size = {key: QUICK[key] if value is None else value for key, value in size.items()}
    wanted = (_longer(name),) if full else PAPER if name == "all" else (name,)
    studies = [study_named(each).with_seeds(seeds).with_data(data).reduced(**size, seed=seed) for each in wanted]
    engine = Cluster(cluster) if cluster else Local(processes(workers))
    results = []
    given = {**size, "seed": seed, "seeds": None if seeds == SEEDS[0] else seeds}
    for whole in studies:
        study, missing = whole.without_missing()
        for world in missing:
            say(f"left out: {world}, which needs a file of searches: --data FILE, or the folder in QUIETSHELF_DATA")
        again = _again(name if name.endswith(".toml") else study.name, {"data": data, **given})
        where = folder / _folder(study.name, {**given, "without": len(missing) or None})
        kept = f"Finished work is kept in {where}: the same command resumes from there."
        with progress(study.name, unit="rounds", kept=kept) as moved:
            results.append(run(study, where, engine=engine, progress=moved, command=again, delta=delta))
    _print(results, as_json=as_json)
    pages = [result.page for result in results]
    if name == "all":
        path = folder / f"{_folder('report', given)}.html"
        pages.append(write_page(path, "The paper's studies", [result.section for result in results]))
    for page in pages:
        say(f"written: {page}")
    if quick:
        say("--quick is too small to decide most claims: run the same command without it for the full study.")


def _print(results: list[Reproduced], *, as_json: bool) -> None:
    if as_json:
        found = [
            {
                "study": result.study.name,
                "folder": str(result.folder),
                "claims": [asdict(o) for o in result.outcomes],
                **as_data(result.merits),
            }
            for result in results
        ]
        typer.echo(strict_json(found))
        return
    for result in results:
        out.rule(result.study.title)
        for outcome in result.outcomes:
            share = f"{outcome.holding} of {len(outcome.comparisons)} comparisons hold"
            where = f" [{outcome.group}]" if outcome.group else ""
            out.print(
                f" {SIGNS[outcome.verdict]} {outcome.verdict:9} {outcome.says}{where}: {share}",
                markup=False,
                soft_wrap=True,
            )
        for says in result.untested:
            out.print(f" - not tested {says}: {UNTESTED}", markup=False, soft_wrap=True)
        for line in in_words(result.merits):
            out.print(f" {line}", markup=False, soft_wrap=True)


def _folder(name: str, given: Mapping[str, object]) -> str:
    """The folder's name; another size, other seeds or fewer worlds get another, so that rows never mix."""
    return "-".join([name, *(f"{key}-{value}" for key, value in given.items() if value is not None)])


def _again(name: str, given: Mapping[str, object]) -> str:
    """The command that makes the same rows."""
    words = [
        shlex.quote(f"{word}") for key, value in given.items() if value is not None for word in (f"--{key}", value)
    ]
    return " ".join(["quietshelf reproduce", shlex.quote(name), *words])


def _longer(name: str) -> str:
    """The study at the paper's own length."""
    longer = [each for each in names() if f"{each}-full" in names()]
    require(name in longer, f"--full is for {', '.join(longer)}: others have one length", study=name)
    return f"{name}-full"
