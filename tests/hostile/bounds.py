"""What each scenario may cost, in one place: how long a bystander may wait, and how much memory may be taken."""

from __future__ import annotations

from typing import NamedTuple

from tests.studies.size import FULL

SLACK = 1.0 if FULL else 40.0
"""Times the stall that is allowed: in `make test` other tests share the machine, and a stall tells of them as well."""


class Bound(NamedTuple):
    """Seconds for any request of a bystander on another shelf, and MiB on top of what was held before."""

    stall: float
    memory: float


BOUNDS = {
    0: Bound(0.1, 50),  # nothing is done: what else the machine does may not count
    1: Bound(1.0, 50),
    2: Bound(0.1, 100),
    3: Bound(1.0, 50),
    4: Bound(0.5, 200),
    5: Bound(1.0, 50),
    6: Bound(3.0, 50),
    7: Bound(0.5, 50),
    8: Bound(1.0, 50),
    9: Bound(0.1, 50),  # the service that is attacked is another; this one serves its bystanders
    10: Bound(0.5, 100),
    11: Bound(0.5, 100),
    12: Bound(0.5, 50),
    13: Bound(0.5, 100),
    14: Bound(0.5, 200),
}
"""On two idle cores, by the number of the scenario."""
P99_GROWTH, MEMORY_GROWTH = (1.5, 0.010), (1.05, 4.0)
"""A soak's last part against the one before: as a factor, and on top of it seconds or MiB."""
PACE_KEPT = 0.95
"""Of the visitors per second that a soak wants: else it says nothing of that pace."""
