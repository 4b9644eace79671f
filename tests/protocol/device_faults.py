"""Faults of shelves whose offers are made on devices, entered in the table of `faults`."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
from tests.protocol.faults import fault

from quietshelf.curation import device
from quietshelf.curation.device import contributed as taken
from quietshelf.serving.service.visitors import contributed
from quietshelf.serving.service.visitors.device import SlotTransaction


@fault("R6", "what a device sends is believed", "device-sqlite", first=16)
def _believed() -> list[Any]:
    return [mock.patch.object(device, "broken_rule", new=mock.Mock(return_value=None))]


@fault("R6", "what a device sends is cut by the longest so far", "device-sqlite", first=13)
def _cut_by_others() -> list[Any]:
    longest = [1e-9]

    def cut(score: Any, rows: Any, batch: Any) -> Any:
        part = taken(score, rows, batch)
        longest[0] = max(longest[0], float(np.abs(part).max(initial=0.0)))
        return np.trunc(part / longest[0] / 2.0**-10) * 2.0**-10

    return [mock.patch.object(contributed, "contributed", cut)]


@fault("R3", "a slot tells its device what others have contributed", "device-sqlite", first=3)
def _told_of_others() -> list[Any]:
    real, seen = SlotTransaction._reply, [0.0]

    def noted(score: Any, rows: Any, batch: Any) -> Any:
        part = taken(score, rows, batch)
        seen[0] += float(part.sum())
        return part

    def reply(self: SlotTransaction, row: Any) -> dict[str, Any]:
        return {**real(self, row), "popular": seen[0]}

    return [mock.patch.object(contributed, "contributed", noted), mock.patch.object(SlotTransaction, "_reply", reply)]
