"""Contributions computed on visitors' devices, which take the place of answers (`answers`)."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from pydantic import ConfigDict, Field, FiniteFloat

from quietshelf.curation.batches import Batch
from quietshelf.curation.device import MOST_ROWS, contributed
from quietshelf.model.types import NOTHING
from quietshelf.serving.service.database.learning import packed
from quietshelf.serving.service.database.vault import Ticket, Vault
from quietshelf.serving.service.models import LARGEST_DIM, Listed, Strict
from quietshelf.serving.service.visitors.inbox import Receipt

ON_DEVICE = "null"
"""Stands for the items of an offer made on a visitor's device, which the service does not know."""
COUNTED = 1
"""The last bit of such an offer's answer: whether the visit counts. The others are a keyed hash: they show whether the
same contribution comes again (`Vault.contribution`). A visit that does not count keeps no contribution."""


class SlotBody(Strict):
    """An empty body: the ticket says who comes, and everything else stays on the device."""


class ContributionBody(Strict):
    """What a device computed from its visitor's features and choice."""

    model_config = ConfigDict(
        strict=True, json_schema_extra={"examples": [{"score": [0.25, -0.125], "rows": [[0.5, 0.0]]}]}
    )

    score: Listed[FiniteFloat] = Field(max_length=LARGEST_DIM, description="On the batch's grid of scores.")
    rows: Listed[Annotated[Listed[FiniteFloat], Field(max_length=LARGEST_DIM)]] = Field(
        max_length=MOST_ROWS,
        description="Rows of the information, on the batch's grid of rows: one per item shown, and one for none.",
    )


class Contributed(NamedTuple):
    """A device's contribution to its own slot.

    Attributes:
        vault: Its secret tells contributions apart.
        ticket: Which offer.
        body: The contribution.
        receipt: When it was received.
        only: The only shelf that the ticket may touch.
    """

    vault: Vault
    ticket: Ticket
    body: ContributionBody
    receipt: Receipt
    only: str | None = None

    @property
    def shelf(self) -> int:
        """Number of the shelf."""
        return self.ticket.shelf

    def read(self, row: dict[str, Any], batch: Batch) -> tuple[int, str | None]:
        """What the slot will hold as its answer (`COUNTED`), and the rule that this contribution breaks."""
        if row["items"] != ON_DEVICE:
            return NOTHING, "offers made here must be answered by a choice, got a contribution"
        try:
            part = packed(contributed(self.body.score, self.body.rows, batch))
        except ValueError as error:
            return NOTHING, str(error)
        counts = row["rows"] is not None if row["answer"] is None else bool(row["answer"] & COUNTED)
        row["part"] = part if counts else None
        return self.vault.contribution(self.ticket, part) & ~COUNTED | counts, None
