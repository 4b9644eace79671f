"""A shelf from a product table: the shop's own ids, visitors' attributes, names wherever a number is shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from tests.serving.shelf.shops import CONVERSION

from quietshelf import Schema, Shelf, infer
from quietshelf.curation.coins import Coins
from quietshelf.data.tables import UnknownLevel, category, flag, number
from quietshelf.model.assortment import items_for
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context
from quietshelf.privacy.accounting import epsilon_of, rho_of
from quietshelf.privacy.release.noise import Simulated
from quietshelf.serving.shelf.testing import copied, state_of

PRODUCTS: list[dict[str, Any]] = [
    {"sku": f"s-{place}", "price": float(price), "kind": kind, "margin": margin}
    for place, (price, kind, margin) in enumerate(
        [(2, "tea", 1), (3, "tea", 2), (4, "coffee", 1), (5, "coffee", 3), (6, "mate", 1), (7, "mate", 2)]
    )
]
SCHEMA = Schema(
    id="sku",
    items={
        "price": number(scale=2, centre=4),
        "kind": category(["tea", "coffee", "mate"]),
        "margin": number(scale=1, centre=2),
    },
    visitors={"age": number(scale=15, centre=40), "new": flag()},
)
VISITOR = {"age": 31, "new": True}


def tables(schema: Schema | None = SCHEMA, **options: Any) -> Shelf:
    """A shelf of six products, three of which are shown."""
    return Shelf.from_table(PRODUCTS, schema, **{"capacity": 3, "rho": 4.0, "conversion": CONVERSION, **options})


def test_a_shelf_speaks_the_shops_ids() -> None:
    """In offers, answers, candidates, what is required, and what is excluded."""
    shelf = tables()
    offer = shelf.offer(VISITOR, candidates=["s-1", "s-2", "s-3", "s-4"], required=["s-2"], exclude=["s-3"])
    assert set(offer.items) == {"s-1", "s-2", "s-4"}
    shelf.choose(offer.id, "s-2")
    shelf.choose(offer.id, "s-2")
    shelf.change("s-0", available=False)
    shelf.retire("s-1")
    assert set(shelf.offer(VISITOR, exclude=pd.Series(["s-5"])).items) == {"s-2", "s-3", "s-4"}
    assert shelf.offer(VISITOR, candidates=np.arange(6) == 4).items == ("s-4",)
    assert shelf.offer(VISITOR, candidates=[False] * 5 + [True]).items == ("s-5",)
    assert shelf.offer(VISITOR, candidates=[]).items == ()


def test_whole_numbers_are_ids_and_not_indices() -> None:
    """Also where they look like indices."""
    shelf = Shelf(items=[3, 2, 1], catalogue=np.eye(3), feature_map="item", capacity=1, rho=1.0)
    assert shelf.offer(candidates=[3]).items == (3,)
    offer = shelf.offer(candidates=np.array([1]))
    assert offer.items == (1,)
    shelf.choose(offer.id, 1)
    with pytest.raises(ValueError, match="item must be the id of an item of this shelf, got item=0"):
        shelf.retire(0)


def test_ids_change_nothing_else() -> None:
    """The same visitors, coins and noise give the same offers and the same estimate as indices do."""
    named = tables()
    plain = Shelf(
        catalogue=SCHEMA.products(PRODUCTS).features,
        visitor_scale=SCHEMA.visitor_scale,
        capacity=3,
        rho=4.0,
        conversion=CONVERSION,
    )
    twins = [copied(each, source=Simulated(np.random.default_rng(1)), coins=Coins(b"coins")) for each in (named, plain)]
    rng = np.random.default_rng(2)
    for _ in range(60):
        attributes = {"age": rng.normal(40, 15), "new": rng.random() < 0.5}
        one, other = twins[0].offer(attributes), twins[1].offer(SCHEMA.visitor(attributes))
        assert one.items == tuple(f"s-{item}" for item in other.items)
        place = int(rng.integers(3))
        twins[0].choose(one.id, one.items[place])
        twins[1].choose(other.id, other.items[place])
    assert twins[0].estimate().releases > 0
    np.testing.assert_array_equal(twins[0].estimate().theta, twins[1].estimate().theta)


def test_estimates_have_the_names_of_the_columns() -> None:
    """A line per feature; products of visitor and item read "age:price"."""
    shelf = tables(feature_map="full")
    shelf.offer(VISITOR)
    tastes = shelf.estimate()
    assert tastes.names[:5] == ("intercept", "price", "kind=coffee", "kind=mate", "margin")
    assert "new:kind=mate" in tastes.names
    assert len(tastes.names) == tastes.theta.size
    assert repr(tastes).startswith("tastes after 0 releases\n  intercept ")
    assert re.search(r"\n  price +\+0\.000 ± \d+\.\d{3}\n", repr(tastes))
    dense = Shelf(items=3, dim=2, capacity=1, rho=1.0)
    dense.offer(np.ones((3, 2)))
    assert dense.estimate().names == ("feature 1", "feature 2")
    nameless = Shelf(catalogue=np.ones((3, 1)), visitor_dim=1, capacity=1, rho=1.0)
    nameless.offer([1.0])
    assert nameless.estimate().names == (
        "intercept",
        "item feature 1",
        "visitor feature 1",
        "visitor feature 1:item feature 1",
    )
    many = Shelf(items=range(30), capacity=1, rho=1.0)
    many.offer()
    assert "… and 10 more" in repr(many.estimate())


def test_a_schema_is_inferred_and_kept() -> None:
    """Without visitors the map is of items alone; what was left out is measured on the table, once."""
    shelf = tables(None)
    assert shelf.schema == infer(PRODUCTS)
    assert len(shelf.offer().items) == 3
    assert shelf.estimate().names[0:2] == ("intercept", "price")
    left_out = Schema({"price": number(), "kind": category(["tea", "mate"], other=True), "margin": number()}, id="sku")
    measured = tables(left_out)
    assert measured.schema is not None
    assert measured.schema.items["price"] == number(scale=1.71, centre=4.5)


def test_revenue_availability_and_groups_come_from_the_table() -> None:
    """At most so many of each group; a group that is not named has no limit."""
    schema = Schema({"price": number()}, id="sku", revenue="margin", available="stock", group="kind")
    rows = [{**row, "stock": row["sku"] != "s-5"} for row in PRODUCTS]
    shelf = Shelf.from_table(rows, schema, capacity=4, rho=1.0, limits={"tea": 1, "coffee": 1}, fill=True)
    assert state_of(shelf).stock.revenue.tolist() == [1, 2, 1, 3, 1, 2]
    for _ in range(20):
        items = set(shelf.offer().items)
        assert len(items & {"s-0", "s-1"}) == len(items & {"s-2", "s-3"}) == 1
        assert items >= {"s-4"}
        assert "s-5" not in items
    shelf.change("s-4", features={"kind": "tea", "margin": 5, "stock": "yes", "price": 4.5})
    stock = state_of(shelf).stock
    assert (stock.groups is not None and stock.groups.tolist()) == [0, 0, 1, 1, 0, -1]
    assert stock.revenue[4] == 5
    assert stock.catalogue is not None
    assert stock.catalogue[4].tolist() == [0.0]
    one = Shelf.from_table(rows, schema, capacity=4, rho=1.0, limits=1, fill=True)
    assert len(one.offer().items) == 3


def test_products_come_change_and_go() -> None:
    """By rows of a table; what is not said of a product stays."""
    shelf = tables()
    new = {"sku": "n-1", "price": 8.0, "kind": "tea", "margin": 2}
    assert shelf.add([new]) == ["n-1"]
    assert shelf.add(pd.DataFrame([{**new, "sku": "n-2"}, {**new, "sku": "n-3"}])) == ["n-2", "n-3"]
    assert shelf.offer(VISITOR, candidates=["n-2"]).items == ("n-2",)
    shelf.change("n-1", features={"price": 10.0})
    catalogue = state_of(shelf).stock.catalogue
    assert catalogue is not None
    assert catalogue[6].tolist() == [3.0, 0.0, 0.0, 0.0]
    shelf.retire("n-1")
    with pytest.raises(ValueError, match="item must not be retired, got item='n-1'"):
        shelf.change("n-1", revenue=2.0)
    plain = Shelf(items=["a", "b"], catalogue=np.eye(2, 1), feature_map="item", capacity=1, rho=1.0)
    assert plain.add([[2.0]], ids=["c"]) == ["c"]


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda s: s.offer({"agee": 3}), r"a visitor's attributes must be among those declared \(age, new\), got unkn"),
        (lambda s: s.offer(), "a visitor's attributes must be given, {} where none is known, got features=None"),
        (lambda s: s.offer({"age": "old"}), "age must be a finite number, got age='old'"),
        (lambda s: s.offer({"age": 1e308, "new": 1}, candidates=["x"]), "candidates must be the id of an item of this"),
        (
            lambda s: s.offer(VISITOR, exclude=[["s-1"]]),
            r"exclude must be the id of an item of this shelf, got exclude=",
        ),
        (lambda s: s.offer(VISITOR, exclude=[1]), "exclude must be the id of an item of this shelf, got exclude=1"),
        (lambda s: s.offer(VISITOR, exclude="s-1"), "exclude must be a list of ids, or a mask, got exclude='s-1'"),
        (lambda s: s.offer(VISITOR, exclude=["s-1"] * 2), "exclude must name each item at most once, got again='s-1'"),
        (
            lambda s: s.offer(VISITOR, required=["s-1"], exclude=["s-1"]),
            "required items must be available, got item 's-1'",
        ),
        (lambda s: s.choose(s.offer(VISITOR, candidates=["s-1"]).id, "s-2"), r"item must be None or one of the items"),
        (lambda s: s.choose(s.offer(VISITOR).id, "x"), "item must be the id of an item of this shelf, got item='x'"),
        (lambda s: s.choose(s.offer(VISITOR).id, True), "item must be the id of an item of this shelf, got item=True"),
        (lambda s: s.add([{"sku": "s-1", **VISITOR}]), r"every column must be declared: .* got age=31 in row 0"),
        (lambda s: s.add(PRODUCTS[1:2]), "sku must be new to the shelf, got sku='s-1' in row 0"),
        (lambda s: s.add(PRODUCTS[:1], revenue=3), "arguments that columns of the table set must not be given as well"),
        (
            lambda s: s.change("s-1", features={"colour": 1}),
            r"columns that change must be among .*colour",
        ),
        (lambda s: s.change("s-1", features={"price": "x"}), "price must be a finite number, got price='x'"),
        (lambda s: s.change("x", features={"price": 1}), "item must be the id of an item of this shelf, got item='x'"),
    ],
)
def test_what_is_wrong_is_refused_and_changes_nothing(act: Callable[[Shelf], Any], message: str) -> None:
    """The rule, the value and, of a table, the row; a refused request is no visitor (R1)."""
    shelf = tables()
    shelf.offer(VISITOR)
    stock = state_of(shelf).stock
    with pytest.raises(ValueError, match=f"^{message}"):
        act(shelf)
    assert shelf.arrivals <= 2
    assert state_of(shelf).stock is stock


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tables(rho=None), "give rho, or epsilon and delta together, got rho=None, epsilon=None, delta=None"),
        (lambda: tables(epsilon=1.0, delta=1e-6), "give rho, or epsilon and delta together, got rho=4.0"),
        (lambda: tables(rho=None, epsilon=1.0), "give rho, or epsilon and delta together"),
        (lambda: tables(limits={"tea": 1}), "limits need a schema with group=..., the column that names groups"),
        (lambda: tables(infer(PRODUCTS, group="kind")), r"limits must be given for the groups, as in limits={'coffee'"),
        (
            lambda: tables(infer(PRODUCTS, group="kind"), limits={"te": 1}),
            r"limits must name groups of the table \(coffee, mate, tea\), got unknown=\['te'\]",
        ),
        (lambda: tables(fill=1), "fill must be True or False, got fill=1"),
        (lambda: Shelf(items=["a", "a"], capacity=1, rho=1.0), "ids of items must be different, got id='a' at 0 and"),
        (
            lambda: Shelf(items=cast("list[str]", ["a", 1.5]), capacity=1, rho=1.0),
            r"items\[1\] must be text or a whole number, got",
        ),
        (lambda: Shelf(items="ab", capacity=1, rho=1.0), "items must be a list of ids, got items='ab'"),
        (lambda: Shelf(items=[], capacity=1, rho=1.0), "items must be a whole number from 1 on, got items=0"),
        (
            lambda: Shelf(items=["a"], catalogue=np.ones((2, 1)), feature_map="item", capacity=1, rho=1.0),
            "items must have an id for each of 2, got ids=1",
        ),
        (
            lambda: Shelf(catalogue=np.ones((2, 1)), schema=SCHEMA, visitor_dim=2, capacity=1, rho=1.0),
            "catalogue must have the 4 features of the schema, got features=1",
        ),
        (
            lambda: Shelf(catalogue=np.ones((2, 4)), schema=SCHEMA, visitor_dim=1, capacity=1, rho=1.0),
            "visitor_dim must be that of the schema, 2, got visitor_dim=1",
        ),
        (lambda: Shelf(items=2, dim=1, schema=SCHEMA, capacity=1, rho=1.0), "schema needs a catalogue"),
        (
            lambda: Shelf(items=["a"], capacity=1, rho=1.0).offer({"age": 3}),
            "attributes of a visitor need a shelf",
        ),
        (lambda: Shelf(items=["a"], capacity=1, rho=1.0).add([[1.0]]), r"features must have shape \(n, 0\)"),
        (
            lambda: Shelf(items=["a"], capacity=1, rho=1.0).add(ids=["b"]),
            "items without features must fit the 1 places",
        ),
        (lambda: Shelf(items=["a"], capacity=1, rho=1.0).add(), "features must be given, or ids alone"),
        (lambda: Shelf(items=["a"], capacity=1, rho=1.0).change("a", features={"x": 1}), "columns need a shelf with a"),
        (
            lambda: Shelf(items=["a", "b"], catalogue=[[1.0], [2.0]], feature_map="item", capacity=1, rho=1.0).add(
                [[3.0]], ids=["a"]
            ),
            r"the id of a new item must be new, got ids=\['a'\]",
        ),
        (
            lambda: Shelf(items=["a", "b"], catalogue=[[1.0], [2.0]], feature_map="item", capacity=1, rho=1.0).add(
                [[3.0]]
            ),
            r"ids must be given for each of the 1 new items, got ids=\[\]",
        ),
        (
            lambda: Shelf(catalogue=[[1.0], [2.0]], feature_map="item", capacity=1, rho=1.0).add([[3.0]], ids=["a"]),
            r"ids need a shelf whose items have ids, got ids=\['a'\]",
        ),
    ],
)
def test_senseless_shelves_of_tables_are_refused(make: Callable[[], Any], message: str) -> None:
    """With the rule and the value."""
    with pytest.raises(ValueError, match=f"^{message}"):
        make()


def test_epsilon_and_delta_give_the_largest_rho_that_keeps_them() -> None:
    """To the last bit that is sound."""
    shelf = tables(rho=None, epsilon=2.0, delta=1e-6)
    rho = state_of(shelf).settings.rho
    assert rho == rho_of(2.0, 1e-6)
    assert epsilon_of(rho, 1e-6) <= 2.0 < epsilon_of(rho * (1 + 1e-9), 1e-6)


def test_everything_is_saved(tmp_path: Path) -> None:
    """Ids keep their type; schema, groups and the option to fill up go on."""
    rows = [{**row, "sku": name} for row, name in zip(PRODUCTS, [1, "1", 2, "b", "c", "d"], strict=True)]
    schema = infer(rows, id="sku", group="kind", revenue="margin", visitors={"new": flag()})
    shelf = Shelf.from_table(rows, schema, capacity=2, rho=1.0, limits={"tea": 1}, fill=True)
    offer = shelf.offer({"new": True}, candidates=[1, "b"])
    shelf.save(tmp_path / "shelf")
    again = Shelf.load(tmp_path / "shelf")
    assert again.schema == schema
    assert state_of(again).stock.ids == (1, "1", 2, "b", "c", "d")
    assert state_of(again).stock.group_names == ("tea",)
    assert state_of(again).settings.fill
    again.choose(offer.id, "b")
    assert again.offer({"new": False}, candidates=["1"]).items == ("1",)
    assert again.add([{"sku": "e", "price": 1, "kind": "tea", "margin": 1}]) == ["e"]
    groups = state_of(again).stock.groups
    assert groups is not None
    assert groups[-1] == 0


def test_ids_alone_learn_popularity() -> None:
    """Visitors who take "c" whenever they see it: it is found, and called by its name."""
    shelf = Shelf(items=["a", "b", "c", "d", "e"], capacity=2, rho=1e3, conversion=0.5)
    shelf = copied(shelf, source=Simulated(np.random.default_rng(0)), coins=Coins(b"popular"))
    for _ in range(600):
        offer = shelf.offer()
        shelf.choose(offer.id, "c" if "c" in offer.items else None)
    tastes = shelf.estimate()
    assert tastes.names == ("a", "b", "c", "d", "e")
    assert tastes.names[int(np.argmax(tastes.theta))] == "c"
    assert sum("c" in shelf.offer().items for _ in range(20)) == 20
    products = Shelf.from_table([{"id": "a"}, {"id": "b"}], capacity=1, rho=1.0)
    products.offer()
    assert products.estimate().names == ("a", "b")


def test_an_offer_is_filled_up_where_that_was_asked() -> None:
    """An item that earns little takes buyers from one that earns much: it is left out, unless offers are filled up."""
    options: dict[str, Any] = {"catalogue": np.zeros((4, 1)), "feature_map": "item", "capacity": 3, "rho": 1.0}
    revenue = [1e6, 0.1, 0.2, 0.0]
    assert set(Shelf(**options).offer(revenue=revenue).items) == {0}
    filled = Shelf(**options, fill=True)
    assert set(filled.offer(revenue=revenue).items) == {0, 1, 2}
    assert set(filled.offer(revenue=revenue, exclude=[2]).items) == {0, 1, 3}
    assert set(filled.offer(revenue=revenue, candidates=[1, 3]).items) == {1, 3}
    assert set(filled.offer(revenue=revenue, required=[3]).items) == {0, 2, 3}
    assert len(filled.offer(revenue=revenue, capacity=2).items) == 2
    assert filled.offer(revenue=revenue, candidates=[]).items == ()


def test_what_fills_up_an_offer_is_the_best_that_can() -> None:
    """The best set of exactly as many items as may be shown, by enumeration, under groups and availability."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        utility, revenue, available = rng.normal(size=7), rng.normal(1, 1, size=7), rng.random(7) < 0.8
        groups, limits = rng.integers(-1, 2, size=7), np.array([1, 2])
        context = Context(Dense(np.zeros((7, 1))), revenue, 4, available, None, groups, limits, fill=True)
        shown = items_for(context, utility, revenue)
        allowed = [
            np.array(items, dtype=np.int64)
            for size in range(5)
            for items in combinations(np.flatnonzero(available), size)
            if all((groups[list(items)] == group).sum() <= limit for group, limit in enumerate(limits))
        ]
        most = max(map(len, allowed))
        weight = np.exp(utility)
        values = [(revenue[i] @ weight[i]) / (1 + weight[i].sum()) for i in allowed if len(i) == most]
        found = shown[shown >= 0]
        assert len(found) == most
        assert (revenue[found] @ weight[found]) / (1 + weight[found].sum()) == pytest.approx(max(values))


def test_a_level_that_is_not_declared_is_said_of_products() -> None:
    """Of visitors it is not: they are private, and many."""
    schema = Schema({"kind": category(["tea", "mate"])}, {"country": category(["DE", "FR"])}, id="sku")
    rows = [{"sku": "a", "kind": "tea"}, {"sku": "b", "kind": "teas"}]
    with pytest.warns(
        UnknownLevel, match=r"kind='teas' in row 1 \(counted from 0\): counted as 'tea', the first level"
    ):
        shelf = Shelf.from_table(rows, schema, capacity=1, rho=1.0)
    assert shelf.offer({"country": "IT"}).items


def test_a_schema_may_be_its_file_or_its_data(tmp_path: Path) -> None:
    """As `quietshelf schema` writes it."""
    schema = infer(PRODUCTS)
    schema.save(tmp_path / "shop.json")
    for form in (schema.to_dict(), tmp_path / "shop.json", str(tmp_path / "shop.json")):
        assert Shelf.from_table(PRODUCTS, form, capacity=3, rho=1.0).schema == schema
    with pytest.raises(ValueError, match="the file of a schema must exist"):
        Shelf.from_table(PRODUCTS, str(tmp_path / "nowhere.json"), capacity=3, rho=1.0)


def test_a_table_of_ids_alone_takes_no_further_ones() -> None:
    """They would stand at utility 0, above everything where few buy; places can be reserved."""
    ids = [{"id": str(n)} for n in range(5)]
    shelf = Shelf.from_table(ids, capacity=2, rho=1.0)
    with pytest.raises(ValueError, match="items without features must fit the 5 places that item_effects reserves"):
        shelf.add([{"id": "new"}])
    assert Shelf.from_table(ids, capacity=2, rho=1.0, item_effects=6).add([{"id": "new"}]) == ["new"]
