"""Many visitors at once give what each gives alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.service.harness import FakeClock, inline, offered, stocked

from quietshelf.release.batch_pair import Scales
from quietshelf.release.quiet import OpenBatch
from quietshelf.service.deciding import decide, decide_together, plain
from quietshelf.service.learning import packed
from quietshelf.service.models import OfferBody
from quietshelf.service.parts import contributions
from quietshelf.shelf.slots import Batch, Slot

DIM = 5


def frozen(rng: np.random.Generator) -> OpenBatch:
    """A batch with some theta and coordinates."""
    root = rng.normal(size=(DIM, DIM))
    return OpenBatch(0, 10, rng.normal(size=DIM), root @ root.T + np.eye(DIM), Scales(1.0, 1.0))


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), grid=st.sampled_from([0.0, 2.0**-20]), large=st.booleans())
def test_contributions_are_those_of_the_shelf_to_the_last_bit(seed: int, grid: float, large: bool) -> None:
    """Visitors who saw none, some or many items, some of them with features that overflow."""
    rng = np.random.default_rng(seed)
    batch, counts = frozen(rng), rng.integers(0, 7, size=12)
    seen = [rng.normal(size=(count, DIM)) * (1e200 if large and place % 3 == 0 else 1.0)
            for place, count in enumerate(counts)]  # fmt: skip
    chosen = [int(rng.integers(-1, count)) if count else -1 for count in counts]
    found = contributions([packed(rows) for rows in seen], chosen, batch, grid)
    for rows, choice, mine in zip(seen, chosen, found, strict=True):
        alone = Batch.of(batch, grid)
        alone.slots["one"] = Slot(tuple(range(len(rows))), rows)
        alone.answer("one", choice)
        np.testing.assert_array_equal(mine, np.concatenate([alone.total.score, alone.total.information]))


@pytest.mark.parametrize("policy", ["quiet", "uniform"])
def test_visitors_decided_together_are_shown_what_each_is_shown_alone(tmp_path: Path, policy: str) -> None:
    """The same ties: items and features are equal for every visitor of the group."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=FakeClock()) as client:
        stocked(client, policy=policy, private=policy == "quiet")
        offered(client)
        service: Any = client.service  # type: ignore[attr-defined]
        view, rng = service._views["teas"], np.random.default_rng(3)
        bodies = [OfferBody.model_validate({"features": row}) for row in rng.normal(size=(40, 2)).tolist()]
        assert all(plain(view, body) for body in bodies)
        together = decide_together(view, bodies, np.random.default_rng(4))
        alone_rng = np.random.default_rng(4)
        for body, found in zip(bodies, together, strict=True):
            alone = decide(view, body, alone_rng, service.source)
            assert found.ids == alone.ids
            np.testing.assert_allclose(found.rows, alone.rows, rtol=1e-12)


def test_a_wish_or_a_broken_rule_is_decided_alone(tmp_path: Path) -> None:
    """Lists, another capacity, a wrong length, or a shelf that was never offered."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=FakeClock()) as client:
        stocked(client)
        offered(client)
        view = client.service._views["teas"]  # type: ignore[attr-defined]
        asked: list[dict[str, Any]] = [
            {"candidates": ["item 1"]}, {"required": ["item 1"]}, {"exclude": ["item 1"]}, {"capacity": 1},
            {"features": [1.0]},
        ]  # fmt: skip
        for wish in asked:
            assert not plain(view, OfferBody.model_validate({"features": [0.1, 0.2], **wish}))


def test_the_short_way_and_the_routes_answer_alike(tmp_path: Path) -> None:
    """A media type that only the framework reads takes the long way: same replies, refusals and records."""
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=FakeClock()) as client:
        stocked(client)

        def both(path: str, body: str, **headers: str) -> list[Any]:
            kinds = ("application/json", "application/vnd.shop+json")
            return [client.post(path, content=body, headers={"Content-Type": kind, **headers}) for kind in kinds]

        asked = json.dumps({"features": [0.1, -0.2], "person": "Zoë"})
        short, long = both("/v1/shelves/teas/offers", asked, **{"Idempotency-Key": "one"})
        assert short.status_code == long.status_code == 200
        assert short.json() == long.json()  # the second is the retry of the first
        choice = f"/v1/offers/{short.json()['offer']}/choice"
        assert [reply.status_code for reply in both(choice, '{"item": null}')] == [204, 204]
        for path, body in (
            (choice, json.dumps({"item": short.json()["items"][0]})),
            (choice, '{"item": 7}'),
            (choice, "{"),
            ("/v1/offers/nobody/choice", '{"item": null}'),
            ("/v1/shelves/none/offers", asked),
            ("/v1/shelves/teas/offers", '{"features": [1.0]}'),
            ("/v1/shelves/teas/offers", '{"features": [NaN, 1.0]}'),
            ("/v1/shelves/teas/offers", '{"features": [0.1, 0.2], "surplus": 1}'),
        ):
            short, long = both(path, body)
            assert short.status_code == long.status_code >= 400
            assert short.json() == long.json()
        too_long = {"Idempotency-Key": "k" * 201}
        assert {reply.status_code for reply in both("/v1/shelves/teas/offers", asked, **too_long)} == {422}
