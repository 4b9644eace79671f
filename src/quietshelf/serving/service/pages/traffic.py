"""Requests by route and their response times, as counted by this process; visitors' answers are not counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, TypedDict

from quietshelf.serving.service.metrics import Metrics

QUANTILES = {"half_within": 0.5, "most_within": 0.95, "nearly_all_within": 0.99}
OFFERS = "/v1/shelves/{shelf}/offers"


class Minute(TypedDict):
    """The offers of one minute. Times are None without offers, or beyond the largest limit."""

    offers: int
    half_within: float | None
    most_within: float | None


def routes(metrics: Metrics) -> list[dict[str, Any]]:
    """For each route: requests, refusals (4xx), failures (5xx), and response times."""
    counted: dict[str, dict[str, int]] = defaultdict(lambda: {"requests": 0, "refused": 0, "failed": 0})
    for sample in _samples(metrics.requests, "_total"):
        line, kind = counted[sample.labels["route"]], sample.labels["status"][:1]
        line["requests"] += int(sample.value)
        line["refused"] += int(sample.value) * (kind == "4")
        line["failed"] += int(sample.value) * (kind == "5")
    buckets: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for sample in _samples(metrics.latency, "_bucket"):
        buckets[sample.labels["route"]].append((float(sample.labels["le"]), sample.value))
    return [
        {"route": route, **line, **{name: within(buckets[route], share) for name, share in QUANTILES.items()}}
        for route, line in sorted(counted.items(), key=lambda pair: -pair[1]["requests"])
    ]


def within(buckets: list[tuple[float, float]], share: float) -> float | None:
    """The smallest limit within which this share was answered; None beyond the largest.

    >>> within([(0.01, 90.0), (0.02, 100.0), (float("inf"), 100.0)], 0.95)
    0.02
    """
    ordered = sorted(buckets)
    goal = share * ordered[-1][1] if ordered else 0.0
    reached = [limit for limit, seen in ordered if seen >= goal and limit != float("inf")]
    return reached[0] if reached and goal > 0 else None


def offers(metrics: Metrics) -> dict[float, float]:
    """How many offers were made so far within each limit, in seconds."""
    samples = (each for each in _samples(metrics.latency, "_bucket") if each.labels["route"] == OFFERS)
    return {float(each.labels["le"]): each.value for each in samples}


def minute(made: Mapping[float, float]) -> Minute:
    """Summarise one minute.

    >>> minute({0.01: 9.0, 0.02: 10.0, float("inf"): 10.0})
    {'offers': 10, 'half_within': 0.01, 'most_within': 0.02}
    """
    buckets = list(made.items())
    told = {name: within(buckets, QUANTILES[name]) for name in ("half_within", "most_within")}
    return {"offers": int(max(made.values(), default=0.0)), **told}  # type: ignore[typeddict-item]  # the two above


def _samples(metric: Any, ending: str) -> list[Any]:
    return [sample for family in metric.collect() for sample in family.samples if sample.name.endswith(ending)]
