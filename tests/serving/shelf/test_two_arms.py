"""A shelf as an apprentice, beside the present ranking, and fallen back to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.noiseless import Noiseless

from quietshelf import Shelf
from quietshelf.privacy.release.arm_sales import ArmSums
from quietshelf.serving.shelf.testing import copied, state_of

RANKING = [3, 1, 0, 2]
REVENUE = np.array([1.0, 2.0, 3.0, 40.0])


def shop(**options: Any) -> Shelf:
    """Four items, two shown, a ranking."""
    given: dict[str, Any] = {"catalogue": np.eye(4), "feature_map": "item", "capacity": 2, "rho": 10.0}
    most = {"most_revenue": 1.0} if options.get("comparison") else {}
    made = Shelf(**{**given, "conversion": 0.8, **most, **options})
    made.rank(RANKING)
    return made


def test_an_apprentice_serves_the_present_ranking_and_learns_from_it() -> None:
    """Everybody sees the shop's first two, in its order, and there are releases all the same."""
    shelf = copied(shop(learned_share=0.0), source=Noiseless())
    shown = set()
    for _ in range(40):
        offer = shelf.offer()
        shown.add(offer.items)
        shelf.choose(offer.id, 3)
    assert shown == {(3, 1)}
    assert shelf.learner is not None
    assert len(shelf.learner.records) > 1
    assert shelf.estimate().theta[4] > shelf.estimate().theta[2]


def test_the_ranking_keeps_to_rules_and_a_visitor_may_bring_one() -> None:
    """What is excluded, unavailable or not ranked is passed over; what is required is shown."""
    shelf = shop(learned_share=0.0)
    assert shelf.offer(exclude=[3]).items == (1, 0)
    assert shelf.offer(required=[2]).items == (3, 2)
    assert shelf.offer(ranking=[2, 0]).items == (2, 0)
    assert shelf.offer(ranking=[2]).items == (2,)
    assert shelf.offer(ranking=[2], required=[1]).items == (2, 1)
    shelf.change(3, available=False)
    assert shelf.offer().items == (1, 0)
    assert shelf.offer(capacity=1).items == (1,)
    shelf.add(np.ones(4))
    assert shelf.offer(exclude=[0, 1, 2]).items == ()


@pytest.mark.parametrize(
    ("ranking", "rule"),
    [
        ([], "ranking must name at least one item"),
        ([4], "ranking must be from 0 to 3, got ranking=4"),
        ([1, 1], "ranking must name each item at most once"),
        ([0.5], "ranking must be from 0 to 3, got ranking=0.5"),
        ("01", "ranking must be a list of items"),
    ],
)
def test_a_wrong_ranking_is_no_visitor(ranking: list[Any], rule: str) -> None:
    """Rule and value, and no slot is taken."""
    shelf = shop(learned_share=0.5)
    with pytest.raises(ValueError, match=rule):
        shelf.offer(ranking=ranking)
    with pytest.raises(ValueError, match=rule):
        shelf.rank(ranking)
    assert shelf.arrivals == 0


def test_a_ranking_is_needed_whoever_would_be_served_by_it() -> None:
    """Validity is public: it does not depend on the coin."""
    shelf = Shelf(catalogue=np.eye(4), feature_map="item", capacity=2, rho=1.0, learned_share=0.99)
    for _ in range(20):
        with pytest.raises(ValueError, match="ranking must be given with each offer, or once for the shelf"):
            shelf.offer()
    shelf.offer(ranking=[0])
    plain = Shelf(catalogue=np.eye(4), feature_map="item", capacity=2, rho=1.0)
    assert len(plain.offer(ranking=[0]).items) == 2  # nobody is served by it, and callers need not know that
    with pytest.raises(ValueError, match="ranking must be from 0 to 3"):
        plain.offer(ranking=[4])


def test_a_share_of_visitors_is_served_by_coins_of_their_own() -> None:
    """Of 2,000 visitors about 30 % see the learned policy: 600 +- 80 with probability above 1 - 1e-4."""
    shelf = shop(learned_share=0.3, present="ranking", comparison=0.2)
    for _ in range(2000):
        shelf.offer()
    assert shelf.learner is not None
    served = np.sum([each.visitors for each in shelf.learner.arms], axis=0)
    open_batches = [(batch.taken - batch.present, batch.present) for batch in shelf.batches]
    learned, present = served + np.sum(open_batches, axis=0)
    assert learned + present == 2000
    assert abs(learned - 600) < 80


def test_outcomes_are_what_each_arm_sold() -> None:
    """Without noise the sums are exact: choices and revenue, cut at the most, of the arm that served."""
    shelf = copied(
        shop(learned_share=0.5, comparison=0.2, most_revenue=10.0, guard=False, conversion=0.05), source=Noiseless()
    )
    wanted = np.zeros((2, 2))
    while True:
        before = shelf.batches[0].present if shelf.batches and not shelf.batches[0].full else 0
        if shelf.batches and shelf.batches[0].full:
            break
        offer = shelf.offer(revenue=REVENUE)
        present = shelf.batches[0].present > before
        chosen = offer.items[0] if len(offer.items) and shelf.arrivals % 3 else None
        shelf.choose(offer.id, chosen)
        if chosen is not None:
            wanted[int(present)] += 1.0, min(REVENUE[chosen], 10.0) / 10.0
    size = shelf.batches[0].frozen.size
    shelf.offer()
    assert shelf.learner is not None
    (sold,) = shelf.learner.arms
    assert sum(sold.visitors) == size
    np.testing.assert_allclose(sold.sums, wanted, atol=1e-12)
    found = shelf.comparison()
    assert found.visitors == sold.visitors
    assert found.arms["revenue"][1].estimate == pytest.approx(10.0 * wanted[1, 1] / sold.visitors[1])


def test_the_promise_counts_the_comparison() -> None:
    """One batch costs rho, pair and comparison together; the entries say which is which."""
    shelf = shop(learned_share=0.5, comparison=0.25, rho=2.0)
    while shelf.learner is None or not shelf.learner.records:
        shelf.choose(shelf.offer().id, None)
    promise = shelf.privacy()
    assert promise.rho == pytest.approx(2.0)
    assert promise.rho <= 2.0
    assert {event.name: event.rho for event in promise.events} == pytest.approx({"pair": 1.5, "comparison": 0.5})


def test_offers_fall_back_when_the_learned_policy_earns_less_beyond_doubt(tmp_path: Path) -> None:
    """From releases alone; after a reload too; and not where the guard is off."""
    shelf = shop(learned_share=1.0, comparison=0.2)
    while shelf.learner is None or not shelf.learner.records:
        shelf.offer()
    poor = ArmSums((10_000, 10_000), np.array([[100.0, 100.0], [2000.0, 2000.0]]), 1.0)
    record = shelf.learner.records[0]._replace(arms=poor)
    state_of(shelf).learner = replace(shelf.learner, records=(record,))
    assert shelf.comparison().verdict.startswith("the learned policy earns less")
    assert {shelf.offer().items for _ in range(20)} == {(3, 1)}
    shelf.save(tmp_path / "shelf")
    again = Shelf.load(tmp_path / "shelf")
    assert {again.offer().items for _ in range(20)} == {(3, 1)}
    again.serve(1.0, guard=False)
    assert {again.offer().items for _ in range(40)} != {(3, 1)}


def test_the_share_is_changed_and_saved(tmp_path: Path) -> None:
    """An apprentice takes over; open batches with outcomes are resumed."""
    shelf = shop(learned_share=0.0, comparison=0.3)
    ids = [shelf.offer().id for _ in range(3)]
    shelf.serve(0.4)
    shelf.save(tmp_path / "shelf")
    again = Shelf.load(tmp_path / "shelf")
    again.choose(ids[0], 3)
    assert state_of(again).settings.learned_share == 0.4
    assert [batch.present for batch in again.batches] == [3]
    with pytest.raises(ValueError, match="learned_share must be a share of visitors, from 0 to 1"):
        again.serve(1.5)


def test_a_batch_in_which_the_share_changes_compares_nothing(tmp_path: Path) -> None:
    """A busy season that comes with a larger share would favour the learned policy; the next batch compares again."""
    shelf = shop(learned_share=0.2, comparison=0.3, conversion=0.03)
    shelf.offer()
    shelf.serve(0.6)
    shelf.offer()
    shelf.serve(0.2)
    shelf.save(tmp_path / "shelf")
    again = Shelf.load(tmp_path / "shelf")
    while again.learner is None or len(again.learner.records) < 2:
        again.offer()
    assert [each.steady for each in again.learner.arms] == [False, True]
    assert len(again.comparison().differences["revenue"]) == 1
    assert sum(again.comparison().visitors) == sum(each.size for each in again.learner.records)


def test_a_guard_is_on_or_off() -> None:
    """Words would all mean on."""
    with pytest.raises(ValueError, match="guard must be True or False, got guard='off'"):
        shop(learned_share=0.5).serve(0.5, guard="off")  # type: ignore[arg-type]


def test_revenue_beyond_any_most_warns_nobody() -> None:
    """Warnings are errors here: what one visitor is shown must not reach a log, or refuse a valid request."""
    shelf = Shelf(items=["a", "b"], capacity=1, rho=1.0, comparison=0.5, learned_share=0.0, most_revenue=1e-200)
    shelf.rank(["a", "b"])
    offer = shelf.offer(revenue=[1e150, 1.0])
    shelf.choose(offer.id, "a")


def test_a_comparison_needs_the_most_that_a_choice_earns() -> None:
    """Where it is far too small, every choice would count alike, and a policy that sells dear items would lose."""
    with pytest.raises(ValueError, match="most_revenue must be given with a comparison: write most_revenue=40 if"):
        shop(comparison=0.2, most_revenue=None)
    assert shop(learned_share=0.5).offer().items
