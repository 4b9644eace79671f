"""Maximum likelihood: rounds -> theta with a certificate.

Minimises ``sum_n loss_n(theta) + (theta - centre)' ridge (theta - centre) / 2 + linear . theta`` by damped Newton. The
rounds are read in chunks, so that a million of them need little extra memory. Leading batch axes are separate problems,
solved together. Failure to converge is a value, not an exception: separable data have no maximiser, and the fit says
``converged=False``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.model.choice.dense import checked
from quietshelf.model.choice.sums import Likelihood
from quietshelf.model.types import BoolArray, FloatArray, check_shape, finite, positive, require

ITERATIONS = 200
"""Newton steps before giving up; a strictly convex problem takes about ten."""
SINGULAR = 1e-13
"""Eigenvalues of the information below this share of the largest count as zero."""
SETTLED = 1e-7
"""A Newton step has settled below this share of 1 + |theta|; on separable data steps never shrink that far."""


@dataclass(frozen=True)
class Fit:
    """A fitted theta with its certificate; every field has the batch axes of the data.

    Attributes:
        theta: The minimiser found, (..., d).
        log_likelihood: Log-likelihood of the data at theta, without ridge and linear term, (...).
        gradient_norm: Euclidean norm of the whole objective's gradient, evaluated at ``theta``, (...).
        information: Fisher information of the data at theta, without ridge, (..., d, d).
        iterations: Newton steps taken.
        converged: Whether the Newton step has settled and the gradient is below ``tol``, or below what float64 can
            resolve in a sum over these data, (...).
    """

    theta: FloatArray
    log_likelihood: FloatArray
    gradient_norm: FloatArray
    information: FloatArray
    iterations: int
    converged: BoolArray

    @property
    def standard_errors(self) -> FloatArray:
        """Square roots of the diagonal of the inverse information; infinite where the data carry no information."""
        values, vectors = np.linalg.eigh(self.information)
        known = values > SINGULAR * values[..., -1:]
        variance = (vectors**2 @ np.where(known, 1.0 / np.where(known, values, 1.0), 0.0)[..., None])[..., 0]
        hidden = (vectors**2 @ np.where(known, 0.0, 1.0)[..., None])[..., 0]
        return np.sqrt(np.where(hidden > np.sqrt(SINGULAR), np.inf, variance))


class Penalty(NamedTuple):
    """The quadratic ``(theta - centre)' ridge (theta - centre) / 2 + linear . theta``."""

    ridge: FloatArray
    centre: FloatArray
    linear: FloatArray

    def at(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Value (...) and gradient (..., d)."""
        away = theta - self.centre
        pull = (self.ridge @ away[..., None])[..., 0]
        return 0.5 * (away * pull).sum(-1) + (self.linear * theta).sum(-1), pull + self.linear


def fit(
    features: ArrayLike,
    choice: ArrayLike,
    available: ArrayLike | None = None,
    outside: bool = True,
    ridge: ArrayLike = 0.0,
    centre: ArrayLike | None = None,
    linear: ArrayLike | None = None,
    tol: float = 1e-9,
    *,
    start: ArrayLike | None = None,
) -> Fit:
    """Fit a multinomial logit.

    Args:
        features: Features of the offered items of each round, (..., n, J, d).
        choice: Position chosen in each round, 0 to J - 1, or -1 for the outside option, (..., n).
        available: False for places that were not offered, (..., n, J).
        outside: Whether choosing nothing, at utility zero, is possible.
        ridge: A number, or a positive semidefinite matrix (..., d, d).
        centre: The point the ridge pulls towards, (..., d); zero by default.
        linear: An added linear term, (..., d).
        tol: Largest gradient norm that counts as converged.
        start: Initial theta, (..., d); the centre by default.

    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(size=(20_000, 5, 2))
    >>> gumbel = rng.gumbel(size=(20_000, 6))
    >>> picked = np.argmax(np.append(x @ [1.0, -0.5], np.zeros((20_000, 1)), axis=1) + gumbel, axis=1)
    >>> result = fit(x, np.where(picked == 5, -1, picked))
    >>> result.theta.round(2), bool(result.converged)
    (array([ 1. , -0.5]), True)
    """
    data = checked(features, choice, available, outside)
    shape = (*data.features.shape[:-3], data.features.shape[-1])
    return fit_sums(data, shape, ridge, centre, linear, tol, start=start)


def fit_sums(
    data: Likelihood,
    shape: tuple[int, ...],
    ridge: ArrayLike = 0.0,
    centre: ArrayLike | None = None,
    linear: ArrayLike | None = None,
    tol: float = 1e-9,
    *,
    start: ArrayLike | None = None,
) -> Fit:
    """`fit` for rounds stored in any form; ``shape`` (..., d) is that of theta."""
    penalty = _penalty(shape, ridge, centre, linear)
    first = penalty.centre if start is None else np.broadcast_to(finite("start", start, shape=shape[-1:]), shape)
    return _newton(data, penalty, np.array(first), positive("tol", tol))


def _penalty(shape: tuple[int, ...], ridge: ArrayLike, centre: ArrayLike | None, linear: ArrayLike | None) -> Penalty:
    *lead, dim = shape
    matrix = _checked_ridge(finite("ridge", ridge), dim)
    terms = [
        np.broadcast_to(finite(name, 0.0 if v is None else v, shape=None if v is None else (dim,)), (*lead, dim))
        for name, v in (("centre", centre), ("linear", linear))
    ]
    return Penalty(np.broadcast_to(matrix, (*lead, dim, dim)), terms[0], terms[1])


def _checked_ridge(ridge: FloatArray, dim: int) -> FloatArray:
    """The ridge as a positive semidefinite matrix, from such a matrix or a number."""
    if ridge.ndim == 0:
        return positive("ridge", float(ridge), zero=True) * np.eye(dim)
    check_shape("ridge", ridge, (dim, dim))
    require(bool(np.allclose(ridge, ridge.mT)), "ridge must be symmetric")
    smallest, largest = float(np.linalg.eigvalsh(ridge).min()), float(np.abs(ridge).max())
    rule = "ridge must be positive semidefinite"
    require(smallest >= -1e-12 * largest, rule, smallest_eigenvalue=smallest)
    return ridge


def _newton(data: Likelihood, penalty: Penalty, theta: FloatArray, tol: float) -> Fit:
    """Run damped Newton on all problems at once; finished problems stay where they are."""
    point = _evaluate(data, penalty, theta)
    shape = _shape(data, penalty, theta, point)
    theta, point = _away_from_cliffs(data, penalty, theta, point, shape)
    done, last = np.zeros(theta.shape[:-1], dtype=bool), np.full(theta.shape[:-1], np.inf)
    for iterations in range(ITERATIONS + 1):  # noqa: B007 - reported after the loop
        step, lost = _step(point.information + penalty.ridge, point.gradient, shape)
        settled = _norm(step) <= SETTLED * (1.0 + _norm(theta))
        gradient_norm = _norm(point.gradient)
        small = np.maximum(tol, _rounding(data, penalty, theta)) if settled.any() else tol
        converged = ~lost & settled & (gradient_norm <= small)
        done |= converged | lost | (settled & (gradient_norm > 0.5 * last))  # rounding hides any further fall
        if done.all():
            break
        last = gradient_norm
        theta, point, stuck = _search(data, penalty, theta, point, step, active=~done)
        done |= stuck
    return Fit(theta, point.log_likelihood[()], gradient_norm, point.information, iterations, converged)


def _search(
    data: Likelihood, penalty: Penalty, theta: FloatArray, point: Point, step: FloatArray, *, active: BoolArray
) -> tuple[FloatArray, Point, BoolArray]:
    """Halve the steps until the objective falls enough (Armijo); a problem whose step shrinks to nothing is stuck."""
    slope, steep = (point.gradient * step).sum(-1), _norm(point.gradient)
    # where rounding hides the fall, a gradient that has at least halved shows that the step is good
    unseen = -slope <= 1e-10 * (1.0 + np.abs(point.value))
    room = 1e-14 * (1.0 + np.abs(point.value))  # the rounding error of a sum of this size
    size = np.where(active, 1.0, 0.0)
    while True:
        trial = theta + size[..., None] * step
        at_trial = _evaluate(data, penalty, trial)
        falls = at_trial.value <= point.value + 1e-4 * size * slope + room
        calmer = unseen & (_norm(at_trial.gradient) <= 0.5 * steep)
        short = (size > 0) & ~(falls | calmer)
        if not short.any():
            return trial, at_trial, active & (size == 0)
        size = np.where(short, np.where(size < 1e-12, 0.0, size / 2), size)


def _norm(vector: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt((vector * vector).sum(-1)))


def _rounding(data: Likelihood, penalty: Penalty, theta: FloatArray) -> FloatArray:
    """A bound on the rounding error of the gradient at theta, summed in float64, (...)."""
    largest = data.largest
    reach = largest * np.abs(theta).sum(-1)
    rounds = data.rounds * largest * (1.0 + reach)
    pull = np.abs(penalty.ridge).max((-2, -1)) * np.abs(theta - penalty.centre).sum(-1) + np.abs(penalty.linear).sum(-1)
    return np.asarray(np.finfo(np.float64).eps * (rounds + pull))


class Shape(NamedTuple):
    """Which directions have curvature, in suitable units.

    Attributes:
        scale: Units (..., d) in which the diagonal of the curvature is one.
        visible: Projector (..., d, d) onto the directions with curvature, in these units.
        bends: Whether a ridge bends the objective everywhere, so that curvature cannot vanish, (...).
    """

    scale: FloatArray
    visible: FloatArray
    bends: BoolArray


def _shape(data: Likelihood, penalty: Penalty, theta: FloatArray, start: Point) -> Shape:
    """Find the directions with curvature by looking at theta = 0.

    At 0 no offered item is improbable, so a direction without curvature there has none anywhere (collinear features):
    Newton leaves it alone. Data that lose curvature elsewhere are separable. With a ridge that bends the objective
    everywhere the look at 0 is not needed.
    """
    bends = np.linalg.eigvalsh(penalty.ridge)[..., 0] > 0
    if bends.all():
        return Shape(np.ones_like(theta), np.broadcast_to(np.eye(theta.shape[-1]), start.information.shape), bends)
    seen_from = _evaluate(data, penalty, np.zeros_like(theta)) if theta.any() else start
    curvature = seen_from.information + penalty.ridge
    diagonal = np.diagonal(curvature, axis1=-2, axis2=-1)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(scale[..., None] * curvature * scale[..., None, :])
    seen = (values > SINGULAR * np.maximum(values[..., -1:], np.finfo(float).tiny)) | bends[..., None]
    visible = (vectors * seen[..., None, :]) @ vectors.mT
    return Shape(scale, visible, bends)


def _away_from_cliffs(
    data: Likelihood, penalty: Penalty, theta: FloatArray, point: Point, shape: Shape
) -> tuple[FloatArray, Point]:
    """Restart at zero where the first theta is so far out that no curvature is left for a step."""
    _, lost = _step(point.information + penalty.ridge, point.gradient, shape)
    if not lost.any():
        return theta, point
    theta = np.where(lost[..., None], 0.0, theta)
    return theta, _evaluate(data, penalty, theta)


def _step(hessian: FloatArray, gradient: FloatArray, shape: Shape) -> tuple[FloatArray, BoolArray]:
    """The Newton step in the visible directions, and whether curvature vanished there (no maximiser, or overflow)."""
    if shape.bends.all():
        step, lost = _bent_step(hessian, gradient)
    else:
        step, values = _visible_step(hessian, gradient, shape)
        lost = np.asarray((values[..., 0] <= SINGULAR) & ~shape.bends)
    finite_step = np.asarray(np.isfinite(step).all(-1))
    return np.where(finite_step[..., None], step, 0.0), lost | ~finite_step


def _bent_step(hessian: FloatArray, gradient: FloatArray) -> tuple[FloatArray, BoolArray]:
    """The same where a ridge bends everything: only overflow can go wrong."""
    fine: BoolArray = np.asarray(np.isfinite(hessian).all((-2, -1)) & np.isfinite(gradient).all(-1))
    if not fine.all():
        hessian = np.where(fine[..., None, None], hessian, np.eye(hessian.shape[-1]))
        gradient = np.where(fine[..., None], gradient, 0.0)
    step: FloatArray = -np.linalg.solve(hessian, gradient[..., None])[..., 0]
    return step, ~fine


def _visible_step(hessian: FloatArray, gradient: FloatArray, shape: Shape) -> tuple[FloatArray, FloatArray]:
    """The step, and the eigenvalues of the curvature in the units and directions of the shape."""
    scale, visible, _ = shape
    with np.errstate(over="ignore", invalid="ignore"):
        inside = visible @ (scale[..., None] * hessian * scale[..., None, :]) @ visible
        inside = np.where(np.isfinite(inside), inside, 0.0) + (np.eye(hessian.shape[-1]) - visible)
        values, vectors = np.linalg.eigh(inside)
        floor = SINGULAR * np.maximum(values[..., -1:], 1.0)
        along = vectors.mT @ (visible @ (scale * gradient)[..., None])
        newton = vectors @ (along / np.maximum(values, floor)[..., None])
        return -scale * newton[..., 0], values


class Point(NamedTuple):
    """The objective at one theta: value and gradient, and the log-likelihood and information of the data alone."""

    value: FloatArray
    gradient: FloatArray
    log_likelihood: FloatArray
    information: FloatArray


def _evaluate(data: Likelihood, penalty: Penalty, theta: FloatArray) -> Point:
    log_likelihood, slope, information = data.sums(theta)
    value, pull = penalty.at(theta)
    return Point(value - log_likelihood, pull - slope, log_likelihood, information)
