"""What is frozen and learned, as named fields and back: to the last bit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.curation.batches import DIM, Counting, filled, learner, open_batch
from tests.privacy.release.learners import started

from quietshelf.curation.batches import Schedule, charge, draw
from quietshelf.curation.fields import (
    EARLIER_BOUND,
    batch_fields,
    batch_from,
    learner_from,
    record_fields,
    record_from,
    start_fields,
)
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.privacy.statistics import nothing


def flat(fields: dict[str, Any]) -> dict[str, Any]:
    """As a table holds them: matrices without their shape."""
    return {name: value.ravel() if isinstance(value, np.ndarray) else value for name, value in fields.items()}


def same(one: Any, other: Any) -> None:
    """Equal in every part, arrays bit for bit."""
    if isinstance(one, np.ndarray):
        np.testing.assert_array_equal(one, other)
        assert one.shape == other.shape
    elif isinstance(one, tuple):
        assert type(one) is type(other)
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            same(left, right)
    else:
        assert one == other


@pytest.mark.parametrize("shape", [dict, flat])
def test_batches_and_learners_come_back_as_they_were(shape: Any) -> None:
    """An open batch, a full one, and a learner after two releases; from arrays as they are, or flat."""
    source, schedule = Counting(), Schedule()
    known = learner(source)
    for _ in range(2):
        schedule, batch = open_batch(schedule, known, source, window=2.5)
        same(batch_from(shape(batch_fields(batch))), batch)
        full = filled(batch, at=1234.5)
        same(batch_from(shape(batch_fields(full))), full)
        known = draw(charge(known, full, source), full, nothing((), DIM), source)
    records = [record_from(shape(record_fields(each))) for each in known.records]
    same(tuple(records), known.records)
    start, estimate = shape(start_fields(known)), shape(known.estimate._asdict())
    found = learner_from(known.config, known.capacity, start, records, estimate, known.ledger)
    for name in ("config", "ledger", "capacity", "moments", "given", "prior", "estimate", "records"):
        same(getattr(found, name), getattr(known, name))


def test_a_learner_without_releases_starts_from_its_prior() -> None:
    """No estimate is kept where there is none."""
    known = learner()
    found = learner_from(known.config, known.capacity, start_fields(known), [], None, known.ledger)
    same(found.estimate, known.estimate)
    np.testing.assert_array_equal(found.estimate.theta, known.prior.theta)
    np.testing.assert_array_equal(found.estimate.precision, known.prior.precision)


@pytest.mark.parametrize("shape", [dict, flat])
def test_a_given_prior_comes_back(shape: Any) -> None:
    """And is used as it was given."""
    source, prior = Counting(), (np.array([1.0, -1.0]), np.diag([2.0, 3.0]))
    known = started(Quiet(rho=1.0), DIM, source, prior=prior)
    found = learner_from(known.config, known.capacity, shape(start_fields(known)), [], None, known.ledger)
    same(found.given, known.given)
    same(found.estimate, known.estimate)


def test_releases_of_earlier_versions_are_read() -> None:
    """They had no expectation: their sums are taken as they are, and say nothing of factors."""
    source = Counting()
    start = learner(source)
    _, batch = open_batch(Schedule(), start, source)
    known = draw(charge(start, filled(batch), source), filled(batch), nothing((), DIM), source)
    earlier = {**record_fields(known.records[0]), "kept": None, "spread": None, "fit": None, "bound": None}
    found = record_from(earlier)
    np.testing.assert_array_equal([found.kept, found.spread, found.scales.bound], [1.0, 1.0, EARLIER_BOUND])
    resumed = replace(known, records=(found,))
    assert resumed.factor == 1.0
    assert np.isfinite(resumed.rebuilt().estimate.theta).all()
