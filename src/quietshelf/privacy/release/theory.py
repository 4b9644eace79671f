"""The constants of the paper, as functions: tree noise, the shift, the radius, regret, refits.

No proof of privacy depends on them: the ledger prices whatever noise they give, and the rest says how much to explore
and how often to refit. Letters as in the paper: d dimension, K capacity, T horizon, rho1 for the fits, D_MLE the cap on
fits, q the split of a fit's budget, kappa of Assumption 2. Where the paper has a slip, the docstring says how it is
read. Reference: docs/proofs.md, sections 14, 15 and 17.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from quietshelf.model.types import integer, positive, require


def levels(horizon: int) -> int:
    """The paper's m = 1 + floor(log2 T): the levels of PrivateCov's tree, and the most nodes that contain one visitor.

    >>> levels(10_000), levels(8192), levels(8191)
    (14, 14, 13)
    """
    return integer("horizon", horizon).bit_length()


def printed_variance(epsilon: float, delta: float, *, capacity: int, horizon: int) -> float:
    """The supplement's tree: sigma_cov² = 32 m K log(4/delta2)² / epsilon2²."""
    size = 32.0 * levels(horizon) * integer("capacity", capacity)
    return size * math.log(4.0 / _probability("delta", delta)) ** 2 / positive("epsilon", epsilon) ** 2


def repaired_variance(epsilon: float, delta: float, *, capacity: int, horizon: int) -> float:
    """The same with sensitivity² 2 K², not 2 K, and delta2/(2 m) per node, not delta2/2 (section 14).

    32 m K² log(2/delta2) log(2.5 m/delta2) / epsilon2².
    """
    nodes, delta = levels(horizon), _probability("delta", delta)
    size = 32.0 * nodes * integer("capacity", capacity) ** 2
    return size * math.log(2.0 / delta) * math.log(2.5 * nodes / delta) / positive("epsilon", epsilon) ** 2


def printed_shift(deviation: float, *, dim: int, horizon: int) -> float:
    """Lambda of the lemma "pd noisy gram": V_t = noisy Gram sum + 2 lambda I is positive definite with chance 1 - 1/T².

    Read differently: at d = 1 the third term is 0/0 and its limit, 0, is taken; the statement is for one t, and holds
    for all of them with chance 1 - 1/T; the lemma's Gram sum leaves out the sum over the assortment.

    Args:
        deviation: sigma sqrt(m), a bound on the standard deviation of every entry of the noise.
        dim: d.
        horizon: T.
    """
    log_dim = math.log(integer("dim", dim))
    ratio = math.cbrt(log_dim / dim)
    third = 0.0 if dim == 1 else 6 * (1 + ratio) * math.sqrt(log_dim / math.log1p(ratio))
    last = 2 * math.sqrt(4 * math.log(integer("horizon", horizon)))
    return positive("deviation", deviation) * (
        2 * math.sqrt(dim) + 2 * math.cbrt(math.sqrt(dim) * log_dim) + third + last
    )


def tight_shift(deviation: float, *, dim: int, chance: float) -> float:
    """The least eigenvalue of the noise is above minus this, except with probability ``chance``: section 17.

    Args:
        deviation: A bound on the standard deviation of every svec coordinate of the noise.
        dim: d.
        chance: beta, of one round; 1/T² gives all rounds a chance of 1/T.
    """
    tail = math.sqrt(2 * math.log(1 / _probability("chance", chance)))
    return positive("deviation", deviation) * (math.sqrt(2 * integer("dim", dim)) + tail)


@dataclass(frozen=True)
class Radius:
    """Alpha_t as a function of t, from 1: everything except the randomness of choices is precomputed.

    Attributes:
        dim: d.
        error: Error of the fit apart from the randomness of choices.
        kappa: The kappa of Assumption 2.
        shifted: The term from lambda.
        scale: c.
        ahead: Added to t in the first term.
    """

    dim: int
    error: float
    kappa: float
    shifted: float
    scale: float
    ahead: int = 0

    def __call__(self, time: int) -> float:
        """The radius for visitor t."""
        choices = _choice_error(time + self.ahead, self.dim)
        return self.scale * ((choices + self.error) / self.kappa + self.shifted)


def radius(
    *,
    dim: int,
    capacity: int,
    horizon: int,
    rho: float,
    fits: int,
    shift: float,
    kappa: float = 1.0,
    split: float = 0.5,
    scale: float = 1.0,
) -> Radius:
    """Alpha_t of the lemma "mle bound matrix norm", times the ``scale`` c of the paper's experiments.

    Read differently: D in its second term is D_MLE, as in the proof. Kept as printed although they are not proven: the
    sub-Gaussian constant 1/4 (1/2 is), and |theta*| <= 1. The second term, Delta |theta*| / sqrt(K), is printed without
    the root: larger, so safe.

    Args:
        dim: d.
        capacity: K.
        horizon: T.
        rho: rho1, of all fits together.
        fits: D_MLE.
        shift: lambda.
        kappa: Of Assumption 2.
        split: q.
        scale: c: 1e-4 in the synthetic study, 1e-7 on hotels.
    """
    error = _fit_error(dim=dim, capacity=capacity, horizon=horizon, rho=rho, fits=fits, split=split)
    return Radius(dim, error, positive("kappa", kappa), _shifted(shift), positive("scale", scale, zero=True))


def benchmark_radius(
    *,
    dim: int,
    capacity: int,
    horizon: int,
    epsilon: float,
    noise: float,
    shift: float,
    kappa: float = 1.0,
    scale: float = 1.0,
) -> Radius:
    """Alpha-tilde_t of the (epsilon, delta) benchmark (supplement), times the ``scale`` c.

    Read differently: "epsilon_mle", never defined, is the epsilon of one fit, as its Delta = 2 R / epsilon is what the
    second term bounds (printed as 4 R / (epsilon sqrt(K)), twice that, and kept). The print drops 1/kappa: kappa = 1.

    Args:
        dim: d.
        capacity: K.
        horizon: T.
        epsilon: Of one fit.
        noise: sigma_mle, the standard deviation of one fit's perturbation.
        shift: lambda-tilde.
        kappa: Of Assumption 2.
        scale: c.
    """
    root = math.sqrt(integer("capacity", capacity))
    bias = 4 * rank(dim, capacity) / (positive("epsilon", epsilon) * root)
    spread = math.sqrt(4 * dim * math.log(integer("horizon", horizon))) * positive("noise", noise) / root
    widths = positive("kappa", kappa), _shifted(shift), positive("scale", scale, zero=True)
    return Radius(dim, bias + spread, *widths, ahead=1)


def regret_bound(alpha: float, *, dim: int, capacity: int, horizon: int, shift: float, explored: int) -> float:
    """The proof's explicit bound, without its O(1): T0 + 2 alpha_T sqrt(2 d T log((d lambda + T K)/(d lambda + d K))).

    Read differently: equation "regret" multiplies this out and prints sqrt(4 d T ...) in its third term where the
    product is sqrt(8 d T ...); the product is taken. (In its proof x <= log(1 + x) should read x <= 2 log(1 + x), which
    gives the factor 2 that is there.) With T0 above T, as at the paper's sizes, the bound is vacuous.

    Args:
        alpha: alpha_T, as ``radius`` gives it with scale 1.
        dim: d.
        capacity: K.
        horizon: T.
        shift: lambda.
        explored: T0.
    """
    lifted = positive("shift", shift) * integer("dim", dim)
    growth = math.log((lifted + horizon * integer("capacity", capacity)) / (lifted + dim * capacity))
    learning = 2 * positive("alpha", alpha) * math.sqrt(2 * dim * integer("horizon", horizon) * max(growth, 0.0))
    return integer("explored", explored, low=0) + learning


def refit_bound(*, dim: int, capacity: int, horizon: int, shift: float, information: float) -> float:
    """The most refits since the last update can trigger while |N_t| <= lambda: d log2 of a ratio (section 15).

    The paper compares consecutive rounds, for which its O(d log KT) does not hold.

    Args:
        dim: d.
        capacity: K.
        horizon: T.
        shift: lambda.
        information: The least eigenvalue of the exact Gram sum at T0; 0 gives a bound for any.
    """
    shown = integer("horizon", horizon) * integer("capacity", capacity)
    most = shown / integer("dim", dim) + 3 * positive("shift", shift)
    return dim * math.log2(most / (positive("information", information, zero=True) + shift))


def fits_allowed(*, dim: int, capacity: int, horizon: int) -> int:
    """D_MLE = ceil(d log2(K T)) where the paper says O(d log KT); at least 1.

    >>> fits_allowed(dim=5, capacity=10, horizon=10_000)
    84
    """
    shown = integer("capacity", capacity) * integer("horizon", horizon)
    return max(1, math.ceil(integer("dim", dim) * math.log2(shown)))


def rank(dim: int, capacity: int) -> int:
    """The paper's R = min(d, K - 1); at K = 1, where that is 0 and its Delta vanishes, the true rank 1."""
    return max(1, min(integer("dim", dim), integer("capacity", capacity) - 1))


def _fit_error(*, dim: int, capacity: int, horizon: int, rho: float, fits: int, split: float) -> float:
    """The terms in the bracket of alpha_t apart from the randomness of choices: ridge Delta, perturbation b."""
    each = positive("rho", rho) / integer("fits", fits)
    require(0 < positive("split", split) < 1, "split must be between 0 and 1", split=split)
    ridge = 4 / math.expm1(min((1 - split) * each / rank(dim, capacity), 700.0))  # beyond, it is zero anyway
    noise = 2 * (math.sqrt(dim + 2 * split * each) + math.sqrt(dim)) / (split * each)
    spread = 2 * noise * math.sqrt(dim * math.log(integer("horizon", horizon)) / capacity)
    return ridge + spread


def _choice_error(time: int, dim: int) -> float:
    return math.sqrt(dim / 2 * math.log1p(integer("time", time) / dim) + math.log(time))


def _shifted(shift: float) -> float:
    return math.sqrt(3 * positive("shift", shift))


def _probability(name: str, value: float) -> float:
    require(0 < positive(name, value) < 1, f"{name} must be in (0, 1)", **{name: value})
    return value
