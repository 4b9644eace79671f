"""The fast path and the framework's routes answer the same requests the same way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.service.harness import FakeClock, inline, stocked


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
            ("/v1/shelves/teas/offers", '{"attributes": {"age": 3}}'),
            ("/v1/shelves/teas/offers", '{"attributes": {"age": {}}}'),
        ):
            short, long = both(path, body)
            assert short.status_code == long.status_code >= 400
            assert short.json() == long.json()
        too_long = {"Idempotency-Key": "k" * 201}
        assert {reply.status_code for reply in both("/v1/shelves/teas/offers", asked, **too_long)} == {422}
