"""A simulated raw file of hotel searches."""

from __future__ import annotations

from pathlib import Path

import pytest

from quietshelf.data.logs.expedia import write_sample


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 searches, as the file to be downloaded has them."""
    return write_sample(tmp_path_factory.mktemp("expedia") / "train.csv", searches=400, seed=3)
