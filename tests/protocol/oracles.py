"""What a rule says in itself, read off what one world received: where both worlds err alike, this still tells."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from tests.protocol.steps import Schedule
from tests.protocol.tape import Tape

from quietshelf.curation.batches import lag
from quietshelf.serving.service.database.timestamps import timestamp

EXPIRED = b"urn:quietshelf:problem:offer-expired"


def broken(schedule: Schedule, seen: list[Any], tape: Tape) -> list[str]:
    """Where R1, R2, R4, R5 or R7 does not hold. Most is told by the service, while no machine stops."""
    found = [f"R7: {name} was drawn {times} times" for name, times in Counter(tape.members).items() if times > 1]
    return [*found, *_twice(schedule, seen), *_late(schedule, seen), *_published(schedule, seen)]


def _twice(schedule: Schedule, seen: list[Any]) -> Iterator[str]:
    """R1 and R2: a valid request gets an offer, and no slot is taken by two visits."""
    owners: dict[str, Any] = {}
    for each in _offers(seen) if schedule.calm else ():
        if each.content["status"] == 500:
            yield f"R1: {each}"
        elif "expires" in each.content and owners.setdefault(each.content["offer"], each.owner) != each.owner:
            yield f"R2: this slot is taken: {each}"


def _offers(seen: list[Any]) -> list[Any]:
    return [
        each for each in seen if each.what == "offer" and isinstance(each.content, dict) and "status" in each.content
    ]


def _late(schedule: Schedule, seen: list[Any]) -> Iterator[str]:
    """R4: refused as expired if and only if it was received at the expiry of its offer, or after; the first stands.

    Of one worker: what another has received and not written is not waited for (`test_two_workers`).
    """
    if not schedule.calm or schedule.workers > 1:
        return
    first: dict[str, Any] = {}
    for each in seen:
        if each.what == "answer" and isinstance(each.content, dict) and each.content["status"] != 404:
            told = each.content
            if (told["received"] >= told["expires"]) != (EXPIRED in _bytes(told["body"])):
                yield f"R4: {each}"
            if told["status"] == 200 and told["item"] != first.setdefault(told["offer"], told["item"]):
                yield f"R4: another answer stands already: {each}"


def _published(schedule: Schedule, seen: list[Any]) -> Iterator[str]:
    """R5: a release is published a known time after the last offer of its batch expires.

    Where slots are leased, the end of a lease may be later than that; it is never before.
    """
    if not schedule.calm:
        return
    offers = [each.content for each in _offers(seen)]
    expires = {each["offer"]: each["expires"] for each in offers if "expires" in each}
    for each in seen:
        for release in json.loads(each.content) if each.what == "releases" else []:
            mine = [when for offer, when in expires.items() if offer.startswith(f"1.{release['batch']}.")]
            late = lag(schedule.shop.release_seconds, release["visitors"], len(release["theta"]))
            last = max((_later(when, late) for when in mine), default=None)
            complete = len(mine) == release["visitors"]
            early = last is not None and last > release["released"]
            if early or (complete and not schedule.shop.block and last != release["released"]):
                yield f"R5: release {release['release']} was due at {last}, and says {release['released']}"


def _later(when: str, seconds: float) -> str:
    moment = datetime.fromisoformat(when) + timedelta(seconds=seconds)
    return timestamp(moment.timestamp())


def _bytes(body: bytes | str) -> bytes:
    return body if isinstance(body, bytes) else body.encode()
