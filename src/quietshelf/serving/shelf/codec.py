"""Converts a shelf's state to plain data and named arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from quietshelf.curation.answers import Slot
from quietshelf.curation.batches import Schedule
from quietshelf.curation.contributions import row_width
from quietshelf.curation.fields import batch_fields, batch_from, learner_from, record_fields, record_from, start_fields
from quietshelf.curation.persons import Persons
from quietshelf.curation.prior_file import PriorFile
from quietshelf.curation.settings import Public, ShelfSettings
from quietshelf.curation.stock import Stock
from quietshelf.data.tables import Schema
from quietshelf.model.choice.catalogue import Catalogue
from quietshelf.privacy.accounting import Ledger
from quietshelf.privacy.release.quiet import Learner
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.serving.shelf.state import Slots, State

Arrays = dict[str, Any]
STOCK = ("catalogue", "revenue", "available", "retired", "groups", "limits", "ranks")


def encode(state: State, arrays: Arrays) -> dict[str, Any]:
    """Plain data for JSON; adds the arrays to ``arrays``."""
    log = state.public.log
    theta, precision = state.public.given or (None, None)
    declared = {"scale": state.public.visitor_scale, "curvature": state.public.curvature}
    stock = {name: getattr(state.stock, name) for name in STOCK}
    stock["catalogue"] = None if state.stock.catalogue is None else np.asarray(state.stock.catalogue)
    _put(arrays, "stock", stock)
    _put(arrays, "public", {**declared, "theta": theta, "precision": precision})
    return {
        "settings": state.settings.to_dict(),
        "prior": None if log is None else log.to_dict(),
        "ids": state.stock.ids,
        "group_names": state.stock.group_names,
        "columns": None if state.public.schema is None else state.public.schema.to_dict(),
        "arrivals": state.arrivals,
        "anonymous": state.anonymous,
        "persons": {name: list(counted) for name, counted in state.persons.counted.items()},
        "learner": None if state.learner is None else _learner_out(state.learner, arrays),
        "schedule": asdict(state.schedule),
        "batches": [_slots_out(slots, arrays, f"batch{i}") for i, slots in enumerate(state.slots)],
        "open": state.open is not None,
        "history_incomplete": state.history_incomplete,
    }


def decode(header: dict[str, Any], arrays: Arrays, key: bytes) -> State:
    """The inverse of ``encode``."""
    get = arrays.get
    log = header.get("prior")  # not in files of earlier versions
    given = None if get("public.theta") is None else (arrays["public.theta"], arrays["public.precision"])
    prior = given if log is None else PriorFile.from_dict(log)
    slots = [_slots_in(record, arrays, f"batch{i}") for i, record in enumerate(header["batches"])]
    settings = ShelfSettings(**header["settings"])
    stock: Any = {name: get(f"stock.{name}") for name in STOCK}
    stock["catalogue"] = None if stock["catalogue"] is None else Catalogue.of(stock["catalogue"])
    stock |= {name: tuple(header[name]) for name in ("ids", "group_names") if header.get(name) is not None}
    columns = header.get("columns")  # not in files of earlier versions, as ids
    return State(
        settings=settings,
        public=Public(
            get("public.scale"), get("public.curvature"), prior, None if columns is None else Schema.from_dict(columns)
        ),
        stock=Stock(**stock),
        learner=None if header["learner"] is None else _learner_in(header["learner"], arrays, settings.capacity),
        open=slots.pop() if header["open"] else None,
        waiting=slots,
        schedule=Schedule(**header["schedule"]),
        history_incomplete=header["history_incomplete"],
        arrivals=header["arrivals"],
        anonymous=header["anonymous"],
        persons=Persons(key, {name: (seen, last) for name, (seen, last) in header["persons"].items()}),
    )


def _put(arrays: Arrays, prefix: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Move arrays to ``arrays``, with the prefix; returns the plain data that is left."""
    found = {name: value for name, value in fields.items() if isinstance(value, np.ndarray)}
    arrays.update({f"{prefix}.{name}": value for name, value in found.items()})
    return {name: value for name, value in fields.items() if name not in found}


def _got(arrays: Arrays, prefix: str, plain: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `_put`."""
    start = len(prefix) + 1
    return {**plain, **{name[start:]: value for name, value in arrays.items() if name.startswith(f"{prefix}.")}}


def _learner_out(learner: Learner, arrays: Arrays) -> dict[str, Any]:
    return {
        "config": asdict(learner.config),
        "start": _put(arrays, "start", start_fields(learner)),
        "estimate": _put(arrays, "estimate", learner.estimate._asdict()),
        "records": [_put(arrays, f"record{i}", record_fields(each)) for i, each in enumerate(learner.records)],
        "ledger": learner.ledger.to_dict(),
    }


def _learner_in(saved: dict[str, Any], arrays: Arrays, capacity: int) -> Learner:
    return learner_from(
        Quiet(**saved["config"]),
        capacity,
        _got(arrays, "start", saved["start"]),
        [record_from(_got(arrays, f"record{i}", record)) for i, record in enumerate(saved["records"])],
        _got(arrays, "estimate", saved["estimate"]),
        Ledger.from_dict(saved["ledger"]),
    )


def _slots_out(slots: Slots, arrays: Arrays, prefix: str) -> dict[str, Any]:
    slots.add_up()
    waiting = [slot.rows for slot in slots.kept.values() if slot.rows is not None]
    rows = np.concatenate(waiting) if waiting else None
    held = {"sum": slots.sum, "rows": rows}
    kept = slots.kept.items()
    listed = [[name, list(slots.shown[name]), slot.answer, slot.rows is not None] for name, slot in kept]
    return {**_put(arrays, prefix, {**batch_fields(slots.batch), **held}), "slots": listed}


def _slots_in(saved: dict[str, Any], arrays: Arrays, prefix: str) -> Slots:
    fields = _got(arrays, prefix, saved)
    slots = Slots(batch_from(fields), fields["sum"])
    rows, used = fields.get("rows"), 0
    for name, items, answer, waits in saved["slots"]:
        part = None
        if waits:
            empty = np.zeros((0, row_width(slots.batch.frozen)))
            part, used = empty if rows is None else rows[used : used + len(items)], used + len(items)
        slots.shown[name], slots.kept[name] = tuple(items), Slot(part, answer)
    return slots
