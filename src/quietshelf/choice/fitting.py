"""Maximum likelihood: rounds -> theta with a certificate.

Minimises ``sum_n loss_n(theta) + (theta - centre)' ridge (theta - centre) / 2 + linear . theta`` by damped Newton, the
rounds read in chunks so that a million of them need little memory beyond their own. Leading batch axes are separate
problems, solved side by side. Failure to converge is a value, not an exception: separable data have no maximiser, and
``converged=False`` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.choice import likelihood
from quietshelf.types import BoolArray, FloatArray, IntArray, check_shape, finite, positive, require

CHUNK = 1 << 21
"""Numbers of one feature chunk: 16 MB, of which a pass holds a few copies."""
ITERATIONS = 200
"""Newton steps before giving up; a strictly convex problem takes about ten."""
SINGULAR = 1e-13
"""Relative size under which an eigenvalue of the information is taken for zero."""
SETTLED = 1e-7
"""A Newton step is settled below this share of 1 + |theta|: on separable data steps never shrink."""


@dataclass(frozen=True)
class Fit:
    """A fitted theta and its certificate; every field has the batch axes of the data.

    Attributes:
        theta: The minimiser found, (..., d).
        log_likelihood: Of the data at theta, without ridge and linear term, (...).
        gradient_norm: Euclidean norm of the whole objective's gradient, evaluated at ``theta``, (...).
        information: Fisher information of the data at theta, without ridge, (..., d, d).
        iterations: Newton steps taken.
        converged: Whether the gradient is below ``tol`` (or below what float64 can resolve in a sum over these data)
            and the Newton step had settled, (...).
    """

    theta: FloatArray
    log_likelihood: FloatArray
    gradient_norm: FloatArray
    information: FloatArray
    iterations: int
    converged: BoolArray

    @property
    def standard_errors(self) -> FloatArray:
        """Square roots of the diagonal of the inverse information; infinite where the data say nothing."""
        values, vectors = np.linalg.eigh(self.information)
        known = values > SINGULAR * values[..., -1:]
        variance = (vectors**2 @ np.where(known, 1.0 / np.where(known, values, 1.0), 0.0)[..., None])[..., 0]
        hidden = (vectors**2 @ np.where(known, 0.0, 1.0)[..., None])[..., 0]
        return np.sqrt(np.where(hidden > np.sqrt(SINGULAR), np.inf, variance))


class Data(NamedTuple):
    """Validated rounds: features (..., n, J, d), choice (..., n), available (..., n, J) or None."""

    features: FloatArray
    choice: IntArray
    available: BoolArray | None
    outside: bool


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
        features: (..., n, J, d), the offered items of each round.
        choice: (..., n) position chosen in 0..J-1; -1 for the outside option.
        available: (..., n, J), False for places that were not offered.
        outside: Whether choosing nothing is possible (utility zero).
        ridge: Number, or positive semidefinite matrix (..., d, d).
        centre: Where the ridge pulls to, (..., d); zero by default.
        linear: Added linear term, (..., d).
        tol: Bound on the gradient norm at the returned theta.
        start: First theta, (..., d); the centre by default.

    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(size=(20_000, 5, 2))
    >>> gumbel = rng.gumbel(size=(20_000, 6))
    >>> picked = np.argmax(np.append(x @ [1.0, -0.5], np.zeros((20_000, 1)), axis=1) + gumbel, axis=1)
    >>> result = fit(x, np.where(picked == 5, -1, picked))
    >>> result.theta.round(2), bool(result.converged)
    (array([ 1. , -0.5]), True)
    """
    data = _validated(features, choice, available, outside)
    penalty = _penalty(data, ridge, centre, linear)
    shape = penalty.centre.shape
    first = penalty.centre if start is None else np.broadcast_to(finite("start", start, shape=shape[-1:]), shape)
    return _newton(data, penalty, np.array(first), positive("tol", tol))


def _validated(features: ArrayLike, choice: ArrayLike, available: ArrayLike | None, outside: bool) -> Data:
    x = finite("features", features, shape=(None, None, None))
    lead, places = x.shape[:-2], x.shape[-2]
    raw = np.asarray(choice)
    require(raw.shape == lead, f"choice must have shape {lead}, one for each round", shape=raw.shape)
    whole_numbers = np.issubdtype(raw.dtype, np.integer) or bool(np.all(np.mod(raw, 1) == 0))
    require(whole_numbers, "choice must be whole numbers", choice=raw.dtype)
    picked = raw.astype(np.int64)
    low = -1 if outside else 0
    bad = (picked < low) | (picked >= places)
    rule = f"choice must be a position from {low} to {places - 1}" + (" (-1: none)" if outside else "")
    _refuse_first(bad, rule, picked)
    if available is None:
        return Data(x, picked, None, outside)
    offered = np.asarray(available)
    require(offered.dtype == np.bool_, "available must be boolean", dtype=offered.dtype)
    check_shape("available", offered, x.shape[:-1])
    chosen_offered = np.take_along_axis(offered, np.maximum(picked, 0)[..., None], axis=-1)[..., 0]
    _refuse_first((picked >= 0) & ~chosen_offered, "choice must be an available place", picked)
    return Data(x, picked, offered, outside)


def _refuse_first(bad: BoolArray, rule: str, values: IntArray) -> None:
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(f"{rule}, got choice[{', '.join(map(str, where))}]={values[where]}")


def _penalty(data: Data, ridge: ArrayLike, centre: ArrayLike | None, linear: ArrayLike | None) -> Penalty:
    *lead, _, _, dim = data.features.shape
    matrix = finite("ridge", ridge)
    if matrix.ndim == 0:
        positive("ridge", float(matrix), zero=True)
        matrix = matrix * np.eye(dim)
    check_shape("ridge", matrix, (dim, dim))
    require(bool(np.allclose(matrix, np.swapaxes(matrix, -1, -2))), "ridge must be symmetric")
    smallest = float(np.linalg.eigvalsh(matrix).min())
    require(
        smallest >= -1e-12 * float(np.abs(matrix).max()),
        "ridge must be positive semidefinite",
        smallest_eigenvalue=smallest,
    )
    terms = [
        np.broadcast_to(finite(name, 0.0 if v is None else v, shape=None if v is None else (dim,)), (*lead, dim))
        for name, v in (("centre", centre), ("linear", linear))
    ]
    return Penalty(np.broadcast_to(matrix, (*lead, dim, dim)), terms[0], terms[1])


def _newton(data: Data, penalty: Penalty, theta: FloatArray, tol: float) -> Fit:
    """Damped Newton on every problem at once; problems that are done stand still."""
    scale, visible = _geometry(data, penalty, theta)
    attainable = np.maximum(tol, _rounding(data))
    point = _evaluate(data, penalty, theta)
    done = np.zeros(theta.shape[:-1], dtype=bool)
    for iterations in range(ITERATIONS + 1):  # noqa: B007 - reported after the loop
        step, lost = _step(point.information + penalty.ridge, point.gradient, scale, visible)
        settled = np.linalg.norm(step, axis=-1) <= SETTLED * (1.0 + np.linalg.norm(theta, axis=-1))
        gradient_norm = np.linalg.norm(point.gradient, axis=-1)
        converged = ~lost & settled & (gradient_norm <= attainable)
        done |= converged | lost
        if done.all():
            break
        theta, point, stuck = _search(data, penalty, theta, point, step, active=~done)
        done |= stuck
    return Fit(theta, point.log_likelihood[()], gradient_norm, point.information, iterations, converged)


def _search(
    data: Data, penalty: Penalty, theta: FloatArray, point: Point, step: FloatArray, *, active: BoolArray
) -> tuple[FloatArray, Point, BoolArray]:
    """Halve the steps until the objective falls enough (Armijo); a step that shrinks to nothing is stuck."""
    slope = (point.gradient * step).sum(-1)
    room = 1e-14 * (1.0 + np.abs(point.value))  # a sum of this size is rounded by about so much
    size = np.where(active, 1.0, 0.0)
    while True:
        trial = theta + size[..., None] * step
        at_trial = _evaluate(data, penalty, trial)
        short = (size > 0) & ~(at_trial.value <= point.value + 1e-4 * size * slope + room)
        if not short.any():
            return trial, at_trial, active & (size == 0)
        size = np.where(short, np.where(size < 1e-12, 0.0, size / 2), size)


def _rounding(data: Data) -> float:
    """How far a gradient summed over these rounds may be from its true value in float64."""
    largest = max(abs(float(data.features.max(initial=0.0))), abs(float(data.features.min(initial=0.0))))
    return float(np.finfo(np.float64).eps * data.features.shape[-3] * largest)


def _geometry(data: Data, penalty: Penalty, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Units in which the curvature has a diagonal of ones, and the projector on directions in which there is any.

    At theta = 0 every offered item has a good probability, so what has no curvature there (collinear features) never
    has any, and Newton leaves it alone. What has curvature there and loses it on the way is separable.
    """
    curvature = _evaluate(data, penalty, np.zeros_like(theta)).information + penalty.ridge
    diagonal = np.diagonal(curvature, axis1=-2, axis2=-1)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(scale[..., None] * curvature * scale[..., None, :])
    seen = values > SINGULAR * np.maximum(values[..., -1:], np.finfo(float).tiny)
    visible: FloatArray = (vectors * seen[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return scale, visible


def _step(
    hessian: FloatArray, gradient: FloatArray, scale: FloatArray, visible: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Newton step in the visible directions, and whether curvature was lost there (no maximiser, or overflow)."""
    scaled = scale[..., None] * hessian * scale[..., None, :]
    top = np.maximum(np.trace(scaled, axis1=-2, axis2=-1), np.finfo(float).tiny)[..., None, None]
    inside = visible @ (scaled / top) @ visible + (np.eye(hessian.shape[-1]) - visible)
    values, vectors = np.linalg.eigh(inside)
    lost = values[..., 0] <= SINGULAR
    along = np.swapaxes(vectors, -1, -2) @ (visible @ (scale * gradient)[..., None])
    newton = vectors @ (along / np.where(values > SINGULAR, values, np.inf)[..., None])
    return -scale * (newton / top)[..., 0], lost


class Point(NamedTuple):
    """The objective at one theta: its value and gradient, and of the data alone log-likelihood and information."""

    value: FloatArray
    gradient: FloatArray
    log_likelihood: FloatArray
    information: FloatArray


def _evaluate(data: Data, penalty: Penalty, theta: FloatArray) -> Point:
    """Sums over chunks of rounds, so that a pass needs little memory beyond the data's own."""
    n, dim = data.features.shape[-3], theta.shape[-1]
    width = max(1, CHUNK // max(1, data.features.size // max(n, 1)))
    log_lik = np.zeros(theta.shape[:-1])
    slope = np.zeros(theta.shape)
    information = np.zeros((*theta.shape, dim))
    for begin in range(0, n, width):
        part = slice(begin, begin + width)
        x, choice = data.features[..., part, :, :], data.choice[..., part]
        offered = None if data.available is None else data.available[..., part, :]
        utility = (x @ theta[..., None, :, None])[..., 0]
        log_lik += likelihood.log_likelihood(utility, choice, offered, outside=data.outside).sum(-1)
        mean, spread = likelihood.moments(x, utility, offered, outside=data.outside)
        slope += (likelihood.chosen_features(x, choice) - mean).sum(-2)
        flat = spread.reshape(*spread.shape[:-3], -1, dim)
        information += np.swapaxes(flat, -1, -2) @ flat
    value, pull = penalty.at(theta)
    return Point(value - log_lik, pull - slope, log_lik, information)
