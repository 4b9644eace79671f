"""A machine that finds nothing proves little unless it finds what is there: every planted fault is caught."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from tests.protocol import device_faults, lease_faults
from tests.protocol.faults import FAULTS, Fault
from tests.protocol.places import Place
from tests.protocol.schedules import schedule
from tests.protocol.users import maker
from tests.protocol.worlds import Make, User, World, differs

assert device_faults.__name__ != lease_faults.__name__  # importing them enters their faults in the table
SCHEDULES = 300
"""Most need a handful."""


def caught(fault: Fault, make: Make) -> int | None:
    """The seed of the first schedule that shows the fault, and nothing without it; None if none does."""
    with ExitStack() as planted:

        def anew(world: World) -> User:
            planted.close()  # a fault remembers nothing of the other world
            for patch in fault.patches():
                planted.enter_context(patch)
            return make(world)

        for seed in range(fault.first, fault.first + SCHEDULES):
            found = differs(schedule(seed, fault.kind), anew)
            planted.close()
            if found and not differs(schedule(seed, fault.kind), make):
                return seed
    return None


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.rule}, {fault.says}: {fault.user}")
def test_a_planted_fault_is_caught(fault: Fault, place: Callable[[str], Place]) -> None:
    """By the machine that its line in the table names."""
    assert caught(fault, maker(fault.user, place)) is not None


def test_every_rule_has_a_planted_fault() -> None:
    """R1 to R8; printed as a table with ``pytest -s``."""
    for fault in FAULTS:
        print(f"{fault.rule} | {fault.says} | {fault.user}")
    assert {fault.rule for fault in FAULTS} == {f"R{number}" for number in range(1, 9)}
