"""The paper's PrivateMLE: the choice model fitted once, privately, by objective perturbation.

Releases: ``theta~ + N(0, output_noise² I)``, theta~ being the minimiser, up to a certified gradient of ``tol``, of
    ``sum of losses + ridge/2 |theta - centre|² + b . theta`` over R^d. Projecting it afterwards is post-processing.
Neighbours: one visitor of those fitted replaced.
Sensitivity: two visitors' gradients differ by at most G = 4 (2 for K = 1), their Hessians have trace at most h = 1
    (1/4), for features in the unit ball. Without that nothing is bounded.
Noise: b ~ N(0, sigma² I), drawn once; then the output noise.
Privacy: rho = ``perturbation_cost.cost(sigma, ridge, d, K)`` for the exact minimiser, and on top
    ``solver_cost`` = 2 tol² / (ridge² output_noise²) for the inexact one; every further fit of the same visitors costs
    the same again.
Assumes: centre, ridge, sigma, tol and output noise are public or released before; continuous noise and real arithmetic
    (the proof needs a density, so a discrete source is refused). Certificate and iterations are not released.
Reference: docs/proofs.md, sections 9 to 12.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.model.types import FloatArray, finite, positive, require
from quietshelf.privacy.accounting import BatchOrHistory, Event
from quietshelf.privacy.release.certificate import Certificate, Objective, Visits, certify
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.perturbation_cost import Calibration, calibrate, choice_loss, cost
from quietshelf.privacy.release.perturbation_curves import Perturbation

TOL = 1e-6
"""Certified gradient norm: far above what Newton reaches, so that it covers rounding over millions of visitors."""
OUTPUT_NOISE = 1e-4
"""Far below any standard error of theta; with ``TOL`` the solver then costs about 2e-5 of a calibrated rho."""
UNIT_BALL = 1 + 1e-12
ATTEMPTS = 20


class NotCertified(ArithmeticError):  # noqa: N818 - the name says what happened
    """The minimiser could not be certified to ``tol``. No theta was released; the proof does not cover this outcome."""


class PrivateFit(NamedTuple):
    """The result of a private fit: theta (..., d) to release, its price, and the certificate, which is not released."""

    theta: FloatArray
    event: Event
    certificate: Certificate


def private_fit(
    visits: Visits,
    *,
    perturbation: Perturbation,
    source: NoiseSource,
    batch: BatchOrHistory,
    centre: ArrayLike | None = None,
    bounded: bool = True,
    nominal_rho: float | None = None,
    tol: float = TOL,
    output_noise: float = OUTPUT_NOISE,
    start: ArrayLike | None = None,
) -> PrivateFit:
    """Fit the choice model to visitors, privately, in any number of parallel worlds.

    Args:
        visits: Who came, what they were shown and chose, such as `DenseVisits`; the shape (..., n, K, d) gives K.
        perturbation: Noise and ridge, from ``calibrate``, ``within`` or elsewhere.
        source: The source of the noise.
        batch: The batch fitted, or ``HISTORY``.
        centre: The point the ridge pulls towards, (..., d); public, zero by default.
        bounded: True: features must lie in the unit ball (clip them first; others are refused). False: features are
            used unclipped, as in the paper, and nothing is proven: rho is infinite.
        nominal_rho: The cost that the authors of the calibration claim, if it differs.
        tol: Bound on the gradient at theta~, public.
        output_noise: Standard deviation of the noise added to theta~.
        start: Initial theta of the solver, (..., d).

    Raises:
        NotCertified: No theta with a gradient certified below ``tol`` was found.
    """
    lead, (places, dim) = visits.shape[:-3], visits.shape[-2:]
    price = event(
        perturbation,
        dim=dim,
        capacity=places,
        source=source,
        batch=batch,
        bounded=bounded,
        nominal_rho=nominal_rho,
        tol=tol,
        output_noise=output_noise,
    )
    rule = "features must lie in the unit ball: clip them first" if bounded else "features must be finite when squared"
    fits = visits.longest <= UNIT_BALL if bounded else math.isfinite(visits.longest)
    require(fits, rule, longest=visits.longest)  # before anything is drawn
    middle = np.broadcast_to(finite("centre", np.zeros(dim) if centre is None else centre, shape=(dim,)), (*lead, dim))
    b = source.draw(perturbation.sigma, (*lead, dim))
    objective = Objective(visits, perturbation.ridge, middle, b)
    theta, certificate = _minimiser(objective, middle if start is None else start, tol)
    return PrivateFit(theta + source.draw(output_noise, theta.shape), price, certificate)


def event(
    perturbation: Perturbation,
    *,
    dim: int,
    capacity: int,
    source: NoiseSource,
    batch: BatchOrHistory,
    bounded: bool = True,
    nominal_rho: float | None = None,
    tol: float = TOL,
    output_noise: float = OUTPUT_NOISE,
) -> Event:
    """The cost of a private fit, known before the noise is drawn, so that a ledger can refuse in time."""
    sigma, ridge = positive("sigma", perturbation.sigma), positive("ridge", perturbation.ridge)
    rule = "a private fit needs continuous noise: its proof needs a density"
    require(source.grid == 0, rule, grid=source.grid)
    solver = solver_cost(ridge, tol=tol, output_noise=output_noise)
    proven = bounded and not source.noiseless
    return Event(
        name="private fit",
        batch=batch,
        sensitivity=choice_loss(dim, capacity).difference if bounded else math.inf,
        noise=0.0 if source.noiseless else sigma,
        rho=math.nextafter(cost(sigma, ridge, dim, capacity) + solver, math.inf) if proven else math.inf,
        assumption=source.assumption,
        nominal_rho=nominal_rho,
        detail=f"objective perturbation: ridge {ridge:.6g}, gradient certified to {tol:.3g}, "
        f"output noise {output_noise:.3g}, of rho {solver:.3g} for the solver",
    )


def solver_cost(ridge: float, *, tol: float = TOL, output_noise: float = OUTPUT_NOISE) -> float:
    """The cost of the minimiser not being exact, ``2 tol² / (ridge² output_noise²)``.

    >>> f"{solver_cost(4.0, tol=1e-9, output_noise=1e-7):.3g}"
    '1.25e-05'
    """
    error = positive("tol", tol) / (positive("ridge", ridge) * positive("output_noise", output_noise))
    return 2 * error * error * (1 + 1e-15)


def within(
    rho: float, dim: int, capacity: int, calibration: Calibration = "sound", *, output_noise: float = OUTPUT_NOISE
) -> Perturbation:
    """``calibrate`` with the solver's cost subtracted, so that the whole event stays within rho. No change for "paper".

    >>> sigma, ridge = within(1.0, 5, 10)
    >>> 0.9999 < cost(sigma, ridge, 5, 10) + solver_cost(ridge) < 1
    True
    """
    found = calibrate(rho, dim, capacity, calibration)
    if calibration == "paper":
        return found
    # with less budget the ridge is no smaller, up to the search's tolerance: one percent covers that
    solver = 1.01 * solver_cost(found.ridge, output_noise=output_noise)
    require(solver < rho, "the solver alone must cost less than rho: more output_noise", solver=solver)
    return calibrate(rho - solver, dim, capacity, calibration)


def _minimiser(objective: Objective, start: ArrayLike, tol: float) -> tuple[FloatArray, Certificate]:
    """Run Newton, and restart it from where it stopped, until the certificate holds in every world."""
    theta = start
    for _ in range(ATTEMPTS):
        found = objective.visits.fit(
            ridge=objective.ridge,
            centre=objective.centre,
            linear=objective.linear,
            tol=tol / 4,
            start=theta,
        )
        theta, certificate = found.theta, certify(objective, found.theta)
        if (certificate.bound <= tol).all():
            return theta, certificate
    rule = f"the gradient must be certified to tol={tol!r}, got a larger bound; nothing was released"
    raise NotCertified(f"{rule}, but a failure that others can see depends on the data: count it as infinite")
