"""What structure saves: one visitor's utilities and norms over a catalogue, with and without forming x."""

from __future__ import annotations

from collections.abc import Callable
from timeit import repeat

import numpy as np

from quietshelf.choice.features import Catalogued, Dense
from quietshelf.choice.maps import feature_map
from quietshelf.types import FloatArray

Answer = Callable[[FloatArray], FloatArray]

ITEMS, VISITOR_DIM, ITEM_DIM = 10_000, 12, 12


def main() -> None:
    """Print for the map ``outer`` how long each way takes."""
    rng = np.random.default_rng(0)
    outer = feature_map("outer")
    visitor, catalogue = rng.normal(size=VISITOR_DIM), np.asfortranarray(rng.normal(size=(ITEMS, ITEM_DIM)))
    structured = Catalogued(visitor, catalogue, outer)
    theta, root = rng.normal(size=structured.dim), rng.normal(size=(structured.dim, structured.dim))
    metric: FloatArray = root @ root.T

    def formed() -> Dense:
        return Dense(outer.dense(visitor, catalogue))

    kept = formed()
    print(f"outer map, N={ITEMS}, d1={VISITOR_DIM}, d2={ITEM_DIM}: one visitor")
    _compare("utility", structured.utility, kept.utility, lambda value: formed().utility(value), theta)
    _compare("norm", structured.norm, kept.norm, lambda value: formed().norm(value), metric)


def _compare(name: str, structured: Answer, kept: Answer, formed: Answer, value: FloatArray) -> None:
    """Check that all answer alike, then time them."""
    np.testing.assert_allclose(structured(value), kept(value), rtol=1e-9, atol=1e-9)
    fast, middle, slow = (_milliseconds(answer, value) for answer in (structured, kept, formed))
    print(f"  {name:8s} structured {fast:.3f} ms", end="")
    print(f"; dense, x at hand {middle:.3f} ms ({middle / fast:.0f} times as long)", end="")
    print(f"; dense, x formed for the visitor {slow:.3f} ms ({slow / fast:.0f} times)")


def _milliseconds(answer: Answer, value: FloatArray) -> float:
    """The shortest of fifteen runs."""
    return 1e3 * min(repeat(lambda: answer(value), number=1, repeat=15))


if __name__ == "__main__":
    main()
