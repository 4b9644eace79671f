"""Rounds -> bounded contributions, one a visitor, and their sums: the only sums of raw data."""

from quietshelf.statistics.gram import clip, gram, gram_sensitivity
from quietshelf.statistics.pair import (
    Pair,
    Total,
    contribution,
    information_sensitivity,
    nothing,
    on_grid,
    score_sensitivity,
    summed,
)
from quietshelf.statistics.rows import CutRound, Shown, shown
from quietshelf.statistics.symmetric import from_svec, svec, svec_dim

__all__ = [
    "CutRound",
    "Pair",
    "Shown",
    "Total",
    "clip",
    "contribution",
    "from_svec",
    "gram",
    "gram_sensitivity",
    "information_sensitivity",
    "nothing",
    "on_grid",
    "score_sensitivity",
    "shown",
    "summed",
    "svec",
    "svec_dim",
]
