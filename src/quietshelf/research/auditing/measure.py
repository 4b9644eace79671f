"""An audit: a lower bound on the privacy that a mechanism really loses, and a verdict on its claim.

Half of the runs train: they choose the score, the thresholds and the clipping. The other half is used once, to test.
Each bound is too large only with a small chance; over all bounds of an audit these chances add up to 1 - confidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from quietshelf.model.types import FloatArray, IntArray, integer, require
from quietshelf.privacy.accounting.attackers import rho_of_rates
from quietshelf.research.auditing.auditable import Auditable, Claim, ExactCost
from quietshelf.research.auditing.bounds import at_least, at_most, divergence_at_least, epsilon_of_rates, mu_of_rates
from quietshelf.research.auditing.scores import learn

CONFIDENCE = 0.999
THRESHOLDS = 200
FEWEST = 40
POINTS = 24
"""Thresholds of a ROC curve."""
CLIPS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
PARTS = 10
"""Error shares of one audit: two rates at each of three thresholds, two divergences, and two for the ROC."""
EXACT = 1e-9
"""Relative excess over a claim that counts as rounding."""


class Roc(NamedTuple):
    """Rates of the attack at thresholds from strict to lenient, (points,), with simultaneous bounds."""

    level: FloatArray
    power: FloatArray
    level_low: FloatArray
    level_high: FloatArray
    power_low: FloatArray
    power_high: FloatArray


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one audit.

    Attributes:
        name: What was audited.
        pair: The neighbours, in words.
        claim: What is promised.
        runs: Runs in each of the two worlds.
        rho: Lower bound on the loss in zCDP, valid for any mechanism.
        epsilon: Lower bound on epsilon at the claim's delta.
        gaussian_rho: The smallest rho whose Gaussian curve allows this attack.
        exact: The exact cost of the pair; None if it was not computed.
        roc: The attack's ROC curve.
    """

    name: str
    pair: str
    claim: Claim
    runs: int
    rho: float
    epsilon: float
    gaussian_rho: float
    exact: ExactCost | None
    roc: Roc

    @property
    def sampled(self) -> float:
        """The largest lower bound on rho from the runs alone."""
        return max(self.rho, self.gaussian_rho) if self.claim.gaussian else self.rho

    @property
    def measured(self) -> float:
        """The larger of that and the exact cost."""
        return self.sampled if self.exact is None else max(self.sampled, self.exact.rho)

    @property
    def refuted(self) -> bool:
        """Whether the claim cannot be true."""
        epsilon = self.epsilon if self.exact is None else max(self.epsilon, self.exact.epsilon)
        return self.measured > self.claim.rho * (1 + EXACT) or epsilon > self.claim.epsilon * (1 + EXACT)


def audit(
    subject: Auditable, *, runs: int, rng: np.random.Generator, tests: int = 1, confidence: float = CONFIDENCE
) -> Finding:
    """Try to refute a claim.

    Args:
        subject: What to audit.
        runs: Runs in each of the two worlds; half of them train, half test.
        rng: Source of randomness.
        tests: Number of subjects audited together; all findings hold jointly.
        confidence: Joint confidence of all of them.
    """
    integer("runs", runs, low=FEWEST)
    require(0 < confidence < 1, "confidence must be in (0, 1)", confidence=confidence)
    error = (1 - confidence) / integer("tests", tests) / PARTS
    first, second = (np.asarray(subject.run(secret, runs, rng), dtype=np.float64) for secret in (True, False))
    require(
        first.ndim == 2 and first.shape == second.shape, "both worlds must give (runs, features)", shape=first.shape
    )
    cut = runs // 2
    score = learn(first[:cut], second[:cut], lambda x, y: _best(x, y, error, subject.claim.delta).worth)
    plan = _best(score(first[:cut]), score(second[:cut]), error, subject.claim.delta)
    x, y = score(first[cut:]), score(second[cut:])
    rho, epsilon, mu = (_at(x, y, threshold, error) for threshold in plan.thresholds)
    forth, back = (
        _divergence(*pair, plan.line, clip, error) for pair, clip in (((x, y), plan.clip), ((y, x), -plan.clip))
    )
    return Finding(
        name=subject.name,
        pair=subject.pair,
        claim=subject.claim,
        runs=runs,
        rho=max(float(rho_of_rates(*rho)), forth, back),
        epsilon=float(epsilon_of_rates(*epsilon, subject.claim.delta)),
        gaussian_rho=float(mu_of_rates(*mu)) ** 2 / 2,
        exact=None if subject.exact is None else subject.exact(),
        roc=_roc(x, y, plan.grid, 2 * error),
    )


class _Plan(NamedTuple):
    """Choices made on the training half: thresholds for rho, epsilon and mu, a log-likelihood line and its clipping."""

    thresholds: tuple[float, float, float]
    line: tuple[float, float]
    clip: float
    grid: FloatArray
    worth: float


def _best(x: FloatArray, y: FloatArray, error: float, delta: float) -> _Plan:
    grid = np.unique(np.quantile(np.concatenate([x, y]), np.linspace(0.0, 1.0, THRESHOLDS)))
    level, power = _rates(x, y, grid, error)
    scores = rho_of_rates(level, power), epsilon_of_rates(level, power, delta), mu_of_rates(level, power)
    line = _line(x, y)
    clipped = [_divergence(x, y, line, clip, error) for clip in CLIPS]
    chosen = [float(grid[int(np.argmax(part))]) for part in scores]
    worth = max(float(scores[0].max()), max(clipped), float(scores[2].max()) ** 2 / 2)
    return _Plan((chosen[0], chosen[1], chosen[2]), line, CLIPS[int(np.argmax(clipped))], _points(y, grid), worth)


def _line(x: FloatArray, y: FloatArray) -> tuple[float, float]:
    """Slope and middle of the log-likelihood ratio of two Gaussians with these means and their common variance."""
    variance = max((float(x.var()) + float(y.var())) / 2, 1e-12 * float(np.ptp(np.concatenate([x, y]))) ** 2, 1e-300)
    return (float(x.mean()) - float(y.mean())) / variance, (float(x.mean()) + float(y.mean())) / 2


def _divergence(x: FloatArray, y: FloatArray, line: tuple[float, float], clip: float, error: float) -> float:
    """The divergence of the first draws from the second; a negative clip reverses the line."""
    slope, middle = line
    g, h = (np.clip(np.sign(clip) * slope * (part - middle), -2 * abs(clip), abs(clip)) for part in (x, y))
    return divergence_at_least(g, h, error, low=-2 * abs(clip), high=abs(clip))


def _at(x: FloatArray, y: FloatArray, threshold: float, error: float) -> tuple[FloatArray, FloatArray]:
    level, power = _rates(x, y, np.array([threshold]), error)
    return level[0], power[0]


def _rates(x: FloatArray, y: FloatArray, thresholds: FloatArray, error: float) -> tuple[FloatArray, FloatArray]:
    """(upper bound on level, lower bound on power) of calling a run "first" if its score reaches the threshold."""
    called = _called(y, thresholds), _called(x, thresholds)
    return at_most(called[0], y.size, error), at_least(called[1], x.size, error)


def _called(scores: FloatArray, thresholds: FloatArray) -> IntArray:
    return np.asarray(scores.size - np.searchsorted(np.sort(scores), thresholds, side="left"), dtype=np.int64)


def _points(y: FloatArray, grid: FloatArray) -> FloatArray:
    """Thresholds of the ROC curve: false-alarm rates evenly spaced in probit, from one in a thousand."""
    from scipy.special import ndtr

    wanted = np.quantile(y, 1 - ndtr(np.linspace(-3.1, 3.1, POINTS)))
    return np.unique(np.concatenate([wanted, grid[[0, -1]]]))[::-1]


def _roc(x: FloatArray, y: FloatArray, thresholds: FloatArray, error: float) -> Roc:
    each = error / (4 * thresholds.size)
    (a, n), (b, m) = (_called(y, thresholds), y.size), (_called(x, thresholds), x.size)
    return Roc(a / n, b / m, at_least(a, n, each), at_most(a, n, each), at_least(b, m, each), at_most(b, m, each))
