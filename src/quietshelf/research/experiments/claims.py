"""Claims about a study, tested on its rows.

All contestants of a study face the same replicates, so two of them are compared by the differences of their regrets,
replicate by replicate. A claim makes several comparisons; each is tested by Student's interval for the mean difference
at a level that gives all of them together 95 % confidence (Bonferroni). A comparison *holds* if zero lies below its
interval, *fails* if zero lies above it, and is *undecided* otherwise. A claim holds if all its comparisons do, fails if
one of them fails, and is undecided otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

from quietshelf.model.types import FloatArray, one_of, require
from quietshelf.report.series import CONFIDENCE, Series, band, described, matching, values_of

Verdict = Literal["holds", "fails", "undecided"]


@dataclass(frozen=True)
class Comparison:
    """One test of "this side is larger than that".

    Attributes:
        subject: What is compared, in words.
        larger: Mean of the side claimed to be larger.
        smaller: Mean of the other side.
        low: Lower end of the interval for their difference.
        high: Upper end.
        verdict: Whether zero lies below the interval, above it, or inside.
    """

    subject: str
    larger: float
    smaller: float
    low: float
    high: float
    verdict: Verdict


@dataclass(frozen=True)
class ClaimOutcome:
    """The verdict on a claim in one group of settings."""

    says: str
    source: str
    group: str
    verdict: Verdict
    comparisons: tuple[Comparison, ...]

    @property
    def holding(self) -> int:
        """Comparisons that hold."""
        return sum(each.verdict == "holds" for each in self.comparisons)


Pair = tuple[str, FloatArray, FloatArray]
"""Subject; per replicate, the value claimed to be larger and the other."""


def judge(claim: Mapping[str, Any], series: Sequence[Series]) -> list[ClaimOutcome]:
    """Test a claim in every group of the settings that its ``by`` names.

    Args:
        claim: ``says``, ``source``, ``kind`` with its own keys, ``where`` and ``by``. Kinds: ``order`` (regret
            ``falls`` or ``rises``, its ``direction``, ``along`` a setting), ``versus`` (``better`` loses less than
            ``worse``, all other settings they share being equal), ``widens`` (by more and more ``along`` a setting),
            ``slows`` (later visitors lose less than earlier ones), ``always`` (a measure is true at a share ``least``
            of the checkpoints after ``after``), ``within`` (a measure is below ``bound`` at the end), ``exceeds`` (it
            is above ``level``), ``reaches`` (regret is at most the ``goals``, one per value ``along`` a setting, at
            exactly this ``horizon`` and with at least this many ``replicates``; undecided within two standard
            errors of the goal).
        series: All series of the study.
    """
    one_of("kind", claim["kind"], KINDS)
    chosen = matching(series, claim.get("where", {}))
    outcomes = []
    for group in _groups(chosen, claim.get("by", [])):
        pairs = KINDS[claim["kind"]](claim, group)
        if pairs:
            name = described(group[0], claim.get("by", []))
            reaches = claim["kind"] == "reaches"
            tested = tuple(_reached(pair) if reaches else _tested(pair, len(pairs)) for pair in pairs)
            source = claim.get("source", "ours")
            outcomes.append(ClaimOutcome(claim["says"], source, name, _together([t.verdict for t in tested]), tested))
    return outcomes


def _groups(series: Sequence[Series], keys: Sequence[str]) -> list[list[Series]]:
    groups = [list(series)]
    for key in keys:
        groups = [matching(group, {key: value}) for group in groups for value in values_of(group, key)]
    return groups


def _order(claim: Mapping[str, Any], group: Sequence[Series]) -> list[Pair]:
    """Adjacent values of a setting, all other settings equal."""
    key, pairs = claim["along"], []
    for one, other in product(group, group):
        if _follows(one, other, key, group):
            large, small = (one, other) if claim["direction"] == "falls" else (other, one)
            pairs.append((_sides(large, small, [key], group), large.final, small.final))
    return pairs


def _versus(claim: Mapping[str, Any], group: Sequence[Series]) -> list[Pair]:
    """The better against the worse, all other settings they share being equal."""
    keys = {*claim["better"], *claim["worse"]}
    return [
        (_sides(worse, better, sorted(keys), group), worse.final, better.final)
        for better, worse in _opponents(claim, group)
    ]


def _slows(claim: Mapping[str, Any], group: Sequence[Series]) -> list[Pair]:
    """Loss per visitor in the first half of the run after ``after``, against that in the second half."""
    pairs = []
    for one in group:
        begin = int(np.searchsorted(one.times, claim.get("after", 0)))
        if begin > one.times.size - 3:
            continue  # too short for an early and a late part
        middle = int(np.searchsorted(one.times, (one.times[begin] + one.times[-1]) / 2))
        early = (one.regret[:, middle] - one.regret[:, begin]) / (one.times[middle] - one.times[begin])
        late = (one.regret[:, -1] - one.regret[:, middle]) / (one.times[-1] - one.times[middle])
        pairs.append((f"early above late{_of(one, group)}", early, late))
    return pairs


def _always(claim: Mapping[str, Any], group: Sequence[Series]) -> list[Pair]:
    """The share of checkpoints at which a measure is true, against the claimed share."""
    after = claim.get("after", 0)
    return [
        _above(
            f"share of rounds{_of(one, group)}", measured[:, one.times > after].mean(axis=-1), claim["least"] - _STRICT
        )
        for one, measured in _measured(claim["measure"], group)
    ]


def _within(claim: Mapping[str, Any], group: Sequence[Series]) -> list[Pair]:
    """A bound against the measurement."""
    pairs = []
    for one, limit in _measured(claim["bound"], group):
        measured = one.final if claim["measure"] == "regret" else one.measures[claim["measure"]][:, -1]
        pairs.append((f"bound above measured{_of(one, group)}", limit[:, -1], measured))
    return pairs


def _exceeds(claim: Mapping[str, Any], group: Sequence[Series]) -> list[Pair]:
    """The measurement at the end against a level."""
    return [
        _above(f"measured above level{_of(one, group)}", measured[:, -1], claim["level"])
        for one, measured in _measured(claim["measure"], group)
    ]


def _measured(measure: str, group: Sequence[Series]) -> list[tuple[Series, FloatArray]]:
    """The contestants for which this was measured, with the measurements."""
    return [(one, one.measures[measure]) for one in group if measure in one.measures]


def _above(subject: str, values: FloatArray, level: float) -> Pair:
    return subject, values, np.full(values.shape, float(level))


def _reaches(claim: Mapping[str, Any], group: Sequence[Series]) -> list[Pair]:
    """The goal against the regret; nothing if the study was run at another size than the goals are for."""
    key, goals = claim["along"], claim["goals"]
    values = values_of(group, key)
    require(len(goals) == len(values), f"reaches needs a goal for each {key}", goals=goals, values=values)
    goal = dict(zip(values, goals, strict=True))
    return [
        (f"goal above measured at {described(one, [key])}", np.full(one.final.shape, float(goal[one[key]])), one.final)
        for one in group
        if one.times[-1] == claim["horizon"] and one.final.size >= claim["replicates"]
    ]


def _widens(claim: Mapping[str, Any], group: Sequence[Series]) -> list[Pair]:
    """The gap between worse and better at one value of a setting, against the gap at the value before."""
    key = claim["along"]
    gaps = [(better, worse.final - better.final) for better, worse in _opponents(claim, group)]
    return [
        (f"gap at {described(other, [key])} above gap at {described(one, [key])}", wide, narrow)
        for one, narrow in gaps
        for other, wide in gaps
        if _follows(one, other, key, group)
    ]


KINDS: Mapping[str, Callable[[Mapping[str, Any], Sequence[Series]], list[Pair]]] = {
    "order": _order,
    "versus": _versus,
    "widens": _widens,
    "slows": _slows,
    "always": _always,
    "within": _within,
    "exceeds": _exceeds,
    "reaches": _reaches,
}
KEYS: Mapping[str, tuple[str, ...]] = {
    "order": ("along", "direction"),
    "versus": ("better", "worse"),
    "widens": ("along", "better", "worse"),
    "slows": (),
    "always": ("measure", "least"),
    "within": ("measure", "bound"),
    "exceeds": ("measure", "level"),
    "reaches": ("along", "goals", "horizon", "replicates"),
}
"""The keys that a claim of each kind needs besides ``says`` and ``kind``."""
OPTIONAL = ("source", "where", "by", "after")
TRENDS = ("falls", "rises")
_STRICT = 1e-12  # a share exactly as large as claimed passes


def _tested(pair: Pair, count: int) -> Comparison:
    subject, large, small = pair
    difference = large - small
    mean, half = band(difference, 1 - (1 - CONFIDENCE) / count)
    low, high = float(mean - half), float(mean + half)
    verdict: Verdict = "holds" if low > 0 else "fails" if high < 0 else "undecided"
    return Comparison(subject, float(large.mean()), float(small.mean()), low, high, verdict)


def _reached(pair: Pair) -> Comparison:
    """A goal is met, or missed, if the mean is below it, or above it, by two standard errors."""
    subject, goal, lost = pair
    away = float((goal - lost).mean())
    two = 2 * float(lost.std(ddof=1)) / lost.size**0.5
    verdict: Verdict = "holds" if away >= two else "fails" if away < -two else "undecided"
    return Comparison(subject, float(goal[0]), float(lost.mean()), away - two, away + two, verdict)


def _together(verdicts: Sequence[Verdict]) -> Verdict:
    if all(verdict == "holds" for verdict in verdicts):
        return "holds"
    return "fails" if "fails" in verdicts else "undecided"


def _opponents(claim: Mapping[str, Any], group: Sequence[Series]) -> list[tuple[Series, Series]]:
    """(better, worse) pairs, all other settings they share being equal."""
    better, worse = (matching(group, claim[side]) for side in ("better", "worse"))
    keys = {*claim["better"], *claim["worse"]}
    return [(one, other) for one in better for other in worse if _alike(one, other, keys)]


def _follows(one: Series, other: Series, key: str, group: Sequence[Series]) -> bool:
    """Whether the other has the group's next value of a setting, all other settings they share being equal."""
    if not _alike(one, other, {key}):
        return False
    values = values_of(group, key)
    return bool(values.index(other[key]) == values.index(one[key]) + 1)


def _alike(one: Series, other: Series, apart: set[str]) -> bool:
    """Whether all settings they share are equal, except those ``apart``."""
    both = set(one.settings) & set(other.settings)
    return all(one[key] == other[key] for key in both - apart)


def _varying(group: Sequence[Series], one: Series, apart: set[str]) -> str:
    """The settings of one contestant that vary within the group, in words."""
    keys = [key for key in one.settings if key not in apart and len(values_of(group, key)) > 1]
    return described(one, keys)


def _sides(worse: Series, better: Series, keys: list[str], group: Sequence[Series]) -> str:
    rest = _varying(group, better, set(keys))
    return f"{described(worse, keys)} above {described(better, keys)}{_beside(rest)}"


def _of(one: Series, group: Sequence[Series]) -> str:
    """What distinguishes a contestant within its group, in brackets."""
    return _beside(_varying(group, one, set()))


def _beside(rest: str) -> str:
    return f" ({rest})" if rest else ""
