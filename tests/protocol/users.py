"""The users of the protocol by name, and how many schedules each goes through."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from tests.protocol.device_user import DeviceUser
from tests.protocol.places import Place
from tests.protocol.schedules import DEVICE, LEASES, SERVICE, SHELF, SIMULATION, TWO_WORKERS, Kind
from tests.protocol.service_user import ServiceUser
from tests.protocol.shelf_user import ShelfUser
from tests.protocol.simulated_user import SimulatedUser
from tests.protocol.worlds import Make


class Driven(NamedTuple):
    """A user: which schedules it can follow, on which store, how many of them in ``make test`` and ``make study``."""

    kind: Kind
    store: str | None
    few: int
    many: int


USERS = {
    "simulation": Driven(SIMULATION, None, 150, 5000),
    "shelf": Driven(SHELF, None, 200, 8000),
    "service-sqlite": Driven(SERVICE, "sqlite", 60, 4500),
    "service-sqlite-two-workers": Driven(TWO_WORKERS, "sqlite", 25, 1000),
    "service-sqlite-leases": Driven(LEASES, "sqlite", 40, 2000),
    "service-postgresql-leases": Driven(LEASES, "postgresql", 12, 1000),
    "service-postgresql": Driven(SERVICE, "postgresql", 12, 1000),
    "service-postgresql-two-workers": Driven(TWO_WORKERS, "postgresql", 8, 500),
    "device-sqlite": Driven(DEVICE, "sqlite", 20, 1000),
    "device-postgresql": Driven(DEVICE, "postgresql", 4, 200),
}


def maker(name: str, place: Callable[[str], Place]) -> Make:
    """What makes that user in a world."""
    store = USERS[name].store
    if store is not None:
        return partial(DeviceUser if USERS[name].kind.device else ServiceUser, place=place(store))
    return SimulatedUser if name == "simulation" else ShelfUser
