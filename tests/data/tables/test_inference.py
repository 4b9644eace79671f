"""What is inferred of a public product table."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest

from quietshelf.data.tables import Column, category, embedding, flag, ignore, infer, log_number, number

rng = np.random.default_rng(1)
COUNT = 300


def inferred(cells: Any) -> Column:
    return infer([{"id": f"p{place}", "x": cell} for place, cell in enumerate(cells)]).items["x"]


def repeated(*parts: tuple[Any, int]) -> list[Any]:
    return [cell for cell, times in parts for _ in range(times)]


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        (repeated(("tea", 100), ("coffee", 150), ("mate", 50)), category(["coffee", "tea", "mate"])),
        (repeated(("tea", 200), ("coffee", 98), ("mate", 2)), category(["tea", "coffee"], other=True)),
        (repeated(("tea", 200), ("coffee", 60), (None, 40)), category(["tea", "coffee"], other=True)),
        (repeated(("tea", 200), ("other", 100)), category(["tea"], other=True)),
        (repeated((1, 100), (2, 120), (3, 80)), category([2, 1, 3])),
        (repeated(("1", 100), ("2", 120), ("3", 80)), category([2, 1, 3])),
        (repeated((True, 100), (False, 200)), flag()),
        (repeated(("yes", 100), ("no", 190), ("", 10)), flag(missing=True)),
        (repeated((0, 100), (1, 200)), flag()),
        ([[1.0, 0.0], [0.0, 2.0]] * 5, embedding(2, scale=0.75)),
        ([2.5, 3.5, 4.5, None], number(scale=0.816, centre=3.5, missing=True)),
    ],
)
def test_kinds_are_found(cells: list[Any], wanted: Column) -> None:
    """Levels by frequency, the most frequent as reference; gaps have a feature of their own."""
    assert inferred(cells) == wanted


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        ([f"tea number {place}" for place in range(COUNT)], "300 of 300 values are different"),
        (["same"] * COUNT, "always 'same'"),
        ([3] * COUNT, "always '3'"),
        ([None] * COUNT, "no values"),
        ([date(2024, 1, 1)] * COUNT, "values of type date have no meaning here"),
        ([f"text {place // 2}" for place in range(COUNT)], "150 values, each in less than 1 % of the products"),
    ],
)
def test_columns_that_say_nothing_are_left_out_and_it_is_said_why(cells: list[Any], why: str) -> None:
    """Beside the column."""
    found = inferred(cells)
    assert isinstance(found, ignore)
    assert found.why == why


def test_heavy_tails_are_looked_at_in_logarithms() -> None:
    """Positive ones; others are numbers."""
    prices = np.exp(rng.normal(3.0, 0.8, COUNT)).tolist()
    found = inferred(prices)
    assert isinstance(found, log_number)
    assert found.scale == pytest.approx(0.8, rel=0.1)
    assert found.centre == pytest.approx(3.0, rel=0.1)
    assert type(inferred([*prices[1:], 0.0])) is number
    assert type(inferred(rng.normal(30.0, 3.0, COUNT).tolist())) is number


def test_features_of_an_inferred_schema_have_mean_zero_and_spread_one() -> None:
    """As far as three digits go."""
    rows = [{"sku": place, "price": price} for place, price in enumerate(np.exp(rng.normal(0, 1, COUNT)).tolist())]
    features = infer(rows).products(rows).features
    assert features.mean() == pytest.approx(0.0, abs=0.01)
    assert features.std() == pytest.approx(1.0, abs=0.01)


def test_at_most_twenty_levels_are_kept() -> None:
    """The rest are other."""
    found = inferred([f"level {place % 30}" for place in range(COUNT)])
    assert isinstance(found, category)
    assert len(found.names("x")) == 20
    assert found.other


def test_special_columns_are_named_and_revenue_is_a_feature_too() -> None:
    """Visitors look at prices; ids and availability are no features."""
    rows = [
        {"ean": f"e{place}", "SKU": place, "price": float(place + 1), "stock": 1, "kind": f"{'ab'[place % 2]}"}
        for place in range(20)
    ]
    found = infer(rows, revenue="price", available="stock", group="kind", visitors={"new": flag()})
    assert (found.id, found.revenue, found.available, found.group) == ("SKU", "price", "stock", "kind")
    assert found.item_names == ("price", "kind=b")
    assert found.items["ean"] == ignore("an id")
    assert found.visitor_names == ("new",)
    assert infer(rows, id="ean").id == "ean"


def test_without_ids_it_is_said_what_to_write() -> None:
    """With the columns that there are."""
    with pytest.raises(
        ValueError, match=r"each value once: write id='...' with one of the columns \['name', 'price'\]"
    ):
        infer([{"name": "a", "price": 1}, {"name": "a", "price": 2}])
    with pytest.raises(ValueError, match=r"id must be different in every row, got id='a' in row 0 .* again in row 1"):
        infer([{"id": "a", "price": 1}, {"id": "a", "price": 2}])
    with pytest.raises(ValueError, match=r"a special column must be in the table, got column='sku', columns=\['id'\]"):
        infer([{"id": "a"}], id="sku")


def test_numbers_with_a_little_text_among_them_are_refused() -> None:
    """Ignored, or read as a category, the column would silently be useless."""
    rows: list[dict[str, Any]] = [{"id": str(n), "price": 1.5 * n} for n in range(20)]
    rows[3]["price"] = "n/a"
    told = r"price must be numbers in every row, or text: 19 are numbers, got price='n/a' in row 3"
    with pytest.raises(ValueError, match=told):
        infer(rows)
    rows[3]["price"] = None
    assert infer(rows).items["price"].kind == "number"
    sizes = [{"id": str(n), "size": ["38", "40", "42", "M"][n % 4]} for n in range(20)]
    assert infer(sizes).items["size"].kind == "category"


def test_one_price_that_is_no_number_is_refused_in_a_small_shop_too() -> None:
    """Six prices are few enough to be levels; as text they would be dropped, for no two are alike."""
    shop = [{"id": f"t{place}", "price": 3.0 + place} for place in range(6)]
    shop[3]["price"] = "5,50 EUR"
    with pytest.raises(ValueError, match=r"price must be numbers in every row.* got price='5,50 EUR'"):
        infer(shop)


@pytest.mark.parametrize("name", ["stock", "Inventory", "qty"])
def test_a_stock_level_is_no_taste(name: str) -> None:
    """It changes with every sale, and visitors do not see it; the schema says why it is left out."""
    shop = [{"id": f"t{place}", name: 3 * place} for place in range(30)]
    assert "stock level" in repr(infer(shop))
    assert infer(shop).items[name] == ignore()


def test_a_revenue_that_is_no_number_is_refused_at_once() -> None:
    """With its row."""
    with pytest.raises(ValueError, match=r"brand must be a finite number, got brand='acme' in row 0"):
        infer([{"id": "a", "brand": "acme"}, {"id": "b", "brand": "best"}], revenue="brand")
