"""Find collinear features, whose tastes no log can tell apart. This looks at the rows: not private."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quietshelf.data.logs.searches import EncodedRounds
from quietshelf.model.types import FloatArray

SAME = 1e-6
"""A feature is a mix of others if their residual is a smaller share of it."""
NAMED = 1e-3
"""A feature counts as part of a mix from this coefficient on."""


def move_together(rounds: EncodedRounds, names: Sequence[str]) -> list[str]:
    """A sentence for each feature that is a mix of those before it, over all items shown.

    >>> price = np.array([[[1.0, 3.0, 2.0], [1.0, 5.0, 4.0]]])
    >>> shown = EncodedRounds(price, np.array([0]), np.ones((1, 2), dtype=bool))
    >>> move_together(shown, ["intercept", "price", "price_eur"])
    ['intercept, price and price_eur move together: drop one']
    """
    return mixes(root_of(rounds), names)


def root_of(rounds: EncodedRounds, *, after: FloatArray | None = None) -> FloatArray:
    """R of the QR decomposition of all rows shown, at most (d, d), which determines the collinear features.

    With ``after``, the R of earlier rows, the result is that of all rows together.
    """
    rows = rounds.features[rounds.available]
    return np.asarray(np.linalg.qr(rows if after is None else np.concatenate([after, rows])).R)


def mixes(root: FloatArray, names: Sequence[str]) -> list[str]:
    """A sentence for each feature that is a mix of those before it, from the R of all rows."""
    size = np.sqrt((root**2).sum(axis=0))
    unit = root / np.where(size > 0, size, 1.0)
    kept, found = list[int](), list[str]()
    for place, name in enumerate(names):
        if size[place] == 0:
            found.append(f"{name} is 0 everywhere: drop it")
            continue
        own = unit[:, place]
        share = np.linalg.lstsq(unit[:, kept], own, rcond=None)[0] if kept else np.zeros(0)
        if not kept or np.linalg.norm(own - unit[:, kept] @ share) >= SAME:
            kept.append(place)
            continue
        others = [names[other] for other, part in zip(kept, share.tolist(), strict=True) if abs(part) > NAMED]
        if others == ["intercept"]:
            found.append(f"{name} is the same everywhere, as the intercept is: drop it")
        else:
            found.append(f"{', '.join(others)} and {name} move together: drop one")
    return found
