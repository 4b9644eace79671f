"""Upgrades files written by earlier versions."""

from __future__ import annotations

from typing import Any

import numpy as np

from quietshelf.curation.fields import EARLIER_BOUND
from quietshelf.model.choice.maps import feature_map
from quietshelf.serving.shelf.codec import Arrays
from quietshelf.serving.shelf.errors import ShelfError

UNKNOWN_LENGTH = (
    "this file was saved before its first visitor, by a version that took the number of features from that visitor; "
    "create the shelf again, with visitor_dim=..."
)
RENAMED = {"patience": "window", "silence": "on_no_answer", "ceiling": "max_batch"}


def upgraded(header: dict[str, Any], arrays: Arrays, *, wanted: int) -> tuple[dict[str, Any], Arrays]:
    """Upgrade header and arrays to the wanted schema."""
    if header["schema"] == 1:
        header, arrays = _from_1(header, arrays)
    if header["schema"] == 2:
        header, arrays = _from_2(header, arrays)
    if header["schema"] == 3:
        header, arrays = _without_open(header, arrays)
    if header["schema"] != wanted:
        raise ShelfError(f"schema must be {wanted} or an earlier one, got schema={header['schema']!r}")
    return header, arrays


def _from_1(old: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """To schema 2, which renames fields, declares the number of visitor features, and gives batches a window."""
    settings = {RENAMED.get(name, name): value for name, value in old["settings"].items()}
    settings["window"] += 1
    name, length = settings["feature_map"], settings["visitor_dim"]
    if old["learner"] is not None:
        length = 0 if name is None else old["visitor_dim"]
    scale = arrays.get("public.scale")
    if length is None and scale is not None and scale.ndim == 1:
        length = len(scale)
    uses_visitor = name is not None and any(block.visitor for block in feature_map(name).blocks)
    if length is None and uses_visitor:
        raise ShelfError(UNKNOWN_LENGTH)
    settings["visitor_dim"] = length or 0
    found = {_renamed(name): value for name, value in arrays.items()}
    batches = [
        {"size": each["frozen"]["size"], "taken": len(each["slots"])} for each in old["batches"]
    ]  # dropped below
    last = old["last_batch"] or {"number": -1, "size": None}
    header = {
        **{key: old[key] for key in ("arrivals", "anonymous", "persons", "open", "key_check")},
        "schema": 2,
        "settings": settings,
        "learner": None if old["learner"] is None else _learner(old["learner"]),
        "schedule": {"opened": last["number"], "last_size": last["size"], "next_size": old["next_size"]},
        "batches": batches,
        "history_incomplete": old["estranged"],
        "token": old["claim"],
    }
    return header, found


def _from_2(old: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """To schema 3, in which score and information share one bound, stored with each batch."""
    header: dict[str, Any] = {**old, "schema": 3}
    if old["learner"] is not None:
        gone = ("share", "prior_visitors", "declared")
        config = {name: value for name, value in old["learner"]["config"].items() if name not in gone}
        records = [{**each, "bound": EARLIER_BOUND} for each in old["learner"]["records"]]
        header["learner"] = {**old["learner"], "config": config, "start": {}, "records": records}
    found = dict(arrays)
    if "start.curvature" in found:
        second = found.pop("start.curvature")
        found |= {"start.second": second[None], "start.mean": np.zeros((1, len(second)))}
    return header, found


def _without_open(old: dict[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Arrays]:
    """To schema 4, which rounds contributions row by row and then sums them exactly.

    Open batches are dropped: they were rounded or bounded for other noise than a release now draws, so they may not be
    released. Dropping costs no privacy. The next batch has the size of the first that was dropped.
    """
    held = old["batches"]
    header = {
        **old,
        "schema": 4,
        "schedule": old["schedule"] | ({"next_size": held[0]["size"]} if held else {}),
        "batches": [],
        "open": False,
        "left_out": sum(each["taken"] for each in held),
    }
    return header, {name: value for name, value in arrays.items() if not name.startswith("batch")}


def _renamed(name: str) -> str:
    prefix, _, field = name.rpartition(".")
    if prefix.startswith("record") and field == "theta":
        return f"{prefix}.evaluated_at"
    known = {"learner.prior.theta": "start.prior_theta", "learner.prior.precision": "start.prior_precision"}
    known |= {"learner.curvature": "start.curvature"}
    return known.get(name, name.replace("learner.estimate.", "estimate."))


def _learner(old: dict[str, Any]) -> dict[str, Any]:
    config = {RENAMED.get(name, name): value for name, value in old["config"].items()}
    records = [{"size": each["size"], **_scales(each["scales"])} for each in old["records"]]
    start = {"declared": config["declared"]}
    return {"config": config, "start": start, "estimate": {}, "records": records, "ledger": old["ledger"]}


def _scales(scales: list[float]) -> dict[str, float]:
    return {"score_scale": scales[0], "information_scale": scales[1]}
