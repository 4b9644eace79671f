"""One table of behaviours (``behaviours.json``), to which every client is held: Python's two, and TypeScript's."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.clients.node import run_node
from tests.clients.stub import Asked, stub

from quietshelf.client import AsyncClient, Client, Offer, Refused, Retry, ServiceDown

TABLE = Path(__file__).with_name("behaviours.json")
CASES: list[dict[str, Any]] = json.loads(TABLE.read_text(encoding="utf-8"))
QUICK = {"retries": 2, "pause": 0.001}
Outcomes = list[list[dict[str, Any]]]


def of_sync(url: str) -> Outcomes:
    """What comes of each case by the synchronous client."""
    found = []
    for place, case in enumerate(CASES):
        with Client(f"{url}/{place}", "qs_a_b", retry=Retry(**case.get("retry", QUICK))) as client:
            found.append([asyncio.run(outcome(client, *call)) for call in case["calls"]])
    return found


def of_async(url: str) -> Outcomes:
    """The same by the asynchronous one."""

    async def every() -> Outcomes:
        found = []
        for place, case in enumerate(CASES):
            async with AsyncClient(f"{url}/{place}", "qs_a_b", retry=Retry(**case.get("retry", QUICK))) as client:
                found.append([await outcome(client, *call) for call in case["calls"]])
        return found

    return asyncio.run(every())


def of_typescript(url: str) -> Outcomes:
    """The same by the one in TypeScript, under node."""
    found: Outcomes = json.loads(run_node("build/test/driver.js", str(TABLE), url))
    return found


async def outcome(client: Client | AsyncClient, verb: str, given: list[Any], named: dict[str, Any]) -> dict[str, Any]:
    """What comes of one call, as the table says it."""
    try:
        value = getattr(client, verb)(*map(argument, given), **named)
        if inspect.isasyncgen(value):
            value = [each async for each in value]
        elif inspect.isgenerator(value):
            value = list(value)
        elif inspect.isawaitable(value):
            value = await value
    except Refused as error:
        return {"refused": [error.status, error.kind, str(error)]}
    except ServiceDown as error:
        return {"down": str(error)}
    except ValueError as error:
        return {"mistake": str(error)}
    if isinstance(value, Offer):
        value = {**vars(value), "items": list(value.items), "fallback": value.fallback}
    return {"value": value}


def argument(value: Any) -> Any:
    """What stands for it in the table: JSON has neither offers nor numbers that are none."""
    if value in ("NaN", "Infinity"):
        return float(value)
    if isinstance(value, dict):
        fallback = Offer(None, ())
        return fallback if "fallback offer" in value else {name: argument(part) for name, part in value.items()}
    return [argument(part) for part in value] if isinstance(value, list) else value


def check_outcome(found: dict[str, Any], told: dict[str, Any]) -> None:
    (kind, value), *_ = told.items()
    if kind == "chance":
        assert found["value"]["fallback"]
        assert found["value"]["id"] is None
        assert sorted(found["value"]["items"]) == value
    elif kind in ("down", "mistake"):
        assert value in found[kind]
    else:
        assert found == told


def check_requests(asked: list[Asked], case: dict[str, Any]) -> None:
    """What was asked is what the table says; every call for an offer has one key, whenever it is repeated."""
    assert [[each.method, each.path, each.body] for each in asked] == case["requests"]
    assert all(each.authorization == "Bearer qs_a_b" for each in asked)
    assert all((each.key is not None) == each.path.endswith("/offers") for each in asked)
    bodies = [json.dumps(each.body) for each in asked if each.key]
    assert len({each.key for each in asked if each.key}) == len(set(bodies))


@pytest.mark.parametrize("drive", [of_sync, of_async, of_typescript])
def test_every_client_behaves_as_the_table_says(drive: Callable[[str], Outcomes]) -> None:
    """Requests, repetitions, Idempotency-Keys, refusals, fallback and mistakes, case by case."""
    with stub({str(place): case["replies"] for place, case in enumerate(CASES)}) as service:
        every = drive(service.url)
        assert len(every) == len(CASES)
        for place, (case, found) in enumerate(zip(CASES, every, strict=True)):
            for one, told in zip(found, case["outcomes"], strict=True):
                check_outcome(one, told)
            check_requests(service.asked[str(place)], case)
            assert not service.left[str(place)], case["name"]
