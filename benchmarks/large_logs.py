"""Fits of a generated log larger than memory: rows per second and core, memory per worker, one worker and two."""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from quietshelf.choice.fitting import fit_sums
from quietshelf.choice.maps import feature_map
from quietshelf.logs.layout import Layout
from quietshelf.logs.partitioned import Executor
from quietshelf.logs.partitions import Form, Partition, partitions
from quietshelf.logs.survey import survey
from quietshelf.loop.executors import Processes
from quietshelf.release.geometry import scaled_curvature
from quietshelf.release.noise import DiscreteGaussian
from quietshelf.release.partitioned_pairs import PartitionedPairs
from quietshelf.release.private_newton import STEPS, private_newton

T = TypeVar("T")
FORM = Form(feature_map=feature_map("item"))
ITEMS, FEATURES, ROUNDS_PER_FILE = 10, ("price", "stars", "distance", "discount"), 100_000
TASTES = np.array([-1.0, -0.8, 0.5, -0.3, 0.4])
"""Of the intercept and the features."""
VISITS = 4
"""Of a person, about."""


def main(given: list[str] | None = None) -> None:
    """Write a log, fit it by one worker and by two, and print what it took as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_logs", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="item rows of the log, ten per round")
    parser.add_argument("--folder", type=Path, help="where to write the log; kept if given")
    parser.add_argument("--private", action="store_true", help="also the whole private fit, twelve passes")
    options = parser.parse_args([] if given is None else given)
    folder = options.folder or Path(tempfile.mkdtemp(prefix="large-log-"))
    try:
        written = write(folder, options.rows // ITEMS)
        print(json.dumps(written | measured(folder, private=options.private), indent=1))
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


def write(folder: Path, rounds: int) -> dict[str, Any]:
    """The log as files of 100,000 rounds; rounds and persons are whole numbers, features float32."""
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


def measured(folder: Path, *, private: bool) -> dict[str, Any]:
    """Seconds of each kind of pass, by one worker and by two, and the largest memory of a worker."""
    parts, found = partitions(folder, Layout()), dict[str, Any]()
    rows = sum(part.rows for part in parts)
    for workers in (1, 2):
        with Processes(workers) as executor:
            list(executor(_peak_memory, parts[: 2 * workers]))  # starts the processes, which takes a second
            taken = dict(_passes(parts, executor, private=private and workers == 2))
            memory = max(executor(_peak_memory, parts[: 4 * workers]))
        found[f"workers={workers}"] = {
            "peak_memory_per_worker_mb": round(memory),
            "seconds_per_pass": {name: round(second, 2) for name, second in taken.items()},
            "rows_per_second_per_core": {name: round(rows / second / workers) for name, second in taken.items()},
        }
    one, two = (found[f"workers={workers}"]["seconds_per_pass"] for workers in (1, 2))
    found["speed_of_two_workers_against_one"] = {name: round(one[name] / two[name], 2) for name in one}
    found["peak_memory_of_parent_mb"] = round(_peak_memory())
    return found


def _passes(parts: tuple[Partition, ...], executor: Executor, *, private: bool) -> Iterator[tuple[str, float]]:
    """What a pass of each kind takes, in seconds."""
    ready = partial(survey, parts, FORM, executor=executor)
    log, seconds = _timed(partial(ready, exact=True))
    yield "first pass, exact", seconds
    passes = Counter[str]()
    counting = replace(log, report=lambda done, total: passes.update(["exact"] if done == total else []))
    fitted, seconds = _timed(lambda: fit_sums(counting, (len(log.names),)))
    assert fitted.converged
    assert np.abs(fitted.theta - TASTES).max() < 0.05
    print(f"exact fit: {passes['exact']} passes after the first", file=sys.stderr)
    yield "a step of an exact fit", seconds / passes["exact"]
    log, seconds = _timed(partial(ready, exact=False))
    yield "first pass, private", seconds
    pairs, frame = PartitionedPairs(log), np.eye(len(log.names)) / np.sqrt(len(log.names))
    yield "sums of quiet", _timed(lambda: pairs.total(TASTES, frame, DiscreteGaussian().grid))[1]
    if private:
        guess = scaled_curvature(FORM.feature_map, visitor_scale=np.ones(0), item_scale=np.ones(4), capacity=ITEMS)
        fit = partial(private_newton, pairs, rho=1.0, curvature=guess, source=DiscreteGaussian(), unit="person")
        tastes, seconds = _timed(fit)
        assert np.abs(tastes.theta - TASTES).max() < 0.1
        print(f"private fit at rho = 1: {pairs.size:,} persons, {seconds:.0f} s, {STEPS} passes", file=sys.stderr)


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began = perf_counter()
    found = work()
    return found, perf_counter() - began


def _peak_memory(_: object = None) -> float:
    """Of this process so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main(sys.argv[1:])
