"""A shelf that starts from a log: what it shows first, what it promises, what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.curation.priors import not_private, prior

from quietshelf import Shelf
from quietshelf.curation.prior_file import PriorFile
from quietshelf.data.tables import Schema, category, flag, number, read_table
from quietshelf.privacy.accounting import epsilon_of
from quietshelf.serving.shelf.testing import state_of

PRICES = np.array([[80.0], [100.0], [120.0], [150.0], [180.0]])
UNITS = (PRICES - 120) / 40


def shelf(**options: Any) -> Shelf:
    settings: dict[str, Any] = {
        "catalogue": UNITS,
        "feature_map": "concat",
        "visitor_dim": 1,
        "capacity": 2,
        "rho": 1.0,
    }
    return Shelf(**{**settings, "prior": prior(), **options})


def test_first_offers_show_what_the_log_taught(tmp_path: Path) -> None:
    """The two cheapest items, from a prior or from its file; without it others too."""
    prior().save(tmp_path / "prior.json")
    for given in (prior(), tmp_path / "prior.json", str(tmp_path / "prior.json")):
        mine = shelf(prior=given)
        assert {frozenset(mine.offer([0.3]).items) for _ in range(20)} == {frozenset({0, 1})}
    blank = shelf(prior=None)
    assert len({frozenset(blank.offer([0.3]).items) for _ in range(60)}) > 2


def test_where_the_log_is_vague_the_usual_prior_speaks() -> None:
    """A log without information changes nothing; an ever larger one replaces everything."""
    usual, _ = estimate(prior=None)
    vague, _ = estimate(prior=prior(precision=1e-9 * np.eye(3)))
    np.testing.assert_allclose(vague, usual, atol=1e-6)
    sure, precision = estimate(prior=prior(precision=1e6 * np.eye(3)))
    np.testing.assert_allclose(sure, prior().theta, atol=1e-4)
    assert np.linalg.eigvalsh(precision - 1e6 * np.eye(3)).min() > 0


def estimate(**options: Any) -> tuple[Any, Any]:
    """Theta and precision that the first visitor meets."""
    mine = shelf(**options)
    mine.offer([0.0])
    assert mine.learner is not None
    return mine.learner.estimate


def test_with_forgetting_the_log_fades_as_releases_do() -> None:
    """After n releases it counts forgetting^n times, and the usual prior takes its place."""
    mine = shelf(forgetting=0.5, max_batch=1, prior=prior(precision=1e6 * np.eye(3)))
    for count in range(4):
        mine.offer([0.0])
        assert mine.learner is not None
        assert len(mine.learner.records) == count
        np.testing.assert_allclose(np.diagonal(mine.learner.prior.precision), 1e6 / 2**count, rtol=1e-3)


def test_estimates_have_the_names_of_the_log() -> None:
    """Also where the shelf itself was given none."""
    mine = shelf()
    mine.offer([0.0])
    assert mine.estimate().names == ("intercept", "visitor_age", "price")


def test_budgets_add_and_the_promise_says_so(tmp_path: Path) -> None:
    """From the first visitor on, and after save and load."""
    mine = shelf()
    mine.offer([0.0], person="anna")
    for state in ("new", "loaded"):
        promise = mine.privacy()
        assert (promise.rho, promise.unit) == (0.75, "person"), state
        assert promise.budget == 1.75
        assert "whose fit cost rho = 0.75 to each person" in str(promise)
        mine.save(tmp_path / "teas.shelf")
        mine = Shelf.load(tmp_path / "teas.shelf")
    kept = state_of(mine).public.log
    assert kept is not None
    assert kept.to_dict() == prior().to_dict()


def test_a_shelf_shows_the_sum() -> None:
    """On one line and in a notebook."""
    for text in (repr(shelf()), shelf()._repr_html_()):
        assert "1.75 (1 of the shelf and 0.75 of the log)" in text
    assert "rho = 1," in repr(shelf(prior=None))
    assert "rho = infinite (1 of the shelf and infinite of the log)" in repr(shelf(prior=not_private()))


def test_an_epsilon_is_kept_for_the_sum() -> None:
    """The shelf gets what the log leaves of it, and nothing where that is nothing."""
    promise = shelf(rho=None, epsilon=7.0, delta=1e-6).privacy(delta=1e-6)
    assert promise.budget is not None
    assert 6.999 < epsilon_of(promise.budget, 1e-6) <= 7.0
    for log, epsilon in ((prior(), 6.0), (not_private(), 100.0)):
        with pytest.raises(ValueError, match=rf"epsilon must be above .* the log behind the prior .* got {epsilon=}"):
            shelf(rho=None, epsilon=epsilon, delta=1e-6, prior=log)


def test_a_prior_may_be_plain_data_as_for_the_service() -> None:
    """The content of a file, or theta and precision; one that is not private needs a word."""
    assert shelf(prior=prior().to_dict()).privacy().budget == 1.75
    public = {"theta": prior().theta.tolist(), "precision": prior().precision.tolist()}
    assert shelf(prior=public).privacy().budget == 1.0
    with pytest.raises(ValueError, match=r"this prior is not private: .* \(Shelf\(prior=PriorFile.from_dict"):
        shelf(prior=not_private().to_dict())
    with pytest.raises(ValueError, match="a prior must be of the kind"):
        shelf(prior={"theta": [1.0]})


def test_a_prior_that_is_not_private_needs_a_word(tmp_path: Path) -> None:
    """A path is refused; whoever allows it gets a shelf that promises nothing, also when it is loaded."""
    not_private().save(tmp_path / "prior.json")
    with pytest.raises(ValueError, match="this prior is not private"):
        shelf(prior=tmp_path / "prior.json")
    mine = shelf(prior=PriorFile.load(tmp_path / "prior.json", allow_not_private=True))
    mine.save(tmp_path / "teas.shelf")
    assert "No privacy is promised" in str(Shelf.load(tmp_path / "teas.shelf").privacy())


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"feature_map": "full"}, "feature_map must be that of the prior, concat, got feature_map='full'"),
        ({"intercept": False}, "intercept must be that of the prior, True, got intercept=False"),
        ({"visitor_dim": 2}, "visitor_dim must be 1, because the prior has visitor_age, got visitor_dim=2"),
        ({"visitor_scale": 15.0}, "visitor_scale must be 1 with this prior: .* got visitor_scale=15.0"),
        ({"catalogue": np.eye(5, 2)}, "items must have 1 features, because the prior has price, got features=2"),
        (
            {"catalogue": PRICES},
            r"items must be in the prior's units, \(price - 120\) / 40, .* got root_mean_square_of_price=130",
        ),
        (
            {"catalogue": None, "items": 5, "dim": 4, "visitor_dim": None},
            "dim must be that of the prior, 3, got dim=4",
        ),
    ],
)
def test_a_prior_of_other_features_is_refused_by_rule_and_value(options: dict[str, Any], rule: str) -> None:
    """When the shelf is made, not when the first visitor stumbles over it."""
    with pytest.raises(ValueError, match=rule):
        shelf(**options)


def test_a_shelf_whose_offers_bring_x_takes_a_prior_of_its_length() -> None:
    """There is no map to compare: the length is checked, the rest is the caller's."""
    mine = shelf(catalogue=None, items=5, dim=3, visitor_dim=None)
    x = np.column_stack([np.ones(5), np.full(5, 0.3), UNITS[:, 0]])
    assert set(mine.offer(x).items) == {0, 1}


TEAS = [{"sku": "assam", "kind": "black", "price": 4.0}, {"sku": "sencha", "kind": "green", "price": 9.0}]
SCHEMA = Schema(
    id="sku",
    items={"kind": category(["black", "green"]), "price": number(scale=2, centre=5)},
    visitors={"age": number(scale=15, centre=40)},
)


def taught(**changes: Any) -> PriorFile:
    """By a log of that schema: the green."""
    given = {"theta": np.array([-1.0, 0.0, 3.0, 0.0]), "precision": 50 * np.eye(4), "scales": None}
    names = {"visitor_names": SCHEMA.visitor_names, "item_names": SCHEMA.item_names}
    return prior(**{**given, **names, "schema": SCHEMA.to_dict(), **changes})


def test_a_shelf_from_a_table_starts_from_a_log_of_the_same_schema(tmp_path: Path) -> None:
    """Its first offer is the green one; saved and loaded it is the same."""
    taught().save(tmp_path / "prior.json")
    mine = Shelf.from_table(TEAS, SCHEMA, capacity=1, rho=1.0, feature_map="concat", prior=tmp_path / "prior.json")
    assert mine.offer({"age": 30}).items == ("sencha",)
    mine.save(tmp_path / "teas.shelf")
    assert Shelf.load(tmp_path / "teas.shelf").privacy().budget == 1.75


def test_a_shelf_without_the_schema_of_its_prior_must_be_in_its_units() -> None:
    """Encoded features are fine; raw ones, or visitors of another scale, are refused."""
    options: dict[str, Any] = {"feature_map": "concat", "visitor_dim": 1, "capacity": 1, "rho": 1.0, "prior": taught()}
    encoded = SCHEMA.products(read_table(TEAS)).features
    assert Shelf(catalogue=encoded, **options).offer([0.0]).items == (1,)
    raw = encoded * [1, 2] + [0, 55]
    with pytest.raises(ValueError, match=r"items must be in the prior's units, those of its schema .* got root_mean"):
        Shelf(catalogue=raw, **options)
    with pytest.raises(ValueError, match=r"visitor_scale must be 1 with this prior"):
        Shelf(catalogue=encoded, visitor_scale=15.0, **options)
    halves = taught(schema=replace(SCHEMA, visitors={"age": flag()}).to_dict())
    with pytest.raises(ValueError, match=r"visitor_scale must be \[0.5\] with this prior"):
        Shelf(catalogue=encoded, **{**options, "prior": halves})


@pytest.mark.parametrize(
    ("given", "changes", "rule"),
    [
        (
            taught(),
            {"items": {**SCHEMA.items, "price": number(scale=3, centre=5)}},
            r"items must be declared as they were when the prior was fitted, got price=number\(scale=3.0, centre=5.0\)",
        ),
        (taught(), {"items": dict(reversed(list(SCHEMA.items.items())))}, "items must come in the prior's order"),
        (taught(), {"visitors": {"age": flag()}}, r"visitors must be declared as they were .* got age=flag\(\)"),
        (taught(schema=None), {}, "the prior must be fitted with the shelf's schema"),
    ],
)
def test_a_prior_of_another_schema_is_refused(given: PriorFile, changes: dict[str, Any], rule: str) -> None:
    """Units, levels, order and kind."""
    schema = replace(SCHEMA, **changes)
    with pytest.raises(ValueError, match=rule):
        Shelf.from_table(TEAS, schema, capacity=1, rho=1.0, feature_map="concat", prior=given)
