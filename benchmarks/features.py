"""What structure saves: one visitor's utilities and norms over a catalogue, with and without forming x."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks import duration, seconds, table
from quietshelf.model.choice.features import Catalogued, Dense
from quietshelf.model.choice.maps import feature_map
from quietshelf.model.types import FloatArray

Answer = Callable[[FloatArray], FloatArray]

ITEMS, VISITOR_DIM, ITEM_DIM = 10_000, 12, 12


def main() -> None:
    """Print the times for the map ``outer``."""
    rng = np.random.default_rng(0)
    outer = feature_map("outer")
    visitor, catalogue = rng.normal(size=VISITOR_DIM), np.asfortranarray(rng.normal(size=(ITEMS, ITEM_DIM)))
    structured = Catalogued(visitor, catalogue, outer)
    theta, root = rng.normal(size=structured.dim), rng.normal(size=(structured.dim, structured.dim))
    metric: FloatArray = root @ root.T

    def formed() -> Dense:
        return Dense(outer.dense(visitor, catalogue))

    kept = formed()
    table(
        f"outer map, N={ITEMS}, d1={VISITOR_DIM}, d2={ITEM_DIM}: one visitor",
        ("", "structured", "dense, x at hand", "times as long", "dense, x formed for the visitor", "times as long"),
        [
            _row("utility", structured.utility, kept.utility, lambda value: formed().utility(value), theta),
            _row("norm", structured.norm, kept.norm, lambda value: formed().norm(value), metric),
        ],
    )


def _row(name: str, structured: Answer, kept: Answer, formed: Answer, value: FloatArray) -> tuple[str, ...]:
    """Check that all answers agree, then time them."""
    np.testing.assert_allclose(structured(value), kept(value), rtol=1e-9, atol=1e-9)
    fast, *others = (seconds(partial(answer, value), runs=15) for answer in (structured, kept, formed))
    return name, duration(fast), *(text for slow in others for text in (duration(slow), f"{slow / fast:.0f}"))


if __name__ == "__main__":
    main()
