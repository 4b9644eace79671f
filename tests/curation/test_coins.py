"""R3: coins of one's own. Every number that a visitor draws is a function of the shelf's key and of that slot."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.serving.shelf.shops import N, shop

from quietshelf import Shelf
from quietshelf.curation.coins import Coins, SlotCoins
from quietshelf.curation.persons import Persons
from quietshelf.serving.shelf.testing import copied, state_of

KEY = b"a key for tests of coins"
SLOT = st.tuples(st.integers(0, 2**40), st.integers(0, 2**40))
Pair = tuple[int, int]


def drawn(coins: SlotCoins, visitors: int) -> list[np.ndarray]:
    """What visitors draw in two steps of each kind, one row each."""
    shapes = [(visitors, 5), (visitors, 2, 3)]
    return [*(coins.random(shape) for shape in shapes), *(coins.standard_normal(shape) for shape in shapes)]


@given(st.lists(SLOT, min_size=1, max_size=8, unique=True))
def test_rows_are_those_of_the_slot_alone(slots: list[Pair]) -> None:
    """Alone, in a group, in another order, or picked out of a group: the same bits."""
    coins, many = Coins(KEY), len(slots)
    together = drawn(coins.of(slots), many)
    backwards = drawn(coins.of(slots[::-1]), many)
    for place, slot in enumerate(slots):
        alone = drawn(coins.of([slot]), 1)
        picked = drawn(coins.of(slots).only([place]), 1)
        for mine, group, reverse, chosen in zip(alone, together, backwards, picked, strict=True):
            np.testing.assert_array_equal(mine[0], group[place])
            np.testing.assert_array_equal(mine[0], reverse[many - 1 - place])
            np.testing.assert_array_equal(mine[0], chosen[0])


def test_what_others_draw_before_changes_nothing() -> None:
    """A slot's coins start at their own beginning, however much was drawn from the group it was picked from."""
    coins = Coins(KEY).of([(0, 0), (0, 1)])
    expected = Coins(KEY).of([(0, 1)]).random((1, 4))
    coins.random((2, 1000))
    np.testing.assert_array_equal(coins.only([1]).random((1, 4)), expected)


@given(st.lists(SLOT, min_size=2, max_size=2, unique=True), st.lists(st.binary(min_size=1), min_size=2, unique=True))
def test_other_slots_and_other_keys_draw_other_numbers(slots: list[Pair], keys: list[bytes]) -> None:
    """No two slots share their coins, nor do two shelves; 1.23 and 12.3 are not mixed up either."""
    one, other = Coins(keys[0][:64]), Coins(KEY)
    assert not np.array_equal(*one.of(slots).random((2, 3)))
    assert not np.array_equal(one.of(slots).random((2, 3)), other.of(slots).random((2, 3)))
    assert not np.array_equal(*one.of([(1, 23), (12, 3)]).random((2, 3)))


def test_coins_of_many_slots_are_uniform_and_unrelated() -> None:
    """20,000 slots, fixed key: uniform to Kolmogorov and Smirnov, neighbours uncorrelated; false alarm below 1e-5."""
    slots = [(batch, slot) for batch in range(40) for slot in range(500)]
    found = Coins(KEY).of(slots).random((len(slots), 3))
    assert 0.0 <= found.min() < found.max() < 1.0
    for column in found.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-6
        assert stats.kstest(column**1.1, "uniform").pvalue < 1e-6  # what is not uniform is noticed
    bound = 5 / np.sqrt(len(slots))  # five standard errors of a correlation that is zero
    first = found[:, 0]
    for other in (found[:, 1], np.roll(first, 1), np.roll(first, 500)):  # own next, next slot, next batch
        assert abs(np.corrcoef(first, other)[0, 1]) < bound
    normal = Coins(KEY).of(slots).standard_normal((len(slots), 1))
    assert stats.kstest(normal[:, 0], "norm").pvalue > 1e-6


def test_coins_of_other_keys_are_unrelated() -> None:
    """The same 20,000 slots of two shelves: no correlation to five standard errors."""
    slots = [(0, slot) for slot in range(20_000)]
    one, other = (Coins(key).of(slots).random((len(slots), 1))[:, 0] for key in (b"one", b"other"))
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(len(slots))


def test_a_derived_key_tells_nothing_of_the_secret() -> None:
    """It is neither the secret nor what the secret makes of any person's name; a long secret serves as well."""
    secret = bytes(range(32))
    derived = Coins.derived(secret)
    assert derived == Coins.derived(secret)
    assert derived.key != secret
    assert len(derived.key) == 32
    persons = Persons(secret)
    assert persons.admit("quietshelf coins", batch=0, visits=1)
    (name,) = persons.counted
    assert not derived.key.hex().startswith(name)
    assert Coins.derived(secret * 4).key != derived.key


def test_a_key_is_not_printed() -> None:
    """Printing coins does not reveal the secret."""
    assert repr(Coins(KEY)) == "Coins()"


def test_two_shelves_never_share_a_key() -> None:
    """There is no default: each shelf's coins come from a key of its own, which a copy keeps."""
    shelves = [Shelf(items=N, dim=2, capacity=3, rho=1.0) for _ in range(20)]
    assert len({shelf._coins.key for shelf in shelves}) == 20
    assert len({state_of(shelf).persons.key for shelf in shelves}) == 20
    assert copied(shelves[0])._coins == shelves[0]._coins


def test_two_shelves_break_ties_differently() -> None:
    """Eight equal items, three shown: 40 visitors of two shelves see the same with probability 56^-40."""
    x = np.ones((N, 2))
    one, other = (Shelf(items=N, dim=2, capacity=3, rho=0.01) for _ in range(2))
    assert [one.offer(x).items for _ in range(40)] != [other.offer(x).items for _ in range(40)]


@pytest.mark.parametrize("policy", ["quiet", "uniform"])
def test_what_one_visitor_sees_moves_nobody_elses_coins(policy: str) -> None:
    """The third visitor asks for one item, for all, or shows enormous features: the screens of others are equal."""
    x = np.ones((N, 2))

    def screens(features: np.ndarray, **wishes: int | list[int]) -> list[tuple[int, ...]]:
        shelf = shop(policy=policy)
        return [shelf.offer(features if t == 2 else x, **(wishes if t == 2 else {})).items for t in range(10)]  # type: ignore[arg-type]

    usual = screens(x)
    for found in (screens(x, capacity=1), screens(x, candidates=[4]), screens(1e200 * x), screens(x, required=[1])):
        assert [*found[:2], *found[3:]] == [*usual[:2], *usual[3:]]
