"""`quiet`: learn from public batches of visitors, each contributing once.

State in, state out: a `Learner` is a value. It opens batches, which freeze everything that a contribution is computed
with (theta, coordinates, bound, noise scales). A release takes two steps: `charge` enters its cost, or refuses and
changes nothing; `learn` draws the noise. A batch is charged once: a second charge is refused, whether or not its noise
was ever drawn.
Reference: docs/proofs.md, sections 3 to 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from quietshelf.model.types import FloatArray, IntArray, Release, finite, require
from quietshelf.privacy.accounting import Event, Ledger
from quietshelf.privacy.release import arm_sales, batch_pair, records
from quietshelf.privacy.release.arm_sales import ArmSums
from quietshelf.privacy.release.comparison import worse
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.outlook import FACTORS, Moments, Outlook, view
from quietshelf.privacy.release.prior import LARGEST, SMALLEST, Prior, combined, prior_of
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.privacy.release.records import Estimate, Record
from quietshelf.privacy.statistics import Total

TRIALS = 4
"""Releases after which the factor by which declared scales are wrong is fixed."""


class OpenBatch(NamedTuple):
    """What is frozen when a batch opens.

    Attributes:
        number: Number of the batch, from 0.
        size: Number of visitors; the batch closes when this many have arrived.
        theta: Where contributions are evaluated, (..., d).
        coordinates: L, (..., d, d).
        scales: Standard deviations of the noise to come, and the bound on a visitor's information.
        expected: Expected information of one visitor under each factor, (F, ..., d, d).
        spread: Variance of a score relative to its information, (...).
        arms_scale: Standard deviation of the noise on the outcomes of two arms; None without a comparison.
    """

    number: int
    size: int
    theta: FloatArray
    coordinates: FloatArray
    scales: batch_pair.Scales
    expected: FloatArray
    spread: FloatArray
    arms_scale: float | None = None

    @property
    def compares(self) -> bool:
        """Whether the outcomes of two arms are compared."""
        return self.arms_scale is not None


@dataclass(frozen=True)
class Learner:
    """Everything known after some releases; all of it is public.

    Attributes:
        config: How to learn.
        capacity: K.
        moments: Moments of the features that made-up visitors saw at the start.
        given: A prior given by the user; None for the default prior.
        estimate: The current estimate.
        records: One record per release.
        ledger: What has been spent.
    """

    config: Quiet
    capacity: int
    moments: Moments
    given: Estimate | None
    estimate: Estimate
    records: tuple[Record, ...]
    ledger: Ledger

    @classmethod
    def start(
        cls,
        config: Quiet,
        outlook: Outlook,
        *,
        capacity: int,
        source: NoiseSource,
        lead: tuple[int, ...] = (),
        prior: tuple[FloatArray, FloatArray] | None = None,
    ) -> Learner:
        """The learner before the first visitor.

        Args:
            config: How to learn.
            outlook: Made-up visitors; they give the prior its scale.
            capacity: K.
            source: The source of the noise to come.
            lead: Axes of parallel worlds.
            prior: Public (theta, precision) to start from, (d,) and (d, d), instead of the default prior.
        """
        mean, second, alike = outlook.moments
        dim = mean.shape[-1]
        moments = Moments(
            np.broadcast_to(mean, (len(mean), *lead, dim)),
            np.broadcast_to(second, (len(mean), *lead, dim, dim)),
            np.broadcast_to(alike, lead),
        )
        given = None if prior is None else _checked(prior, dim, lead)
        return cls.resumed(config, capacity, moments, given, config.ledger(source))

    @classmethod
    def resumed(cls, config: Quiet, capacity: int, moments: Moments, given: Estimate | None, ledger: Ledger) -> Learner:
        """The learner before the first release, from what was frozen at the start."""
        none = Estimate(np.zeros(moments.mean.shape[1:]), np.zeros(moments.second.shape[1:]))
        known = cls(config, capacity, moments, given, none, (), ledger).prior
        return cls(config, capacity, moments, given, Estimate(known.theta, known.precision), (), ledger)

    @cached_property
    def release(self) -> Release:
        """What policies may know; cached, so that everything computed from it alone is computed once."""
        lead = self.estimate.theta.shape[:-1]
        return Release(
            theta=self.estimate.theta,
            precision=self.estimate.precision,
            radius=np.full(lead, self.config.optimism),
            explore=np.zeros(lead, dtype=bool),
            count=np.full(lead, len(self.records), dtype=np.int64),
            draws=self.config.optimism * np.broadcast_to(self.moments.alike, lead),
        )

    @cached_property
    def arms(self) -> tuple[ArmSums, ...]:
        """What the two arms sold, per release, if they are compared."""
        return tuple(each.arms for each in self.records if each.arms is not None)

    @cached_property
    def outsold(self) -> bool:
        """Whether the shop's own ranking beyond doubt earns more than the learned policy."""
        return worse(self.arms, conversion=self.config.conversion)

    @cached_property
    def place(self) -> IntArray:
        """Index of the scale factor that fits the releases best, (...)."""
        lead = self.estimate.theta.shape[:-1]
        return np.broadcast_to(records.believed(self.records, self.moments.factors), lead)

    @property
    def factor(self) -> FloatArray:
        """The factor by which features seem to differ in scale from the declaration, (...)."""
        return np.asarray(self.moments.factors[self.place])

    @property
    def prior(self) -> Prior:
        """The prior, if features have the scale that the releases indicate.

        A given prior is forgotten at the rate of records, and the default prior takes its place.
        """
        counts = self.config.forgetting ** len(self.records)
        if self.given is not None and counts == 1:
            return Prior(self.given.theta, self.given.precision, np.zeros_like(self.given.precision))
        mean, second = self._believed(self.moments.mean), self._believed(self.moments.second)
        usual = prior_of(
            mean,
            second,
            conversion=self.config.conversion,
            capacity=self.capacity,
            effects=self.config.item_effects,
            spread=self.config.effect_spread,
        )
        if self.given is None:
            return usual
        given = self.given.theta, counts * self.given.precision
        theta, precision = combined((usual.theta, (1 - counts) * usual.precision), given)
        return Prior(theta, precision, np.zeros_like(precision))

    def _believed(self, by_factor: FloatArray) -> FloatArray:
        place = self.place.reshape(1, *self.place.shape, *(1,) * (by_factor.ndim - 1 - self.place.ndim))
        return np.asarray(np.take_along_axis(by_factor, place, axis=0)[0])

    def next_size(self, previous: int | None) -> int:
        """Size of the batch that follows one of size ``previous`` (None: of the first batch)."""
        return self.config.batch_size(self.estimate.theta.shape[-1], previous)

    def open(self, number: int, size: int, outlook: Outlook) -> OpenBatch:
        """Open a batch, freezing everything as it is known now."""
        tried = self.factor[None]
        if len(self.records) < TRIALS and len(self.moments.factors) > 1:
            tried = np.broadcast_to(
                self.moments.factors.reshape(-1, *(1,) * self.place.ndim), (len(FACTORS), *self.place.shape)
            )
        seen = view(outlook, self.release, factor=self.factor, tried=tried)
        config = self.config
        return OpenBatch(
            number=number,
            size=size,
            theta=self.estimate.theta,
            coordinates=seen.coordinates,
            scales=batch_pair.scales(rho=config.rho_to_learn, bound=seen.bound),
            expected=seen.expected,
            spread=seen.spread,
            arms_scale=arm_sales.scale(config.rho_to_compare) if config.comparison else None,
        )

    def charge(self, batch: OpenBatch, source: NoiseSource) -> Learner:
        """Enter the cost of a batch. Raises if the budget refuses it, or if it was charged before."""
        charged = {event.batch for event in self.ledger.events}
        require(batch.number not in charged, "a batch must be released once", batch=batch.number)
        spent: tuple[Event, ...] = batch_pair.events(batch=batch.number, scales=batch.scales, source=source)
        if batch.arms_scale is not None:
            spent = (*spent, *arm_sales.events(batch=batch.number, scale=batch.arms_scale, source=source))
        return replace(self, ledger=self.ledger.spend(*spent))

    def learn(
        self, batch: OpenBatch, total: Total, source: NoiseSource, *, present: int = 0, steady: bool = True
    ) -> Learner:
        """Release a full batch whose cost is entered, and learn from it. Draws the noise, once.

        ``present`` of its visitors were served by the shop's present ranking; ``steady`` says that the share of the
        learned policy stayed the same.
        """
        charged = {event.batch for event in self.ledger.events}
        require(batch.number in charged, "a batch must be charged before it is released", batch=batch.number)
        noisy = batch_pair.release(total, scales=batch.scales, size=batch.size, source=source)
        latest = records.record(
            noisy,
            theta=batch.theta,
            coordinates=batch.coordinates,
            scales=batch.scales,
            size=batch.size,
            expected=batch.expected,
            place=self.place,
            spread=batch.spread,
        )
        if batch.arms_scale is not None:
            visitors = (batch.size - present, present)
            sold = arm_sales.release(total.outcomes, visitors=visitors, scale=batch.arms_scale, source=source)
            latest = latest._replace(arms=sold._replace(steady=steady))
        return replace(self, records=(*self.records, latest)).rebuilt()

    def rebuilt(self) -> Learner:
        """Recompute the estimate from all records, starting from the previous one."""
        second = self._believed(self.moments.second)
        options = {} if self.given is None else {"strengths": np.ones(1)}
        now = records.rebuild(
            self.records, self.prior, second, self.estimate, forgetting=self.config.forgetting, **options
        )
        return replace(self, estimate=now)

    @property
    def health(self) -> str:
        """One line on whether the last release saw anything above its noise; computed from releases alone."""
        dim = self.estimate.theta.shape[-1]
        if not self.records:
            return f"no release yet: the first comes after {self.next_size(None):,} visitors"
        below = int(np.max(records.drowned(self.records[-1])))
        if below == 0:
            return f"information is above the noise in all {dim} directions{self._scale_advice()}"
        latest = self.records[-1]
        needed = math.ceil(latest.size * latest.scales.score**2 / max(float(np.min(latest.values)), 1e-9))
        level = f"information is below the noise in {below} of {dim} directions"
        return f"{level}: a batch would need about {needed:,} visitors{self._scale_advice()}"

    def _scale_advice(self) -> str:
        """Advice if features look different from the declaration, else empty."""
        factor = float(np.max(self.factor)) if self.factor.size else 1.0
        if factor == 1.0 or self.factor.size > 1:
            return ""
        how = f"{factor:.0f} times as large as" if factor > 1 else f"{1 / factor:.0f} times smaller than"
        return f"; features look about {how} declared: declare their scales anew to learn faster"


def _checked(prior: tuple[FloatArray, FloatArray], dim: int, lead: tuple[int, ...]) -> Estimate:
    theta, precision = finite("prior theta", prior[0], shape=(dim,)), finite("prior precision", prior[1])
    require(precision.shape[-2:] == (dim, dim), "prior precision must be (d, d)", shape=precision.shape)
    symmetric = bool(np.allclose(precision, precision.mT))
    require(symmetric, "prior precision must be symmetric")
    values = np.linalg.eigvalsh(precision)
    smallest, largest = float(values.min()), float(max(values.max(), np.abs(theta).max()))
    require(smallest > 0, "prior precision must be positive definite", smallest_eigenvalue=smallest)
    rule = f"prior must be of usual size, {SMALLEST:g} to {LARGEST:g}"
    require(smallest > SMALLEST and largest < LARGEST, rule, smallest_eigenvalue=smallest, largest=largest)
    return Estimate(np.broadcast_to(theta, (*lead, dim)), np.broadcast_to(precision, (*lead, dim, dim)))
