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
    number = np.issubdtype(raw.dtype, np.number)
    whole_numbers = np.issubdtype(raw.dtype, np.integer) or (number and bool(np.all(np.mod(raw, 1) == 0)))
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
    point = _evaluate(data, penalty, theta)
    shape = _shape(data, penalty, theta, point)
    theta, point = _away_from_cliffs(data, penalty, theta, point, shape)
    done, last = np.zeros(theta.shape[:-1], dtype=bool), np.full(theta.shape[:-1], np.inf)
    for iterations in range(ITERATIONS + 1):  # noqa: B007 - reported after the loop
        step, lost = _step(point.information + penalty.ridge, point.gradient, shape)
        settled = np.linalg.norm(step, axis=-1) <= SETTLED * (1.0 + np.linalg.norm(theta, axis=-1))
        gradient_norm = np.linalg.norm(point.gradient, axis=-1)
        converged = ~lost & settled & (gradient_norm <= np.maximum(tol, _rounding(data, penalty, theta)))
        done |= converged | lost | (settled & (gradient_norm > 0.5 * last))  # no further fall can be resolved
        if done.all():
            break
        last = gradient_norm
        theta, point, stuck = _search(data, penalty, theta, point, step, active=~done)
        done |= stuck
    return Fit(theta, point.log_likelihood[()], gradient_norm, point.information, iterations, converged)


def _search(
    data: Data, penalty: Penalty, theta: FloatArray, point: Point, step: FloatArray, *, active: BoolArray
) -> tuple[FloatArray, Point, BoolArray]:
    """Halve the steps until the objective falls enough (Armijo); a step that shrinks to nothing is stuck."""
    slope, steep = (point.gradient * step).sum(-1), np.linalg.norm(point.gradient, axis=-1)
    # a fall that the sums hardly resolve: there a gradient that has at least halved says that the step is good
    unseen = -slope <= 1e-10 * (1.0 + np.abs(point.value))
    room = 1e-14 * (1.0 + np.abs(point.value))  # a sum of this size is rounded by about so much
    size = np.where(active, 1.0, 0.0)
    while True:
        trial = theta + size[..., None] * step
        at_trial = _evaluate(data, penalty, trial)
        falls = at_trial.value <= point.value + 1e-4 * size * slope + room
        calmer = unseen & (np.linalg.norm(at_trial.gradient, axis=-1) <= 0.5 * steep)
        short = (size > 0) & ~(falls | calmer)
        if not short.any():
            return trial, at_trial, active & (size == 0)
        size = np.where(short, np.where(size < 1e-12, 0.0, size / 2), size)


def _rounding(data: Data, penalty: Penalty, theta: FloatArray) -> FloatArray:
    """How far the gradient at theta, as it is summed in float64, may be from the true one, (...)."""
    largest = max(abs(float(data.features.max(initial=0.0))), abs(float(data.features.min(initial=0.0))))
    reach = largest * np.abs(theta).sum(-1)
    rounds = data.features.shape[-3] * largest * (1.0 + reach)
    pull = np.abs(penalty.ridge).max((-2, -1)) * np.abs(theta - penalty.centre).sum(-1) + np.abs(penalty.linear).sum(-1)
    return np.asarray(np.finfo(np.float64).eps * (rounds + pull))


class Shape(NamedTuple):
    """The curvature where it is easiest to see.

    Attributes:
        scale: Units (..., d) in which its diagonal is one.
        visible: Projector (..., d, d) on the directions in which there is any, in these units.
        bends: Whether a ridge bends the objective everywhere, so that no curvature can get lost, (...).
    """

    scale: FloatArray
    visible: FloatArray
    bends: BoolArray


def _shape(data: Data, penalty: Penalty, theta: FloatArray, start: Point) -> Shape:
    """At theta = 0 every offered item has a good probability, so what has no curvature there never has any.

    Newton leaves such directions alone (collinear features). What has curvature there and loses it is separable. A
    ridge bends everything everywhere, and spares the look at zero.
    """
    bends = np.linalg.eigvalsh(penalty.ridge)[..., 0] > 0
    seen_from = start if bends.all() else _evaluate(data, penalty, np.zeros_like(theta))
    curvature = seen_from.information + penalty.ridge
    diagonal = np.diagonal(curvature, axis1=-2, axis2=-1)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(scale[..., None] * curvature * scale[..., None, :])
    seen = (values > SINGULAR * np.maximum(values[..., -1:], np.finfo(float).tiny)) | bends[..., None]
    visible = (vectors * seen[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return Shape(scale, visible, bends)


def _away_from_cliffs(
    data: Data, penalty: Penalty, theta: FloatArray, point: Point, shape: Shape
) -> tuple[FloatArray, Point]:
    """Start again at zero where the first theta is so far out that no curvature is left to step by."""
    _, lost = _step(point.information + penalty.ridge, point.gradient, shape)
    if not lost.any():
        return theta, point
    theta = np.where(lost[..., None], 0.0, theta)
    return theta, _evaluate(data, penalty, theta)


def _step(hessian: FloatArray, gradient: FloatArray, shape: Shape) -> tuple[FloatArray, BoolArray]:
    """Newton step in the visible directions, and whether curvature was lost there (no maximiser, or overflow)."""
    scale, visible, bends = shape
    with np.errstate(over="ignore", invalid="ignore"):
        inside = visible @ (scale[..., None] * hessian * scale[..., None, :]) @ visible
        inside = np.where(np.isfinite(inside), inside, 0.0) + (np.eye(hessian.shape[-1]) - visible)
        values, vectors = np.linalg.eigh(inside)
        floor = SINGULAR * np.maximum(values[..., -1:], 1.0)
        along = np.swapaxes(vectors, -1, -2) @ (visible @ (scale * gradient)[..., None])
        newton = vectors @ (along / np.maximum(values, floor)[..., None])
        step = -scale * newton[..., 0]
    finite_step = np.isfinite(step).all(-1)
    lost = ((values[..., 0] <= SINGULAR) & ~bends) | ~finite_step
    return np.where(finite_step[..., None], step, 0.0), lost


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
        share = likelihood.shares(utility, offered, outside=data.outside)
        log_lik += (likelihood.chosen_utility(utility, choice) - share.log_partition).sum(-1)
        mean, spread = likelihood.moments_of(x, share)
        slope += (likelihood.chosen_features(x, choice) - mean).sum(-2)
        flat = spread.reshape(*spread.shape[:-3], -1, dim)
        information += np.swapaxes(flat, -1, -2) @ flat
    value, pull = penalty.at(theta)
    return Point(value - log_lik, pull - slope, log_lik, information)
