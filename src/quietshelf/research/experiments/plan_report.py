"""A plan as tables and advice, and as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from quietshelf.privacy.accounting import epsilon_of
from quietshelf.privacy.accounting.figures import added_up, rounded_down, rounded_up
from quietshelf.privacy.release import batch_pair, tree
from quietshelf.privacy.release.dpmnl import Dpmnl
from quietshelf.privacy.release.noise import ContinuousGaussian
from quietshelf.privacy.release.perturbation_cost import choice_loss
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.privacy.statistics import SCORE_BOUND, SENSITIVITY
from quietshelf.report.charts import Curve
from quietshelf.research.experiments.planning import AS_WISHED, CAPS, LEVELS, WITHOUT_LOG, Expected, Planned, Wish
from quietshelf.research.experiments.revenue import MeanInterval

NAMES = {AS_WISHED: "quiet", "dpmnl": "dpmnl", "greedy": "no privacy", "uniform": "random offers"}
"""What the compared variants are called."""


class PlanTable(NamedTuple):
    """A table: title, column headings, rows as text, and a note below."""

    title: str
    head: tuple[str, ...]
    rows: list[list[str]]
    note: str


def tables(found: Planned) -> list[PlanTable]:
    """The tables of a plan."""
    return [_promise(found), _outcomes(found), _levels(found), _caps(found), _noise(found)]


def advice(found: Planned) -> list[str]:
    """The conclusions of a plan, in sentences."""
    wish, wished = found.wish, found.wished
    first, lines = wish.quiet().batch_size(wish.dim, None), [" ".join(headline(found))]
    if first <= wish.visitors:
        lines.append(_best(found, "The cap to declare", [(f"visits={cap}", _cap(found, cap)) for cap in CAPS]))
    if first > wish.visitors / 4:
        left = (
            "leaves little time to use it" if first <= wish.visitors else "is more than will come: nothing is learned"
        )
        lines.append(
            f"The first release takes {first:,} visitors of {wish.visitors:,}, which {left}. "
            f"Choose a larger ρ or fewer features."
        )
    if wish.log is not None:
        bare = found.expected[WITHOUT_LOG]
        lines.append(
            f"Starting from the log, quiet loses {wished.regret}; without it, {bare.regret}. The log cost "
            f"ρ = {rounded_up(wish.log.rho)}, so a person in it who also visits is promised ρ = "
            f"{rounded_up(wish.rho_with_log)} in all. The simulation uses a log as informative as yours, not yours."
        )
    if wish.shelves > 1:
        lines.append(
            f"The same people visit {wish.shelves} shelves, whose promises add up: each gets ρ = "
            f"{rounded_up(wish.rho_of_shelf)}, so that together they stay within ρ = {rounded_up(wish.rho)}"
            f"{'' if wish.log is None else ', not counting the log'}."
        )
    if found.horizon < wish.visitors:
        lines.append(
            f"Only the first {found.horizon:,} of {wish.visitors:,} visitors are simulated. At the loss per visitor of "
            f"the last tenth of these, quiet would lose {wished.later:,.0f} in all: an overestimate, since it keeps "
            f"learning."
        )
    return lines


def headline(found: Planned) -> tuple[str, str]:
    """The share of revenue that `quiet` keeps, and the sentence which that number begins."""
    wished = found.wished
    useful = (
        "do not become useful within the simulated visitors"
        if wished.useful is None
        else f"are useful after about {wished.useful:,} visitors"
    )
    return wished.kept.percent, (
        f"of the revenue without privacy: that is what quiet keeps at ρ = {rounded_up(found.wish.rho_of_shelf)} over "
        f"{found.horizon:,} visitors. Its offers {useful}."
    )


def price_curves(found: Planned) -> list[Curve]:
    """Revenue lost against the shelf's rho: `quiet`, the paper's policy at the wished rho, and no privacy."""
    ends, levels = (LEVELS[0], LEVELS[-1]), {level: found.expected[f"rho x {level:g}"] for level in LEVELS}
    return [
        _curve(found, AS_WISHED, levels, tone=0),
        _curve(found, "dpmnl", {1.0: found.expected["dpmnl"]}, tone=1),
        *(
            _curve(found, label, dict.fromkeys(ends, found.expected[label]), tone=tone)
            for tone, label in ((3, "greedy"), (4, "uniform"))
        ),
    ]


def _curve(found: Planned, label: str, levels: Mapping[float, Expected], *, tone: int) -> Curve:
    rho = np.array(list(levels)) * found.wish.rho_of_shelf
    mean, half = np.array([one.regret for one in levels.values()]).T
    return Curve(NAMES[label], rho, mean, half, tone)


def plain(found: Planned) -> dict[str, Any]:
    """The plan as plain data."""
    wish = found.wish
    return {
        "wish": {name: getattr(wish, name) for name in wish.__dataclass_fields__ if name != "log"},
        "rho_of_log": None if wish.log is None else wish.log.rho,
        "rho_with_log": wish.rho_with_log,
        "epsilon": found.epsilon,
        "rho_of_shelf": wish.rho_of_shelf,
        "simulated": {"visitors": found.horizon, "replicates": found.replicates},
        "noise": noise(found),
        "first_release": wish.quiet().batch_size(wish.dim, None),
        "expected": {NAMES.get(label, label): _figures(one) for label, one in found.expected.items()},
        "advice": advice(found),
    }


def noise(found: Planned) -> dict[str, dict[str, float]]:
    """Standard deviations of the noise of `quiet` and `dpmnl`; for the latter also ridge, exploration and fits."""
    wish = found.wish
    quiet = batch_pair.scales(rho=wish.rho_of_shelf, bound=batch_pair.BOUND)
    size = {"dim": wish.dim, "capacity": wish.capacity, "horizon": wish.visitors}
    paper = Dpmnl(rho=wish.rho_of_paper).plan(**size, source=ContinuousGaussian())
    return {
        "quiet": {"score": quiet.score, "information": float(quiet.information)},
        "dpmnl": {
            "fit": paper.perturbation.sigma,
            "ridge": paper.perturbation.ridge,
            "gram": paper.continual.widest,
            "explore": paper.explore,
            "fits": paper.fits,
        },
    }


def _promise(found: Planned) -> PlanTable:
    wish = found.wish
    first = wish.quiet()
    second = first.batch_size(wish.dim, first.batch_size(wish.dim, None))
    rows = [
        [_whom(wish), f"ρ = {rounded_up(wish.rho_with_log)}, ε = {rounded_up(found.epsilon)} at δ = {wish.delta:g}"],
        *([] if wish.log is None else [["of which the log", f"ρ = {rounded_up(wish.log.rho)}"]]),
        *(
            [["each of the shelves", f"ρ = {rounded_up(wish.rho_of_shelf)}, {wish.shelves} of them"]]
            * (wish.shelves > 1)
        ),
        ["first release", f"after {first.batch_size(wish.dim, None):,} visitors, the next after {second:,} more"],
        ["simulated", f"{found.replicates} shops of {found.horizon:,} visitors, the same products for all"],
        ["buy from random offers", f"{100 * wish.conversion:.3g} % of visitors"],
    ]
    return PlanTable("The promise", ("what", "how much"), rows, "Privacy figures are rounded up.")


def _whom(wish: Wish) -> str:
    """Who the total is promised to; a log without person ids promises to rows."""
    if wish.log is None:
        return "promise to one person"
    return "promise to a person who is in the log too" if wish.log.unit == "person" else "promise to a visit and a row"


def _outcomes(found: Planned) -> PlanTable:
    rows = [[words, *_row(found.expected[label])] for label, words in NAMES.items()]
    head = ("policy", "revenue lost", "of the best", "of no privacy", "useful after")
    note = "± 95 % confidence; useful: offers lose less than half as much as random ones."
    if found.wish.returns > 1:
        note += (
            f" dpmnl runs at ρ = {rounded_up(found.wish.rho_of_paper)}: it uses the whole history, where n visits of a "
            "person cost n² times as much as one."
        )
    return PlanTable("What to expect", head, rows, note)


def _levels(found: Planned) -> PlanTable:
    rows = []
    for level in LEVELS:
        one = found.expected[f"rho x {level:g}"]
        settings = _quiet(one)
        everything = added_up([settings.rho * found.wish.shelves, found.wish.rho_with_log - found.wish.rho])
        epsilon = epsilon_of(everything, found.wish.delta)
        first = settings.batch_size(found.wish.dim, None)
        rows.append([rounded_up(settings.rho), rounded_up(epsilon), f"{first:,}", str(one.regret), one.kept.percent])
    head = ("ρ of the shelf", "ε in all", "first release", "revenue lost", "of no privacy")
    return PlanTable("More privacy, or less", head, rows, "quiet, everything else as asked.")


def _caps(found: Planned) -> PlanTable:
    rows = []
    for cap in CAPS:
        one = _cap(found, cap)
        settings = _quiet(one)
        figures = [rounded_up(settings.rho_per_release), f"{settings.batch_size(found.wish.dim, None):,}"]
        rows.append([str(cap), *figures, f"{100 * one.variant.counted:.0f} %", str(one.regret), one.kept.percent])
    returns = found.wish.returns
    often = "once" if returns == 1 else f"{returns:g} times"
    note = (
        f"A person counts at most as often as the first column says, and each release spends ρ / visits. Here "
        f"everybody comes {often} (--returns); visits beyond the cap are served but not learned from."
    )
    head = ("visits", "ρ per release", "first release", "visits that count", "revenue lost", "of no privacy")
    return PlanTable("The person cap", head, rows, note)


def _noise(found: Planned) -> PlanTable:
    figures = noise(found)
    quiet, paper = figures["quiet"], figures["dpmnl"]
    dim, capacity = found.wish.dim, found.wish.capacity
    moved = SENSITIVITY  # of either, if the whole sensitivity falls on it
    fits = f"each of {paper['fits']:g} fits, ridge {paper['ridge']:.3g}"
    released = {
        "quiet, score": (quiet["score"], moved * SCORE_BOUND * math.sqrt(2), "each release"),
        "quiet, information": (quiet["information"], moved * batch_pair.BOUND, "each release"),
        "dpmnl, fit": (paper["fit"], choice_loss(dim, capacity).difference, fits),
        "dpmnl, Gram matrix": (paper["gram"], tree.sensitivity(capacity, dim), "every visitor"),
    }
    rows = [[what, rounded_down(scale), rounded_up(most), when] for what, (scale, most, when) in released.items()]
    head = ("released", "s.d. of the noise", "moved by one visitor", "when")
    note = (
        f"dpmnl shows random offers to its first {paper['explore']:g} visitors. The noise of quiet's "
        f"information is for a bound of {batch_pair.BOUND:g}; a shelf takes its bound from its products, and a smaller "
        f"bound needs less noise."
    )
    return PlanTable("Noise", head, rows, note)


def _row(one: Expected) -> list[str]:
    useful = "never" if one.useful is None else "at once" if one.useful == 0 else f"{one.useful:,}"
    return [str(one.regret), f"{100 * one.lost.mean:.2f} % lost", one.kept.percent, useful]


def _best(found: Planned, what: str, choices: list[tuple[str, Expected]]) -> str:
    """Which choice loses least, and whether its lead over the next exceeds the uncertainty."""
    (name, least), (other, second), *_ = sorted(choices, key=lambda choice: choice[1].regret.mean)
    gap = MeanInterval.of(
        second.final - least.final
    )  # the same visitors: differences vary less than what they are made of
    if not gap.mean > gap.half:
        return f"{what}: {name} loses least here, but {other} is within the uncertainty of {found.replicates} shops."
    return f"{what}: {name} loses least, {least.regret} against {second.regret} with {other}."


def _cap(found: Planned, cap: int) -> Expected:
    return found.expected[AS_WISHED if cap == 1 else f"cap {cap}"]


def _quiet(one: Expected) -> Quiet:
    assert one.variant.quiet is not None  # noqa: S101 - a variant of quiet
    return one.variant.quiet


def _figures(one: Expected) -> dict[str, Any]:
    settings = one.variant.quiet
    own = {} if settings is None else {"rho": settings.rho, "visits": settings.visits}
    return {
        **own,
        "regret": one.regret._asdict(),
        "lost_share": one.lost._asdict(),
        "kept_share": one.kept._asdict(),
        "useful_after": one.useful,
        "regret_of_all_visitors_at_most": one.later,
    }
