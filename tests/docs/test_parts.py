"""Figures in the text are those of the records that the studies wrote."""

from __future__ import annotations

import json
import math
import re
import tomllib
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
from scripts.docs import records
from scripts.docs.studies import KEPT, PAGES, PART, ROOT, filled, part, take_records, take_reproduced

from quietshelf.privacy.accounting import epsilon_of
from quietshelf.privacy.accounting.attackers import power_under_gaussian, power_under_zcdp
from quietshelf.research import experiments
from quietshelf.research.experiments import names, study_named
from quietshelf.research.experiments.engine import Local


@pytest.mark.parametrize("page", PAGES)
def test_parts_are_what_their_records_say(page: str) -> None:
    """Writing them again changes nothing; every part is known."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert PART.findall(text)
    assert filled(text, KEPT) == text


def test_every_study_is_told_of_with_what_came_of_it(tmp_path: Path) -> None:
    """In its own words; verdicts and figures once there is a record of full size."""
    claim = {"says": "It holds.", "where": "everywhere", "verdict": "fails", "holding": 1, "comparisons": 2}
    size = {"horizon": 10_000, "replicates": 30, "seed": 1}
    record = {**size, "claims": [claim], "figures": [{"file": "a.svg", "title": "A"}]}
    (tmp_path / f"{names()[0]}.json").write_text(json.dumps(record))
    text = part("claims", tmp_path)
    assert all(f"`quietshelf reproduce {name}" in text for name in names())
    assert "| It holds. | everywhere | ✘ fails | 1 of 2 |" in text
    assert f"![A](images/studies/{names()[0]}/a.svg)" in text
    assert text.count("Not run at full size") == len(names()) - 1


def test_a_part_without_its_record_stays_as_it_is(tmp_path: Path) -> None:
    """And every part that a page marks can be written once there is one."""
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert filled(text, tmp_path) == text
    assert {name for _, name, _, _ in PART.findall(text)} == set(records.PARTS) - {"shop", "guess", "first"}


def test_small_studies_are_not_taken(tmp_path: Path) -> None:
    """`make test` leaves short records behind; only full ones may be quoted, and half-done studies never."""
    for name, horizon in (("short", 400), ("long", 10_000)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"horizon": horizon, "regret": {}}))
    target = tmp_path / "kept"
    assert take_records(tmp_path, target) == ["long"]
    assert [path.name for path in target.iterdir()] == ["long.json"]
    assert take_reproduced(tmp_path, target) == []


def test_a_finished_study_brings_its_verdicts_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its rows to the page; one that is half done brings nothing."""
    study = experiments.study_named("dimension").reduced(replicates=2, horizon=40)
    monkeypatch.setattr(experiments, "study_named", lambda _: study)
    monkeypatch.setattr(experiments, "names", lambda: ("dimension",))
    folder, target = tmp_path / "dimension", tmp_path / "kept"
    experiments.reproduce(study, folder, engine=Local(1))
    assert take_reproduced(tmp_path, target) == ["dimension"]
    text = part("claims", target)
    assert study.claims[0]["says"] in text
    pictures = re.findall(r"\]\(images/studies/(dimension/[^)]+\.svg)\)", text)
    assert len(pictures) == len(study.figures)
    assert all((target / picture).is_file() for picture in pictures)
    next((folder / "rows").iterdir()).unlink()
    assert take_reproduced(tmp_path, target) == []


def test_extras_are_those_of_the_package() -> None:
    """The table in the quick start names each extra, and no other."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "docs" / "quick-start.md").read_text(encoding="utf-8")
    table = text.partition("| extra |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.M)) == set(project["optional-dependencies"])


def test_the_table_of_the_guarantee_is_computed() -> None:
    """Epsilon, and what an attacker finds at most, by the formulas that the page states; all rounded up."""
    text = (ROOT / "docs" / "guarantee.md").read_text(encoding="utf-8").replace("**", "")
    rows = re.findall(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) % \| ([\d.]+) % \| ([\d.]+) % \|$", text, re.M)
    assert len(rows) >= 5
    for rho, *said in ([float(cell) for cell in row] for row in rows):
        epsilon = math.ceil(100 * epsilon_of(rho, 1e-6)) / 100
        level = np.array([0.01])
        found = [100 * float(curve(level, rho)[0]) for curve in (power_under_gaussian, power_under_zcdp)]
        right = 100 * NormalDist().cdf(math.sqrt(2 * rho) / 2)
        assert said == [epsilon, *(math.ceil(10 * share) / 10 for share in (*found, right))]


def test_every_benchmark_is_told_of() -> None:
    """The table of docs/performance.md has a line for each module that measures something."""
    text = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    modules = [path for path in (ROOT / "benchmarks").glob("[a-z]*.py") if "\ndef main(" in path.read_text()]
    assert modules
    assert all(f"| `{path.stem}` |" in text for path in modules)


@pytest.mark.parametrize("page", PAGES)
def test_parts_inside_a_sentence_do_not_begin_a_line(page: str) -> None:
    """Markdown takes a comment at the beginning of a line for a paragraph of its own."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not re.findall(r"^<!-- part: [a-z-]+ -->[^\n]", text, re.M)


def test_hotels_without_their_file_are_named_in_one_line(tmp_path: Path) -> None:
    """Rows of a study whose data is not here cannot be judged: the message says which, where, and what is missing."""
    study = study_named("hotels").with_data(tmp_path / "gone.npz")
    (tmp_path / "hotels").mkdir()
    manifest = {"fingerprint": study.fingerprint, "config": study.config}
    (tmp_path / "hotels" / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(SystemExit, match=r"hotels cannot be judged from .*needs a file of searches.*gone\.npz"):
        take_reproduced(tmp_path, tmp_path / "kept")
