"""``quietshelf doctor``: check that everything is installed, recent enough, and works."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer
from rich.table import Table

from quietshelf.__about__ import __version__
from quietshelf.cli.console import Json, out, strict_json

State = Literal["ok", "missing", "broken"]
SIGNS = {"ok": "✔ ok", "missing": "– missing", "broken": "✘ broken"}
STYLES = {"ok": "green", "missing": "yellow", "broken": "bold red"}
PURPOSES = {
    "client": "the HTTP client",
    "data": "logs: `fit`, `replay`, `expedia` (Parquet, trees)",
    "experiments": "`reproduce`: rows and figures of studies",
    "report": "figures: `--curve`, `--plot`, pages of audits",
    "otel": "traces of the service by OpenTelemetry",
    "scale": "`reproduce`, `fit` and `replay --cluster`: studies and large logs on a Dask cluster",
    "service": "`serve`: offers over HTTP",
    "bench": "`bench alternatives`: other libraries to compare with",
}
PROGRAMS = {"chromium": "to look at reports", "psql": "a local PostgreSQL for the service; a URL will do"}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Check(NamedTuple):
    """The result of one check: its state, what was found, and what to do about it."""

    name: str
    required: bool
    state: State
    found: str
    advice: str = ""


def doctor(
    folder: Annotated[Path, typer.Option(help="Folder for results, to test that it is writable.")] = Path(),
    as_json: Json = False,
) -> None:
    """Check the installation; exit status 1 if something required is broken.

    Example: quietshelf doctor
    """
    found = list(checks(folder))
    broken = any(check.required and check.state != "ok" for check in found)
    if as_json:
        typer.echo(strict_json({"well": not broken, "checks": [check._asdict() for check in found]}))
    else:
        out.print(_table(found))
        out.print("Something required is broken: see above." if broken else "Everything required works.")
    if broken:
        raise typer.Exit(1)


def checks(folder: Path) -> Iterator[Check]:
    """Run every check, the required ones first."""
    yield _python()
    yield _itself()
    for line in _requirements(None):
        yield _package(line, required=True)
    again = "the installation is damaged: pip install --force-reinstall . in a checkout"
    yield _tried("exact noise from the operating system", _exact_noise, again)
    yield _tried("a tiny private release", _release, again)
    yield _tried(f"writing to {folder.resolve()}", lambda: _writable(folder), "choose another with --folder")
    yield _threads()
    for extra, purpose in PURPOSES.items():
        yield _extra(extra, purpose)
    for program, purpose in PROGRAMS.items():
        path = shutil.which(program)
        yield Check(program, False, "ok" if path else "missing", path or "not on the path", f"optional: {purpose}")


def _python() -> Check:
    good = sys.version_info >= (3, 11)
    advice = "" if good else "Python 3.11 or later is needed"
    return Check("Python", True, "ok" if good else "broken", platform.python_version(), advice)


def _itself() -> Check:
    installed = version("quietshelf")
    good = installed == __version__
    advice = "" if good else f"the code is version {__version__}: reinstall it"
    return Check("quietshelf", True, "ok" if good else "broken", installed, advice)


def _requirements(extra: str | None) -> list[str]:
    """Requirements of the package itself, or of one extra, from the installed metadata, without markers."""
    found = []
    for line in requires("quietshelf") or []:
        wanted, _, marker = (part.strip() for part in line.partition(";"))
        mark = f"extra == '{extra}'"
        if (extra is None and "extra ==" not in marker) or (extra is not None and mark in marker.replace('"', "'")):
            found.append(wanted)
    return found


def _package(line: str, *, required: bool) -> Check:
    parts = re.match(r"([\w.-]+)(?:\[.*\])?(?:>=([\w.]+))?", line)
    assert parts is not None  # noqa: S101 - the package's own metadata
    name, least = parts[1], parts[2] or "0"
    try:
        installed = version(name)
    except PackageNotFoundError:
        return Check(name, required, "missing", "not installed", f"pip install '{line}'")
    good = _release_numbers(installed) >= _release_numbers(least)
    advice = "" if good else f"{least} or later is needed: pip install --upgrade '{line}'"
    return Check(name, required, "ok" if good else "broken", installed, advice)


def _release_numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version.

    >>> _release_numbers("2.10.1rc1") >= _release_numbers("2.9")
    True
    """
    return tuple(int(part) for part in re.findall(r"\d+", (re.match(r"[\d.]*", text) or [""])[0]))


def _extra(extra: str, purpose: str) -> Check:
    every = [_package(line, required=False) for line in _requirements(extra)]
    if not every:
        return Check(f"extra {extra}", False, "missing", "unknown to this installation", "reinstall quietshelf")
    lacking = [check.name for check in every if check.state != "ok"]
    install = f"{purpose}: pip install '.[{extra}]' in a checkout"
    if not lacking:
        return Check(f"extra {extra}", False, "ok", ", ".join(check.name for check in every), purpose)
    return Check(f"extra {extra}", False, "missing", f"without {', '.join(lacking)}", install)


def _tried(name: str, trial: Callable[[], str], advice: str) -> Check:
    try:
        return Check(name, True, "ok", trial())
    except Exception as error:  # whatever goes wrong is the finding
        return Check(name, True, "broken", f"{type(error).__name__}: {error}", advice)


def _exact_noise() -> str:
    from quietshelf.privacy.release.noise import DiscreteGaussian

    source = DiscreteGaussian()
    drawn = source.draw(10.0, (64,))
    steps = drawn / source.grid
    if not (steps == steps.round()).all() or not 3.0 < float(drawn.std()) < 30.0:
        raise ValueError(f"noise of standard deviation 10 on a grid was asked for, got {float(drawn.std()):.3g}")
    return f"discrete Gaussian on a grid of {source.grid:.2g}"


def _release() -> str:
    import numpy as np

    from quietshelf.serving.shelf import Shelf

    shelf = Shelf(items=3, dim=1, capacity=1, rho=1.0)
    while shelf.arrivals < 2 or shelf.estimate().releases == 0:
        offer = shelf.offer(np.array([[0.0], [0.5], [1.0]]))
        shelf.choose(offer.id, offer.items[0])
    promise = shelf.privacy()
    if not abs(promise.rho - 1.0) < 1e-9 or not np.isfinite(shelf.estimate().theta).all():
        raise ValueError(f"a release of rho = 1 was asked for, got rho={promise.rho}")
    return f"after {shelf.arrivals - 1} visitors, ρ = {promise.rho:g} in the ledger"


def _writable(folder: Path) -> str:
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"quietshelf")
    return f"{shutil.disk_usage(folder).free / 2**30:.1f} GiB free"


def _threads() -> Check:
    set_ones = {name: os.environ[name] for name in THREADS if name in os.environ}
    words = ", ".join(f"{name}={value}" for name, value in set_ones.items()) or "not set"
    advice = "" if set_ones else "set OMP_NUM_THREADS=1 if several processes share the cores"
    return Check("linear algebra threads", False, "ok", f"{words}; {os.cpu_count()} cores", advice)


def _table(found: list[Check]) -> Table:
    drawn = Table("checked", "state", "found", "purpose, advice", title="quietshelf doctor")
    for check in found:
        state = f"[{STYLES[check.state]}]{SIGNS[check.state]}[/]"
        drawn.add_row(check.name, state, check.found, check.advice.replace("[", "\\["))
    return drawn
