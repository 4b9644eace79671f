"""Copy the figures of finished studies into the documentation: ``python -m scripts.docs.studies``.

Reads ``out/study`` (written by ``make study``; shop.json is what the command in the README prints with ``--json``) and
``out/reproduce`` (by ``quietshelf reproduce NAME``), writes docs/images/studies, and from there fills the marked parts
of README.md and docs/*.md:

    <!-- part: NAME --> anything between is replaced <!-- /part -->

Only studies of full size are used; without one, a part stays as it is.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from pathlib import Path
from typing import Any

from scripts.docs import records
from scripts.docs.markdown import table

from quietshelf.report.page import VERDICTS

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "images" / "studies"
PAGES = ("README.md", "docs/results.md", "docs/claims.md")
FULL = 10_000
"""Visitors in a full study; ``make test`` leaves shorter ones in the same folder."""
PART = re.compile(r"(<!-- part: ([a-z-]+) -->)(.*?)(<!-- /part -->)", re.S)


def main() -> None:
    """Copy finished studies, then fill the parts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    out = ROOT / "out"
    parser.add_argument("--study", type=Path, default=out / "study", help="Records written by make study.")
    parser.add_argument("--reproduce", type=Path, default=out / "reproduce", help="Folder of reproduced studies.")
    given = parser.parse_args()
    taken = [*take_records(given.study, KEPT), *take_reproduced(given.reproduce, KEPT)]
    for name in PAGES:
        path = ROOT / name
        path.write_text(filled(path.read_text(encoding="utf-8"), KEPT), encoding="utf-8")
    print(f"taken: {', '.join(taken) or 'nothing of full size'}")


def take_records(source: Path, target: Path) -> list[str]:
    """Copy the records of full studies; return their names."""
    target.mkdir(parents=True, exist_ok=True)
    taken = []
    for path in sorted(source.glob("*.json")):
        if json.loads(path.read_text(encoding="utf-8")).get("horizon", 0) >= FULL:
            shutil.copyfile(path, target / path.name)
            taken.append(path.stem)
    return taken


def take_reproduced(source: Path, target: Path) -> list[str]:
    """Judge every complete study and keep its verdicts and figures; return the studies' names."""
    from quietshelf.research.experiments import names

    taken = []
    for name in names():
        folder = source / name
        if not (folder / "manifest.json").is_file():
            continue
        result = _judged(name, folder)
        if result is None:
            continue
        pictures = target / name
        shutil.rmtree(pictures, ignore_errors=True)
        pictures.mkdir(parents=True)
        for path, _ in _pictures(result):
            shutil.copyfile(path, pictures / path.name)
        (target / f"{name}.json").write_text(json.dumps(_record(result), indent=1) + "\n", encoding="utf-8")
        taken.append(name)
    return taken


def filled(text: str, folder: Path) -> str:
    """The text with its parts filled from the records; a part without a record stays."""

    def written(match: re.Match[str]) -> str:
        start, name, before, end = match.groups()
        try:
            now = part(name, folder)
        except FileNotFoundError:
            return match.group(0)
        return f"{start}\n\n{now}\n\n{end}" if before.startswith("\n") else f"{start}{now}{end}"

    return PART.sub(written, text)


def part(name: str, folder: Path) -> str:
    """A part by its name: one of the records, or all claims."""
    record = records.reader(folder)
    return claims(record) if name == "claims" else records.PARTS[name](record)


def claims(record: records.Record) -> str:
    """Every study: its summary, then its verdicts and figures if there are any."""
    from quietshelf.research.experiments import names, study_named

    parts = []
    for name in names():
        study = study_named(name)
        data = " --data FILE" if any("data" in world for world in study.worlds) else ""
        parts += [f"## {study.title}", f"`quietshelf reproduce {name}{data}`", study.summary]
        try:
            parts += _found(name, record(name))
        except FileNotFoundError:
            parts.append("*Not run at full size for this version yet.*")
    return "\n\n".join(parts)


def _judged(name: str, folder: Path) -> Any:
    """Judge a study again; None if it is not complete."""
    from quietshelf.research.experiments import reproduce, study_named
    from quietshelf.research.experiments.store import RowStore

    try:
        study = study_named(name).with_data(_data(folder))
        return None if RowStore(folder, study).pending else reproduce(study, folder)
    except ValueError as error:  # its data are missing, or its rows are of another version
        raise SystemExit(f"{name} cannot be judged from {folder}: {error}") from error


def _data(folder: Path) -> Path | None:
    """The file that a study of hotels was run on."""
    worlds = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["config"]["worlds"]
    found = [world["data"] for world in worlds if "data" in world]
    return Path(found[0]) if found else None


def _pictures(result: Any) -> list[tuple[Path, str]]:
    """The files of a study's figures, with their titles."""
    drawn = result.folder / "figures"
    return [(drawn / f"{figure['name']}.svg", figure["title"]) for figure in result.study.figures]


def _record(result: Any) -> dict[str, Any]:
    study = result.study
    return {
        "horizon": study.horizon,
        "replicates": study.replicates,
        "seed": study.seed,
        "claims": [
            {"says": o.says, "source": o.source, "where": o.group, "verdict": o.verdict,
             "holding": o.holding, "comparisons": len(o.comparisons)}
            for o in result.outcomes
        ],
        "figures": [{"file": path.name, "title": title} for path, title in _pictures(result)],
    }  # fmt: skip


def _found(study: str, record: dict[str, Any]) -> list[str]:
    size = f"{record['replicates']} replicates of {record['horizon']:,} visitors, seed {record['seed']}."
    rows = [
        (one["says"], one["where"], VERDICTS[one["verdict"]], f"{one['holding']} of {one['comparisons']}")
        for one in record["claims"]
    ]
    verdicts = [table(("claim", "where", "verdict", "comparisons that hold"), rows)] if rows else []
    pictures = [f"![{one['title']}](images/studies/{study}/{one['file']})" for one in record["figures"]]
    return [size, *verdicts, *pictures]


if __name__ == "__main__":
    main()
