"""Declarations of what a table's columns mean, and how each encodes a cell."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from quietshelf.data.tables.cells import as_flag, as_level, as_number, as_vector, three_digits
from quietshelf.model.types import finite, integer, positive, require

HALF = 0.5
"""Standard deviation of a flag that is true half the time, the largest possible."""
MOST_NUMBERS = 10_000
"""The longest embedding."""


@dataclass(frozen=True, repr=False)
class Column(ABC):
    """A declared column: turns each cell into the features called ``names``."""

    kind: ClassVar[str]

    @abstractmethod
    def names(self, column: str) -> list[str]:
        """Names of the features."""

    @abstractmethod
    def encode(self, column: str, value: Any) -> list[float]:
        """The features of one cell; raises a `ValueError` with the rule and the value."""

    @property
    @abstractmethod
    def scales(self) -> list[float]:
        """The declared standard deviation of each feature."""

    @property
    def measured(self) -> bool:
        """Whether all scales are known."""
        return True

    def to_dict(self) -> dict[str, Any]:
        """The kind and all non-default options, as plain data."""
        return {"kind": self.kind} | {
            name: list(value) if isinstance(value, tuple) else value for name, value in self._told()
        }

    def __repr__(self) -> str:
        given = [f"{name}={list(value) if isinstance(value, tuple) else value!r}" for name, value in self._told()]
        return f"{self.kind}({', '.join(given)})"

    def _told(self) -> Iterable[tuple[str, Any]]:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.default is MISSING or value != each.default:
                yield each.name, value


class _MayBeMissing(Column):
    """A column with one feature, and optionally a second one for missing cells."""

    missing: bool

    def names(self, column: str) -> list[str]:
        """The feature, and the one for missing cells if there is one."""
        return [column, f"{column} missing"] if self.missing else [column]

    def _with_missing(self, found: float, *, missing: bool) -> list[float]:
        return [found, float(missing)] if self.missing else [found]


@dataclass(frozen=True, repr=False)
class number(_MayBeMissing):  # noqa: N801 - reads as a declaration
    """A number: ``(x - centre) / scale``.

    >>> number(scale=2, centre=5).encode("price", 9)
    [2.0]
    >>> number(scale=2, missing=True).names("price")
    ['price', 'price missing']

    Args:
        scale: Its standard deviation; None to measure it, on item columns only.
        centre: The value that becomes zero; None for 0, or measured along with the scale.
        missing: Whether a missing number has a feature of its own; otherwise it counts as the centre.
    """

    kind = "number"
    scale: float | None = None
    centre: float | None = None
    missing: bool = False

    def __post_init__(self) -> None:
        if self.scale is not None:
            object.__setattr__(self, "scale", positive("scale", self.scale))
            object.__setattr__(self, "centre", 0.0 if self.centre is None else self.centre)
        if self.centre is not None:
            object.__setattr__(self, "centre", float(finite("centre", self.centre, shape=())))
        _boolean("missing", self.missing)

    def encode(self, column: str, value: Any) -> list[float]:
        """The centred number in units of its scale."""
        if self.scale is None or self.centre is None:
            raise ValueError(f"{column} must have a scale, declared or measured, got {column}: {self!r}")
        x = self.value(column, value)
        return self._with_missing(0.0 if x is None else (x - self.centre) / self.scale, missing=x is None)

    @property
    def scales(self) -> list[float]:
        """1, since it is divided by its standard deviation."""
        return [1.0, HALF] if self.missing else [1.0]

    @property
    def measured(self) -> bool:
        """Whether centre and scale are known."""
        return self.scale is not None

    def measure(self, values: Iterable[float | None]) -> Self:
        """The same column with the mean and standard deviation of a public catalogue's ``value``s, to three digits."""
        found = [x for x in values if x is not None]
        mean = math.fsum(found) / max(len(found), 1)
        spread = math.sqrt(math.fsum((x - mean) ** 2 for x in found) / max(len(found), 1))
        centre = three_digits(mean) if self.centre is None else self.centre
        return replace(self, scale=three_digits(spread) or 1.0, centre=centre)

    def value(self, column: str, value: Any) -> float | None:
        """The number in a cell, before centring and scaling."""
        return as_number(column, value)


@dataclass(frozen=True, repr=False)
class log_number(number):  # noqa: N801 - reads as a declaration
    """The logarithm of a positive number, as a `number`: centre and scale are those of the logarithm.

    >>> log_number(scale=2.0).encode("price", math.e)
    [0.5]
    """

    kind = "log_number"

    def value(self, column: str, value: Any) -> float | None:
        """The logarithm of the number in a cell."""
        x = as_number(column, value)
        if x is None:
            return None
        require(x > 0, f"{column} must be positive to have a logarithm", **{column: value})
        return math.log(x)


@dataclass(frozen=True, repr=False)
class category(Column):  # noqa: N801 - reads as a declaration
    """One of several levels, one-hot with the first as reference.

    >>> kind = category(["tea", "coffee", "cocoa"])
    >>> kind.names("kind"), kind.encode("kind", "cocoa"), kind.encode("kind", "tea")
    (['kind=coffee', 'kind=cocoa'], [0.0, 1.0], [0.0, 0.0])

    Args:
        levels: The levels as text; whole numbers count as their digits. The first is the reference, without a feature.
        other: Whether unknown and missing levels have a feature of their own, "kind=other"; otherwise they count as the
            reference.
    """

    kind = "category"
    levels: Iterable[str | int]
    other: bool = False

    def __post_init__(self) -> None:
        require(not isinstance(self.levels, str), "levels must be a list", levels=self.levels)
        found = tuple(as_level("level", level) or "" for level in self.levels)
        _boolean("other", self.other)
        least = "one level" if self.other else "two levels, or one with other=True"
        require(len(found) + self.other >= 2, f"levels must be at least {least}", levels=list(found))
        require("" not in found, "a level must not be empty", levels=list(found))
        twice = sorted(level for level, times in Counter(found).items() if times > 1)
        require(not twice, "levels must be different", twice=twice)
        require(not (self.other and "other" in found), 'levels must not hold "other" with other=True')
        object.__setattr__(self, "levels", found)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {level: place - 1 for place, level in enumerate(self.levels) if isinstance(level, str)}

    def names(self, column: str) -> list[str]:
        """One per level but the first."""
        return [f"{column}={level}" for level in [*self.levels, *(["other"] if self.other else [])][1:]]

    def encode(self, column: str, value: Any) -> list[float]:
        """A 1 at the level; all zeros for the first."""
        level = as_level(column, value)
        unknown = len(self._places) - 1 if self.other else -1
        place = unknown if level is None else self._places.get(level, unknown)
        found = [0.0] * (len(self._places) - 1 + self.other)
        if place >= 0:
            found[place] = 1.0
        return found

    @property
    def scales(self) -> list[float]:
        """As if all levels were equally frequent."""
        count = len(self._places) + self.other
        return [math.sqrt((1 - 1 / count) / count)] * (count - 1)


@dataclass(frozen=True, repr=False)
class flag(_MayBeMissing):  # noqa: N801 - reads as a declaration
    """True or false, yes or no, 1 or 0.

    >>> flag().encode("vegan", "yes"), flag(missing=True).encode("vegan", None)
    ([1.0], [0.0, 1.0])

    Args:
        missing: Whether a missing flag has a feature of its own; otherwise it counts as false.
    """

    kind = "flag"
    missing: bool = False

    def __post_init__(self) -> None:
        _boolean("missing", self.missing)

    def encode(self, column: str, value: Any) -> list[float]:
        """1 or 0."""
        found = as_flag(column, value)
        return self._with_missing(float(found or False), missing=found is None)

    @property
    def scales(self) -> list[float]:
        """As if it were true half the time."""
        return [HALF, HALF] if self.missing else [HALF]


@dataclass(frozen=True, repr=False)
class embedding(Column):  # noqa: N801 - reads as a declaration
    """A list of numbers, such as a model's embedding; a missing one counts as zeros.

    >>> embedding(2, scale=0.5).encode("style", [1, -1]), embedding(2).names("style")
    ([2.0, -2.0], ['style[0]', 'style[1]'])

    Args:
        dim: Number of entries.
        scale: Their standard deviation, which they are divided by.
    """

    kind = "embedding"
    dim: int
    scale: float = 1.0

    def __post_init__(self) -> None:
        integer("dim", self.dim, high=MOST_NUMBERS)
        object.__setattr__(self, "scale", positive("scale", self.scale))

    def names(self, column: str) -> list[str]:
        """One per entry, counted from 0."""
        return [f"{column}[{place}]" for place in range(self.dim)]

    def encode(self, column: str, value: Any) -> list[float]:
        """The entries in units of their scale."""
        found = as_vector(column, value, self.dim)
        return [0.0] * self.dim if found is None else [x / self.scale for x in found]

    @property
    def scales(self) -> list[float]:
        """1, since they are divided by their standard deviation."""
        return [1.0] * self.dim


@dataclass(frozen=True, repr=False)
class ignore(Column):  # noqa: N801 - reads as a declaration
    """A column that is left out.

    Args:
        why: The reason, printed beside it.
    """

    kind = "ignore"
    why: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        require(isinstance(self.why, str) and "\n" not in self.why, "why must be one line of text", why=self.why)

    def names(self, column: str) -> list[str]:  # noqa: ARG002 - nothing comes of it
        """None."""
        return []

    def encode(self, column: str, value: Any) -> list[float]:  # noqa: ARG002 - nothing comes of it
        """Nothing."""
        return []

    @property
    def scales(self) -> list[float]:
        """None."""
        return []


def _boolean(name: str, value: Any) -> None:
    require(isinstance(value, bool), f"{name} must be True or False", **{name: value})
