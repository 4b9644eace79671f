"""The store of raw rounds that exact curators fit to."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from quietshelf.model.choice import fit
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, Round
from quietshelf.privacy.release.exact import exact_ledger
from quietshelf.privacy.release.history import FIRST, History, StoredRounds, contributing
from quietshelf.privacy.statistics import ObservedChoice


def some(
    rng: np.random.Generator, worlds: tuple[int, ...], places: int, dim: int, *, empty: float = 0.0
) -> ObservedChoice:
    """A random round: features, which places are filled, and a choice among them or none."""
    offered = rng.random((*worlds, places)) >= empty
    rows = np.where(offered[..., None], rng.normal(size=(*worlds, places, dim)), 0.0)
    position = rng.integers(-1, places, size=worlds)
    held = np.take_along_axis(offered, np.maximum(position, 0)[..., None], axis=-1)[..., 0]
    return ObservedChoice(rows, offered, np.where(held, position, -1))


def filled(
    worlds: tuple[int, ...], length: int, *, empty: float = 0.0, seed: int = 1
) -> tuple[History, list[ObservedChoice]]:
    """A history of three places and two features, and the rounds put into it."""
    rng = np.random.default_rng(seed)
    rounds = [some(rng, worlds, 3, 2, empty=empty) for _ in range(length)]
    history = History(worlds, 3, 2)
    for seen in rounds:
        history.append(seen)
    return history, rounds


def everything(history: History, worlds: tuple[int, ...]) -> StoredRounds:
    """All rounds of all worlds, leading axes as given."""
    ((_, rounds),) = history.parts(np.arange(math.prod(worlds)))
    features, choice, available = rounds
    return StoredRounds(
        features.reshape(worlds + features.shape[1:]),
        choice.reshape(worlds + choice.shape[1:]),
        None if available is None else available.reshape(worlds + available.shape[1:]),
    )


def raw_round(*, worlds: tuple[int, ...] = (), items: int = 4, dim: int = 2) -> Round:
    features = Dense(np.random.default_rng(2).normal(size=(*worlds, items, dim)))
    assortment = np.broadcast_to(np.array([2, 0, -1]), (*worlds, 3))
    return Round(Context(features, np.ones(items), 3), assortment, np.full(worlds, 0))


@pytest.mark.parametrize("worlds", [(), (4,), (2, 3)])
@pytest.mark.parametrize("empty", [0.0, 0.3])
def test_history_views_what_was_appended_across_growth(worlds: tuple[int, ...], empty: float) -> None:
    """After the room has doubled twice every round is still there, in order, for any leading axes."""
    history, rounds = filled(worlds, 2 * FIRST + 1, empty=empty)
    features, choice, available = everything(history, worlds)
    axis = len(worlds)
    assert len(history) == len(rounds)
    np.testing.assert_array_equal(features, np.stack([seen.rows for seen in rounds], axis=axis))
    np.testing.assert_array_equal(choice, np.stack([seen.position for seen in rounds], axis=axis))
    if empty:
        np.testing.assert_array_equal(available, np.stack([seen.offered for seen in rounds], axis=axis))
    else:
        assert available is None


def test_history_copies_nothing_of_a_single_world() -> None:
    """Its rounds are a window on the memory of the history."""
    history, _ = filled((3,), 10)
    (_, one), (_, again) = (next(iter(history.parts(np.array([1])))) for _ in range(2))
    assert np.shares_memory(one.features, again.features)


def test_history_with_a_horizon_holds_the_same_and_may_exceed_it() -> None:
    """The hint makes room, and changes nothing else."""
    _, rounds = filled((2,), 7)
    plain, hinted = History((2,), 3, 2), History((2,), 3, 2, horizon=5)
    for seen in rounds:
        plain.append(seen)
        hinted.append(seen)
    for one, other in zip(everything(plain, (2,))[:2], everything(hinted, (2,))[:2], strict=True):
        np.testing.assert_array_equal(one, other)


def test_history_leaves_places_beyond_a_short_assortment_empty() -> None:
    """An assortment with fewer places than capacity is one with empty places."""
    history = History((), 3, 2)
    history.append(ObservedChoice(np.ones((1, 2)), np.array([True]), np.array(0)))
    features, _, available = everything(history, ())
    assert available is not None
    assert available.tolist() == [[True, False, False]]
    assert features[0, 1:].tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("empty", [0.0, 0.3])
@pytest.mark.parametrize(("chunk", "groups"), [(1, [[5], [0], [3]]), (1000, [[5, 0], [3]]), (10_000, [[5, 0, 3]])])
def test_history_parts_are_fitted_as_if_alone(
    empty: float, chunk: int, groups: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many worlds come together as a chunk holds; their fits equal those of each world alone, bit for bit."""
    monkeypatch.setattr("quietshelf.privacy.release.history.BESIDE", chunk)
    history, rounds = filled((2, 3), 60, empty=empty)
    parts = list(history.parts(np.array([5, 0, 3])))
    assert [group.tolist() for group, _ in parts] == groups
    for group, part in parts:
        together = fit(*part, ridge=1.0)
        for place, world in enumerate(group):
            at = np.unravel_index(world, (2, 3))
            rows, offered, position = (np.stack([seen[field][at] for seen in rounds]) for field in range(3))
            alone = fit(rows, position, offered, ridge=1.0)
            np.testing.assert_array_equal(together.theta[place], alone.theta)
            np.testing.assert_array_equal(together.information[place], alone.information)


def test_contributing_finds_rows_places_and_choice() -> None:
    """Items 2 and 0 were shown and item 0 chosen: place 1, and a zero row in the empty place."""
    seen = contributing(raw_round(worlds=(2,)), worlds=(2,), capacity=3, dim=2)
    assert seen.offered.tolist() == [[True, True, False]] * 2
    assert seen.position.tolist() == [1, 1]
    assert not seen.rows[:, 2].any()


def test_contributing_empties_the_offer_of_those_who_do_not_count() -> None:
    """A visit beyond somebody's cap adds nothing: no item offered, none chosen, and no other world is touched."""
    counted = raw_round(worlds=(2,))
    seen = contributing(replace(counted, counts=np.array([True, False])), worlds=(2,), capacity=3, dim=2)
    whole = contributing(counted, worlds=(2,), capacity=3, dim=2)
    assert not seen.offered[1].any()
    assert not seen.rows[1].any()
    assert seen.position.tolist() == [1, -1]
    np.testing.assert_array_equal(seen.rows[0], whole.rows[0])


@pytest.mark.parametrize(
    ("worlds", "capacity", "dim", "rule"),
    [
        ((2,), 3, 2, r"leading axes \(2,\), got shape=\(\)"),
        ((), 2, 2, "at most capacity=2 places, got places=3"),
        ((), 3, 5, "must have dim=5, got length=2"),
    ],
)
def test_contributing_refuses_what_does_not_fit(worlds: tuple[int, ...], capacity: int, dim: int, rule: str) -> None:
    """Wrong worlds, too many places and a wrong dimension are each named with the value."""
    with pytest.raises(ValueError, match=rule):
        contributing(raw_round(), worlds=worlds, capacity=capacity, dim=dim)


def test_contributing_refuses_features_that_are_not_finite() -> None:
    """NaN in a shown row is an error; in an item that was not shown it is nobody's business."""
    base = raw_round()
    for item, shown in ((0, True), (1, False)):
        features = np.ones((4, 2))
        features[item, 1] = np.nan
        bad = replace(base, context=replace(base.context, features=Dense(features)))
        if shown:
            with pytest.raises(ValueError, match="features must be finite"):
                contributing(bad, worlds=(), capacity=3, dim=2)
        else:
            assert np.isfinite(contributing(bad, worlds=(), capacity=3, dim=2).rows).all()


def test_contributing_refuses_features_beyond_the_largest() -> None:
    """A size of exactly ``largest`` is accepted, anything larger is refused with its value."""
    base = raw_round()
    wide = replace(base, context=replace(base.context, features=Dense(np.full((4, 2), -2e6))))
    contributing(wide, worlds=(), capacity=3, dim=2, largest=2e6)
    with pytest.raises(ValueError, match=r"at most 1e\+06 in size, got size=2000000.0"):
        contributing(wide, worlds=(), capacity=3, dim=2, largest=1e6)


def test_exact_ledger_promises_nothing() -> None:
    """An exact release has no finite rho, and says so in words."""
    ledger = exact_ledger("estimate")
    assert ledger.rho == math.inf
    assert "No privacy is promised" in ledger.promise(delta=1e-6).words
