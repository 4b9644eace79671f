"""All scenarios on one database, in the order in which they build on each other; and nothing lost in the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tests.hostile.clients
import tests.hostile.faults
import tests.hostile.sizes  # noqa: F401 - they enter their scenarios
from tests.hostile.acknowledged import compared
from tests.hostile.arena import SCENARIOS, Outcome, opened

ORDER = (0, 3, 7, 1, 5, 14, 4, 13, 10, 12, 11, 2, 6, 8, 9)


def attacked(
    database: str,
    folder: Path,
    *,
    postgres: Any = None,
    only: tuple[int, ...] = ORDER,
    tell: Callable[[Outcome], None] = lambda _: None,
) -> tuple[list[Outcome], dict[str, int]]:
    """What became of each, and what bystanders were told against what the store holds."""
    found = []
    with opened(database, folder, postgres) as arena:
        for number in (each for each in ORDER if each in only):
            if SCENARIOS[number].postgres and postgres is None:
                continue
            found.append(arena.run(SCENARIOS[number]))
            tell(found[-1])
        arena.process.stop()
        return found, compared(database, folder, arena.shoppers)
