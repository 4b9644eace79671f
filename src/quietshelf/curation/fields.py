"""What is frozen and what is learned as named fields, and back, to the last bit: for files and for tables alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from quietshelf.accounting import Ledger
from quietshelf.curation.batches import Batch
from quietshelf.release.batch_pair import Scales
from quietshelf.release.quiet import Learner, OpenBatch, Quiet
from quietshelf.release.records import Estimate, Record
from quietshelf.types import FloatArray

Fields = Mapping[str, Any]
"""Numbers, and arrays by name; a matrix may come flat."""
EARLIER_BOUND = 1.0
"""B of releases made before there was one: their informations had a trace of at most 1."""


def batch_fields(batch: Batch) -> dict[str, Any]:
    """What is public of a batch that is not released."""
    frozen = batch.frozen
    return {
        "batch": frozen.number,
        "size": frozen.size,
        "theta": frozen.theta,
        "coordinates": frozen.coordinates,
        "score_scale": frozen.scales.score,
        "information_scale": frozen.scales.information,
        "bound": frozen.scales.bound,
        "grid": batch.grid,
        "window": batch.window,
        "taken": batch.taken,
        "full_at": batch.full_at,
    }


def batch_from(fields: Fields) -> Batch:
    """The inverse."""
    theta = fields["theta"]
    frozen = OpenBatch(
        number=fields["batch"],
        size=fields["size"],
        theta=theta,
        coordinates=_square(fields["coordinates"], theta),
        scales=Scales(fields["score_scale"], fields["information_scale"], fields["bound"]),
    )
    return Batch(frozen, fields["grid"], fields["window"], fields["taken"], fields["full_at"])


def record_fields(record: Record) -> dict[str, Any]:
    """What a release left behind."""
    return {
        "size": record.size,
        "score_scale": record.scales.score,
        "information_scale": record.scales.information,
        "bound": record.scales.bound,
        "evaluated_at": record.theta,
        "coordinates": record.coordinates,
        "score": record.score,
        "vectors": record.vectors,
        "values": record.values,
    }


def record_from(fields: Fields) -> Record:
    """The inverse."""
    theta, bound = fields["evaluated_at"], fields["bound"]
    return Record(
        theta=theta,
        coordinates=_square(fields["coordinates"], theta),
        score=fields["score"],
        vectors=_square(fields["vectors"], theta),
        values=fields["values"],
        scales=Scales(fields["score_scale"], fields["information_scale"], EARLIER_BOUND if bound is None else bound),
        size=fields["size"],
    )


def start_fields(learner: Learner) -> dict[str, Any]:
    """What the first arrival froze."""
    return {
        "declared": learner.config.declared,
        "curvature": learner.curvature,
        "prior_theta": learner.prior.theta,
        "prior_precision": learner.prior.precision,
    }


def learner_from(
    config: Quiet, start: Fields, records: Sequence[Record], estimate: Fields | None, ledger: Ledger
) -> Learner:
    """A learner from what the first arrival froze, what each release left behind, and the last estimate."""
    prior = _estimate(start["prior_theta"], start["prior_precision"])
    return Learner(
        config=config,
        curvature=_square(start["curvature"], prior.theta),
        prior=prior,
        estimate=prior if estimate is None else _estimate(estimate["theta"], estimate["precision"]),
        records=tuple(records),
        ledger=ledger,
    )


def _estimate(theta: FloatArray, precision: FloatArray) -> Estimate:
    return Estimate(theta, _square(precision, theta))


def _square(matrix: FloatArray, theta: FloatArray) -> FloatArray:
    return np.reshape(matrix, (theta.size, theta.size))
