"""Logs as shops write them: other names, separators and packings, declared columns; what is refused, and where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.logs.long_format import packed, table

from quietshelf.data.logs.encoded import encoded, parse_scales, read_any, scaled
from quietshelf.data.logs.layout import Layout, parse_columns
from quietshelf.data.logs.log import Log
from quietshelf.data.logs.reading import as_log, read_log
from quietshelf.data.tables import Schema, category, embedding, flag, ignore, log_number, number
from quietshelf.model.choice.maps import feature_map

THEIRS = {"round": "visit", "item": "sku", "visitor_age": "alter"}


def same(one: Log, other: Log) -> None:
    """Equal rounds of equal items, features and persons."""
    for name in ("start", "item", "shown", "chosen", "features", "visitor", "person"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.item_ids, one.item_names, one.visitor_names) == (other.item_ids, other.item_names, other.visitor_names)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("told", [False, True])
def test_separators_are_found_in_the_header_or_told(tmp_path: Path, separator: str, *, told: bool) -> None:
    """The first line decides: no visitor's row can."""
    table().assign(item=["a,b|c", "x;y", "a,b|c", "x;y", "t\tu", "t\tu"]).to_csv(
        tmp_path / "log.csv", index=False, sep=separator
    )
    found = read_log(tmp_path / "log.csv", layout=Layout(separator=separator if told else None))
    assert found.item_ids == ("a,b|c", "t\tu", "x;y")
    np.testing.assert_array_equal(found.features, as_log(table()).features)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_go_by_the_shops_names(tmp_path: Path, suffix: str) -> None:
    """Ids under other names are text all the same."""
    theirs = table().rename(columns=THEIRS)
    path = tmp_path / f"log{suffix}"
    theirs.to_csv(path, index=False) if suffix == ".csv" else theirs.to_parquet(path)
    layout = Layout(columns=parse_columns(f"{ours}={name}" for ours, name in THEIRS.items()))
    same(read_log(path, layout=layout), as_log(table()))
    if suffix == ".csv":
        path.write_text("visit,sku,chosen\n1,01,0\n1,1,1\n")
        assert read_log(path, layout=Layout(columns={"round": "visit", "item": "sku"})).item_ids == ("01", "1")


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        (["item"], "a column must be given as OURS=THEIRS, as in item=sku, got column='item'"),
        (["item=sku", "item=id"], "a column must be given once, got column='item=id'"),
        (["item=ean"], r"--column item=ean must name a column of the file, got columns=\['visit', 'sku'"),
        (["price=sku"], "--column price=sku: the file also has a column price"),
    ],
)
def test_wrong_names_are_refused(tmp_path: Path, columns: list[str], rule: str) -> None:
    """By rule and value."""
    table().rename(columns=THEIRS).to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(ValueError, match=rule):
        read_log(tmp_path / "log.csv", layout=Layout(columns=parse_columns(columns)))


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "zst", "zip"])
def test_compressed_files_are_unpacked(tmp_path: Path, suffix: str) -> None:
    """By their names; a damaged one is refused by name."""
    path = tmp_path / f"log.csv.{suffix}"
    packed(path, table().to_csv(index=False, sep=";").encode())
    found = read_any(path, feature_map("concat"))
    assert isinstance(found, Log)
    same(found, as_log(table()))
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match=r"must be a (CSV table|zip archive)"):
        read_log(path)


@pytest.mark.parametrize("cut", [20, 60])
def test_a_truncated_file_is_refused(tmp_path: Path, cut: int) -> None:
    """Half a log is not a log."""
    path = tmp_path / "log.csv.gz"
    packed(path, table().to_csv(index=False).encode())
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(ValueError, match="must be a CSV table with a header"):
        read_log(path)


def test_a_map_without_visitors_asks_nothing_of_them() -> None:
    """Neither numbers nor scales; scales that are given all the same are no mistake."""
    strange = table().assign(visitor_age="old", visitor_town="Ulm")
    log = as_log(strange, visitors=False)
    assert log.visitor_names == ()
    item = feature_map("item")
    for text in ("price=3:2", "price=3:2,visitor_age=40:15"):
        found = scaled(log, parse_scales(text), item)
        assert encoded(found, item).names == ["intercept", "price"]
    with pytest.raises(ValueError, match=r"every feature must have a declared scale.*unknown=\['size'\]"):
        scaled(log, parse_scales("price=3:2,size=1"), item)
    with pytest.raises(ValueError, match="the feature visitor_age must be a finite number, got visitor_age=old in"):
        as_log(strange)


SCHEMA = Schema(
    id="sku",
    items={
        "price": log_number(scale=0.5, centre=1.0),
        "colour": category(["red", "NA", "blue"], other=True),
        "style": embedding(2),
        "note": ignore(),
    },
    visitors={"age": number(scale=10, centre=40, missing=True), "member": flag()},
)


def declared() -> Any:
    """A log with text in it, and gaps."""
    return table().assign(
        colour=["red", "NA", "red", "NA", "green", None],
        style=["[1, 2]", "[0, 1]", "[1, 2]", "[0, 1]", "[0, 0]", None],
        note="fragile",
        visitor_age=[30, 30, None, None, None, 50],
        visitor_member=["yes", "yes", "no", "no", "no", "yes"],
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_schema_says_what_columns_mean(tmp_path: Path, suffix: str) -> None:
    """Categories, logarithms, vectors, flags and gaps, under the schema's own names; "NA" is a level."""
    path = tmp_path / f"log{suffix}"
    declared().to_csv(path, index=False) if suffix == ".csv" else declared().to_parquet(path)
    log = read_log(path, schema=SCHEMA)
    assert log.item_names == SCHEMA.item_names
    assert log.item_names == ("price", "colour=NA", "colour=blue", "colour=other", "style[0]", "style[1]")
    assert log.visitor_names == ("age", "age missing", "member")
    np.testing.assert_allclose(log.features[:, 0], (np.log(table()["price"]) - 1) / 0.5)
    np.testing.assert_array_equal(log.features[:, 1], [0, 1, 0, 1, 0, 0])
    np.testing.assert_array_equal(log.features[:, 3], [0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(log.features[:, 4:], [[1, 2], [0, 1], [1, 2], [0, 1], [0, 0], [0, 0]])
    np.testing.assert_array_equal(log.visitor, [[-1, 0, 1], [0, 1, 0], [1, 0, 1]])
    np.testing.assert_array_equal(log.revenue, table()["revenue"])


def test_a_schemas_id_may_name_the_items_and_its_visitors_may_stay_away() -> None:
    """Where the map uses none, their columns need not be there."""
    log = as_log(declared().rename(columns={"item": "sku"}), schema=SCHEMA)
    assert log.item_ids == ("jam", "rye", "tea")
    bare = declared().drop(columns=["visitor_age", "visitor_member"])
    assert as_log(bare, schema=SCHEMA, visitors=False).visitor_names == ()
    assert as_log(bare.assign(visitor_town="Ulm"), schema=SCHEMA, visitors=False).visitor_names == ()
    with pytest.raises(ValueError, match=r"every declared column, got missing=\['visitor_age', 'visitor_member'\]"):
        as_log(bare, schema=SCHEMA)


def test_a_schemas_id_is_text(tmp_path: Path) -> None:
    """As every id: each by itself."""
    (tmp_path / "log.csv").write_text("round,ean,chosen,price\n1,01,0,2\n1,1,1,3\n")
    log = read_log(tmp_path / "log.csv", schema=Schema(id="ean", items={"price": number(scale=1)}))
    assert log.item_ids == ("01", "1")


def test_a_wide_log_may_have_a_schema(tmp_path: Path) -> None:
    """Columns FEATURE:ITEM are read as the feature is declared."""
    schema = Schema(items={"kind": category(["01", "1"])})
    (tmp_path / "log.csv").write_text("chosen,kind:tea,kind:jam\ntea,01,1\n,1,01\n")
    log = read_log(tmp_path / "log.csv", layout=Layout(wide=True), schema=schema)
    np.testing.assert_array_equal(log.features[:, 0], [0, 1, 1, 0])


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"price": [1, 2, 3, -4, 5, 6]}, "price must be positive to have a logarithm, got price=-4 in row 4"),
        ({"visitor_member": "maybe"}, "visitor_member must be true or false.*got visitor_member='maybe' in row 1"),
        ({"style": "[1]"}, r"style must be a list of 2 finite numbers, got style='\[1\]' in row 1"),
        ({"size": 3}, "every column must be declared: write 'size': ignore.. among items.*got size=3 in row 1"),
        ({"visitor_town": "Ulm"}, "write 'town': ignore.. among visitors.*got visitor_town=Ulm in row 1"),
    ],
)
def test_cells_that_break_the_schema_are_named(changes: dict[str, Any], rule: str) -> None:
    """The rule, the value and the row."""
    with pytest.raises(ValueError, match=rule):
        as_log(declared().assign(**changes), schema=SCHEMA)


def test_scales_are_never_measured_on_a_log() -> None:
    """A schema that was not measured on the product table is refused."""
    with pytest.raises(ValueError, match=r"every number of the schema must have a scale.*missing=\['price'\]"):
        as_log(declared(), schema=Schema(items={"price": number()}))


@pytest.mark.parametrize("value", ["1e300", "9007199254740993", "5.", " 7 ", "red", "", "01"])
def test_one_round_changes_no_other_under_a_schema(tmp_path: Path, value: str) -> None:
    """A cell of another kind leaves what all others become as it was, to the last bit."""
    schema = Schema(items={"kind": category(["1", "01", "7"]), "level": category([*"0123456789"], other=True)})
    found = []
    for cell in ("3", value):
        rows = [f"{k},a,{k % 2},{'01' if k % 3 else '1'},{k % 10}" for k in range(50)]
        rows[7] = f"7,a,1,{cell},{cell}"
        (tmp_path / "log.csv").write_text("\n".join(["round,item,chosen,kind,level", *rows]))
        found.append(read_log(tmp_path / "log.csv", schema=schema).features)
    others = np.arange(50) != 7
    assert found[0][others].tobytes() == found[1][others].tobytes()
    assert found[0][others].any()
