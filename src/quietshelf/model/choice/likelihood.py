"""The multinomial logit: utilities -> probabilities, and the likelihood of a choice with its derivatives.

A visitor offered items with features x_1..x_J picks j with probability exp(x_j . theta) / (1 + sum_k exp(x_k . theta)),
and nothing with probability 1 / (1 + sum_k exp(x_k . theta)): the outside option, x_0 = 0. Without an outside option
the 1 is dropped. Everything is computed relative to the largest utility, so utilities of ±1e4 neither overflow nor give
NaN. Arrays carry leading batch axes ``...``; places that are not ``available`` have probability zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from quietshelf.model.types import BoolArray, FloatArray, IntArray


def utilities(features: FloatArray, theta: FloatArray) -> FloatArray:
    """``x . theta``: features (..., J, d), theta (..., d) -> (..., J)."""
    return (features @ theta[..., None])[..., 0]


class Shares(NamedTuple):
    """Choice probabilities of one visitor.

    Attributes:
        items: Probability of each item, (..., J); zero where it is not available.
        none: Probability of choosing nothing, (...); zero without an outside option.
        log_partition: ``log(1 + sum_j exp(u_j))`` over available items, (...); without the 1 if there is no outside
            option.
    """

    items: FloatArray
    none: FloatArray
    log_partition: FloatArray


def shares(utility: FloatArray, available: BoolArray | None = None, *, outside: bool = True, axis: int = -1) -> Shares:
    """Probabilities of items with utilities (..., J), computing each exponential once; ``axis`` is that of J.

    >>> shares(np.array([0.0, 0.0, 1e4]), np.array([True, True, False])).items.round(3)
    array([0.333, 0.333, 0.   ])
    """
    masked = utility if available is None else np.where(available, utility, -np.inf)
    top = masked.max(axis=axis, initial=0.0 if outside else -np.inf, keepdims=True)
    if not outside:
        top = np.where(np.isfinite(top), top, 0.0)  # nothing to choose from: log 0 below, not NaN
    items = masked - top
    np.exp(items, out=items)
    none = np.exp(-top) if outside else np.zeros(top.shape)
    total = items.sum(axis=axis, keepdims=True) + none
    if outside:
        log_partition = np.log(total) + top
    else:
        with np.errstate(divide="ignore"):
            log_partition = np.log(total) + top
        total = np.where(total == 0, 1.0, total)
    items /= total
    return Shares(items, (none / total).squeeze(axis), log_partition.squeeze(axis))


def log_partition(utility: FloatArray, available: BoolArray | None = None, *, outside: bool = True) -> FloatArray:
    """``log(1 + sum_j exp(u_j))`` over available items, (..., J) -> (...); without the 1 if not ``outside``."""
    return shares(utility, available, outside=outside).log_partition


def probabilities(utility: FloatArray, available: BoolArray | None = None, *, outside: bool = True) -> FloatArray:
    """Probability of each item, (..., J); the rest up to one is the outside option's."""
    return shares(utility, available, outside=outside).items


def log_likelihood(
    utility: FloatArray, choice: IntArray, available: BoolArray | None = None, *, outside: bool = True
) -> FloatArray:
    """Log probability of each choice (...): a position in 0..J-1, or -1 for the outside option.

    Minus infinity for impossible choices: an unavailable place, or -1 without an outside option.
    """
    possible = choice >= (-1 if outside else 0)
    if available is not None:
        offered = np.take_along_axis(available, np.maximum(choice, 0)[..., None], axis=-1)[..., 0]
        possible = possible & ((choice < 0) | offered)
    picked = np.take_along_axis(utility, np.maximum(choice, 0)[..., None], axis=-1)[..., 0]
    value = np.where(choice >= 0, picked, 0.0) - log_partition(utility, available, outside=outside)
    return np.where(possible, value, -np.inf)


class Moments(NamedTuple):
    """Mean and spread of the features over one visitor's choice.

    Attributes:
        mean: ``xbar = sum_j p_j x_j``, (..., d).
        spread: (..., J + 1, d), the rows ``sqrt(p_j) (x_j - xbar)``, the outside option last.
    """

    mean: FloatArray
    spread: FloatArray


def moments(
    features: FloatArray, utility: FloatArray, available: BoolArray | None = None, *, outside: bool = True
) -> Moments:
    """Mean and spread of x over the choice of a visitor with these utilities (..., J).

    The spread is centred before it is squared, so that ``spread' spread`` is positive semidefinite in floating point
    too, and nothing cancels when features share a large offset.
    """
    share = shares(utility, available, outside=outside)
    mean = np.einsum("...j,...jd->...d", share.items, features)
    spread = np.empty((*features.shape[:-2], features.shape[-2] + 1, features.shape[-1]))
    np.subtract(features, mean[..., None, :], out=spread[..., :-1, :])
    spread[..., :-1, :] *= np.sqrt(share.items)[..., None]
    np.multiply(np.sqrt(share.none)[..., None], -mean, out=spread[..., -1, :])
    return Moments(mean, spread)


def chosen_features(features: FloatArray, choice: IntArray) -> FloatArray:
    """The features of the chosen place, (..., d); zero for the outside option."""
    *_, places, dim = features.shape
    first = np.arange(0, choice.size * places, places).reshape(choice.shape)
    picked = features.reshape(-1, dim).take(first + np.maximum(choice, 0), axis=0)
    return np.where((choice >= 0)[..., None], picked, 0.0)


def gradient(
    features: FloatArray,
    choice: IntArray,
    theta: FloatArray,
    available: BoolArray | None = None,
    *,
    outside: bool = True,
) -> FloatArray:
    """Gradient of each log-likelihood in theta, ``x_chosen - xbar``, (..., d)."""
    probability = probabilities(utilities(features, theta), available, outside=outside)
    mean = (probability[..., None, :] @ features)[..., 0, :]
    return chosen_features(features, choice) - mean


def information(
    features: FloatArray, theta: FloatArray, available: BoolArray | None = None, *, outside: bool = True
) -> FloatArray:
    """Fisher information of each choice, ``sum p_j (x_j - xbar)(x_j - xbar)'`` with the outside option, (..., d, d)."""
    spread = moments(features, utilities(features, theta), available, outside=outside).spread
    return spread.mT @ spread
