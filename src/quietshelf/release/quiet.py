"""`quiet`: what is learned from public batches of visitors, each of whom contributes once.

State in, state out: a `Learner` is a value. It opens batches, which freeze whatever a contribution is computed with
(theta, coordinates, bound, noise scales). A release is two steps: `charge` enters its cost, or refuses and changes
nothing; `learn` draws the noise. A batch is charged once: a second time is refused, whether or not its noise was ever
drawn.
Reference: docs/proofs.md, sections 3 to 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from quietshelf.accounting import Ledger
from quietshelf.release import batch_pair, records
from quietshelf.release.geometry import coordinates, floored
from quietshelf.release.noise import NoiseSource
from quietshelf.release.records import Estimate, Record
from quietshelf.statistics import Total
from quietshelf.types import FloatArray, Release, finite, positive, require, whole


@dataclass(frozen=True, kw_only=True)
class Quiet:
    """How `quiet` learns. The first half alters the guarantee, the second does not.

    Attributes:
        rho: The promise to one person (or one visit) for the whole run, in zCDP.
        visits: How many visits of one person count, at most one a batch; each release spends rho / visits.
        unit: Whether visitors are told apart as persons, or only as visits.
        first: The first batch has ``first d / sqrt(rho of a release)`` visitors.
        growth: Each batch is so many times the one before.
        max_batch: No batch is larger; for tastes that drift.
        forgetting: Each older record counts so many times less at every release; 1 forgets nothing.
        optimism: Standard deviations added to utilities when offers are chosen.
        prior_visitors: Visitors that the prior precision, ``prior_visitors Γ0``, counts for.
        declared: Whether Γ0 was declared (then it is trusted longer) or is the blind guess I/d.
    """

    rho: float
    visits: int = 1
    unit: Literal["visit", "person"] = "visit"

    first: float = 7.0
    growth: float = 1.5
    max_batch: int | None = None
    forgetting: float = 1.0
    optimism: float = 0.5
    prior_visitors: float = 10.0
    declared: bool = True

    def __post_init__(self) -> None:
        positive("rho", self.rho)
        whole("visits", self.visits)
        require(self.unit == "person" or self.visits == 1, "visits above 1 need person ids", visits=self.visits)
        positive("first", self.first)
        require(1 <= self.growth < math.inf, "growth must be at least 1 and finite", growth=self.growth)
        require(0 < self.forgetting <= 1, "forgetting must be in (0, 1]", forgetting=self.forgetting)
        positive("optimism", self.optimism, zero=True)
        positive("prior_visitors", self.prior_visitors)
        if self.max_batch is not None:
            whole("max_batch", self.max_batch)

    @property
    def rho_per_release(self) -> float:
        """What one batch may cost."""
        return self.rho / self.visits

    def ledger(self, source: NoiseSource) -> Ledger:
        """An empty ledger with this budget; without limit where the source is noiseless and all is lost anyway."""
        return Ledger(budget=None if source.noiseless else self.rho, visits=self.visits, unit=self.unit)

    def batch_size(self, dim: int, previous: int | None) -> int:
        """Visitors in the batch that follows one of size ``previous``."""
        exact = self.first * dim / math.sqrt(self.rho_per_release) if previous is None else self.growth * previous
        size = max(1, math.ceil(exact))
        return size if self.max_batch is None else min(size, self.max_batch)


class OpenBatch(NamedTuple):
    """What is frozen when a batch opens.

    Attributes:
        number: From 0 on.
        size: Its visitors; it closes when so many have arrived.
        theta: Where contributions are evaluated, (..., d).
        coordinates: L, (..., d, d).
        scales: Standard deviations of the noise to come, and the bound of contributions that they were made for.
    """

    number: int
    size: int
    theta: FloatArray
    coordinates: FloatArray
    scales: batch_pair.Scales


@dataclass(frozen=True)
class Learner:
    """All that is known after some releases; everything in it is public.

    Attributes:
        config: How it learns.
        curvature: Γ0, eigenvalues floored, (..., d, d).
        prior: What was known before the first visitor.
        estimate: What is known now.
        records: One of each release.
        ledger: What was spent.
    """

    config: Quiet
    curvature: FloatArray
    prior: Estimate
    estimate: Estimate
    records: tuple[Record, ...]
    ledger: Ledger

    @classmethod
    def start(
        cls,
        config: Quiet,
        curvature: FloatArray,
        *,
        source: NoiseSource,
        lead: tuple[int, ...] = (),
        prior: tuple[FloatArray, FloatArray] | None = None,
    ) -> Learner:
        """Before the first visitor.

        Args:
            config: How to learn.
            curvature: Γ0, the public guess of one visitor's curvature, (d, d).
            source: Where noise will come from; its grid is part of the noise scale.
            lead: Parallel worlds.
            prior: Public (theta, precision) to start from, (d,) and (d, d); by default 0 and ``prior_visitors Γ0``.
        """
        dim = curvature.shape[-1]
        first = floored(finite("curvature", curvature, shape=(dim, dim)))
        theta, precision = prior or (np.zeros(dim), config.prior_visitors * first)
        theta, precision = finite("prior theta", theta, shape=(dim,)), finite("prior precision", precision)
        require(precision.shape[-2:] == (dim, dim), "prior precision must be (d, d)", shape=precision.shape)
        for name, matrix in (("curvature", curvature), ("prior precision", precision)):
            require(bool(np.allclose(matrix, np.swapaxes(matrix, -1, -2))), f"{name} must be symmetric")
        smallest = float(np.linalg.eigvalsh(precision).min())
        require(smallest > 0, "prior precision must be positive definite", smallest_eigenvalue=smallest)
        known = Estimate(np.broadcast_to(theta, (*lead, dim)), np.broadcast_to(precision, (*lead, dim, dim)))
        shape = np.broadcast_to(first, (*lead, dim, dim))
        return cls(
            config=config,
            curvature=shape,
            prior=known,
            estimate=known,
            records=(),
            ledger=config.ledger(source),
        )

    @cached_property
    def release(self) -> Release:
        """What policies may know; made once, so that what depends on it alone is worked out once."""
        lead = self.estimate.theta.shape[:-1]
        return Release(
            theta=self.estimate.theta,
            precision=self.estimate.precision,
            radius=np.full(lead, self.config.optimism),
            explore=np.zeros(lead, dtype=bool),
            count=np.full(lead, len(self.records), dtype=np.int64),
        )

    def next_size(self, previous: int | None) -> int:
        """Visitors in the batch that follows one of size ``previous`` (None: the first)."""
        return self.config.batch_size(self.curvature.shape[-1], previous)

    def open(self, number: int, size: int, source: NoiseSource) -> OpenBatch:
        """A batch with everything frozen as it is known now."""
        config, dim = self.config, self.curvature.shape[-1]
        shape = records.geometry(self.records, self.curvature, declared=config.declared)
        return OpenBatch(
            number=number,
            size=size,
            theta=self.estimate.theta,
            coordinates=coordinates(shape),
            scales=batch_pair.scales(rho=config.rho_per_release, dim=dim, bound=batch_pair.BOUND, grid=source.grid),
        )

    def charge(self, batch: OpenBatch, source: NoiseSource) -> Learner:
        """The learner with the cost of a batch entered. A refused budget, or a second time, raises."""
        charged = {event.batch for event in self.ledger.events}
        require(batch.number not in charged, "a batch must be released once", batch=batch.number)
        spent = batch_pair.events(self.curvature.shape[-1], batch=batch.number, scales=batch.scales, source=source)
        return replace(self, ledger=self.ledger.spend(*spent))

    def learn(self, batch: OpenBatch, total: Total, source: NoiseSource) -> Learner:
        """The learner after the release of a full batch whose cost is entered. The noise is drawn here, once."""
        charged = {event.batch for event in self.ledger.events}
        require(batch.number in charged, "a batch must be charged before it is released", batch=batch.number)
        noisy = batch_pair.release(total, scales=batch.scales, source=source)
        latest = records.record(
            noisy, theta=batch.theta, coordinates=batch.coordinates, scales=batch.scales, size=batch.size
        )
        kept = (*self.records, latest)
        estimate = records.rebuild(kept, self.prior, self.estimate, forgetting=self.config.forgetting)
        return replace(self, estimate=estimate, records=kept)

    @property
    def health(self) -> str:
        """One line on whether the last release saw anything above its noise, computed from releases alone."""
        dim = self.curvature.shape[-1]
        if not self.records:
            return f"no release yet: the first comes after {self.config.batch_size(dim, None)} visitors"
        below = int(np.max(records.drowned(self.records[-1])))
        if below == 0:
            return f"information is above the noise in all {dim} directions"
        latest = self.records[-1]
        advice = (
            "check the declared scales"
            if latest.size / dim > 2 * np.max(records.noise_level(latest))
            else "few visitors yet"
        )
        return f"information is below the noise in {below} of {dim} directions: {advice}"
