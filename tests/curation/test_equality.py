"""The same visitors through both users of the protocol in memory: the same releases, bit for bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.curation.batches import Counting
from tests.serving.shelf.shops import CONVERSION, D, K, N, shop

from quietshelf.curation.outlook import MadeUp, normal_outlook, outlook_of
from quietshelf.curation.quiet_curator import QuietCurator
from quietshelf.curation.settings import Public, ShelfSettings
from quietshelf.curation.stock import Stock
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, Release, Round
from quietshelf.policies import POLICIES
from quietshelf.privacy.release.outlook import view
from quietshelf.privacy.release.quiet import Learner
from quietshelf.privacy.release.quiet_settings import Quiet


def made_up(lead: tuple[int, ...] = ()) -> MadeUp:
    """The outlook of a shelf of which nothing is declared."""
    return normal_outlook(None, D, items=N, capacity=K, policy=POLICIES["quiet"], lead=lead)


def curator_of(config: Quiet, source: Counting, lead: tuple[int, ...] = ()) -> QuietCurator:
    """With the made-up visitors of a shop that declares nothing."""
    outlook = made_up(lead)
    return QuietCurator(Learner.start(config, outlook, capacity=K, source=source, lead=lead), source, outlook)


@pytest.mark.parametrize("lead", [(), (1,)])
@settings(max_examples=8)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 1e200, 1e-310]), st.sampled_from([None, 5]))
def test_shelf_and_curator_release_the_same_bits(
    lead: tuple[int, ...], seed: int, extreme: float, max_batch: int | None
) -> None:
    """On a grid sums are exact, so that answers may come late and in any order: records and ledger are equal."""
    rng = np.random.default_rng(seed)
    shelf = shop(source=Counting(seed), max_batch=max_batch)
    source = Counting(seed)
    config = Quiet(rho=4.0, conversion=CONVERSION, max_batch=max_batch)
    curator = curator_of(config, source, lead)
    late: list[tuple[str, int | None]] = []
    for t in range(60):
        x = rng.normal(size=(N, D)) * (extreme if t % 7 == 3 else 1.0)
        if shelf.batches and shelf.batches[0].full:  # before they are too late, last come first
            for offer, choice in late[::-1]:
                shelf.choose(offer, choice)
            late.clear()
        made = shelf.offer(x)
        choice = None if rng.random() < 0.3 else made.items[int(rng.integers(len(made.items)))]
        late.append((made.id, choice))
        picked = np.full(lead, -1 if choice is None else choice)
        wide, shown = np.broadcast_to(x, (*lead, N, D)), np.broadcast_to(made.items, (*lead, len(made.items)))
        curator.observe(Round(Context(Dense(wide), np.ones((*lead, N)), K), shown, picked))
    assert shelf.learner is not None
    assert len(shelf.learner.records) >= 2
    own = (0,) * len(lead)
    for mine, other in zip(shelf.learner.records, curator.learner.records, strict=False):
        for name in ("theta", "coordinates", "score", "vectors", "values", "kept", "spread"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(other, name)[own], err_msg=name)
        np.testing.assert_array_equal(mine.fit, other.fit.reshape(mine.fit.shape))
        assert mine.size == other.size
        for scale, wide_scale in zip(mine.scales, other.scales, strict=True):
            assert scale == np.reshape(wide_scale, ())
    events = shelf.learner.ledger.events
    assert events == curator.ledger.events[: len(events)]


@pytest.mark.parametrize("kind", ["normal", "item", "concat", "full"])
@pytest.mark.parametrize("policy", ["quiet", "uniform"])
def test_an_outlook_sees_the_same_whatever_worlds_are_beside(kind: str, policy: str) -> None:
    """Coordinates, bound, expectation and spread of a world: the same bits alone and among others."""
    rng, worlds, factors = np.random.default_rng(3), 3, (0.1, 1.0, 10.0)
    if kind == "normal":
        outlook = normal_outlook(np.diag([1.0, 0.25]), 2, items=N, capacity=K, policy=POLICIES[policy])
    else:
        options = {"feature_map": kind, "visitor_dim": 0 if kind == "item" else 2}
        settings = ShelfSettings(rho=1.0, capacity=K, policy=policy, **options)  # type: ignore[arg-type]
        stock = replace(Stock.of(N, rng.normal(size=(N, 3)), None, None), revenue=rng.uniform(1, 2, size=N))
        outlook = outlook_of(settings, Public.of(visitor_scale=1.0, curvature=None, prior=None), stock)
    dim = outlook.moments.mean.shape[-1]
    square = rng.normal(size=(worlds, dim, dim))
    release = Release(
        theta=rng.normal(size=(worlds, dim)),
        precision=np.eye(dim) + np.swapaxes(square, -1, -2) @ square,
        radius=np.full(worlds, 0.45),
        explore=np.zeros(worlds, dtype=bool),
        count=np.zeros(worlds, dtype=np.int64),
    )
    factor = np.array(factors)
    tried = np.stack([np.ones(worlds), factor])
    together = view(outlook, release, factor=factor, tried=tried)
    for place in range(worlds):
        one = Release(**{name: getattr(release, name)[place] for name in Release.arrays})
        alone = view(outlook, one, factor=factor[place], tried=tried[:, place])
        for name, value in alone._asdict().items():
            mine = getattr(together, name)
            np.testing.assert_array_equal(value, mine[:, place] if name == "expected" else mine[place], err_msg=name)
