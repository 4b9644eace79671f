"""Rows on disk: one Parquet file per unit of work, written atomically, beside a manifest.

    FOLDER/manifest.json        the resolved config, versions, seed, git revision
    FOLDER/rows/UNIT.parquet    the rows of one unit

A file that exists is complete, so an interrupted study resumes where it stopped. A folder belongs to one config.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quietshelf.__about__ import __version__
from quietshelf.data.logs.files import replacing
from quietshelf.research.experiments.study import Study
from quietshelf.research.experiments.units import Columns, Done, Unit

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "manifest.json"
ROWS = "rows"


class RowStore:
    """The folder of one study."""

    def __init__(self, folder: Path, study: Study) -> None:
        _arrow()
        self._folder, self._study = folder, study
        (folder / ROWS).mkdir(parents=True, exist_ok=True)
        self._check_or_write_manifest()

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest, as written when the study began."""
        found: dict[str, Any] = json.loads((self._folder / MANIFEST).read_text(encoding="utf-8"))
        return found

    @property
    def pending(self) -> list[Unit]:
        """Units not written yet."""
        return [unit for unit in self._study.units if not self.path(unit).exists()]

    def path(self, unit: Unit) -> Path:
        """The file of a unit's rows."""
        return self._folder / ROWS / f"{unit.name}.parquet"

    def write(self, unit: Unit, done: Done) -> None:
        """Write a unit's rows atomically."""
        import pyarrow.parquet as pq

        facts = {
            "fingerprint": self._study.fingerprint,
            "quietshelf": __version__,
            "seconds": json.dumps({**done.seconds, "": done.world_seconds}),
        }
        table = _table(unit, done.columns).replace_schema_metadata(facts)
        with replacing(self.path(unit)) as file:
            pq.write_table(table, file, compression="zstd")

    def read(self) -> pa.Table:
        """All rows, by unit; refuses files of another study."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        tables = []
        for unit in sorted(self._study.units, key=lambda unit: unit.name):
            table = pq.read_table(self.path(unit), partitioning=None)
            made_for = (table.schema.metadata or {}).get(b"fingerprint", b"").decode()
            if made_for != self._study.fingerprint:
                rule = "rows must be of this study: remove those of another, or choose another folder"
                raise ValueError(f"{rule}, got {self.path(unit)}")
            tables.append(table.replace_schema_metadata(None))
        return pa.concat_tables(tables, promote_options="default")

    def _check_or_write_manifest(self) -> None:
        path = self._folder / MANIFEST
        if not path.exists():
            with replacing(path) as file:
                file.write((json.dumps(describe(self._study), indent=2) + "\n").encode())
            return
        before = self.manifest
        if before["fingerprint"] != self._study.fingerprint:
            rule = "a folder holds one study: choose another folder, or remove this one"
            raise ValueError(f"{rule}, got {self._folder} with {_differences(before['config'], self._study.config)}")


def describe(study: Study) -> dict[str, Any]:
    """The manifest: what it takes to reproduce the rows."""
    packages = ("numpy", "scipy", "pyarrow", "matplotlib", "distributed")
    return {
        "study": study.name,
        "seed": study.seed,
        "fingerprint": study.fingerprint,
        "versions": {"quietshelf": __version__, "python": platform.python_version(), **_versions(packages)},
        "platform": f"{sys.platform} {platform.machine()}",
        "revision": revision(),
        "units": len(study.units),
        "config": json.loads(json.dumps(study.config)),
    }


def revision() -> str | None:
    """The git revision of the source, with ``+`` if it has local changes; None outside a checkout."""
    here = Path(__file__).parents[2]
    try:
        head = _git(here, "rev-parse", "HEAD")
        return head + ("+" if _git(here, "status", "--porcelain", "--", str(here)) else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    found = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - fixed words
    return found.stdout.strip()


def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    plain = json.loads(json.dumps(now))
    keys = [key for key in plain if before.get(key) != plain[key]]
    short = {key: (before.get(key), plain[key]) for key in keys if not isinstance(plain[key], list)}
    return ", ".join([f"{key}={a!r} (now {b!r})" for key, (a, b) in short.items()] or [f"other {k}" for k in keys])


def _table(unit: Unit, columns: Columns) -> pa.Table:
    """The rows with their contestants' settings as columns, so that the file explains itself."""
    import pyarrow as pa

    by_label = {entry.label: entry.settings for entry in unit.cell.entries}
    keys = sorted({key for settings in by_label.values() for key in settings})
    labels = columns["label"]
    described = {key: [by_label[label].get(key) for label in labels] for key in keys}
    settings = {key: _setting(values) for key, values in described.items()}
    rows = {key: pa.array(values) for key, values in columns.items() if key != "label"}
    label = pa.array(labels, type=pa.string()).dictionary_encode()
    return pa.table({"label": label, **settings, **rows})


def _setting(values: list[Any]) -> pa.Array:
    """A column of settings: numbers, or text for all if one of them is text."""
    import pyarrow as pa

    known = {type(value) for value in values if value is not None}
    if known <= {int, float}:
        return pa.array([None if value is None else float(value) for value in values], type=pa.float64())
    return pa.array([None if value is None else str(value) for value in values]).dictionary_encode()


def _arrow() -> None:
    try:
        import pyarrow as pa  # noqa: F401 - fail early if it is missing
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("studies need pyarrow: pip install '.[experiments]' in a checkout") from error


def column(table: pa.Table, name: str) -> np.ndarray[Any, Any]:
    """One column as an array."""
    return np.asarray(table.column(name).to_numpy(zero_copy_only=False))
