"""A schema: from tables and attributes to features, to a file and back, and what it refuses."""

from __future__ import annotations

import json
import math
import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quietshelf.data import tables
from quietshelf.data.tables import Column, Schema, category, embedding, flag, ignore, log_number, number

TEAS: list[dict[str, Any]] = [
    {"sku": "a-1", "price": 4.0, "kind": "tea", "vegan": True, "style": [1, 0], "name": "Assam", "margin": 1.5},
    {"sku": "b-2", "price": 6.0, "kind": "coffee", "vegan": False, "style": [0, 1], "name": "Brasil", "margin": 2},
    {"sku": "c-3", "price": None, "kind": "mate", "vegan": "", "style": None, "name": "Cruz", "margin": 0},
]


def teas(**changes: Any) -> Schema:
    given: dict[str, Any] = {
        "items": {
            "price": number(scale=2, centre=5, missing=True),
            "kind": category(["tea", "coffee"], other=True),
            "vegan": flag(),
            "style": embedding(2, scale=0.5),
            "name": ignore("names"),
        },
        "visitors": {"age": number(scale=15, centre=40), "country": category(["DE", "FR", "IT", "ES"])},
        "id": "sku",
        "revenue": "margin",
    }
    return Schema(**{**given, **changes})


def test_products_are_encoded_column_by_column() -> None:
    """Every kind, with missing and unknown cells in their places."""
    schema = teas()
    assert schema.item_names == (
        *("price", "price missing", "kind=coffee", "kind=other", "vegan", "style[0]", "style[1]"),
    )
    found = schema.products(TEAS)
    np.testing.assert_array_equal(
        found.features, [[-0.5, 0, 0, 0, 1, 2, 0], [0.5, 0, 1, 0, 0, 0, 2], [0, 1, 0, 1, 0, 0, 0]]
    )
    assert found.ids == ("a-1", "b-2", "c-3")
    np.testing.assert_array_equal(found.revenue, [1.5, 2, 0])
    assert found.available.all()
    assert found.group is None


def test_availability_and_groups_come_from_their_columns() -> None:
    """A group may be a feature too; a missing one is none."""
    rows = [{"id": 7, "kind": "tea", "stock": "yes"}, {"id": 8, "kind": None, "stock": "no"}]
    schema = Schema({"kind": category(["tea", "coffee"])}, available="stock", group="kind")
    found = schema.products(rows)
    assert found.ids == (7, 8)
    assert found.available.tolist() == [True, False]
    assert found.group == ("tea", None)


def test_visitors_are_encoded_and_their_scale_is_declared() -> None:
    """What is not given is missing; a level among four has the spread of a quarter."""
    schema = teas()
    assert schema.visitor_names == ("age", "country=FR", "country=IT", "country=ES")
    np.testing.assert_array_equal(schema.visitor({"age": 55, "country": "IT"}), [1, 0, 1, 0])
    np.testing.assert_array_equal(schema.visitor({}), np.zeros(4))
    np.testing.assert_allclose(schema.visitor_scale, [1, *[math.sqrt(3) / 4] * 3])
    mixed = teas(visitors={"new": flag(), "taste": embedding(1, scale=3.0), "spent": log_number(scale=1, missing=True)})
    assert mixed.visitor_scale.tolist() == [0.5, 1.0, 1.0, 0.5]
    assert Schema({}).visitor({}).shape == (0,)


def test_scales_left_out_are_measured_on_products_once() -> None:
    """Further products are put in the same units."""
    schema = Schema({"price": number(), "weight": log_number()})
    rows = [{"id": 1, "price": 1, "weight": 1}, {"id": 2, "price": 3, "weight": math.e**2}]
    with pytest.raises(ValueError, match=r"price must have a scale: declare it, or use schema.measured\(products\)"):
        schema.products(rows)
    measured = schema.measured(rows)
    assert measured.items == {"price": number(1.0, 2.0), "weight": log_number(1.0, 1.0)}
    np.testing.assert_allclose(measured.products([{"id": 3, "price": 5, "weight": 1}]).features, [[3, -1]])
    with pytest.raises(ValueError, match=r"weight must be positive to have a logarithm, got weight=0 in row 1"):
        schema.measured([rows[0], {"id": 2, "price": 3, "weight": 0}])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"visitors": {"age": number()}},
            r"the scale of visitors' age must be declared: .* write 'age': number\(scale",
        ),
        ({"items": {"price": float}}, r"price must be declared as one of number\(\), .* got price=<class 'float'>"),
        ({"items": {3: flag()}}, "a name in items must be text, got name=3"),
        ({"items": ["price"]}, r"items must be a mapping of names to columns, got items=\['price'\]"),
        ({"items": {"sku": flag()}}, "the id must not be among items, got id='sku'"),
        ({"revenue": "sku"}, "id, revenue, available and group must be different columns, got twice='sku'"),
        ({"id": None}, "id must be the name of a column, got id=None"),
        ({"available": ""}, "a special column must be given by its name, got column=''"),
        ({"visitors": {"price": flag()}}, r"features must have different names, got twice=\['price'\]"),
        (
            {"items": {"a": number(1, missing=True), "a missing": flag()}},
            r"features must have different names, got twice=\['a missing'\]",
        ),
    ],
)
def test_a_wrong_schema_is_refused(changes: dict[str, Any], message: str) -> None:
    """With the rule and the value; for a missing scale, with what to write."""
    with pytest.raises(ValueError, match=f"^{message}"):
        teas(**changes)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"price": "dear"}, r"price must be a finite number, got price='dear' in row 1 \(counted from 0\)"),
        ({"colour": "red"}, r"every column must be declared: write 'colour': ignore\(\) .* got colour='red' in row 1"),
        ({"sku": "a-1"}, r"sku must be different in every row, got sku='a-1' in row 0 .* and again in row 1"),
        ({"sku": ""}, "sku must be text or a whole number, got sku='' in row 1"),
        ({"sku": 1.0}, "sku must be text or a whole number, got sku=1.0 in row 1"),
        ({"sku": True}, "sku must be text or a whole number, got sku=True in row 1"),
        ({"margin": -1}, "margin must be a finite number from 0 on, got margin=-1 in row 1"),
        ({"margin": None}, "margin must be a finite number from 0 on, got margin=None in row 1"),
        ({"kind": 2.5}, "kind must be text or a whole number, got kind=2.5 in row 1"),
    ],
)
def test_a_wrong_product_is_refused_with_its_row(row: dict[str, Any], message: str) -> None:
    """The rule, the value and the row."""
    with pytest.raises(ValueError, match=f"^{message}"):
        teas().products([TEAS[0], {**TEAS[1], **row}])


def test_a_column_that_is_not_there_is_named() -> None:
    """With those that are."""
    with pytest.raises(ValueError, match=r"^the table must have every declared column, got missing=\['price'\], colu"):
        teas().products([{name: value for name, value in row.items() if name != "price"} for row in TEAS])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"agee": 3}, r"a visitor's attributes must be among those declared \(age, country\), got unknown=\['agee'\]"),
        ({"age": "old"}, "age must be a finite number, got age='old'"),
        ([31], r"a visitor must be a mapping of attributes, got visitor=\[31\]"),
    ],
)
def test_a_wrong_visitor_is_refused(attributes: Any, message: str) -> None:
    """By what is declared and by the request alone."""
    with pytest.raises(ValueError, match=f"^{message}"):
        teas().visitor(attributes)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(10**300, 10**500)
    | st.floats()
    | st.text()
    | st.sampled_from(["[1, 2]", "[" * 100_000, "[1e999, 1]", "1" * 5000, "inf", "-0"])
    | st.binary()
    | st.decimals(),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(), parts, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(["age", "spent", "country", "new", "taste", "what"]), anything))
def test_a_visitor_is_features_or_a_value_error(attributes: dict[str, Any]) -> None:
    """Whatever is sent: anything else would be a fault of the service, which others could see (R1)."""
    visitors: dict[str, Column] = {
        "age": number(scale=15, centre=40),
        "spent": log_number(scale=1),
        "country": category(["DE", "FR"], other=True),
        "new": flag(missing=True),
        "taste": embedding(2),
    }
    schema = Schema({}, visitors)
    try:
        found = schema.visitor(attributes)
    except ValueError:
        return
    assert found.shape == (len(schema.visitor_names),)
    assert np.isfinite(found).all()


finite = st.floats(allow_nan=False, allow_infinity=False)
scale = st.floats(min_value=1e-300, max_value=1e300)
words = st.text(string.ascii_letters + " é'\"", min_size=1).filter(lambda text: text.strip() != "")
numbers = st.builds(number, scale, finite, st.booleans()) | st.builds(log_number, scale, finite, st.booleans())
columns: st.SearchStrategy[Column] = (
    numbers
    | st.builds(category, st.lists(words.map(str.strip), min_size=2, unique=True).filter(lambda x: "other" not in x))
    | st.builds(category, st.just(["a", 1]), st.just(True))
    | st.builds(flag, st.booleans())
    | st.builds(embedding, st.integers(1, 5), scale)
    | st.builds(ignore, words)
)


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    items = draw(st.dictionaries(words.map(lambda name: f"item {name}"), columns, max_size=5))
    visitors = draw(st.dictionaries(words.map(lambda name: f"visitor {name}"), columns, max_size=5))
    return Schema(items, visitors, id="sku", revenue=draw(st.none() | st.just("earned")))


@given(schemas())
def test_a_schema_is_the_same_after_json_and_as_python(schema: Schema) -> None:
    """Its repr is the declaration to paste."""
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema
    assert eval(repr(schema), vars(tables)) == schema  # noqa: S307 - of our own making


def test_a_schema_is_kept_in_a_file(tmp_path: Path) -> None:
    """That a person can read; why a column is left out is in it."""
    teas().save(tmp_path / "teas.json")
    assert Schema.load(tmp_path / "teas.json") == teas()
    text = (tmp_path / "teas.json").read_text()
    assert '"version": 1' in text
    assert '"why": "names"' in text
    assert "'name': ignore(),  # names" in repr(teas())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "must be a schema in JSON"),
        ("[]", "a schema must be an object with items and visitors"),
        ('{"version": 2, "items": {}}', "the version of a schema must be 1, got version=2"),
        ('{"version": 1}', "a schema must have items"),
        ('{"version": 1, "items": []}', "items must be an object"),
        ('{"version": 1, "items": {}, "rows": 3}', r"a schema has id, .*, got unknown=\['rows'\]"),
        ('{"version": 1, "items": {"a": {"kind": "money"}}}', "a must be one of number, .*, got kind='money'"),
        ('{"version": 1, "items": {"a": {"kind": "flag", "b": 1}}}', r"a: flag takes missing, got unknown=\['b'\]"),
        ('{"version": 1, "items": {"a": {"kind": "category"}}}', "a: category needs levels"),
        ('{"version": 1, "items": {"a": {"kind": "category", "levels": 3}}}', "a: "),
        ('{"version": 1, "items": {"a": {"kind": "number", "scale": -1}}}', "a: scale must be positive"),
        ('{"version": 1, "items": {"a": 3}}', "a must be declared as"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """With the column, the rule and the value."""
    (tmp_path / "schema.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        Schema.load(tmp_path / "schema.json")
