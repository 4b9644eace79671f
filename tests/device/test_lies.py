"""What liars send over HTTP, byte for byte: it is refused, or some visitor could have contributed it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from fractions import Fraction
from pathlib import Path

import httpx
import numpy as np
import pytest
import sqlalchemy as sa
from tests.device.worlds import Device, device_of, key_of, on_device
from tests.serving.service.harness import FIRST, WINDOW, FakeClock, inline

from quietshelf.client import ticket
from quietshelf.serving.service.database import schema

ZEROS = "0,0,0,0"
LIES = (
    '{"score": [NaN, 0, 0, 0, 0], "rows": []}',
    '{"score": [Infinity, 0, 0, 0, 0], "rows": []}',
    '{"score": [1e309, 0, 0, 0, 0], "rows": []}',
    '{"score": [1e308, 0, 0, 0, 0], "rows": []}',
    f'{{"score": [{10**400}, {ZEROS}], "rows": []}}',
    f'{{"score": [{2**53 + 1}, {ZEROS}], "rows": []}}',
    f'{{"score": [1.00000095367431640625, {ZEROS}], "rows": []}}',
    f'{{"score": [0.3, {ZEROS}], "rows": []}}',
    f'{{"score": [5e-324, {ZEROS}], "rows": []}}',
    f'{{"score": ["1", {ZEROS}], "rows": []}}',
    f'{{"score": [true, {ZEROS}], "rows": [[1e200, {ZEROS}]]}}',
    f'{{"score": [{ZEROS}], "rows": []}}',
    f'{{"score": [0, {ZEROS}], "rows": [[{ZEROS}]]}}',
    f'{{"score": [0, {ZEROS}], "rows": [[1e6, {ZEROS}]]}}',
    f'{{"score": [0, {ZEROS}], "rows": {[[0] * 5] * 102}}}',
    f'{{"score": [0, {ZEROS}], "rows": [], "score": [2, {ZEROS}]}}',
    f'{{"score": [0, {ZEROS}], "rows": [], "item": "tea"}}',
    f'{{"score": [0, {ZEROS}]}}',
    '{"score": {"0": 1}, "rows": []}',
    "[]",
    "null",
    '{"score": [0, 0',
)
TRUTHS = (f'{{"score": [-1, {ZEROS}], "rows": []}}', f'{{"score": [-0.0, {ZEROS}], "rows": [], "rows": []}}')


@pytest.fixture
def client(tmp_path: Path, clock: FakeClock) -> Iterator[httpx.Client]:
    with inline(f"sqlite:///{tmp_path}/shop.db", tmp_path, clock=clock) as found:
        yield found


def contributions(client: httpx.Client) -> list[bytes | None]:
    with client.service.store.read() as connection:  # type: ignore[attr-defined]
        return list(connection.execute(sa.select(schema.offers.c.contribution)).scalars())


def test_a_lie_changes_nothing_and_leaves_the_slot_open(client: httpx.Client, clock: FakeClock) -> None:
    """Each is refused by a status below 500, nothing of it is kept, and the truth is still taken afterwards."""
    on_device(client)
    device = device_of(client, clock)
    path = f"/v1/offers/{device.slot()['offer']}/contribution"
    for lie in LIES:
        reply = device.http.post(path, content=lie, headers={"Content-Type": "application/json"})
        assert 400 <= reply.status_code < 500, lie
        assert contributions(client) == [None], lie
    assert device.http.post(path, content=TRUTHS[0], headers={"Content-Type": "application/json"}).status_code == 204


def test_negative_zeros_and_repeated_names_are_what_they_parse_to(client: httpx.Client, clock: FakeClock) -> None:
    """No bit of a contribution that the sum does not see is kept."""
    on_device(client)
    device = device_of(client, clock)
    path = f"/v1/offers/{device.slot()['offer']}/contribution"
    assert device.http.post(path, content=TRUTHS[1], headers={"Content-Type": "application/json"}).status_code == 204
    assert contributions(client) == [bytes(40)]


def test_of_devices_that_race_with_one_ticket_the_first_answer_stands(client: httpx.Client, clock: FakeClock) -> None:
    """Eight copies of a ticket take one slot, and of eight contributions sent at once one is taken and kept."""
    on_device(client)
    copied = ticket(key_of(client), shelf="teas", now=clock.time)
    sent = [{"score": [place * 2.0**-10, 0.0, 0.0, 0.0, 0.0], "rows": []} for place in range(8)]
    with ExitStack() as stack, ThreadPoolExecutor(len(sent)) as pool:
        devices = [stack.enter_context(closing(Device(str(client.base_url), "teas", copied))) for _ in sent]
        offers = {slot["offer"] for slot in pool.map(Device.slot, devices)}
        assert len(offers) == 1
        path = f"/v1/offers/{offers.pop()}/contribution"
        replies = list(pool.map(lambda device, body: device.http.post(path, json=body), devices, sent))
    assert sorted(reply.status_code for reply in replies) == [204] + [409] * 7
    taken = [body for body, reply in zip(sent, replies, strict=True) if reply.status_code == 204]
    [kept] = contributions(client)
    assert kept is not None
    assert np.frombuffer(kept)[0] == taken[0]["score"][0]


def test_a_batch_of_liars_is_released_within_bounds(client: httpx.Client, clock: FakeClock) -> None:
    """Everybody sends the longest contribution there is; the sum is that of as many visitors, and is released."""
    on_device(client)
    for visit in range(FIRST):
        device = device_of(client, clock)
        slot = device.slot()
        score = [0.0] * 5
        score[visit % 5] = -1.0
        reply = device.http.post(f"/v1/offers/{slot['offer']}/contribution", json={"score": score, "rows": []})
        assert reply.status_code == 204
    total = sum(np.frombuffer(each) for each in contributions(client) if each is not None)
    assert Fraction(float(np.abs(total).sum())) == FIRST
    clock.time += WINDOW
    assert client.get("/readyz").status_code == 200
    assert device_of(client, clock).slot()["release"] == 1
    assert client.get("/v1/shelves/teas/privacy").json()["rho"] <= 4.0
