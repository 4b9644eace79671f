"""A record of how a file of searches was prepared: a private fit may use it only if no step looked at others' data.

A fit's promise holds if the features of each search are computed from that search and public constants alone. A single
step that looks further (a mean, a tree, dropping a constant column) lets one search change everybody's features by an
unbounded amount.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Final

from quietshelf.model.types import require

PUBLIC: Final = "public constants"


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """The record.

    Attributes:
        scaling: Where the centre and spread of each feature come from.
        imputation: Where the replacements for missing values come from.
        data_dependent: Every step in which one search can change another's features, in words.
    """

    scaling: str
    imputation: str
    data_dependent: tuple[str, ...]

    def __post_init__(self) -> None:
        public = self.scaling == self.imputation == PUBLIC
        require(public or len(self.data_dependent) > 0, "what is not public must be listed as data-dependent")

    def after(self, step: str) -> Preparation:
        """The record with one more data-dependent step."""
        return replace(self, data_dependent=(*self.data_dependent, step))

    def to_json(self) -> str:
        """Strict JSON."""
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Preparation:
        """The inverse of ``to_json``; an unreadable record counts as none.

        >>> Preparation.from_json("{}") is UNKNOWN
        True
        """
        try:
            record = json.loads(text)
            scaling, imputation, steps = record["scaling"], record["imputation"], record["data_dependent"]
            known = all(isinstance(part, str) for part in (scaling, imputation, *steps)) and isinstance(steps, list)
            return cls(scaling=scaling, imputation=imputation, data_dependent=tuple(steps)) if known else UNKNOWN
        except (ValueError, TypeError, KeyError, RecursionError):
            return UNKNOWN


UNKNOWN: Final = Preparation(
    scaling="unknown",
    imputation="unknown",
    data_dependent=("nothing is recorded of how the features were scaled and imputed",),
)
"""The preparation of files by others, and of our own older files."""
