"""The paper's PrivateMLE: the choice model fitted once, privately, by objective perturbation.

Releases: ``theta~ + N(0, output_noise² I)``, theta~ being the minimiser, up to a certified gradient of ``tol``, of
    ``sum of losses + ridge/2 |theta - centre|² + b . theta`` over R^d. Projecting it afterwards is post-processing.
Neighbours: one visitor of those fitted replaced.
Sensitivity: two visitors' gradients differ by at most G = 4 (2 for K = 1), their Hessians have trace at most h = 1
    (1/4), for features in the unit ball. Nothing is bounded without that.
Noise: b ~ N(0, sigma² I), drawn once; then the output noise.
Privacy: rho = ``perturbation_cost.cost(sigma, ridge, d, K)`` for the exact minimiser, and on top
    ``solver_cost`` = 2 tol² / (ridge² output_noise²) for the inexact one; every fit of the same visitors anew.
Assumes: centre, ridge, sigma, tol and output noise are public or released before; continuous noise and real arithmetic
    (the proof needs a density, so a discrete source is refused). Certificate and iterations stay inside.
Reference: docs/proofs.md, sections 9 to 12.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Required, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.model.types import BoolArray, FloatArray, IntArray, finite, positive, require
from quietshelf.privacy.accounting import BatchOrHistory, Event
from quietshelf.privacy.release.certificate import Certificate, DenseVisits, Objective, Visits, certify
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.perturbation_cost import Calibration, calibrate, choice_loss, cost
from quietshelf.privacy.release.perturbation_curves import Perturbation

TOL = 1e-6
"""Certified gradient: far above what Newton reaches, so that rounding over millions of visitors is within it too."""
OUTPUT_NOISE = 1e-4
"""Far below any standard error of theta; with ``TOL`` the solver then costs about 2e-5 of a calibrated rho."""
UNIT_BALL = 1 + 1e-12
ATTEMPTS = 20


class NotCertified(ArithmeticError):  # noqa: N818 - says what happened
    """The minimiser could not be certified to ``tol``. No theta was released; that it happened is outside the proof."""


class Options(TypedDict, total=False):
    """The keywords of `private_fit_of`."""

    perturbation: Required[Perturbation]
    source: Required[NoiseSource]
    batch: Required[BatchOrHistory]
    centre: ArrayLike | None
    bounded: bool
    nominal_rho: float | None
    tol: float
    output_noise: float
    start: ArrayLike | None


class PrivateFit(NamedTuple):
    """What a private fit gives: theta (..., d) to release, its price, and the certificate, which stays inside."""

    theta: FloatArray
    event: Event
    certificate: Certificate


def private_fit(
    rows: ArrayLike, position: IntArray, offered: BoolArray | None = None, **options: Unpack[Options]
) -> PrivateFit:
    """`private_fit_of` rounds that are kept as features.

    Args:
        rows: Features shown, (..., n, K, d); K is the capacity.
        position: Place chosen, (..., n), -1 for none.
        offered: Places that hold an item, (..., n, K); None for all.
        **options: As there.
    """
    return private_fit_of(DenseVisits(finite("rows", rows, shape=(None, None, None)), position, offered), **options)


def private_fit_of(
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
        visits: Who came, what they were shown and chose; its shape (..., n, K, d) has the capacity K.
        perturbation: Noise and ridge, from ``calibrate``, ``within`` or elsewhere.
        source: Where the noise comes from.
        batch: The batch fitted, or ``HISTORY``.
        centre: Where the ridge pulls to, (..., d); public. Zero by default.
        bounded: True: features must lie in the unit ball (clip them first; others are refused). False: they are taken
            as they come, as the paper does, and nothing is proven: rho is infinite.
        nominal_rho: What the authors of the calibration claim, where that is another figure.
        tol: Bound on the gradient at theta~, public.
        output_noise: Standard deviation of the noise added to theta~.
        start: First theta of the solver, (..., d).

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
    rule = "features must lie in the unit ball: clip them first"
    require(not bounded or visits.longest <= UNIT_BALL, rule, longest=visits.longest)
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
    """What a private fit costs: known before the noise is drawn, so that a ledger can refuse in time."""
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
    """What it costs that the minimiser is not exact, ``2 tol² / (ridge² output_noise²)``.

    >>> f"{solver_cost(4.0, tol=1e-9, output_noise=1e-7):.3g}"
    '1.25e-05'
    """
    error = positive("tol", tol) / (positive("ridge", ridge) * positive("output_noise", output_noise))
    return 2 * error * error * (1 + 1e-15)


def within(
    rho: float, dim: int, capacity: int, calibration: Calibration = "sound", *, output_noise: float = OUTPUT_NOISE
) -> Perturbation:
    """``calibrate``, less what the solver costs: the whole event then stays within rho. Unchanged for "paper".

    >>> sigma, ridge = within(1.0, 5, 10)
    >>> 0.9999 < cost(sigma, ridge, 5, 10) + solver_cost(ridge) < 1
    True
    """
    found = calibrate(rho, dim, capacity, calibration)
    if calibration == "paper":
        return found
    # with less to spend the ridge is larger, or as large up to the search's tolerance: a hundredth covers that
    solver = 1.01 * solver_cost(found.ridge, output_noise=output_noise)
    require(solver < rho, "the solver alone must cost less than rho: more output_noise", solver=solver)
    return calibrate(rho - solver, dim, capacity, calibration)


def _minimiser(objective: Objective, start: ArrayLike, tol: float) -> tuple[FloatArray, Certificate]:
    """Newton, and again from where it stopped, until the certificate holds in every world."""
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
