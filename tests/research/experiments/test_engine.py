"""The same rows in every mode, also after an interruption."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.research.experiments.in_process import InProcess

from quietshelf.research.experiments import Study
from quietshelf.research.experiments.engine import Local, run_study
from quietshelf.research.experiments.reproduce import series_of
from quietshelf.research.experiments.store import RowStore


def rows(study: Study, folder: Path, engine: object) -> pa.Table:
    store = RowStore(folder, study)
    run_study(store, engine)  # type: ignore[arg-type]
    return store.read()


def test_rows_do_not_depend_on_the_number_of_processes(study: Study, tmp_path: Path) -> None:
    """Two processes, or this one: equal to the last bit."""
    assert rows(study, tmp_path / "a", Local(2)).equals(rows(study, tmp_path / "b", InProcess()))


def test_rows_do_not_depend_on_cells_and_blocks(study: Study, tmp_path: Path) -> None:
    """However contestants and replicates are grouped, each has the same regret."""
    other = replace(study, block=5, together=6)
    ours = series_of(study, rows(study, tmp_path / "a", InProcess()))
    theirs = series_of(other, rows(other, tmp_path / "b", InProcess()))
    assert [one.settings for one in ours] == [one.settings for one in theirs]
    for one, same in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one.regret, same.regret)


def test_interrupted_study_resumes_and_gives_the_same_rows(study: Study, tmp_path: Path) -> None:
    """What was written is kept and not run again; the rest is added."""
    store, first = RowStore(tmp_path / "a", study), InProcess(most=3)
    with pytest.raises(KeyboardInterrupt):
        run_study(store, first)
    assert len(store.pending) == len(study.units) - 3
    rest = InProcess()
    run_study(RowStore(tmp_path / "a", study), rest)
    assert not set(first.names) & set(rest.names)
    assert len(first.names) + len(rest.names) == len(study.units)
    assert store.read().equals(rows(study, tmp_path / "b", InProcess()))


def test_unfinished_file_counts_as_nothing(study: Study, tmp_path: Path) -> None:
    """A unit that was being written when the machine stopped is run again."""
    store = RowStore(tmp_path, study)
    torn = store.path(study.units[0]).with_name(f".{study.units[0].name}.parquet.torn")
    torn.write_bytes(b"PAR1 and then nothing")
    assert len(store.pending) == len(study.units)
    run_study(store, InProcess())
    assert store.read().num_rows == 2 * 6 * 5 * 6


def test_folder_refuses_another_study(study: Study, tmp_path: Path) -> None:
    """Rows of two sizes never mix; the error says what differs."""
    RowStore(tmp_path, study)
    with pytest.raises(ValueError, match=r"a folder holds one study.*replicates=5 \(now 4\)"):
        RowStore(tmp_path, study.reduced(replicates=4))


def test_rows_of_another_study_are_refused(study: Study, tmp_path: Path) -> None:
    """A file that was copied in from elsewhere does not pass for our own."""
    other = study.reduced(seed=8)
    rows(study, tmp_path / "a", InProcess())
    rows(other, tmp_path / "b", InProcess())
    unit = study.units[0]
    RowStore(tmp_path / "a", study).path(unit).write_bytes(RowStore(tmp_path / "b", other).path(unit).read_bytes())
    with pytest.raises(ValueError, match="rows must be of this study"):
        RowStore(tmp_path / "a", study).read()


def test_manifest_says_what_made_the_rows(study: Study, tmp_path: Path) -> None:
    """Resolved config, versions, seed and revision, as plain JSON."""
    RowStore(tmp_path, study)
    manifest = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["seed"] == manifest["config"]["seed"] == 7
    assert len(manifest["config"]["policies"]) == 6
    assert {"quietshelf", "python", "numpy", "pyarrow"} <= set(manifest["versions"])
    assert "revision" in manifest
    assert manifest["fingerprint"] == study.fingerprint


def test_parquet_stands_alone(study: Study, tmp_path: Path) -> None:
    """Any reader of Parquet finds settings beside every row: numbers as numbers, words as words."""
    rows(study, tmp_path, InProcess())
    table = pq.read_table(tmp_path / "rows")
    one = table.slice(0, 1).to_pylist()[0]
    assert {"policy", "dim", "rho", "fits", "replicate", "t", "regret", "rho_proven"} <= set(one)
    assert isinstance(one["rho"], float | None)
    assert set(table.column("fits").to_pylist()) == {"2", "auto", None}


def test_progress_ends_at_the_whole(study: Study, tmp_path: Path) -> None:
    """It starts at nothing, never falls, and ends with everything done."""
    told: list[tuple[int, int]] = []
    run_study(RowStore(tmp_path, study), Local(2), lambda done, total: told.append((done, total)))
    total = 2 * 6 * 5 * 30
    assert (told[0], told[-1]) == ((0, total), (total, total))
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_failing_unit_stops_the_study_with_its_error(study: Study, tmp_path: Path) -> None:
    """What a worker cannot do is not swallowed."""
    wrong = replace(study, policies=({"policy": "dpmnl", "rho": 1.0, "schedule": "sometimes"},))
    with pytest.raises(ValueError, match="schedule must be one of own, equal"):
        run_study(RowStore(tmp_path, wrong), Local(2))
