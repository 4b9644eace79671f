"""Processes and a real Dask cluster over a log in partitions; workers are killed while they work."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.logs.parts import Counted, in_parts, varied_log

from quietshelf.data.logs.layout import Layout
from quietshelf.data.logs.partitioned import Executor, serial
from quietshelf.data.logs.partitions import Form, partitions
from quietshelf.data.logs.survey import survey
from quietshelf.model.choice.fitting import fit_sums
from quietshelf.model.choice.maps import feature_map
from quietshelf.privacy.release.geometry import unknown_curvature
from quietshelf.privacy.release.partitioned_pairs import PartitionedPairs
from quietshelf.privacy.release.private_newton import STEPS, private_newton
from quietshelf.research.loop.executors import DEATHS, Cluster, Processes, connected

FORM = Form(feature_map=feature_map("concat"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine files."""
    return in_parts(varied_log(450), tmp_path_factory.mktemp("parts") / "log", list(range(50, 450, 50)))


def everything(folder: Path, executor: Executor) -> tuple[Any, ...]:
    """An exact fit, and a private one with counted noise, by this executor; and how often noise was drawn."""
    parts = partitions(folder, Layout())
    exact = fit_sums(survey(parts, FORM, exact=True, executor=executor), (4,), 0.5)
    source, pairs = Counted(2.0**-20), PartitionedPairs(survey(parts, FORM, exact=False, executor=executor))
    private = private_newton(pairs, rho=1.0, curvature=unknown_curvature(4), source=source, unit="person")
    return exact.theta, exact.information, private.theta, private.covariance, private.squares, source.draws


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    for ours, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(ours, theirs)


class Killing:
    """An executor one of whose workers is killed in the middle of each of its first jobs."""

    def __init__(self, inner: Any, victim: Callable[[], int], times: int) -> None:
        self._inner, self._victim, self.left, self.killed = inner, victim, times, list[int]()

    def __call__(self, job: Callable[[Any], Any], parts: Sequence[Any], /) -> Iterator[Any]:
        for place, found in enumerate(self._inner(job, parts)):
            if place == 1 and self.left:
                self.left -= 1
                self.killed.append(self._victim())
                os.kill(self.killed[-1], signal.SIGKILL)
            yield found


def test_processes_and_killed_processes_change_no_bit(folder: Path) -> None:
    """One worker, two, and two that are killed in the first pass and in Newton's: the sums of this very process."""
    expected = everything(folder, serial)
    assert expected[-1] == 3 * STEPS + 1  # three draws per pair, one for the squares
    with Processes(1) as alone:
        same(everything(folder, alone), expected)
    with Processes(2) as pool:
        killing = Killing(pool, lambda: next(iter(pool._opened()._processes)), times=3)
        same(everything(folder, killing), expected)
        assert len(set(killing.killed)) == 3


def test_a_part_that_kills_every_worker_is_given_up() -> None:
    """Given up after a few attempts, naming the part; an error in a job is raised immediately."""
    with Processes(1) as pool:
        with pytest.raises(RuntimeError, match=rf"died over each of {DEATHS + 1} attempts at 7"):
            list(pool(os._exit, [7]))
        with pytest.raises(ValueError, match="invalid literal"):
            list(pool(int, ["1", "x"]))
        assert list(pool(abs, range(-20, 0))) == list(range(20, 0, -1))


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # sockets of the process that was killed
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the same, noted later
def test_a_cluster_that_loses_a_worker_changes_no_bit(folder: Path) -> None:
    """One of two worker processes is killed in the first pass: the other and its successor do the work again."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options, silence_logs=50) as cluster:
        cluster.wait_for_workers(2)
        with connected(cluster.scheduler_address) as client:
            processes = list(client.run(os.getpid).values())
            killing = Killing(Cluster(client), lambda: processes[0], times=1)
            same(everything(folder, killing), everything(folder, serial))
            assert killing.killed
            assert killing.killed[0] not in client.run(os.getpid).values()
