"""Rounds -> bounded contributions, one per visitor, and their sums: the only sums of raw data."""

from quietshelf.privacy.statistics.expected import expected_pair, expected_squares
from quietshelf.privacy.statistics.factors import Factors, Grids, factors, row_grid, totalled
from quietshelf.privacy.statistics.gram import clip, gram, gram_sensitivity
from quietshelf.privacy.statistics.outcomes import (
    ARMS,
    OUTCOME_NUMBERS,
    OUTCOME_SENSITIVITY,
    OUTCOMES,
    if_chosen,
    outcome,
)
from quietshelf.privacy.statistics.pair import (
    SCORE_BOUND,
    SENSITIVITY,
    Pair,
    Total,
    contribution,
    nothing,
    on_grid,
    valid_bound,
)
from quietshelf.privacy.statistics.received import broken_rule
from quietshelf.privacy.statistics.rows import ObservedChoice, observed_choice
from quietshelf.privacy.statistics.symmetric import (
    from_svec,
    from_upper,
    interleaved,
    svec,
    svec_dim,
    svec_weights,
    upper,
)

__all__ = [
    "ARMS",
    "OUTCOMES",
    "OUTCOME_NUMBERS",
    "OUTCOME_SENSITIVITY",
    "SCORE_BOUND",
    "SENSITIVITY",
    "Factors",
    "Grids",
    "ObservedChoice",
    "Pair",
    "Total",
    "broken_rule",
    "clip",
    "contribution",
    "expected_pair",
    "expected_squares",
    "factors",
    "from_svec",
    "from_upper",
    "gram",
    "gram_sensitivity",
    "if_chosen",
    "interleaved",
    "nothing",
    "observed_choice",
    "on_grid",
    "outcome",
    "row_grid",
    "svec",
    "svec_dim",
    "svec_weights",
    "totalled",
    "upper",
    "valid_bound",
]
