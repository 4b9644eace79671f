"""Records of the long studies (docs/images/studies/*.json) -> the tables and sentences that quote them.

A record is missing until its study has been run at full size; until then, the parts that need it stay as they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import NormalDist
from typing import Any

from scripts.docs.markdown import table

from quietshelf.privacy.release.quiet_settings import Quiet

RHOS = ("0.1", "0.5", "1", "5")
HEADS = (f"rho = {RHOS[0]}", *RHOS[1:])
CONTEXTS = {
    "clipped": "contexts N(0, I) clipped to the unit ball",
    "normal": "contexts N(0, I), as in the paper",
}
WORLDS = {
    "fixed": "items look the same to everybody",
    "unequal-revenue": "revenues uniform on [0, 1]",
    "capacity-5": "K = 5",
    "capacity-20": "K = 20",
    "dim-3": "d = 3",
    "dim-15": "d = 15",
}
Regret = Mapping[str, tuple[float, float]]
Record = Callable[[str], Any]
"""Returns a record by name; raises FileNotFoundError if there is none."""


def reader(folder: Path) -> Record:
    """A reader of the records in a folder."""
    return lambda name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def shop(record: Record) -> str:
    """What privacy costs in the shop of the front page, in one sentence."""
    lost = {each["policy"]: each for each in record("shop")["policies"]}
    ours, floor, chance = (
        f"{lost[name]['regret']:,.0f} ± {lost[name]['standard_error']:,.0f}"
        for name in ("quiet rho=1", "greedy", "uniform")
    )
    return f"`quiet` forgoes {ours} sales, a learner without privacy {floor}, random offers {chance}"


def guess(_: Record) -> str:
    """The best success rate at telling two records apart after one Gaussian release at rho = 1."""
    return f"{math.ceil(1000 * NormalDist().cdf(math.sqrt(2.0) / 2)) / 10:.1f} %"


def first(_: Record) -> str:
    """The size of the first batch in the shop of the front page: 8 coordinates, 3 in 100 buy, rho = 1."""
    return f"{Quiet(rho=1.0, conversion=0.03).batch_size(dim=8, previous=None):,}"


def quiet(record: Record) -> str:
    """`quiet` at four budgets beside no privacy."""
    rows = []
    for name, words in CONTEXTS.items():
        regret = record(f"regret-{name}")["regret"]
        cells = [*(regret[f"quiet {rho}"] for rho in RHOS), _floor(regret)]
        rows.append((words, *map(_two, cells), _one(regret["uniform"])))
    count = record("regret-clipped")["replicates"]
    return table((f"{count} replicates", *HEADS, "no privacy", "random"), rows)


def others(record: Record) -> str:
    """The policies without privacy, and the factor that privacy costs."""
    clipped, normal = (record(f"regret-{name}")["regret"] for name in CONTEXTS)
    each = ", ".join(
        f"`{name}` {clipped[name][0]:.2f} / {normal[name][0]:.2f}" for name in ("greedy", "ts-mnl", "ofu-mnl")
    )
    factors = [clipped[f"quiet {rho}"][0] / _floor(clipped)[0] for rho in ("1", "5")]
    return (
        f'"No privacy" is the better of `greedy` and `ucb-mnl`. The others without privacy, on clipped / the paper\'s\n'
        f"contexts: {each}.\nAt rho = 1 privacy costs a factor of {factors[0]:.1f} on clipped contexts, at rho = 5 a "
        f"factor of {factors[1]:.1f}."
    )


def shelf(record: Record) -> str:
    """The same through `Shelf`."""
    rows = [(words, *_cells(record(f"shelf-{name}"), "shelf", _two)) for name, words in CONTEXTS.items()]
    return table((f"{record('shelf-clipped')['replicates']} runs", *HEADS), rows)


def worlds(record: Record) -> str:
    """Other worlds."""
    rows = []
    for name, words in WORLDS.items():
        found = record(f"regret-{name}")
        regret, how = found["regret"], _two if found["regret"]["uniform"][0] > 1000 else _one
        more = how(regret["quiet 1 undeclared"]), how(regret["greedy"]), f"{regret['uniform'][0]:.0f}"
        rows.append((words, *_cells(found, "quiet", how), *more))
    return table(("", *HEADS, "1, geometry undeclared", "`greedy`", "random"), rows)


def drift(record: Record) -> str:
    """Drifting tastes."""
    names = ("quiet 1", "greedy", "ucb-mnl", "ts-mnl", "ofu-mnl")
    rows = []
    for step in ("0.001", "0.01"):
        regret = record(f"regret-drift-{step}")["regret"]
        rows.append((step, *(_one(regret[name]) for name in names), f"{regret['uniform'][0]:.0f}"))
    return table(("step", "`quiet`, rho = 1", *(f"`{name}`" for name in names[1:]), "random"), rows)


def ten_times(record: Record) -> str:
    """T = 10^5."""
    found = record("regret-long")
    cells = " / ".join(_one(found["regret"][f"quiet {rho}"]) for rho in ("0.1", "1", "5"))
    return f"{found['replicates']} replicates: {cells} at rho 0.1 / 1 / 5"


def printed(record: Record) -> str:
    """DPMNL as printed, on the paper's contexts."""
    return f"{' / '.join(_cells(record('dpmnl-printed-normal'), 'printed', _one))} at nominal rho 0.1 / 0.5 / 1 / 5"


def dpmnl(record: Record) -> str:
    """DPMNL with both constants beside `quiet`, at equal proven rho."""
    both = record("dpmnl-clipped")
    ours = record("regret-clipped")
    rows = [
        ("printed constants", *_cells(both, "printed", _one)),
        ("sound constants (Theorem A)", *_cells(both, "sound", _one)),
        (f"`quiet` ({ours['replicates']} replicates)", *_cells(ours, "quiet", _one)),
    ]
    return table(("proven rho", *RHOS), rows)


PARTS = {
    "shop": shop,
    "guess": guess,
    "first": first,
    "quiet": quiet,
    "others": others,
    "shelf": shelf,
    "worlds": worlds,
    "drift": drift,
    "ten-times": ten_times,
    "printed": printed,
    "dpmnl": dpmnl,
}


def _cells(found: Mapping[str, Any], who: str, how: Callable[[tuple[float, float]], str]) -> list[str]:
    return [how(found["regret"][f"{who} {rho}"]) for rho in RHOS]


def _floor(regret: Regret) -> tuple[float, float]:
    return min(regret[name] for name in ("greedy", "ucb-mnl"))


def _two(value: tuple[float, float]) -> str:
    return f"{value[0]:.2f} ± {value[1]:.2f}"


def _one(value: tuple[float, float]) -> str:
    return f"{value[0]:.1f} ± {value[1]:.1f}"
