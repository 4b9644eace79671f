"""Hotel search: show each traveller ten of two hundred hotels, at most three per chain, with different commissions.

Business and holiday travellers want different hotels, so the feature map multiplies visitor and hotel features. The
result is the commission earned, next to that of random offers to the same travellers and the best possible.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from quietshelf import Shelf
from quietshelf.assortment import best
from quietshelf.model.types import FloatArray

HOTELS, CHAINS, PLACES, RHO = 200, 20, 10, 1.0
MOST_OF_A_CHAIN = 3
TASTES = np.array([-1.5, 0.4, -0.8, -0.3, 0.8, 0.1, -0.5, 1.2])  # of 1, v, u, u ⊗ v
"""The hotel, v: stars, distance, price. Who searches, u: 1 on business."""
TRAVELLERS = int(sys.argv[1]) if len(sys.argv) > 1 else 3000


def main() -> None:
    """Serve the same travellers twice."""
    rng = np.random.default_rng(0)
    hotels = rng.normal(size=(HOTELS, 3))  # in units of what is declared to be usual
    commission = rng.uniform(5.0, 25.0, HOTELS)
    chains: dict[str, Any] = {"groups": np.arange(HOTELS) % CHAINS, "limits": np.full(CHAINS, MOST_OF_A_CHAIN)}
    shop: dict[str, Any] = {
        "catalogue": hotels,
        "feature_map": "full",
        "visitor_dim": 1,
        "visitor_scale": 0.5,  # declared: half of the travellers are on business
        "capacity": PLACES,
        "rho": RHO,
        **chains,
    }
    shelves = {"quiet": Shelf(**shop), "random": Shelf(**shop, policy="uniform")}
    earned, most = dict.fromkeys(shelves, 0.0), 0.0
    for _ in range(TRAVELLERS):
        business = float(rng.integers(2))
        utility = features(hotels, business) @ TASTES
        luck = rng.gumbel(size=HOTELS + 1)
        most += float(best(utility=utility, revenue=commission, capacity=PLACES, **chains).expected_revenue)
        for name, shelf in shelves.items():
            offer = shelf.offer([business], revenue=commission)
            shown = np.array(offer.items)
            weight = np.exp(utility[shown])
            earned[name] += float(weight @ commission[shown] / (1 + weight.sum()))
            wish = np.append(utility[shown] + luck[shown], luck[-1])
            place = int(wish.argmax())
            shelf.choose(offer.id, int(shown[place]) if place < len(shown) else None)
    for name, sum_ in earned.items():
        print(f"{name:7s} {sum_ / TRAVELLERS:6.2f} a traveller, {100 * sum_ / most:5.1f} % of the best possible")
    print(f"promise: rho = {shelves['quiet'].privacy().rho:.2f}, {shelves['quiet'].estimate().health}")


def features(hotels: FloatArray, business: float) -> FloatArray:
    """The features of the map "full": 1, v, u, u ⊗ v."""
    one = np.ones((len(hotels), 1))
    return np.concatenate([one, hotels, business * one, business * hotels], axis=1)


if __name__ == "__main__":
    main()
