"""`Shelf` as a user of the protocol: in memory, saved to a file, loaded after a crash, forked."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.protocol.steps import TARGET, Answer, Arrive, Change, Crash, Invalid, Look, Save, Step, Visit
from tests.protocol.worlds import Seen, World

from quietshelf import Shelf
from quietshelf.curation.coins import Coins
from quietshelf.model.types import Offer
from quietshelf.serving.shelf import ShelfError
from quietshelf.serving.shelf.testing import copied, state_of

KEY = b"the person key of both worlds..."


class ShelfUser:
    """One shelf and its file."""

    def __init__(self, world: World, coins: Coins | None = None) -> None:
        self._world, self._shop = world, world.schedule.shop
        self._offers: dict[int, Offer] = {}
        self._folder = tempfile.TemporaryDirectory(dir=scratch())
        self._path = Path(self._folder.name) / "shelf"
        plain = Shelf(**options(world))
        if self._shop.learned_share < 1:
            plain.rank(range(len(self._shop.items)))
        state_of(plain).persons.key = KEY
        self.shelf = copied(plain, source=world.tape, coins=coins)
        self.shelf.save(self._path)

    def close(self) -> None:
        """Forget the file."""
        self._folder.cleanup()

    def take(self, step: Step) -> list[Seen]:
        """What is received when that happens, warnings included."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            seen = self._take(step)
        return seen + [Seen(None, "warning", str(each.message)) for each in caught]

    def kept(self) -> dict[int, Any]:
        """Answers, and features where there is none yet, of those who are not released, by visit."""
        kept = {name: slot for slots in state_of(self.shelf).slots for name, slot in slots.kept.items()}
        slots = {visit: kept.get(offer.id) for visit, offer in self._offers.items()}
        return {
            visit: slot.rows.tobytes() if slot.answer is None and slot.rows is not None else slot.answer
            for visit, slot in slots.items()
            if slot is not None
        }

    def _take(self, step: Step) -> list[Seen]:
        match step:
            case Arrive(visit=visit, retry=retry) if not (retry and visit in self._offers):
                return [self._arrive(visit)]
            case Answer(visit=visit, place=place) if visit in self._offers:
                offer = self._offers[visit]
                chosen = _chosen(offer.items, place, len(state_of(self.shelf).stock))
                return [Seen(visit, "answer", _told(lambda: self.shelf.choose(offer.id, chosen), offer.id))]
            case Invalid():
                return [Seen(TARGET if step.private else None, "refusal", _told(lambda: self._invalid(step)))]
            case Change():
                return [Seen(None, "change", _told(lambda: self._change(step)))]
            case Save():
                return [Seen(None, "saved", _told(lambda: self.shelf.save(self._path)))]
            case Crash(where="fork"):
                self.shelf._process -= 1
                return []
            case Crash(where="drawn"):
                self._world.tape.after_draw = self._fail_once
                return []
            case Crash():
                self.shelf = Shelf._loaded(self._path, self._world.tape)
                return self._look()
            case Look():
                return self._look()
        return []

    def _fail_once(self) -> None:
        self._world.tape.after_draw = lambda: None
        raise OSError("nothing can be stored now")

    def _arrive(self, number: int) -> Seen:
        visit = self._world.visit(number)

        def ask() -> dict[str, Any]:
            offer = self.shelf.offer(**self._request(visit))
            self._offers[number] = offer
            return {"offer": offer.id.split("-")[:2], "items": offer.items, "release": offer.release}

        return Seen(number, "offer", _told(ask))

    def _request(self, visit: Visit) -> dict[str, Any]:
        """A visit as a shelf is asked; what is added later earns 1."""
        shop, count = self._shop, len(state_of(self.shelf).stock)
        shape = -1 if shop.feature_map is not None else (len(shop.items), -1)
        added = (1.0,) * (count - len(shop.items))
        return {
            "features": np.array(visit.features).reshape(shape),
            "revenue": None if visit.revenue is None else (*visit.revenue, *added),
            "candidates": None if visit.candidates is None else list(visit.candidates),
            "required": list(visit.required) or None,
            "exclude": list(visit.exclude) or None,
            "capacity": visit.capacity,
            "person": visit.person,
        }

    def _invalid(self, step: Invalid) -> None:
        good = Visit((0.5,) * self._shop.feature_count, None if self._shop.visits == 1 else "eve")
        given = self._request(good)
        match step.kind:
            case "unknown item":
                given["candidates"] = [len(state_of(self.shelf).stock)]
            case "too many":
                given["capacity"] = self._shop.capacity + 1
            case "required and excluded":
                given |= {"required": [0], "exclude": [0]}
            case "forged id":
                return self.shelf.choose("0-0-forged", None)
            case "no person" if self._shop.visits > 1:
                given["person"] = None
            case _:
                given["features"] = np.append(np.ravel(given["features"]), np.nan)
        self.shelf.offer(**given)
        raise AssertionError(f"an invalid request was served: {step}")

    def _change(self, step: Change) -> Any:
        shelf = self.shelf
        match step.kind:
            case "add":
                return shelf.add([step.features], revenue=step.revenue)
            case "retire":
                return shelf.retire(step.item)
            case "features":
                return shelf.change(step.item, features=step.features)
            case "revenue":
                return shelf.change(step.item, revenue=step.revenue)
        return shelf.change(step.item, available=step.kind == "available")

    def _look(self) -> list[Seen]:
        """All that a caller can read of a shelf."""
        shelf = self.shelf
        public: dict[str, Callable[[], Any]] = {
            "privacy": lambda: shelf.privacy().to_dict(),
            "estimate": lambda: shelf.estimate().theta.tobytes(),
            "precision": lambda: shelf.estimate().precision.tobytes(),
            "batches": lambda: [(b.frozen.number, b.frozen.size, b.taken, b.due_at) for b in shelf.batches],
            "arrivals": lambda: shelf.arrivals,
            "repr": lambda: repr(shelf),
            "comparison": lambda: shelf.comparison().to_dict(),
        }
        return [Seen(None, what, _told(look)) for what, look in public.items()]


def scratch() -> str | None:
    """Where files are fastest."""
    memory = Path("/dev/shm")  # noqa: S108 - folders below it get random names
    return str(memory) if memory.is_dir() else None


def options(world: World) -> dict[str, Any]:
    """The shop as a shelf is told it."""
    shop = world.schedule.shop
    known: dict[str, Any] = {"items": len(shop.items), "dim": len(shop.items[0])}
    if shop.feature_map is not None:
        known = {"catalogue": shop.items, "feature_map": shop.feature_map, "visitor_dim": shop.visitor_dim}
    return known | {
        "capacity": shop.capacity,
        "rho": shop.rho,
        "conversion": shop.conversion,
        "max_batch": shop.max_batch,
        "policy": shop.policy,
        "visits": shop.visits,
        "on_no_answer": shop.on_no_answer,
        "wait_arrivals": shop.window - 1,
        "groups": shop.groups,
        "limits": shop.limits,
        "comparison": shop.comparison,
        "present": shop.present,
        "learned_share": shop.learned_share,
        "most_revenue": 1.5 if shop.comparison else None,
    }


def _chosen(items: tuple[int, ...], place: int | None, unknown: int) -> int | None:
    if place is None:
        return unknown
    return None if place < 0 or not items else items[place % len(items)]


def _told(ask: Callable[[], Any], offer: str | None = None) -> Any:
    """An answer, or an error by type and words, in which the random part of an id is left out."""
    try:
        return ask()
    except (ShelfError, ValueError, OSError) as error:
        return (type(error).__name__, str(error).replace(offer or "\0", "..."))
