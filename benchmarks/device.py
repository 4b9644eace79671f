"""Offers from 10^6 items and simulations of thousands of worlds on a GPU, against the CPU and the memory floor.

``python -m benchmarks.device [cuda|torch:cpu] [items]``; it needs NumPy, SciPy and PyTorch or CuPy.
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks import duration, seconds, table
from benchmarks.catalogue import ITEM_DIM, ITEMS, VISITOR_DIM, offering, some_features, some_release
from quietshelf.model.choice.catalogue import Catalogue
from quietshelf.model.choice.device import Device, find_device
from quietshelf.model.choice.maps import feature_map
from quietshelf.research.environments import Synthetic
from quietshelf.research.loop import Contestant, simulate
from quietshelf.research.loop.named import contestant

GROUPS = (1, 64, 1024)
WORLDS, HORIZON = (1000, 4000), 20


def main() -> None:
    """Print both tables; offers and regret must be equal on both devices."""
    given = [] if sys.argv[0].endswith("__main__.py") else sys.argv[1:]
    name, items = given[0] if given else "cuda", int(float(given[1])) if len(given) > 1 else ITEMS
    try:
        device = find_device(name)
    except ValueError as error:
        print(f"left out: {error}")
        return
    assert device is not None
    offers(device, name, items)
    worlds(name)


def offers(device: Device, name: str, items: int) -> None:
    """One offer of `quiet` to each of a group of visitors."""
    features, rng = some_features(items), np.random.default_rng(1)
    here, rows = Catalogue.of(features), []
    there, floor = here.on(name), 4 * features.size / bandwidth(device)
    for which in ("item", "full"):
        named = feature_map(which)
        release = some_release(features, named, rng)
        for group in GROUPS:
            visitors = rng.normal(size=(group, VISITOR_DIM))
            fast, slow = (offering(stored, named, visitors, release) for stored in (there, here))
            assert np.array_equal(fast(), slow()), "offers must be the same on any device"
            runs = 5 if group < 500 else 2
            ours, cpu = seconds(fast, runs=runs) / group, seconds(slow, runs=runs if group < 500 else 1) / group
            cells = [duration(ours * group), duration(ours), f"{1 / ours:.0f}"]
            rows.append([f"{which}, {group} visitors", *cells, f"{ours * group / floor:.1f}", f"{cpu / ours:.1f}"])
    head = ("", "group", "per offer", "offers/s", "times the floor per group", "times as fast as NumPy")
    table(f"{name}: N={items}, d2={ITEM_DIM}; floor {duration(floor)}: the catalogue read once in float32", head, rows)


def bandwidth(device: Device) -> float:
    """Bytes per second that an addition reads and writes in the device's memory."""
    array = device.put(np.zeros(1 << 26, dtype=np.float32))
    for _ in range(3):
        array + 1.0
    waited(device, array)
    start = perf_counter()
    for _ in range(20):
        copy = array + 1.0
    waited(device, copy)
    moved: int = 2 * 20 * 4 * array.shape[0]
    return moved / (perf_counter() - start)


def waited(device: Device, array: Any) -> None:
    """Wait until all earlier work is done."""
    device.get(array[:1])


def worlds(name: str) -> None:
    """Visitors per second of a simulation of `quiet` and `ucb-mnl`, all worlds side by side."""
    world = Synthetic(items=100, capacity=10, dim=5, contexts="clipped")
    who: list[Contestant] = [contestant("quiet", rho=1.0), contestant("ucb-mnl")]
    rows = []
    for many in WORLDS:
        found, took = {}, {}
        for device in (name, "cpu"):
            start = perf_counter()
            found[device] = simulate(world, who, horizon=HORIZON, replicates=many, seed=1, device=device)
            took[device] = perf_counter() - start
        same = all(np.array_equal(found[name].regret[one], found["cpu"].regret[one]) for one in found["cpu"].regret)
        assert same, "a simulation must give the same rows on any device"
        speed = [f"{many * HORIZON * len(who) / took[device]:.0f}" for device in (name, "cpu")]
        rows.append([f"{many} worlds", *speed, f"{took['cpu'] / took[name]:.2f}"])
    table("simulation: N=100, K=10, d=5, visitors served per second", ("", name, "cpu", "times as fast"), rows)


if __name__ == "__main__":
    main()
