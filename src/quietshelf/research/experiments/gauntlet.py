"""A study of many worlds, judged by figures of merit: for its page, its picture and the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from quietshelf.report import Glance, GlanceCell, GlanceRow, PageTable, Series
from quietshelf.report.numbers import number
from quietshelf.report.series import matching, values_of, words
from quietshelf.research.experiments.contestants import options_of
from quietshelf.research.experiments.merits import (
    LONG_ENOUGH,
    Merit,
    Spread,
    geometric_mean,
    long_enough,
    merit,
    shares,
)
from quietshelf.research.experiments.study import Study
from quietshelf.research.experiments.units import Cell
from quietshelf.research.loop import World
from quietshelf.research.loop.named import SPECS, MakeQuiet

KIND = "merits"
"""The kind of figure that shows them."""
KEYS = ("name", "title", "kind", "where", "columns", "random")
RELEASES = 3
"""Before this many releases, a private policy cannot be expected to beat chance."""


@dataclass(frozen=True)
class WorldMerits:
    """The results of one world.

    Attributes:
        name: Its name.
        note: Its sizes.
        floor: The best policy without privacy, as the study names it.
        floor_share: The floor's regret as a share of that of random offers.
        setting: The setting that distinguishes the contestants.
        merits: Figures of merit by the values of that setting.
    """

    name: str
    note: str
    floor: str
    floor_share: Spread
    setting: str
    merits: Mapping[Any, Merit]


@dataclass(frozen=True)
class Overall:
    """The results of one contestant over all worlds.

    Attributes:
        multiple: Geometric mean over worlds of the ratio of its mean regret to that of the floor.
        worst_high: The largest 90 % quantile, over worlds, of its share of random offers' regret.
        stuck: Number of stuck runs, over all worlds.
        worse: Number of runs worse than random in some tenth.
        worse_later: The same after the third release.
        runs: Number of runs.
    """

    multiple: float
    worst_high: float
    stuck: int
    worse: int
    worse_later: int
    runs: int


def world_merits(study: Study, series: Sequence[Series], figure: Mapping[str, Any]) -> list[WorldMerits]:
    """The figures of merit of every world, in the study's order.

    Args:
        study: Its worlds have names; each has exactly one contestant that is neither judged nor random: the best
            policy without privacy.
        series: All series of the study.
        figure: ``where``, which contestants are judged; ``columns``, the setting that distinguishes them; ``random``,
            the policy that offers at random.
    """
    cells: dict[str, list[Cell]] = {}
    for cell in study.cells:
        cells.setdefault(cell.entries[0].settings["world"], []).append(cell)
    return [_of_world(own, matching(series, {"world": name}), figure) for name, own in cells.items()]


def overall(worlds: Sequence[WorldMerits]) -> dict[Any, Overall]:
    """All worlds together, by the setting that distinguishes contestants."""
    result = {}
    for key in worlds[0].merits:
        merits = [world.merits[key] for world in worlds]
        result[key] = Overall(
            multiple=geometric_mean(each.multiple.mean for each in merits),
            worst_high=max(each.share.high for each in merits),
            stuck=sum(each.stuck for each in merits),
            worse=sum(each.worse for each in merits),
            worse_later=sum(each.worse_later for each in merits),
            runs=sum(each.runs for each in merits),
        )
    return result


def floors(series: Sequence[Series], figure: Mapping[str, Any]) -> list[Series]:
    """The contestants that are neither judged nor random: exactly one per world in a valid study."""
    judged = matching(series, figure["where"])
    return [one for one in series if one not in judged and one["policy"] != figure["random"]]


def release_time(settings: Mapping[str, Any], world: World, count: int = RELEASES) -> int:
    """The number of visitors before the ``count``-th release; 0 for policies without public batches."""
    made = SPECS[settings["policy"]].make(**options_of(settings))
    if not isinstance(made, MakeQuiet):
        return 0
    learning, sizes = made.learning(world), list[int]()
    for _ in range(count):
        sizes.append(learning.batch_size(world.dim, sizes[-1] if sizes else None))
    return sum(sizes)


def glance(worlds: Sequence[WorldMerits], figure: Mapping[str, Any]) -> Glance:
    """The overview of all worlds, to be drawn or tabulated."""
    keys = list(worlds[0].merits)
    together = overall(worlds)
    rows = [
        GlanceRow(world.name, world.note, (_floor_cell(world), *(_cell(world.merits[key]) for key in keys)))
        for world in worlds
    ]
    foot = [
        ("geometric mean of the multiples", ["", *(f"×{together[key].multiple:.2f}" for key in keys)]),
        ("worst 90 % quantile", ["", *(_percent(together[key].worst_high) for key in keys)]),
        ("stuck runs", ["", *(f"{together[key].stuck} of {together[key].runs}" for key in keys)]),
        ("worse than random in some tenth", ["", *(f"{together[key].worse} of {together[key].runs}" for key in keys)]),
        (f"... after release {RELEASES}", ["", *(f"{together[key].worse_later}" for key in keys)]),
    ]
    heads = ("no privacy", *(words(figure["columns"], key) for key in keys))
    return Glance(figure["name"], figure["title"], heads, tuple(rows), tuple((name, tuple(of)) for name, of in foot))


def in_words(worlds: Sequence[WorldMerits]) -> list[str]:
    """All worlds together, a line for each contestant."""
    lines = []
    for key, each in (overall(worlds) if worlds else {}).items():
        lost = f"×{each.multiple:.2f} the regret without privacy (geometric mean of {len(worlds)} worlds)"
        high = f"worst 90 % quantile {_percent(each.worst_high)} of random"
        worse = f"{each.worse} worse than random in some tenth ({each.worse_later} after release {RELEASES})"
        stuck = f"{each.stuck} of {each.runs} runs stuck"
        lines.append(f"{words(worlds[0].setting, key)}: {lost}, {high}, {stuck}, {worse}")
    return lines


def as_data(worlds: Sequence[WorldMerits]) -> dict[str, Any]:
    """All figures of merit as plain data under the key ``merits``; empty for studies without."""
    if not worlds:
        return {}
    together = {str(key): asdict(each) for key, each in overall(worlds).items()}
    return {"merits": {"overall": together, "worlds": [_plain(world) for world in worlds]}}


def merit_table(worlds: Sequence[WorldMerits], figure: Mapping[str, Any]) -> PageTable:
    """A table of all figures of merit."""
    head = ("world", "who", "mean, median, 90 % quantile: % of random", "the same: multiple of no privacy", "stuck",
            "worse than random", f"after release {RELEASES}")  # fmt: skip
    rows: list[tuple[str, ...]] = []
    for world in worlds:
        short = "" if long_enough(world.floor_share) else f"; more than {_percent(LONG_ENOUGH)}: too short a run"
        rows.append((world.name, f"{world.floor}, no privacy", _percents(world.floor_share) + short, "", "", "", ""))
        for key, each in world.merits.items():
            counts = (f"{count} of {each.runs}" for count in (each.stuck, each.worse, each.worse_later))
            multiple = ", ".join(number(value) for value in each.multiple)
            rows.append((world.name, words(figure["columns"], key), _percents(each.share), multiple, *counts))
    return PageTable("Figures of merit", head, rows, folded=True)


def _of_world(cells: Sequence[Cell], series: Sequence[Series], figure: Mapping[str, Any]) -> WorldMerits:
    world, horizon, key = cells[0].world, cells[0].horizon, figure["columns"]
    entries = [entry for cell in cells for entry in cell.entries]
    (random,), (floor,) = matching(series, {"policy": figure["random"]}), floors(series, figure)

    def of(one: Series) -> Merit:
        (policy,) = (entry.policy for entry in entries if entry.settings == one.settings)
        after = release_time(policy, world)
        return merit(one.times, one.regret, random.regret, floor.regret, after=after)

    judged = matching(series, figure["where"])
    return WorldMerits(
        name=random["world"],
        note=f"{_buyers(random)}d {world.dim}, N {world.items:,}, K {world.capacity}, T {horizon:,}",
        floor=floor["policy"],
        floor_share=Spread.of(shares(floor.regret, random.regret)),
        setting=key,
        merits={value: of(one) for value in values_of(judged, key) for one in matching(judged, {key: value})},
    )


def _plain(world: WorldMerits) -> dict[str, Any]:
    merits = {
        str(key): {**asdict(each), "share": each.share._asdict(), "multiple": each.multiple._asdict()}
        for key, each in world.merits.items()
    }
    return {"world": world.name, "floor": world.floor, "floor_share": world.floor_share._asdict(), "merits": merits}


def _buyers(one: Series) -> str:
    """The conversion rate, if the world has one."""
    rate = one["conversion_rate"]
    return "" if rate is None else f"{100 * rate:g} % buy, "


def _floor_cell(world: WorldMerits) -> GlanceCell:
    text = _percent(world.floor_share.mean)
    return GlanceCell(text if long_enough(world.floor_share) else f"{text} (!)", world.floor)


def _cell(each: Merit) -> GlanceCell:
    return GlanceCell(
        _percent(each.share.mean),
        f"×{number(each.multiple.mean, 2)}, 90 %: {_percent(each.share.high)}",
        tone=each.multiple.mean,
        stuck=each.stuck,
        worse=each.worse,
    )


def _percent(share: float) -> str:
    """A share in percent, to two digits.

    >>> _percent(0.0234), _percent(0.234), _percent(1.5)
    ('2.3 %', '23 %', '150 %')
    """
    value = 100 * share
    return f"{value:.1f} %" if value < 9.95 else f"{value:.0f} %"


def _percents(spread: Spread) -> str:
    return ", ".join(_percent(value) for value in spread)
