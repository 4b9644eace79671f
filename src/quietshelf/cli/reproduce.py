"""``quietshelf reproduce``: a study of the paper, or of your own, from its visitors to its page."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from quietshelf.cli.console import out, progress, talk
from quietshelf.experiments import PAPER, Outcome, Reproduced, Study, names, study_named, write_all
from quietshelf.experiments import reproduce as run
from quietshelf.experiments.engine import Cluster, Local

QUICK = {"horizon": 1000, "replicates": 4}
SIGNS = {"holds": "✔", "fails": "✘", "undecided": "?"}


def reproduce(
    name: Annotated[str, typer.Argument(help=f"{', '.join(names())}, all (the paper's four), or a TOML file.")],
    folder: Annotated[Path, typer.Option("--out", help="Where it goes: a folder for each study.")] = Path(
        "out/reproduce"
    ),
    replicates: Annotated[int | None, typer.Option(help="Independent worlds, in place of the study's own.")] = None,
    horizon: Annotated[int | None, typer.Option(help="Visitors, in place of the study's own.")] = None,
    seed: Annotated[int | None, typer.Option(help="In place of the study's own; equal seeds give equal rows.")] = None,
    full: Annotated[
        bool, typer.Option("--full", help="The paper's own length, where the study is a shorter one.")
    ] = False,
    data: Annotated[Path | None, typer.Option(help="File of searches, for the studies of hotels.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version: 4 replicates of 1,000 visitors.")] = False,
    workers: Annotated[int, typer.Option(help="Processes; 0 for one a core.")] = 0,
    cluster: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, tcp://HOST:PORT.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the claims and their verdicts as JSON.")] = False,
) -> None:
    """Run a study, test its claims on the rows, draw its figures and write report.html. What is done is not done again.

    Example: quietshelf reproduce privacy-level --quick
    """
    size = {"horizon": horizon, "replicates": replicates}
    if quick:
        size = {key: value or QUICK[key] for key, value in size.items()}
    wanted = PAPER if name == "all" else (f"{name}-full" if full else name,)
    studies = [study_named(each).with_data(data).reduced(**size, seed=seed) for each in wanted]
    runner = Cluster(cluster) if cluster else Local(workers or None)
    results = []
    for study in studies:
        again = f"quietshelf reproduce {study.name} {_options(size, seed)}".strip()
        where = folder / _folder(study, size, seed)
        kept = f"What is finished is kept in {where}: the same command goes on from there."
        with progress(study.name, unit="rounds", kept=kept) as moved:
            results.append(run(study, where, runner=runner, progress=moved, command=again))
    _print(results, as_json=as_json)
    pages = [result.page for result in results]
    if name == "all":
        pages.append(write_all(results, folder / f"{_folder_suffix('report', size, seed)}.html"))
    for page in pages:
        talk.print(f"written: {page}")


def _print(results: list[Reproduced], *, as_json: bool) -> None:
    if as_json:
        found = [
            {"study": result.study.name, "folder": str(result.folder), "claims": [_plain(o) for o in result.outcomes]}
            for result in results
        ]
        sys.stdout.write(json.dumps(found) + "\n")
        return
    for result in results:
        out.rule(result.study.title)
        for outcome in result.outcomes:
            share = f"{outcome.holding} of {len(outcome.comparisons)} comparisons"
            where = f" [{outcome.group}]" if outcome.group else ""
            out.print(f" {SIGNS[outcome.verdict]} {outcome.verdict:9} {outcome.says}{where}: {share}", markup=False)


def _plain(outcome: Outcome) -> dict[str, object]:
    return {**asdict(outcome), "comparisons": [_finite(asdict(each)) for each in outcome.comparisons]}


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN."""
    return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in values.items()}


def _folder(study: Study, size: dict[str, int | None], seed: int | None) -> str:
    """Another size has another folder, so that it never mixes with the study's own."""
    return _folder_suffix(study.name, size, seed)


def _folder_suffix(name: str, size: dict[str, int | None], seed: int | None) -> str:
    given = {**size, "seed": seed}
    return "-".join([name, *(f"{key}-{value}" for key, value in given.items() if value is not None)])


def _options(size: dict[str, int | None], seed: int | None) -> str:
    return " ".join(f"--{key} {value}" for key, value in {**size, "seed": seed}.items() if value is not None)
