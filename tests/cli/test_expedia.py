"""``quietshelf expedia`` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import command

from quietshelf.data.logs.expedia import write_sample
from quietshelf.data.logs.preparation import PUBLIC
from quietshelf.data.logs.searches import load


def test_sample_then_prepare_writes_searches_and_says_what_it_chose(tmp_path: Path) -> None:
    """The file holds what the report says; the paper's figures stand beside."""
    raw, made = tmp_path / "sample.csv", tmp_path / "hotels.npz"
    assert command("expedia", "sample", str(raw), "--searches", "200").returncode == 0
    found = command("expedia", "prepare", str(raw), "-o", str(made), "--json")
    assert found.returncode == 0, found.stderr
    answer = json.loads(found.stdout)
    assert answer["figures"]["searches"] == {"found": 180, "paper": 4465}
    assert answer["figures"]["visitor features"] == {"found": 18, "paper": 18}
    searches = load(made)
    assert len(searches) == 180
    assert list(searches.notes) == answer["choices"]
    table = command("expedia", "prepare", str(raw), "-o", str(made)).stdout
    assert "4,465" in table
    assert "regression tree" in table
    assert "rule out a private fit" in table
    assert len(answer["preparation"]["data_dependent"]) == 6


def test_public_preparation_is_one_choice_and_needs_a_declared_destination(tmp_path: Path) -> None:
    """What would look at the data is refused before the file is read; the record says that nothing did."""
    raw, made = tmp_path / "sample.csv", tmp_path / "hotels.npz"
    write_sample(raw, searches=60)
    call = ["expedia", "prepare", str(raw), "--public", "-o", str(made), "--json"]
    for options in ([], ["--destination", "8192", "--impressions", "5"]):
        refused = command(*call, *options)
        assert refused.returncode == 2
        assert "--public needs a --destination" in refused.stderr
        assert not made.exists()
    answer = json.loads(command(*call, "--destination", "8192").stdout)
    assert answer["preparation"] == {"scaling": PUBLIC, "imputation": PUBLIC, "data_dependent": []}
    assert load(made).preparation.data_dependent == ()


def test_prepare_leaves_nothing_behind_when_it_fails(tmp_path: Path) -> None:
    """One line says why; no output and no temporary file remain."""
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("a,b\n1,2\n")
    found = command("expedia", "prepare", str(wrong), "-o", str(tmp_path / "out.npz"))
    assert found.returncode == 2
    assert "must have the 54 columns of the raw file" in found.stderr
    assert "Traceback" not in found.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.csv"]
