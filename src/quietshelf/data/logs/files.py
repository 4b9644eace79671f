"""Read files, compressed or not, and write them atomically."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from quietshelf.model.types import require

EXTRA = "pip install '.[data]' in a checkout"


def pandas() -> Any:
    """The pandas module, or an error that says how to install it."""
    try:
        import pandas as pd
    except ModuleNotFoundError:
        raise ModuleNotFoundError(f"tables need pandas: {EXTRA}") from None
    return pd


class Source(NamedTuple):
    """An open file and its size in bytes, for progress."""

    handle: IO[bytes]
    size: int


@contextmanager
def reading(path: str | Path) -> Iterator[Source]:
    """Open a file, decompressed if need be, or the only table inside a zip."""
    where = Path(path)
    require(where.is_file(), "the file must exist", path=str(path))
    require(where.stat().st_size > 0, "the file must not be empty", path=str(path))
    if where.suffix != ".zip":
        with _opened(where) as handle:
            yield Source(handle, where.stat().st_size)
        return
    require(zipfile.is_zipfile(where), "a .zip file must be a zip archive", path=str(path))
    with zipfile.ZipFile(where) as archive:
        tables = [item for item in archive.infolist() if item.filename.endswith(".csv")]
        names = [item.filename for item in archive.infolist()]
        require(len(tables) == 1, f"{where.name} must hold exactly one .csv file", holds=names)
        with archive.open(tables[0]) as handle:
            yield Source(handle, tables[0].file_size)


def _opened(path: Path) -> IO[bytes]:
    """Open a file, decompressed by its suffix."""
    kind = path.suffix.lower()
    if kind == ".zst":
        try:
            from pyarrow import input_stream
        except ModuleNotFoundError:
            raise ModuleNotFoundError(f".zst files are read with pyarrow: {EXTRA}") from None
        return io.BufferedReader(input_stream(str(path), compression="zstd"))
    packed: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return cast("IO[bytes]", packed[kind](path)) if kind in packed else path.open("rb")


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """Write ``path`` atomically: through a temporary file that replaces it at the end, and is deleted on failure."""
    target = Path(path)
    require(target.parent.is_dir(), "the folder must exist", folder=str(target.parent))
    number, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with cast("IO[bytes]", os.fdopen(number, "wb")) as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
