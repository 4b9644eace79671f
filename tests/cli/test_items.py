"""``quietshelf shelf`` and ``quietshelf items``: real files, against a running service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.cli.command import command
from tests.serving.service.harness import free_port, inline

from quietshelf import Schema, infer

COUNT = 1005
PROMISE = ("--epsilon", "2", "--delta", "1e-6", "--capacity", "4", "--window", "60")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[httpx.Client]:
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path) as found:
        yield found


@pytest.fixture
def reach(service: httpx.Client) -> dict[str, str]:
    """Where the service is, as the environment says it."""
    key = service.headers["Authorization"].partition(" ")[2]
    return {"QUIETSHELF_URL": str(service.base_url), "QUIETSHELF_KEY": key}


@pytest.fixture
def products(tmp_path: Path) -> Path:
    """More products than one transaction takes."""
    lines = [f"s-{place};{'tea' if place % 3 else 'coffee'};{2 + place % 50 * 0.1:.1f}" for place in range(COUNT)]
    (tmp_path / "products.csv").write_text("\n".join(["sku;kind;price", *lines]))
    infer(tmp_path / "products.csv").save(tmp_path / "schema.json")
    return tmp_path / "products.csv"


def test_a_shelf_and_its_products_are_put(products: Path, service: httpx.Client, reach: dict[str, str]) -> None:
    """From two files to a shelf whose items are the products; a second time nothing is added."""
    file = str(products.with_name("schema.json"))
    made = command("shelf", "put", "teas", *PROMISE, "--schema", file, "--set", "fill=true", **reach)
    assert (made.returncode, made.stdout) == (0, "teas is made\n"), made.stderr
    put = ("items", "put", str(products), "--shelf", "teas")
    done = command(*put, "--schema", file, **reach)
    assert (done.returncode, done.stdout) == (0, "1,005 items added, 0 changed\n"), done.stderr
    again = command(*put, "--json", **reach)
    assert json.loads(again.stdout) == {"added": 0, "changed": COUNT}
    told = service.get("/v1/shelves/teas").json()
    assert (told["settings"]["fill"], told["names"]) == (True, ["intercept", "kind=coffee", "price"])
    items = service.get("/v1/shelves/teas/items", params={"limit": COUNT}).json()["items"]
    assert [item["id"] for item in items] == [f"s-{place}" for place in range(COUNT)]
    found = infer(products).products(products).features.tolist()
    assert [item["features"] for item in items] == found


def test_mistakes_end_in_one_line(products: Path, tmp_path: Path, reach: dict[str, str]) -> None:
    """No schema, another schema, a wrong cell, a wrong key, no service: the rule and the value, and nothing is put."""
    put = ("items", "put", str(products), "--shelf", "teas")
    plain = command(
        "shelf", "put", "teas", "--rho", "1", "--capacity", "4", "--window", "60", "--set", "feature_map=item", **reach
    )
    assert plain.returncode == 0, plain.stderr
    assert "the shelf must have a schema, which `quietshelf shelf put teas --schema" in command(*put, **reach).stderr
    declared = Schema.load(tmp_path / "schema.json").to_dict()
    declared["items"]["price"]["scale"] = 9.0
    (tmp_path / "other.json").write_text(json.dumps(declared))
    assert command("shelf", "put", "teas", *PROMISE, "--schema", str(tmp_path / "other.json"), **reach).returncode == 0
    wrong = command(*put, "--schema", str(tmp_path / "schema.json"), **reach).stderr
    assert "must be the schema of the shelf, or be left out, got items.price={" in wrong
    (tmp_path / "bad.csv").write_text("sku;kind;price\na;tea;dear\n")
    bad = command("items", "put", str(tmp_path / "bad.csv"), "--shelf", "teas", **reach)
    assert "price must be a finite number, got price='dear' in line 2 of bad.csv" in bad.stderr
    assert (
        "a setting must be written NAME=VALUE"
        in command("shelf", "put", "x", *PROMISE, "--set", "fill", **reach).stderr
    )
    assert "Bearer qs_" in command(*put, **{**reach, "QUIETSHELF_KEY": "qs_wrong"}).stderr
    nowhere = command(*put, **{**reach, "QUIETSHELF_URL": f"http://127.0.0.1:{free_port()}"})
    assert nowhere.returncode == 2
    assert "must answer, got no answer in 4 attempts" in nowhere.stderr
    assert "Traceback" not in nowhere.stderr + bad.stderr + wrong
