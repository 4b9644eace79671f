"""The service as a user of the protocol whose visitors' devices make their own offers, and some of them lie."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from typing import Any

from tests.protocol.looks import SHELF
from tests.protocol.service_user import START, Request, ServiceUser
from tests.protocol.steps import Answer

from quietshelf.curation.device import Wishes, choose, contribute
from quietshelf.serving.service.access.tickets import VISITOR, Content, Visitor
from quietshelf.serving.service.models import ShelfBody
from quietshelf.serving.service.problems import Problem
from quietshelf.serving.service.service import Service
from quietshelf.serving.service.visitors.contributed import ContributionBody

LIE = 2
"""The place of an answer in whose stead the largest score is sent that there is; for one not shown, a larger one."""


class DeviceUser(ServiceUser):
    """Every visitor has a ticket, and a device that is told what the service tells devices when the slot is taken."""

    def _settings(self) -> ShelfBody:
        return super()._settings().model_copy(update={"contributions": "device"})

    def _visitor(self, number: int, *, foreign: bool = False) -> Visitor:
        said = {"shelf": SHELF, "key": "id", "person": self._world.visit(number).person, "expires": int(START) + 600}
        ticket = Content.model_validate({**said, "nonce": f"nonce-of-visit-{number}" + "-of-another" * foreign})
        return Visitor("id", "test", "", frozenset({VISITOR}), SHELF, ticket=ticket)

    def _arrival(self, worker: Service, visit: int, retry: str | None) -> Coroutine[Any, Any, Any]:  # noqa: ARG002
        return worker.slot(self._visitor(visit))

    def _reply(self, asked: Request, reply: Any) -> dict[str, Any]:
        """With the slot, all that its device is told: everybody may know that."""
        found = super()._reply(asked, reply)
        if asked.what != "offer" or not isinstance(asked.owner, int) or isinstance(reply, Problem):
            return found
        told: dict[str, Any] = {}
        documents = self.workers[0].documents
        try:
            told["model"] = documents.model(SHELF, reply["release"]).content.decode()
            told["catalogue"] = documents.catalogue(SHELF, int(reply["catalogue"])).content.decode()
            told["batch"] = documents.batch(SHELF, reply["batch"]).content.decode()
        except Problem as gone:  # a machine stopped, or a commit was lost
            told["gone"] = gone.detail
        self._offers[asked.owner] = {**reply, "told": told}
        return {**found, **told}

    def _answer(self, worker: Service, step: Answer) -> tuple[Any, Coroutine[Any, Any, Any]]:
        part = self._contribution(step)
        body = ContributionBody.model_validate(part)
        visitor = self._visitor(step.visit, foreign=step.foreign)
        return json.dumps(part), worker.contribute(self._offers[step.visit]["offer"], body, visitor)

    def _contribution(self, step: Answer) -> dict[str, Any]:
        """What the device computes; in place of some answers, what a liar would send."""
        slot = self._offers[step.visit]
        told = {name: json.loads(json.loads(text)["signed"]) for name, text in slot["told"].items() if name != "gone"}
        if "batch" not in told:
            return {"score": [0.3], "rows": [[1e308], [5e-324]]}
        if step.place in (None, LIE):
            rest = [0.0] * (len(told["batch"]["theta"]) - 1)
            return {"score": [4.0 if step.place is None else -1.0, *rest], "rows": []}
        visit = self._world.visit(step.visit)
        named: dict[str, Any] = {
            "candidates": None if visit.candidates is None else [str(item) for item in visit.candidates],
            "exclude": [str(item) for item in visit.exclude],
            "capacity": visit.capacity,
        }
        decision = choose(told["model"], told["catalogue"], slot, Wishes(list(visit.features), **named))
        place = -1 if step.place < 0 or not len(decision.items) else step.place % len(decision.items)
        return contribute(told["batch"], decision.rows, place)
