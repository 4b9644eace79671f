"""Which features move together, so that no log could tell their tastes apart. Looks at the rows: not private."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from quietshelf.data.logs.searches import EncodedRounds
from quietshelf.model.types import FloatArray

SAME = 1e-6
"""A feature is a mix of others if what they leave of it is a smaller share of it."""
NAMED = 1e-3
"""Share of a feature from which on another counts as part of the mix."""


def move_together(rounds: EncodedRounds, names: Sequence[str]) -> list[str]:
    """A sentence for each feature that is a mix of those before it, over all items shown; none if all is well.

    >>> price = np.array([[[1.0, 3.0, 2.0], [1.0, 5.0, 4.0]]])
    >>> shown = EncodedRounds(price, np.array([0]), np.ones((1, 2), dtype=bool))
    >>> move_together(shown, ["intercept", "price", "price_eur"])
    ['intercept, price and price_eur move together: drop one']
    """
    return mixes(root_of(rounds), names)


def root_of(rounds: EncodedRounds, *, after: FloatArray | None = None) -> FloatArray:
    """R of the QR decomposition of all rows shown, at most (d, d): what there is to know of how features move together.

    With ``after``, the R of earlier rows, that of all together.
    """
    rows = rounds.features[rounds.available]
    return np.asarray(np.linalg.qr(rows if after is None else np.concatenate([after, rows])).R)


def mixes(root: FloatArray, names: Sequence[str]) -> list[str]:
    """A sentence for each feature that is a mix of those before it, from the R of all rows."""
    size = np.sqrt((root**2).sum(axis=0))
    return list(_mixes(root / np.where(size > 0, size, 1.0), size, names))


def _mixes(root: FloatArray, size: FloatArray, names: Sequence[str]) -> Iterator[str]:
    kept: list[int] = []
    for place, name in enumerate(names):
        if size[place] == 0:
            yield f"{name} is 0 everywhere: drop it"
            continue
        own = root[:, place]
        share = np.linalg.lstsq(root[:, kept], own, rcond=None)[0] if kept else np.zeros(0)
        if kept and np.linalg.norm(own - root[:, kept] @ share) < SAME:
            others = [names[other] for other, part in zip(kept, share.tolist(), strict=True) if abs(part) > NAMED]
            if others == ["intercept"]:
                yield f"{name} is the same everywhere, as the intercept is: drop it"
            else:
                yield f"{', '.join(others)} and {name} move together: drop one"
        else:
            kept.append(place)
