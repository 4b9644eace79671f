"""``quietshelf reproduce`` and ``bench`` as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import command

STUDY = """
title = "Tiny"
summary = "For a test."
horizon = 24
replicates = 2
seed = 1
checkpoints = 4

[[worlds]]
items = 8
capacity = 2
dim = 2
contexts = "clipped"

[[policies]]
policy = "quiet"
rho = [0.5, 5.0]

[[claims]]
says = "Regret falls as rho rises."
kind = "order"
along = "rho"
direction = "falls"

[[figures]]
name = "tiny"
title = "Tiny"
where = { policy = "quiet" }
lines = ["rho"]
"""


def test_reproduce_writes_everything_and_does_nothing_twice(tmp_path: Path) -> None:
    """Rows, manifest, figures, CSV and page; a second call keeps the rows and gives the same verdicts."""
    path = tmp_path / "tiny.toml"
    path.write_text(STUDY, encoding="utf-8")
    arguments = ("reproduce", str(path), "--out", str(tmp_path / "out"), "--workers", "1", "--json")
    first = command(*arguments)
    assert first.returncode == 0, first.stderr
    folder = tmp_path / "out" / "tiny"
    found = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    figures = {"figures/tiny.svg", "figures/tiny.png"}
    assert {"manifest.json", "plotted.csv", "report.html", *figures} <= found
    (claims,) = [each["claims"] for each in json.loads(first.stdout)]
    assert claims[0]["verdict"] in ("holds", "fails", "undecided")
    assert "ε at δ = 1e-06" in (folder / "report.html").read_text(encoding="utf-8")
    (part,) = (folder / "rows").iterdir()
    written = part.stat().st_mtime_ns
    assert command(*arguments).stdout == first.stdout
    assert part.stat().st_mtime_ns == written
    command(*arguments, "--delta", "1e-9")
    assert part.stat().st_mtime_ns == written
    assert "ε at δ = 1e-09" in (folder / "report.html").read_text(encoding="utf-8")


def test_reproduce_of_another_size_has_another_folder(tmp_path: Path) -> None:
    """A reduced study never mixes with the full one; the page says how to run it again."""
    path = tmp_path / "tiny.toml"
    path.write_text(STUDY, encoding="utf-8")
    done = command("reproduce", str(path), "--out", str(tmp_path), "--workers", "1", "--replicates", "1")
    assert done.returncode == 0, done.stderr
    assert "undecided Regret falls as rho rises.: 0 of 1 comparisons" in " ".join(done.stdout.split())
    page = (tmp_path / "tiny-replicates-1" / "report.html").read_text(encoding="utf-8")
    assert "--replicates 1" in page


def test_mistakes_end_in_one_line() -> None:
    """An unknown study or part names those there are."""
    for arguments, words in (
        (("reproduce", "nothing"), "a study must be one of privacy-level, dimension"),
        (("bench", "nothing"), "part must be one of speed, alternatives, got part='nothing'"),
    ):
        done = command(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def test_full_is_refused_where_a_study_has_one_length() -> None:
    """Also for `all`: an option that does nothing would promise another study."""
    for name in ("all", "dimension"):
        done = command("reproduce", name, "--full")
        assert (done.returncode, f"study='{name}'" in done.stderr) == (2, True)
        assert "--full is for expedia" in done.stderr


def test_seeds_for_tuning_and_missing_data_have_folders_of_their_own(tmp_path: Path) -> None:
    """What is reported and what is tuned on never mix; a world whose file is not there is named and left out."""
    path = tmp_path / "tiny.toml"
    hotels = '\n[[worlds]]\nname = "hotels"\nkind = "hotels"\ndata = "nowhere.npz"\noptional = true\ncapacity = 2\n'
    text = STUDY.replace("seed = 1", "seed = 1\ntuning_seed = 2").replace("[[worlds]]", '[[worlds]]\nname = "shop"', 1)
    path.write_text(text + hotels, encoding="utf-8")
    arguments = ("reproduce", str(path), "--out", str(tmp_path), "--workers", "1")
    for more, folder in (((), "tiny-without-1"), (("--seeds", "tuning"), "tiny-seeds-tuning-without-1")):
        done = command(*arguments, *more)
        assert done.returncode == 0, done.stderr
        assert "left out: hotels, which needs a file of searches" in " ".join(done.stderr.split())
        assert (tmp_path / folder / "report.html").is_file()
    manifests = [json.loads(file.read_text(encoding="utf-8")) for file in tmp_path.glob("tiny-*/manifest.json")]
    assert {manifest["seed"] for manifest in manifests} == {1, 2}
    page = (tmp_path / "tiny-seeds-tuning-without-1" / "report.html").read_text(encoding="utf-8")
    assert "--seeds tuning" in page
    refused = command("reproduce", "dimension", "--seeds", "tuning")
    assert (refused.returncode, "tuning_seed" in refused.stderr) == (2, True)
