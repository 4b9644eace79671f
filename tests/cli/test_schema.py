"""``quietshelf schema``: a real file in, a declaration out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.command import command

from quietshelf import Schema, infer


@pytest.fixture
def products(tmp_path: Path) -> Path:
    """Thirty products."""
    lines = [f"s-{place},{'tea' if place % 3 else 'coffee'},{2 + place * 0.1:.1f},x[{place}]" for place in range(30)]
    (tmp_path / "products.csv").write_text("\n".join(["sku,kind,price,name", *lines]))
    return tmp_path / "products.csv"


def test_a_declaration_is_printed_and_kept(products: Path, tmp_path: Path) -> None:
    """A line per column; the file is the schema."""
    out = tmp_path / "new" / "schema.json"
    found = command("schema", str(products), "--revenue", "price", "--out", str(out))
    assert found.returncode == 0, found.stderr
    for word in ("named by sku", "category(levels=['tea', 'coffee'])", "kind=coffee", "30 of 30 values are different"):
        assert word in found.stdout
    assert Schema.load(out) == infer(products, revenue="price")


def test_a_table_that_looks_like_a_log_gets_a_warning(products: Path, tmp_path: Path) -> None:
    """On stderr, by the columns that give it away."""
    log = tmp_path / "log.csv"
    log.write_text("item,Visit_id,chosen,price\n" + "".join(f"i{k},{k % 3},{k % 2},{k}.5\n" for k in range(9)))
    assert "Visit_id, chosen: is this a log?" in command("schema", str(log)).stderr
    assert "is this a log?" not in command("schema", str(products)).stderr


def test_json_is_the_declaration(products: Path) -> None:
    """For machines."""
    found = command("schema", str(products), "--json")
    assert Schema.from_dict(json.loads(found.stdout)) == infer(products)


def test_mistakes_end_in_one_line(products: Path) -> None:
    """The rule and the value."""
    found = command("schema", str(products), "--id", "ean")
    assert found.returncode == 2
    assert "a special column must be in the table, got column='ean', columns=['sku', " in found.stderr
    assert "Traceback" not in found.stderr
