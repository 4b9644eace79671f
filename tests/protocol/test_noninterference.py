"""Nobody but visitor n receives a byte that depends on n, except through the noise of a release.

Each schedule is run in two worlds that differ in the private inputs of one visitor or person, with the same coins and
with the released figures replayed (`tape`). Compared are all offers, slots, times, refusals, releases, promises,
metrics, pages (by their JSON twins) and log lines that others receive; sums may differ by the sensitivity. Read off
each world by itself: which answers count, when releases are published, and that nothing is drawn twice (`oracles`).
`make study` runs 20,000 schedules. A failure names the seed and the shortest schedule that still shows it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import pytest
from tests.protocol.places import Place
from tests.protocol.schedules import schedule, shrunk
from tests.protocol.users import USERS, maker
from tests.protocol.worlds import compare, differs
from tests.studies.size import FULL, keep

pytestmark = pytest.mark.study


@pytest.mark.parametrize("name", USERS)
def test_nobody_receives_a_byte_that_depends_on_another(name: str, place: Callable[[str], Place]) -> None:
    """Through every schedule, in both worlds, whatever the target brings, answers, or asks to be erased."""
    user, make = USERS[name], maker(name, place)
    count, began = user.many if FULL else user.few, time.monotonic()
    found: Counter[str] = Counter()
    for seed in range(count):
        once = schedule(seed, user.kind)
        try:
            found += compare(once, make)
        except AssertionError as seen:
            compare(shrunk(once, lambda fewer: differs(fewer, make)), make)
            raise AssertionError(f"seed {seed} of {name}") from seen
    assert found["schedules"] == count
    assert found["releases"] > 0
    keep(f"noninterference-{name}-{count}", **found, differences=0, seconds=round(time.monotonic() - began))
