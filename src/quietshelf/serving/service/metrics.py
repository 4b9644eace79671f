"""Metrics for Prometheus: arrivals, releases, and requests except those that carry choices. All of it is public."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from quietshelf.serving.service.tracing import Trace, untraced

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Folder of the workers' shared counters; prometheus_client reads it on import."""
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 1.0, 5.0)


@contextmanager
def counted_together(workers: int) -> Iterator[dict[str, str]]:
    """The environment that lets workers of one machine share counters, so that none runs backwards between scrapes.

    The counts of a worker that ends are kept.
    """
    if workers == 1:
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="quietshelf-metrics-") as folder:
        yield {FOLDER: folder}


class Metrics:
    """The counters of one process, or of all workers of a machine. ``trace`` is called for every counted request."""

    def __init__(self) -> None:
        self.trace: Trace = untraced
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "quietshelf_requests", "Requests by route and status", ["route", "status"], registry=self._registry
        )
        self.latency = Histogram(
            "quietshelf_request_seconds", "Time to answer", ["route"], buckets=SECONDS, registry=self._registry
        )

    def text(self, shelves: Iterable[Any], late: Mapping[int, float]) -> bytes:
        """The text for Prometheus. Arrivals and releases come from the database, for all processes together."""
        shared, counted = CollectorRegistry(), self._registry
        shared.register(_Shelves(shelves, late))
        if FOLDER in os.environ:
            counted = CollectorRegistry()
            MultiProcessCollector(counted)  # type: ignore[no-untyped-call]  # prometheus_client does not say
        return generate_latest(counted) + generate_latest(shared)


class _Shelves(Collector):
    def __init__(self, rows: Iterable[Any], late: Mapping[int, float]) -> None:
        self._rows, self._late = list(rows), late

    def collect(self) -> Iterator[Metric]:
        says = {"arrivals": "Visitors who took a slot", "releases": "Batches released"}
        for name, words in says.items():
            family = CounterMetricFamily(f"quietshelf_{name}", words, labels=["shelf", "number"])
            for row in self._rows:
                family.add_metric([row["name"], str(row["shelf"])], row[name])
            yield family
        words = "Seconds since a release was due that is not made"
        gauge = GaugeMetricFamily("quietshelf_release_late_seconds", words, labels=["shelf", "number"])
        for row in self._rows:
            if row["deleted"] is None:
                gauge.add_metric([row["name"], str(row["shelf"])], self._late.get(row["shelf"], 0.0))
        yield gauge
