"""A real Dask cluster of several processes, one of which is killed while it works."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from quietshelf.research.experiments import Study
from quietshelf.research.experiments.engine import Cluster, Local, run_study
from quietshelf.research.experiments.store import RowStore
from quietshelf.research.experiments.units import Done, Unit

distributed = pytest.importorskip("distributed")


@pytest.fixture
def cluster() -> Iterator[object]:
    """Three worker processes of one thread."""
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as made:
        made.wait_for_workers(3)
        yield made


class Killing:
    """A cluster whose busiest moment costs it a worker: after the first unit, while others are at work."""

    def __init__(self, address: str, processes: list[int]) -> None:
        self._inner, self._processes, self.killed = Cluster(address), processes, 0

    def __call__(self, units: list[Unit], report: Callable[[int], None]) -> Iterator[tuple[Unit, Done]]:
        for place, found in enumerate(self._inner(units, report)):
            if place == 0:
                os.kill(self._processes[0], signal.SIGKILL)
                self.killed = self._processes[0]
            yield found


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # sockets of the process that was killed
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the same, noted later
def test_cluster_that_loses_a_worker_gives_the_same_rows(study: Study, tmp_path: Path, cluster: object) -> None:
    """One of three processes is killed mid-study: its work is done by others, to the last bit the same."""
    longer = replace(study.reduced(horizon=60), block=1)
    with distributed.Client(cluster, set_as_default=False) as client:
        processes = list(client.run(os.getpid).values())
    engine = Killing(cluster.scheduler_address, processes)  # type: ignore[attr-defined]
    ours, theirs = RowStore(tmp_path / "cluster", longer), RowStore(tmp_path / "local", longer)
    run_study(ours, engine)
    assert engine.killed
    with distributed.Client(cluster, set_as_default=False) as client:
        assert engine.killed not in client.run(os.getpid).values()
    run_study(theirs, Local(2))
    assert ours.read().equals(theirs.read())
