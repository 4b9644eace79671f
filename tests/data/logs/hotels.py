"""Where the real hotel data lie, if they do: the folder named by QUIETSHELF_DATA, by default beside the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("QUIETSHELF_DATA", Path(__file__).parents[4] / "shared" / "data")) / "expedia"
ARRAYS = FOLDER / "expedia_dest8192_100hotels.npz"
RAW = FOLDER / "raw_train_sample.csv"
TABLES = {100: FOLDER / "trans_data_100Hotels.zip", 30: FOLDER / "trans_data_30Hotels.zip"}

needs_data = pytest.mark.skipif(not ARRAYS.is_file(), reason=f"the hotel data are not in {FOLDER} (QUIETSHELF_DATA)")
