"""``quietshelf fit`` as a user runs it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.command import command
from tests.data.logs.hotels import ARRAYS, TABLES, needs_data
from tests.data.logs.parts import in_parts, varied_log
from tests.research.environments.random_logs import random_log

from quietshelf import Shelf
from quietshelf.cli import main
from quietshelf.curation.prior_file import PriorFile
from quietshelf.data.logs.expedia import clean, encode, encode_publicly, read, write_sample
from quietshelf.data.logs.preparation import UNKNOWN
from quietshelf.data.tables import Schema, category, number


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.csv"
    table: Any = random_log(3000)
    table.drop(columns="random").to_csv(path, index=False)
    return path


def test_exact_fit_finds_the_tastes_and_says_it_is_not_private(log: Path) -> None:
    """Estimates near -0.5 and -1, the likelihood, and the warning."""
    found = json.loads(command("fit", str(log), "--map", "item", "--json").stdout)
    assert not found["private"]
    assert "Not private" in found["statement"]
    values = {line["name"]: line for line in found["coefficients"]}
    assert values["price"]["estimate"] == pytest.approx(-1.0, abs=5 * values["price"]["standard_error"])
    assert found["converged"]
    assert "log_likelihood" in found


def test_private_fit_prints_no_likelihood_and_no_count(log: Path) -> None:
    """Estimates with noise-aware errors, the price, to whom it is promised: rows, for want of persons."""
    found = json.loads(command("fit", str(log), "--map", "item", "--rho", "1", "--scales", "price=1", "--json").stdout)
    assert found["private"]
    assert found["rho"] == pytest.approx(1.0)
    assert found["unit"] == "row"
    assert "not to each person" in found["statement"]
    assert "assumes that each round's features were computed from that round" in found["statement"]
    assert not {"log_likelihood", "rounds", "converged", "gradient_norm", "ridge"} & set(found)
    price = found["coefficients"][1]
    assert price["estimate"] == pytest.approx(-1.0, abs=5 * price["standard_error"])
    text = command("fit", str(log), "--map", "item", "--rho", "1").stdout
    assert "likelihood" not in text
    assert "3,000" not in text
    assert "3000" not in text


def test_a_ridge_beside_rho_is_refused(log: Path) -> None:
    """A private fit has none: an option that would be passed over in silence is a mistake."""
    found = command("fit", str(log), "--rho", "1", "--ridge", "2")
    assert found.returncode == 2
    assert "ridge is for fits without privacy" in found.stderr


def test_with_persons_the_promise_is_to_a_person(tmp_path: Path) -> None:
    """Only the first round of each counts, and the statement says so."""
    table: Any = random_log(600).drop(columns="random")
    table["person"] = table["round"] % 300
    table.to_csv(tmp_path / "persons.csv", index=False)
    found = json.loads(command("fit", str(tmp_path / "persons.csv"), "--map", "item", "--rho", "2", "--json").stdout)
    assert found["unit"] == "person"
    assert "Only the first round of every person counts" in found["statement"]
    assert "not each person" not in found["statement"]


def test_mistakes_end_in_one_message(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bad log names its rows; undeclared features and unknown maps are named."""
    table: Any = random_log(5)
    table.loc[3, "price"] = np.nan
    table.to_csv(tmp_path / "bad.csv", index=False)
    for arguments, message in (
        ([str(tmp_path / "bad.csv")], "the feature price must be a finite number, got price=nan in row 4"),
        ([str(log), "--scales", "size=1"], "missing=['price'], unknown=['size']"),
        ([str(log), "--map", "cross"], "feature_map must be one of"),
        ([str(log), "--rho", "-1"], "rho must be positive"),
        ([str(tmp_path / "none.csv")], "the file must exist"),
    ):
        monkeypatch.setattr(sys, "argv", ["quietshelf", "fit", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        assert message in capsys.readouterr().err


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A simulated raw file, prepared publicly and as in the paper, and arrays of unknown preparation."""
    folder = tmp_path_factory.mktemp("hotels")
    raw = write_sample(folder / "raw.csv", searches=200)
    files = {name: folder / f"{name}.npz" for name in ("public", "paper", "others")}
    encode_publicly(read(raw, destination=8192)).save(files["public"])
    searches = encode(clean(read(raw)))
    searches.save(files["paper"])
    replace(searches, preparation=UNKNOWN).save(files["others"])
    return files


@pytest.mark.parametrize(
    ("name", "why"), [("paper", "were standardised by the moments"), ("others", "nothing is recorded")]
)
def test_a_private_fit_of_a_file_that_looked_at_the_data_is_refused_or_costs_infinitely(
    prepared: dict[str, Path], name: str, why: str
) -> None:
    """Refused with what to do; with the flag no promise is printed, in strict JSON and in words that say why."""
    call = ["fit", str(prepared[name]), "--map", "item", "--rho", "1"]
    refused = command(*call)
    assert refused.returncode == 2
    assert refused.stdout == ""
    for words in (why, "expedia prepare --public", "--allow-data-dependent"):
        assert words in refused.stderr
    found = json.loads(command(*call, "--allow-data-dependent", "--json").stdout, parse_constant=pytest.fail)
    assert not found["private"]
    assert (found["rho"], found["epsilon"]) == ("infinity", "infinity")
    assert "No privacy is promised" in found["statement"]
    assert why in found["statement"]
    assert "is promised with" not in found["statement"]
    assert "not private" in command(*call, "--allow-data-dependent").stdout
    assert command("fit", str(prepared[name]), "--map", "item", "--ridge", "1").returncode == 0


def test_a_private_fit_of_a_public_file_promises_rho_in_declared_units(prepared: dict[str, Path]) -> None:
    """The promise is to each search; the file's own scales count as declared."""
    call = ["fit", str(prepared["public"]), "--map", "item", "--rho", "1", "--capacity", "30", "--json"]
    for flags in ([], ["--allow-data-dependent"]):
        found = json.loads(command(*call, *flags).stdout)
        assert found["private"]
        assert found["rho"] == pytest.approx(1.0)
        assert found["scales_declared"]
        assert "assumes that each round's features" not in found["statement"]


@needs_data
@pytest.mark.parametrize("path", [ARRAYS, TABLES[30]])
def test_real_hotels_prepared_by_others_are_refused_in_private(path: Path) -> None:
    """Arrays and tables without a record."""
    refused = command("fit", str(path), "--rho", "1")
    assert refused.returncode == 2
    assert "nothing is recorded" in refused.stderr


@needs_data
def test_hotels_are_fitted_from_their_arrays() -> None:
    """The known likelihood, from the command line."""
    found = json.loads(command("fit", str(ARRAYS), "--map", "item", "--json").stdout)
    assert found["log_likelihood"] == pytest.approx(-13028.87004, abs=5e-6)


def test_features_that_move_together_are_named_in_exact_fits_alone(tmp_path: Path) -> None:
    """A private fit does not look; a ridge needs no advice."""
    table: Any = random_log(400).drop(columns="random")
    table["price_eur"] = 0.92 * table["price"]
    table.to_csv(tmp_path / "log.csv", index=False)
    call = ["fit", str(tmp_path / "log.csv"), "--map", "item"]
    refused = command(*call)
    assert refused.returncode == 2
    assert "price and price_eur move together: drop one (--ridge 1 fits them anyway" in refused.stderr
    assert command(*call, "--ridge", "1").returncode == 0
    assert "move together" not in command(*call, "--rho", "1", "--scales", "price=1,price_eur=1").stderr


def test_a_private_fit_writes_a_prior(tmp_path: Path) -> None:
    """Estimates, precision, names, map, units and cost; a shelf that starts from it shows the cheap."""
    table: Any = random_log(1500).drop(columns="random")
    table = table.assign(person=table["round"], price=120 + 40 * table["price"], visitor_age="unknown")
    table.rename(columns={"item": "sku"}).to_csv(tmp_path / "log.csv.gz", index=False, sep=";")
    path = tmp_path / "priors" / "prior.json"
    call = ["--column", "item=sku", "--map", "item", "--rho", "1", "--scales", "price=120:40", "--capacity", "2"]
    found = command("fit", str(tmp_path / "log.csv.gz"), *call, "--prior", str(path), "--json")
    assert "No scales" not in found.stderr
    answer, prior = json.loads(found.stdout), PriorFile.load(path)
    assert [line["estimate"] for line in answer["coefficients"]] == prior.theta.tolist()
    errors = np.sqrt(np.diagonal(np.linalg.inv(prior.precision)))
    np.testing.assert_allclose(errors, [line["standard_error"] for line in answer["coefficients"]], rtol=1e-9)
    assert (prior.names, prior.feature_map, prior.unit) == (["intercept", "price"], "item", "person")
    assert prior.scales == {"price": (120.0, 40.0)}
    assert prior.rho == pytest.approx(1.0)
    assert prior.statement == answer["statement"]
    shelf = Shelf(catalogue=[[1.0], [-1.0], [0.5], [-2.0]], feature_map="item", capacity=2, rho=1.0, prior=path)
    assert set(shelf.offer().items) == {1, 3}


def test_a_prior_of_a_file_that_looked_at_the_data_says_that_it_is_not_private(
    prepared: dict[str, Path], tmp_path: Path
) -> None:
    """Refused without the flag; with it the file says so, and so does stderr."""
    path = tmp_path / "prior.json"
    call = ["fit", str(prepared["paper"]), "--map", "item", "--rho", "1", "--prior", str(path)]
    assert command(*call).returncode == 2
    assert not path.exists()
    assert "NOT PRIVATE" in command(*call, "--allow-data-dependent").stderr
    assert json.loads(path.read_text())["private"] is False
    with pytest.raises(ValueError, match="this prior is not private"):
        PriorFile.load(path)


def test_a_prior_without_rho_or_a_place_is_refused(log: Path, tmp_path: Path) -> None:
    """An exact fit cannot become a prior."""
    for arguments, rule in (
        (["--prior", str(tmp_path / "prior.json")], "a prior must come from a private fit"),
        (["--rho", "1", "--prior", str(tmp_path)], "directory"),
        (["--schema", str(tmp_path / "none.json")], "the schema must exist"),
        (["--schema", str(log), "--scales", "price=1"], "give --scales or --schema"),
        (["--separator", "::"], "separator must be one character, got separator='::'"),
    ):
        found = command("fit", str(log), *arguments)
        assert found.returncode == 2, found
        assert rule in found.stderr


def test_a_log_with_text_is_fitted_by_its_schema(tmp_path: Path) -> None:
    """In the schema's names and units, which the prior keeps; without it the text is refused by row."""
    table: Any = random_log(1500).drop(columns="random")
    table["colour"] = np.where(table["item"] % 2 == 0, "red", "blue")
    table["visitor_age"] = 30 + table["round"] % 20
    table.to_csv(tmp_path / "log.csv", index=False)
    schema = Schema(
        items={"price": number(scale=1), "colour": category(["red", "blue"])},
        visitors={"age": number(scale=6, centre=40)},
    )
    schema.save(tmp_path / "schema.json")
    refused = command("fit", str(tmp_path / "log.csv"))
    assert "the feature colour must be a finite number, got colour=red in row 1" in refused.stderr
    assert "--schema" in refused.stderr
    call = ["--schema", str(tmp_path / "schema.json"), "--rho", "2", "--prior", str(tmp_path / "prior.json"), "--json"]
    found = command("fit", str(tmp_path / "log.csv"), *call)
    answer, prior = json.loads(found.stdout), PriorFile.load(tmp_path / "prior.json")
    assert answer["scales_declared"]
    assert [line["name"] for line in answer["coefficients"]] == ["intercept", "age", "price", "colour=blue"]
    assert "scales and levels in the schema come from the product table" in answer["statement"]
    assert "a level listed only because somebody here had it" in prior.statement
    assert prior.schema == schema.to_dict()
    price = answer["coefficients"][2]
    assert price["estimate"] == pytest.approx(-1.0, abs=5 * price["standard_error"])


@pytest.mark.parametrize("arguments", [["fit", "--rho", "1"], ["replay", "--policy", "uniform", "--horizon", "50"]])
def test_without_scales_the_cost_is_said_on_stderr(log: Path, arguments: list[str]) -> None:
    """And with them it is not."""
    name, *options = arguments
    call = [name, str(log), "--map", "item", *options]
    for scales, said in (([], True), (["--scales", "price=1"], False)):
        found = command(*call, *scales)
        assert found.returncode == 0, found.stderr
        assert ("No scales are declared" in found.stderr) == said


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same log as one file, and as a folder of five."""
    table, place = varied_log(1200), tmp_path_factory.mktemp("parts")
    table.to_parquet(place / "log.parquet", index=False)
    return place / "log.parquet", in_parts(table, place / "folder", [100, 400, 900, 901])


def test_a_folder_of_parquet_files_is_fitted_as_one_file_is(parts: tuple[Path, Path]) -> None:
    """By processes, to 1e-10; rows, passes and speed are told beside it. One file may be read in parts as well."""
    whole, folder = parts
    expected = json.loads(command("fit", str(whole), "--json").stdout)
    for call in ([str(folder), "--workers", "2"], [f"{folder}/part-*.parquet"], [str(whole), "--workers", "1"]):
        found = json.loads(command("fit", *call, "--json").stdout)
        for ours, theirs in zip(found["coefficients"], expected["coefficients"], strict=True):
            assert ours["name"] == theirs["name"]
            assert ours["estimate"] == pytest.approx(theirs["estimate"], rel=1e-10)
            assert ours["standard_error"] == pytest.approx(theirs["standard_error"], rel=1e-10)
        assert found["log_likelihood"] == pytest.approx(expected["log_likelihood"], rel=1e-10)
        assert (found["rounds"], found["converged"]) == (1200, True)
        assert found["rows"] > 1200
        assert found["passes"] > 3
        assert found["rows_per_second"] > 0


def test_a_private_fit_of_a_folder_promises_to_persons_and_tells_no_counts(
    parts: tuple[Path, Path], tmp_path: Path
) -> None:
    """As one of a file; rows and speed are facts of the raw log, so they are not in the result."""
    scales = "price=1,stars=1,visitor_age=1"
    call = ["fit", str(parts[1]), "--rho", "2", "--scales", scales, "--prior", str(tmp_path / "prior.json"), "--json"]
    done = command(*call)
    found = json.loads(done.stdout)
    assert (found["private"], found["unit"]) == (True, "person")
    assert found["rho"] == pytest.approx(2.0)
    assert "assumes that each round's features" in found["statement"]
    assert not {"rows", "passes", "rows_per_second", "rounds", "log_likelihood"} & set(found)
    assert PriorFile.load(tmp_path / "prior.json").unit == "person"
    for line, truth in zip(found["coefficients"], (0.3, 0.4, -1.0, 0.5), strict=True):
        assert line["estimate"] == pytest.approx(truth, abs=5 * line["standard_error"])


def test_mistakes_with_a_log_in_parts_end_in_one_message(parts: tuple[Path, Path], tmp_path: Path) -> None:
    """Both kinds of workers, features that move together, wide format, a folder without a log."""
    for arguments, message in (
        ([str(parts[1]), "--workers", "1", "--cluster", "tcp://127.0.0.1:1"], "give --workers or --cluster, not both"),
        ([str(parts[1]), "--wide"], "must be Parquet in long format"),
        ([str(tmp_path)], "must have Parquet files"),
        ([str(parts[1]), "--scales", "price=1"], "every feature must have a declared scale"),
    ):
        found = command("fit", *arguments)
        assert found.returncode == 2
        assert message in found.stderr
        assert "Traceback" not in found.stderr
