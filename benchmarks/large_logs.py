"""Fits of a generated log larger than memory: rows per second and core, memory per worker, one worker and two."""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, TypeVar

import numpy as np

from quietshelf.data.logs.layout import Layout
from quietshelf.data.logs.partitioned import Executor, PartitionedLog
from quietshelf.data.logs.partitions import Form, Partition, partitions
from quietshelf.data.logs.survey import survey
from quietshelf.model.choice.fitting import fit_sums
from quietshelf.model.choice.maps import feature_map
from quietshelf.model.types import FloatArray
from quietshelf.privacy.release.geometry import scaled_curvature
from quietshelf.privacy.release.noise import GRID, DiscreteGaussian
from quietshelf.privacy.release.partitioned_pairs import PartitionedPairs
from quietshelf.privacy.release.private_newton import private_newton
from quietshelf.privacy.statistics import Grids
from quietshelf.research.loop.executors import Processes

Part = TypeVar("Part")
T = TypeVar("T")
FORM = Form(feature_map=feature_map("item"))
ITEMS, FEATURES, ROUNDS_PER_FILE = 10, ("price", "stars", "distance", "discount"), 100_000
TASTES = np.array([-1.0, -0.8, 0.5, -0.3, 0.4])
"""Tastes for the intercept and the features."""
VISITS = 4
"""Visits per person, about."""


def main(given: list[str] | None = None) -> None:
    """Write a log, time its passes with one worker and with two, and print the results as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_logs", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="item rows of the log, ten per round")
    parser.add_argument("--folder", type=Path, help="where to write the log; kept if given")
    parser.add_argument("--fits", action="store_true", help="also whole fits: about 6 passes, and 13")
    options = parser.parse_args([] if given is None else given)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="large-log-"))
    try:
        found = write(folder, options.rows // ITEMS)
        parts = partitions(folder, Layout())
        found |= {f"workers={workers}": measured(parts, workers) for workers in (1, 2)}
        one, two = (found[f"workers={workers}"] for workers in (1, 2))
        speeds = {name: round(one[name]["seconds"] / two[name]["seconds"], 2) for name in one if "memory" not in name}
        found["two workers against one"] = speeds
        print(json.dumps(found, indent=1), flush=True)
        if options.fits:
            print(json.dumps(fits(parts) | {"peak_memory_of_parent_mb": round(_peak_memory())}, indent=1), flush=True)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


def write(folder: Path, rounds: int) -> dict[str, Any]:
    """Write the log as files of 100,000 rounds, with integer ids and float32 features."""
    folder.mkdir(parents=True, exist_ok=True)
    began = perf_counter()
    for number, first in enumerate(range(0, rounds, ROUNDS_PER_FILE)):
        path = folder / f"part-{number:05d}.parquet"
        if not path.exists():
            _write_part(path, first, min(ROUNDS_PER_FILE, rounds - first), persons=max(1, rounds // VISITS))
    size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
    return {"rows": rounds * ITEMS, "rounds": rounds, "bytes": size, "seconds_to_write": perf_counter() - began}


def _write_part(path: Path, first: int, rounds: int, *, persons: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng([first, 7])
    features = rng.normal(size=(rounds, ITEMS, len(FEATURES))).astype(np.float32)
    utility = TASTES[0] + features @ TASTES[1:]
    wanted = utility + rng.gumbel(size=utility.shape)
    chosen = (wanted == wanted.max(axis=1, keepdims=True)) & (wanted > rng.gumbel(size=(rounds, 1)))
    columns = {
        "round": np.repeat(first + np.arange(rounds), ITEMS),
        "item": (100 * np.arange(ITEMS) + rng.integers(100, size=(rounds, ITEMS))).astype(np.int32).ravel(),
        "chosen": chosen.ravel().astype(np.int8),
        "person": np.repeat(rng.integers(persons, size=rounds), ITEMS),
    }
    columns |= {name: features[..., place].ravel() for place, name in enumerate(FEATURES)}
    pq.write_table(pa.table(columns), path, compression="zstd", use_dictionary=["round", "person", "chosen", "item"])


def measured(parts: tuple[Partition, ...], workers: int) -> dict[str, Any]:
    """The time of each kind of pass with this many workers, and the peak memory of one."""
    rows, found = sum(part.rows for part in parts), dict[str, Any]()
    with Processes(workers) as pool:
        list(pool(_peak_memory, range(4 * workers)))  # starts the processes, which takes a second
        clock = Clocked(pool)
        for name, work in _passes(parts, clock):
            before, began = clock.seconds, perf_counter()
            work()
            wall, processor = perf_counter() - began, clock.seconds - before
            speed = {"rows_per_second": round(rows / wall), "rows_per_processor_second": round(rows / processor)}
            found[name] = {"seconds": round(wall, 2), "processor_seconds": round(processor, 2)} | speed
        found["peak_memory_per_worker_mb"] = round(max(pool(_peak_memory, range(8 * workers))))
    return found


def _passes(parts: tuple[Partition, ...], executor: Executor) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Each kind of pass over the log."""
    ready = partial(survey, parts, FORM, executor=executor)
    yield "first pass, exact fit", partial(ready, exact=True)
    log = PartitionedLog(
        partitions=parts, form=FORM, visitor_names=(), item_names=FEATURES, rounds=0, persons=False, executor=executor
    )
    yield "one step, exact fit", partial(log.sums, TASTES)
    yield "first pass, private fit", partial(ready, exact=False)
    frame = np.eye(TASTES.size) / np.sqrt(TASTES.size)
    yield "sums of quiet, every round", partial(PartitionedPairs(log).total, TASTES, frame, Grids(GRID, GRID))


def fits(parts: tuple[Partition, ...]) -> dict[str, Any]:
    """A complete exact fit and a complete private one, with two workers."""
    found = dict[str, Any]()
    with Processes(2) as pool:
        began, passes = perf_counter(), Counter[bool]()
        count = partial(_count, passes)
        log = survey(parts, FORM, exact=True, executor=pool, report=count)
        exact = fit_sums(log, (len(log.names),))
        assert exact.converged
        found["exact fit"] = _fitted(exact.theta, perf_counter() - began, passes, rounds=log.rounds)
        began, passes = perf_counter(), Counter[bool]()
        log = survey(parts, FORM, exact=False, executor=pool, report=partial(_count, passes))
        guess = scaled_curvature(FORM.feature_map, visitor_scale=np.ones(0), item_scale=np.ones(4), capacity=ITEMS)
        noise = DiscreteGaussian()
        pairs = PartitionedPairs(log)
        tastes = private_newton(pairs, rho=1.0, curvature=guess, source=noise, unit="person").theta
        found["private fit, rho = 1"] = _fitted(tastes, perf_counter() - began, passes, persons=log.rounds)
    return found


def _count(passes: Counter[bool], done: int, total: int) -> None:
    passes[done == total] += 1


def _fitted(theta: FloatArray, seconds: float, passes: Counter[bool], **size: int) -> dict[str, Any]:
    error = float(np.abs(theta - TASTES).max())
    assert error < 0.1
    return {"seconds": round(seconds, 1), "passes": passes[True], "largest_error_of_a_taste": round(error, 5), **size}


class Clocked:
    """An executor that adds up its workers' processor time, a fair measure even on a busy machine."""

    def __init__(self, inner: Processes) -> None:
        self._inner, self.seconds = inner, 0.0

    def __call__(self, job: Callable[[Part], T], parts: Sequence[Part], /) -> Iterator[T]:
        """The answers, in the order of the parts."""
        for answer, seconds in self._inner(partial(_clocked, job), parts):
            self.seconds += seconds
            yield answer


def _clocked(job: Callable[[Part], T], part: Part) -> tuple[T, float]:
    began = process_time()
    return job(part), process_time() - began


def _peak_memory(_: object = None) -> float:
    """Peak memory of this process, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(sys.argv[1:])
