"""News with click-through: articles come and go every day, tastes drift, clicks arrive late or never.

A full batch waits a while for late clicks (`wait_arrivals`), and no answer counts as no click. Batches stay small and
old ones fade (`max_batch`, `forgetting`), because readers' tastes change. The result is the click-through of each day.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

import numpy as np

from quietshelf import Shelf

ARTICLES, TOPICS, PLACES, RHO = 60, 4, 5, 1.0
DAYS, NEW_A_DAY, LATE = 5, 12, 20
READERS = int(sys.argv[1]) if len(sys.argv) > 1 else 4000


def main() -> None:
    """Serve the same readers from two shelves for five days."""
    rng = np.random.default_rng(3)
    articles = rng.normal(size=(ARTICLES, TOPICS))
    settings: dict[str, Any] = {"catalogue": articles, "feature_map": "item", "capacity": PLACES, "rho": RHO}
    quiet = Shelf(**settings, wait_arrivals=2 * LATE, max_batch=400, forgetting=0.9)
    chance = Shelf(**settings, policy="uniform")
    tastes = np.array([-2.0, 1.0, 0.5, 0.0, -0.5])  # 1, topics
    waiting: deque[tuple[str, int | None]] = deque()
    for day in range(1, DAYS + 1):
        clicks = {"quiet": 0, "random": 0}
        for _ in range(READERS // DAYS):
            luck = rng.gumbel(size=len(articles) + 1)
            for name, shelf in (("quiet", quiet), ("random", chance)):
                offer = shelf.offer()
                shown = np.array(offer.items)
                utility = tastes[0] + articles[shown] @ tastes[1:]
                wish = np.append(utility + luck[shown], luck[-1])
                click = int(shown[wish.argmax()]) if wish.argmax() < len(shown) else None
                clicks[name] += click is not None
                if name == "quiet":
                    waiting.append((offer.id, click))
            if len(waiting) > LATE:  # the click of a reader who came a while ago
                late, click = waiting.popleft()
                if click is not None:
                    quiet.choose(late, click)
            tastes[1:] += 0.01 * rng.normal(size=TOPICS)
        print(f"day {day}: {_rate(clicks['quiet'])} of readers click, {_rate(clicks['random'])} on random articles")
        fresh = rng.normal(size=(NEW_A_DAY, TOPICS))
        articles = np.concatenate([articles, fresh])
        for shelf in (quiet, chance):
            shelf.add(fresh)
            for old in range((day - 1) * NEW_A_DAY, day * NEW_A_DAY):
                shelf.retire(old)
    print(quiet.privacy(delta=1e-6).words)


def _rate(clicks: int) -> str:
    return f"{100 * clicks / (READERS // DAYS):.1f} %"


if __name__ == "__main__":
    main()
