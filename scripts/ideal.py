"""What an ideal learner would lose with the noise of `quiet`: ``python -m scripts.ideal``.

A yardstick for the gauntlet. The learner knows everything except theta, which has d directions of equal information: a
visitor adds ``conversion / d`` along each, a batch adds noise of variance ``2 / rho`` to each of its scores, and a
visitor's loss is proportional to the variance of the estimate that serves them. Batch sizes are chosen with hindsight,
from a grid of first sizes, growths and least shares. Prints the ratio to the loss without noise, where every choice
counts for the next visitor.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from itertools import product

RHOS = (0.1, 0.5, 1.0, 5.0)
SHOPS = ((5, 0.9), (8, 0.1), (8, 0.03), (30, 0.1))
"""(d, conversion)."""
KNOWN = 1.0
"""Prior precision of theta: utilities vary by about 1."""
FIRST, ROOT, LEAST = (0.03, 0.1, 0.2, 0.3, 0.5, 1.0), (0.3, 0.5, 0.7, 1.0, 1.4), (0.05, 0.1, 0.2, 0.35)
"""Batch sizes: ``FIRST n``, then ``ROOT sqrt(N n)`` or ``LEAST N``, after N visitors, with n = 2 d/(rho conversion)."""


def sizes(unit: float, first: float, root: float, least: float) -> Iterator[int]:
    """Visitors of each batch."""
    came, size = 0, first * unit
    while True:
        batch = max(1, math.ceil(size))
        yield batch
        came += batch
        size = max(root * math.sqrt(came * unit), least * came)


def multiple(dim: int, conversion: float, rho: float, visitors: int, schedule: tuple[float, float, float]) -> float:
    """The ratio of the ideal learner's loss to that without noise."""
    each, noise = conversion / dim, 2.0 / rho
    known, lost, left = KNOWN, 0.0, visitors
    for size in sizes(noise / each, *schedule):
        batch = min(size, left)
        lost, left = lost + batch / known, left - batch
        if not left:
            break
        heard = each * batch
        known += heard * heard / (heard + noise)
    return lost / (math.log1p(each * visitors / KNOWN) / each)


def main() -> None:
    """Print a line per shop."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--visitors", type=int, default=10_000)
    parser.add_argument("--quieter", type=float, default=1.0, help="Divide the variance of the noise by this.")
    given = parser.parse_args()
    for dim, conversion in SHOPS:
        found = [
            min(
                multiple(dim, conversion, given.quieter * rho, given.visitors, one)
                for one in product(FIRST, ROOT, LEAST)
            )
            for rho in RHOS
        ]
        print(f"d = {dim:2}, {conversion:.0%} buy:", *(f"{each:.2f}" for each in found))


if __name__ == "__main__":
    main()
