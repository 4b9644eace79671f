"""A study small enough for tests, with everything a large one has."""

from __future__ import annotations

from pathlib import Path

import pytest

from quietshelf.research.experiments import Study
from quietshelf.research.experiments.study import read_study

SMALL = """
title = "A small study"
summary = "Two worlds, four contestants."
horizon = 30
replicates = 5
seed = 7
block = 3
together = 3
checkpoints = 6

[[worlds]]
items = 12
capacity = 3
dim = [2, 3]
contexts = "clipped"

[[policies]]
policy = "dpmnl"
rho = [1.0, 50.0]
fits = [2, "auto"]
calibration = "paper"
explore = 10

[[policies]]
policy = ["greedy", "uniform"]

[[claims]]
says = "Regret falls as rho rises."
source = "a test"
kind = "order"
along = "rho"
direction = "falls"
where = { policy = "dpmnl" }
by = ["fits"]

[[figures]]
name = "small"
title = "A small figure"
where = { policy = "dpmnl" }
rows = "fits"
columns = "dim"
lines = ["rho"]
floor = ["greedy", "uniform"]

[[figures]]
name = "small-final"
title = "At the end"
kind = "final"
x = "dim"
where = { policy = "dpmnl" }
columns = "fits"
lines = ["rho"]
floor = ["greedy"]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The study as a file."""
    file = tmp_path / "small.toml"
    file.write_text(SMALL, encoding="utf-8")
    return file


@pytest.fixture
def study(path: Path) -> Study:
    """The study."""
    return read_study(path)
