"""Convert frozen and learned state to named fields and back, to the last bit, for files and for tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from quietshelf.curation.batches import Batch
from quietshelf.model.types import FloatArray
from quietshelf.privacy.accounting import Ledger
from quietshelf.privacy.release.arm_sales import ArmSums
from quietshelf.privacy.release.batch_pair import Scales
from quietshelf.privacy.release.outlook import Moments
from quietshelf.privacy.release.quiet import Learner, OpenBatch
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.privacy.release.records import Estimate, Record
from quietshelf.privacy.statistics import ARMS, OUTCOMES

Fields = Mapping[str, Any]
"""Numbers and arrays by name; matrices may be flat."""
EARLIER_BOUND = 1.0
"""B of releases made before B was recorded: their informations had a trace of at most 1."""


def batch_fields(batch: Batch) -> dict[str, Any]:
    """The public state of an unreleased batch."""
    frozen = batch.frozen
    return {
        "batch": frozen.number,
        "size": frozen.size,
        "theta": frozen.theta,
        "coordinates": frozen.coordinates,
        "score_scale": frozen.scales.score,
        "information_scale": float(frozen.scales.information),
        "bound": float(frozen.scales.bound),
        "expected": frozen.expected,
        "spread": float(frozen.spread),
        "grid": batch.grid,
        "window": batch.window,
        "taken": batch.taken,
        "full_at": batch.full_at,
        "arms_scale": frozen.arms_scale,
        "present": batch.present,
        "share": batch.share,
        "leased": batch.leased,
        "unused": batch.unused,
        "latest": batch.latest,
        "lag": batch.lag,
    }


def batch_from(fields: Fields) -> Batch:
    """The inverse of `batch_fields`."""
    theta = fields["theta"]
    frozen = OpenBatch(
        number=fields["batch"],
        size=fields["size"],
        theta=theta,
        coordinates=_square(fields["coordinates"], theta),
        scales=Scales(fields["score_scale"], fields["information_scale"], fields["bound"]),
        expected=np.reshape(fields["expected"], (-1, theta.size, theta.size)),
        spread=np.asarray(fields["spread"]),
        arms_scale=fields.get("arms_scale"),
    )
    place = (fields["grid"], fields["window"], fields["taken"], fields["full_at"])
    later = ("present", "share", "leased", "unused", "latest", "lag")  # added after the first version
    return Batch(frozen, *place, **{name: fields[name] for name in later if fields.get(name) is not None})


def record_fields(record: Record) -> dict[str, Any]:
    """What a release leaves behind."""
    return {
        "size": record.size,
        "score_scale": record.scales.score,
        "information_scale": float(record.scales.information),
        "bound": float(record.scales.bound),
        "kept": float(record.kept),
        "spread": float(record.spread),
        "fit": record.fit,
        "evaluated_at": record.theta,
        "coordinates": record.coordinates,
        "score": record.score,
        "vectors": record.vectors,
        "values": record.values,
        **_arms_fields(record.arms),
    }


def record_from(fields: Fields) -> Record:
    """The inverse of `record_fields`."""
    theta, bound = fields["evaluated_at"], fields["bound"]
    earlier = fields.get("fit") is None
    return Record(
        theta=theta,
        coordinates=_square(fields["coordinates"], theta),
        score=fields["score"],
        vectors=_square(fields["vectors"], theta),
        values=fields["values"],
        scales=Scales(fields["score_scale"], fields["information_scale"], EARLIER_BOUND if bound is None else bound),
        size=fields["size"],
        kept=np.asarray(1.0 if earlier else fields["kept"]),
        spread=np.asarray(1.0 if earlier else fields["spread"]),
        fit=np.zeros(1) if earlier else fields["fit"],
        arms=_arms_from(fields),
    )


def _arms_fields(arms: ArmSums | None) -> dict[str, Any]:
    learned, present = (None, None) if arms is None else arms.visitors
    sums, scale = (None, None) if arms is None else (arms.sums, arms.scale)
    steady = None if arms is None else arms.steady
    return {"learned": learned, "present": present, "outcomes": sums, "arms_scale": scale, "steady": steady}


def _arms_from(fields: Fields) -> ArmSums | None:
    if fields.get("outcomes") is None:
        return None
    sums = np.reshape(fields["outcomes"], (len(ARMS), len(OUTCOMES)))
    return ArmSums((fields["learned"], fields["present"]), sums, fields["arms_scale"], bool(fields["steady"]))


def start_fields(learner: Learner) -> dict[str, Any]:
    """What the first arrival froze."""
    theta, precision = (None, None) if learner.given is None else learner.given
    moments = {**learner.moments._asdict(), "alike": float(learner.moments.alike)}
    return {**moments, "prior_theta": theta, "prior_precision": precision}


def learner_from(
    config: Quiet, capacity: int, start: Fields, records: Sequence[Record], estimate: Fields | None, ledger: Ledger
) -> Learner:
    """Restore a learner from what the first arrival froze, what each release left behind, and the last estimate."""
    dim = np.size(start["second"]) // np.size(start["mean"])  # they hold F d² and F d numbers
    theta = start.get("prior_theta")
    given = None if theta is None else _estimate(theta, start["prior_precision"])
    alike = np.asarray(1.0 if start.get("alike") is None else start["alike"])
    moments = Moments(np.reshape(start["mean"], (-1, dim)), np.reshape(start["second"], (-1, dim, dim)), alike)
    known = None if estimate is None else _estimate(estimate["theta"], estimate["precision"])
    begun = Learner.resumed(config, capacity, moments, given, ledger)
    return begun if known is None else replace(begun, estimate=known, records=tuple(records))


def _estimate(theta: FloatArray, precision: FloatArray) -> Estimate:
    return Estimate(theta, _square(precision, theta))


def _square(matrix: FloatArray, theta: FloatArray) -> FloatArray:
    return np.reshape(matrix, (theta.size, theta.size))
