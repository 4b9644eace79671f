"""The types that flow round the loop, the protocols of its three parties, and input validation."""

from quietshelf.model.types.notebook import html_table
from quietshelf.model.types.nouns import NOTHING, Context, Features, Id, Offer, Release, Round
from quietshelf.model.types.protocols import Curator, Environment, Policy
from quietshelf.model.types.streams import PUBLIC_SEED, Common, Random, Streams, balanced_normal, child
from quietshelf.model.types.validation import (
    BoolArray,
    FloatArray,
    IntArray,
    anywhere,
    as_array,
    as_float,
    check_shape,
    everywhere,
    finite,
    integer,
    one_of,
    positive,
    require,
)

__all__ = [
    "NOTHING",
    "PUBLIC_SEED",
    "BoolArray",
    "Common",
    "Context",
    "Curator",
    "Environment",
    "Features",
    "FloatArray",
    "Id",
    "IntArray",
    "Offer",
    "Policy",
    "Random",
    "Release",
    "Round",
    "Streams",
    "anywhere",
    "as_array",
    "as_float",
    "balanced_normal",
    "check_shape",
    "child",
    "everywhere",
    "finite",
    "html_table",
    "integer",
    "one_of",
    "positive",
    "require",
]
