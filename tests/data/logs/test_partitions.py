"""Logs in Parquet files equal the same log in memory, however they are split and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.logs.parts import VARIED, Counted, in_parts, varied_log

from quietshelf.data.logs import partitions as module
from quietshelf.data.logs import spill
from quietshelf.data.logs.collinear import mixes
from quietshelf.data.logs.encoded import Scale, encoded, scaled
from quietshelf.data.logs.layout import Layout
from quietshelf.data.logs.partitioned import PartitionedLog, serial, watched
from quietshelf.data.logs.partitions import Form, counted_rounds, is_partitioned, partitions
from quietshelf.data.logs.reading import BadLog, as_log
from quietshelf.data.logs.survey import survey
from quietshelf.data.tables import Schema, category, number
from quietshelf.model.choice import Fit, fit
from quietshelf.model.choice.fitting import fit_sums
from quietshelf.model.choice.maps import feature_map
from quietshelf.privacy.release.geometry import unknown_curvature
from quietshelf.privacy.release.partitioned_pairs import PartitionedPairs
from quietshelf.privacy.release.private_newton import InMemory, PrivateTastes, first_rounds, private_newton
from quietshelf.privacy.statistics import Grids, ObservedChoice

SCALES = {name: Scale(*pair) for name, pair in VARIED.items()}
CONCAT = feature_map("concat")
FORM = Form(feature_map=CONCAT, scales=SCALES)
CUTS: tuple[list[int], ...] = ([], [150], [1, 2, 299], list(range(10, 300, 10)))


def opened(folder: Path, form: Form = FORM, *, exact: bool = True) -> PartitionedLog:
    return survey(partitions(folder, form.layout), form, exact=exact)


def in_memory(table: Any) -> Any:
    return encoded(scaled(as_log(table), SCALES, CONCAT), CONCAT)


def same_fit(one: Fit, other: Fit) -> None:
    for name in ("theta", "standard_errors", "log_likelihood"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-10, atol=1e-10)
    assert bool(one.converged) == bool(other.converged)


def private(contributors: Any, dim: int, grid: float) -> PrivateTastes:
    return private_newton(contributors, rho=1.0, curvature=unknown_curvature(dim), source=Counted(grid), unit="person")


def counted_in_memory(table: Any) -> ObservedChoice:
    ready = in_memory(table)
    features, choice, available = (part[first_rounds(ready.person)] for part in ready.rounds)
    return ObservedChoice(features, available, choice)


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("batch", [64, 1 << 17])
def test_exact_fit_equals_the_one_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuts: list[int], batch: int
) -> None:
    """In any number of files, and read any number of rows at a time; what tells collinear features too."""
    monkeypatch.setattr(module, "BATCH", batch)
    table = varied_log(300)
    log = opened(in_parts(table, tmp_path / "log", cuts))
    ready = in_memory(table)
    same_fit(fit_sums(log, (len(log.names),)), fit(*ready.rounds))
    assert (log.rounds, log.names) == (300, ready.names)
    assert sum(part.rows for part in log.partitions) == len(table)
    assert log.largest == np.abs(ready.rounds.features).max()
    assert log.root is not None
    assert mixes(log.root, log.names) == []


@pytest.mark.parametrize("cuts", CUTS)
def test_private_fit_equals_the_one_in_memory_to_the_last_bit(tmp_path: Path, cuts: list[int]) -> None:
    """On a grid sums are exact, so that the same noise gives the same bits; without one, sums agree to 1e-10."""
    table = varied_log(300, text=True)
    pairs = PartitionedPairs(opened(in_parts(table, tmp_path / "log", cuts), exact=False))
    shown = counted_in_memory(table)
    assert pairs.size == table["person"].nunique() == len(shown.position)
    ours, theirs = private(pairs, 4, 2.0**-20), private(shown, 4, 2.0**-20)
    for name in ("theta", "covariance", "squares"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert ours.ledger == theirs.ledger
    frame = np.tril(np.ones((4, 4))) / 2
    (ours_sum, square), (theirs_sum, other) = (
        each.total(ours.theta, frame, Grids(0.0, 0.0)) for each in (pairs, InMemory(shown))
    )
    np.testing.assert_allclose(ours_sum.score, theirs_sum.score, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(ours_sum.information, theirs_sum.information, rtol=1e-10, atol=1e-10)
    assert square == pytest.approx(other, rel=1e-10)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), cuts=st.sets(st.integers(1, 59), max_size=8), text=st.booleans())
def test_the_first_round_of_each_person_counts_whatever_file_it_is_in(
    tmp_path_factory: pytest.TempPathFactory, seed: int, cuts: set[int], text: bool
) -> None:
    """Over random logs and cuts, with ids in many buckets, the rounds that count are those of the log in memory."""
    table = varied_log(60, seed=seed, text=text)
    folder = in_parts(table, tmp_path_factory.mktemp("parts") / "log", sorted(cuts))
    with pytest.MonkeyPatch.context() as inner:
        inner.setattr(spill, "BUCKET", 5)
        log = opened(folder, exact=False)
    edges = [0, *sorted(cuts), 60]
    marks = [counted_rounds(part) for part in log.partitions]
    sizes = zip(marks, np.diff(edges), strict=True)
    ours = np.concatenate([mark[:size] for mark, size in sizes if mark is not None])
    person = as_log(table).person
    assert person is not None
    assert np.flatnonzero(ours).tolist() == sorted(first_rounds(person).tolist())


def test_a_log_surveyed_for_an_exact_fit_gives_no_private_sums(tmp_path: Path) -> None:
    """All rounds of a person would count. A second survey keeps no marks of the first; empty files are fine."""
    folder = in_parts(varied_log(40), tmp_path / "log", [15])
    varied_log(40).iloc[:0].to_parquet(folder / "part-009.parquet", index=False)
    exact = opened(folder)
    with pytest.raises(ValueError, match="one round of each person must count"):
        PartitionedPairs(exact)
    once = survey(exact.partitions, FORM, exact=False)
    assert PartitionedPairs(once).size < 40
    assert PartitionedPairs(once).total(np.zeros(4), np.eye(4), Grids(0.0, 0.0))[1] > 0
    assert survey(once.partitions, FORM, exact=True).rounds == 40


def test_others_rounds_do_not_decide_which_round_of_a_person_counts(tmp_path: Path) -> None:
    """Replacing everything that one person did moves no mark of anybody else."""
    table = varied_log(80)
    other = varied_log(80, seed=5)
    somebody = table["person"] == table["person"].iloc[0]
    replaced = table.copy()
    replaced.loc[somebody, "price"] = other["price"].iloc[: int(somebody.sum())].to_numpy() * 1e6
    logs = [
        opened(in_parts(each, tmp_path / str(n), [20, 50]), exact=False) for n, each in enumerate([table, replaced])
    ]
    assert [part.counted for part in logs[0].partitions] == [part.counted for part in logs[1].partitions]


def test_ids_that_differ_in_a_last_nul_or_in_case_are_apart(tmp_path: Path) -> None:
    """Three persons, not one."""
    rows = {"round": [1, 2, 3, 4], "item": [1] * 4, "chosen": [0] * 4, "person": ["a", "a\0", "A", "a"], "x": [1.0] * 4}
    log = opened(in_parts(pd.DataFrame(rows), tmp_path / "log", [2]), Form(feature_map=CONCAT), exact=False)
    assert log.rounds == 3


@pytest.mark.parametrize("files", [[[0, 1, 0]], [[0, 0, 1], [0]]])
def test_a_round_in_two_places_is_refused_by_name(tmp_path: Path, files: list[list[int]]) -> None:
    """Apart in one file, or in two files: the round and the files are named."""
    for place, rounds in enumerate(files):
        rows = pd.DataFrame({"round": [f"r{n}" for n in rounds], "item": range(len(rounds)), "chosen": 0, "x": 1.0})
        rows.to_parquet(tmp_path / f"part-{place}.parquet", index=False)
    with pytest.raises(ValueError, match=r"must be together in one file.*got round='r0', files=") as refused:
        opened(tmp_path, Form(feature_map=CONCAT))
    assert all(f"part-{number}.parquet" in str(refused.value) for number in range(len(files)))


def test_a_bad_row_is_named_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are counted within the file, not within a batch; also with a schema."""
    monkeypatch.setattr(module, "BATCH", 4)
    rows = pd.DataFrame({"round": np.arange(40) // 2, "item": np.tile([1, 2], 20), "chosen": 0, "price": 1.0})
    rows.loc[33, "price"] = np.inf
    folder = in_parts(rows, tmp_path / "log", [10])
    with pytest.raises(BadLog, match=r"part-001.parquet: .*\n.*feature price must be a finite.*in row 14"):
        opened(folder, Form(feature_map=CONCAT))
    schema = Schema(items={"price": number(scale=1)})
    with pytest.raises(BadLog, match=r"part-001.parquet: price must be a finite number, got .* in row 14"):
        opened(folder, Form(feature_map=CONCAT, schema=schema))


def test_a_file_that_changes_while_the_log_is_read_is_refused(tmp_path: Path) -> None:
    """The passes would add up different logs."""
    log = opened(in_parts(varied_log(50), tmp_path / "log", [20]))
    varied_log(30, seed=1).to_parquet(log.partitions[1].path, index=False)
    with pytest.raises(ValueError, match="must not change while it is read"):
        log.sums(np.zeros(4))


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    """Other columns, ids of another type, no file at all, wide format."""
    folder = in_parts(varied_log(20), tmp_path / "log", [])
    odd = folder / "part-001.parquet"
    few = varied_log(5, seed=1)
    for table, rule in (
        (few.rename(columns={"price": "cost"}), "the same columns in the same order"),
        (few.assign(person=few["person"].astype(str)), "person must be of one type in all files"),
        (few.assign(person=few["person"] * 1.0), "person must be all text or all whole numbers"),
    ):
        table.to_parquet(odd, index=False)
        with pytest.raises(ValueError, match=rule):
            partitions(folder, Layout())
    with pytest.raises(ValueError, match="must have Parquet files"):
        partitions(tmp_path / "none-*.parquet", Layout())
    with pytest.raises(ValueError, match="long format"):
        partitions(folder, Layout(wide=True))


def test_columns_by_other_names_a_schema_and_empty_files_read_as_in_memory(tmp_path: Path) -> None:
    """``--column``, ``--schema`` and folders inside folders."""
    rng = np.random.default_rng(3)
    kinds = rng.choice(["tea", "jam", "gin"], size=600)
    rows = pd.DataFrame({"visit": np.repeat(np.arange(200), 3), "sku": np.tile([1, 2, 3], 200), "kind": kinds})
    rows["chosen"] = ((rows["sku"] == 2) & (rng.uniform(size=600) < 0.5)).astype(int)
    rows["price"] = rng.normal(size=600)
    schema = Schema(id="sku", items={"kind": category(["tea", "jam"]), "price": number(scale=2)})
    form = Form(feature_map=CONCAT, layout=Layout(columns={"round": "visit"}), schema=schema)
    (tmp_path / "log" / "day=1").mkdir(parents=True)
    rows.iloc[:300].to_parquet(tmp_path / "log" / "day=1" / "a.parquet", index=False)
    rows.iloc[300:].to_parquet(tmp_path / "log" / "b.parquet", index=False)
    rows.iloc[:0].to_parquet(tmp_path / "log" / "c.parquet", index=False)
    (tmp_path / "log" / "_SUCCESS.parquet").write_text("")
    assert is_partitioned(tmp_path / "log")
    assert is_partitioned(tmp_path / "log" / "*.parquet")
    assert not is_partitioned(tmp_path / "log" / "b.parquet")
    log = opened(tmp_path / "log", form)
    ready = encoded(as_log(rows.rename(columns={"visit": "round"}), schema=schema), CONCAT)
    assert log.names == ready.names
    same_fit(fit_sums(log, (len(log.names),), 1.0), fit(*ready.rounds, ridge=1.0))


def test_a_pass_reports_rows_once_though_a_file_holds_none(tmp_path: Path) -> None:
    """Whoever is told twice of the same number of rows would take it for the next pass."""
    folder, told = in_parts(varied_log(30), tmp_path / "log", [10, 20]), list[int]()
    first = min(folder.iterdir())
    pd.read_parquet(first).head(0).to_parquet(first.with_name("part-00000-without-rows.parquet"), index=False)
    parts = partitions(folder, FORM.layout)
    assert sorted(part.rows == 0 for part in parts) == [False, False, False, True]
    list(watched(serial, lambda part: part.rows, parts, lambda done, _: told.append(done)))
    assert len(told) == len(set(told)) == 3
