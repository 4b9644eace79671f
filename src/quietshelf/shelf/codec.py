"""A shelf's state as plain data and named arrays, and back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from quietshelf.accounting import Ledger
from quietshelf.release.batch_pair import Scales
from quietshelf.release.quiet import Learner, OpenBatch, Quiet
from quietshelf.release.records import Estimate, Record
from quietshelf.shelf.persons import Persons
from quietshelf.shelf.settings import Public, Settings
from quietshelf.shelf.slots import Batch, Slot
from quietshelf.shelf.state import State
from quietshelf.shelf.stock import Stock
from quietshelf.statistics import Total

Arrays = dict[str, Any]
STOCK = ("catalogue", "revenue", "available", "retired", "groups", "limits")
RECORD = ("theta", "coordinates", "score", "vectors", "values")


def encode(state: State, arrays: Arrays) -> dict[str, Any]:
    """Plain data for JSON; arrays are put where they are asked to be."""
    theta, precision = state.public.prior or (None, None)
    _put(arrays, "stock", **{name: getattr(state.stock, name) for name in STOCK})
    _put(arrays, "public", scale=state.public.visitor_scale, curvature=state.public.curvature)
    _put(arrays, "public", theta=theta, precision=precision)
    return {
        "settings": state.settings.to_dict(),
        "visitor_dim": state.visitor_dim,
        "arrivals": state.arrivals,
        "anonymous": state.anonymous,
        "persons": {name: list(counted) for name, counted in state.persons.counted.items()},
        "learner": None if state.learner is None else _learner_out(state.learner, arrays),
        "last_batch": None if state.last_batch is None else _frozen_out(state.last_batch, arrays, "last"),
        "batches": [_batch_out(batch, arrays, f"batch{i}") for i, batch in enumerate(state.batches)],
        "open": state.open is not None,
        "next_size": state.next_size,
        "estranged": state.estranged,
    }


def decode(header: dict[str, Any], arrays: Arrays, key: bytes) -> State:
    """The inverse of ``encode``."""
    get = arrays.get
    prior = None if get("public.theta") is None else (arrays["public.theta"], arrays["public.precision"])
    batches = [_batch_in(record, arrays, f"batch{i}") for i, record in enumerate(header["batches"])]
    stock: Any = {name: get(f"stock.{name}") for name in STOCK}
    return State(
        settings=Settings(**header["settings"]),
        public=Public(get("public.scale"), get("public.curvature"), prior),
        stock=Stock(**stock),
        learner=None if header["learner"] is None else _learner_in(header["learner"], arrays),
        visitor_dim=header["visitor_dim"],
        open=batches.pop() if header["open"] else None,
        waiting=batches,
        last_batch=None if header["last_batch"] is None else _frozen_in(header["last_batch"], arrays, "last"),
        next_size=header["next_size"],
        estranged=header["estranged"],
        arrivals=header["arrivals"],
        anonymous=header["anonymous"],
        persons=Persons(key, {name: (seen, last) for name, (seen, last) in header["persons"].items()}),
    )


def _put(arrays: Arrays, prefix: str, **values: Any) -> None:
    arrays.update({f"{prefix}.{name}": value for name, value in values.items() if value is not None})


def _learner_out(learner: Learner, arrays: Arrays) -> dict[str, Any]:
    _put(arrays, "learner", curvature=learner.curvature)
    for name in ("prior", "estimate"):
        _put(arrays, f"learner.{name}", **getattr(learner, name)._asdict())
    for i, record in enumerate(learner.records):
        _put(arrays, f"record{i}", **{name: getattr(record, name) for name in RECORD})
    return {
        "config": asdict(learner.config),
        "ledger": learner.ledger.to_dict(),
        "records": [{"scales": list(record.scales), "size": record.size} for record in learner.records],
    }


def _learner_in(saved: dict[str, Any], arrays: Arrays) -> Learner:
    records = [
        Record(
            **{name: arrays[f"record{i}.{name}"] for name in RECORD},
            scales=Scales(*record["scales"]),
            size=record["size"],
        )
        for i, record in enumerate(saved["records"])
    ]
    known = {
        name: Estimate(arrays[f"learner.{name}.theta"], arrays[f"learner.{name}.precision"])
        for name in ("prior", "estimate")
    }
    return Learner(
        config=Quiet(**saved["config"]),
        curvature=arrays["learner.curvature"],
        records=tuple(records),
        ledger=Ledger.from_dict(saved["ledger"]),
        **known,
    )


def _frozen_out(frozen: OpenBatch, arrays: Arrays, prefix: str) -> dict[str, Any]:
    _put(arrays, prefix, theta=frozen.theta, coordinates=frozen.coordinates)
    return {"number": frozen.number, "size": frozen.size, "scales": list(frozen.scales)}


def _frozen_in(saved: dict[str, Any], arrays: Arrays, prefix: str) -> OpenBatch:
    theta, coordinates = arrays[f"{prefix}.theta"], arrays[f"{prefix}.coordinates"]
    return OpenBatch(saved["number"], saved["size"], theta, coordinates, Scales(*saved["scales"]))


def _batch_out(batch: Batch, arrays: Arrays, prefix: str) -> dict[str, Any]:
    waiting = [slot.rows for slot in batch.slots.values() if slot.rows is not None]
    rows = np.concatenate(waiting) if waiting else None
    _put(arrays, prefix, score=batch.total.score, information=batch.total.information, rows=rows)
    return {
        "frozen": _frozen_out(batch.frozen, arrays, prefix),
        "grid": batch.grid,
        "last_arrival": batch.last_arrival,
        "slots": [[name, list(slot.items), slot.answer, slot.rows is not None] for name, slot in batch.slots.items()],
    }


def _batch_in(saved: dict[str, Any], arrays: Arrays, prefix: str) -> Batch:
    batch = Batch(
        _frozen_in(saved["frozen"], arrays, prefix),
        saved["grid"],
        Total(arrays[f"{prefix}.score"], arrays[f"{prefix}.information"]),
        last_arrival=saved["last_arrival"],
    )
    rows, used = arrays.get(f"{prefix}.rows"), 0
    for name, items, answer, waits in saved["slots"]:
        part = None
        if waits and rows is not None:
            part, used = rows[used : used + len(items)], used + len(items)
        elif waits:
            part = np.zeros((0, batch.frozen.theta.shape[-1]))
        batch.slots[name] = Slot(tuple(items), part, answer)
    return batch
