"""Small logs in long format, as tables and as packed files."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa


def table() -> Any:
    """Three rounds; the second also lists an item that was not shown."""
    return pd.DataFrame(
        {
            "round": ["a", "a", "b", "b", "b", "c"],
            "item": ["tea", "jam", "tea", "jam", "rye", "rye"],
            "position": [1, 2, 2, np.nan, 1, 1],
            "chosen": [0, 1, 1, 0, 0, 0],
            "revenue": [3.0, 5.0, 3.0, 5.0, 1.0, 1.0],
            "price": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            "visitor_age": [30, 30, 40, 40, 40, 50],
            "person": ["zoe", "zoe", "adam", "adam", "adam", "zoe"],
            "time": ["2024-02", "2024-02", "2024-03", "2024-03", "2024-03", "2024-01"],
        }
    )


def packed(path: Path, content: bytes) -> None:
    """A file of that content, packed as its name says."""
    if path.suffix == ".zst":
        with pa.output_stream(str(path), compression="zstd") as file:
            file.write(content)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("log.csv", content)
    else:
        pack: Any = {".gz": gzip, ".bz2": bz2, ".xz": lzma}[path.suffix]
        path.write_bytes(pack.compress(content))
