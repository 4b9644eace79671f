"""Rounds -> bounded contributions, one a visitor, and their sums: the only sums of raw data."""

from quietshelf.statistics.expected import expected_pair, expected_squares
from quietshelf.statistics.gram import clip, gram, gram_sensitivity
from quietshelf.statistics.outcomes import (
    ARMS,
    OUTCOME_NUMBERS,
    OUTCOME_SENSITIVITY,
    OUTCOMES,
    if_chosen,
    outcome,
)
from quietshelf.statistics.pair import (
    SCORE_BOUND,
    Pair,
    Total,
    contribution,
    nothing,
    on_grid,
    pair_sensitivity,
    summed,
    valid_bound,
)
from quietshelf.statistics.rows import CutRound, Shown, shown
from quietshelf.statistics.symmetric import from_svec, svec, svec_dim

__all__ = [
    "ARMS",
    "OUTCOMES",
    "OUTCOME_NUMBERS",
    "OUTCOME_SENSITIVITY",
    "SCORE_BOUND",
    "CutRound",
    "Pair",
    "Shown",
    "Total",
    "clip",
    "contribution",
    "expected_pair",
    "expected_squares",
    "from_svec",
    "gram",
    "gram_sensitivity",
    "if_chosen",
    "nothing",
    "on_grid",
    "outcome",
    "pair_sensitivity",
    "shown",
    "summed",
    "svec",
    "svec_dim",
    "valid_bound",
]
