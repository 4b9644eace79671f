"""The multinomial logit: utilities -> probabilities, and the likelihood of a choice with its derivatives.

A visitor offered items with features x_1..x_J picks j with probability exp(x_j . theta) / (1 + sum_k exp(x_k . theta)),
and nothing with probability 1 / (1 + sum_k exp(x_k . theta)): the outside option, x_0 = 0. Without an outside option
the 1 is dropped. Everything is computed from differences to the largest utility, so ±1e4 never overflow or give NaN.
Arrays carry leading batch axes ``...``; places that are not ``available`` have probability zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from quietshelf.model.types import BoolArray, FloatArray, IntArray


def utilities(features: FloatArray, theta: FloatArray) -> FloatArray:
    """``x . theta``: features (..., J, d), theta (..., d) -> (..., J)."""
    result: FloatArray = (features @ theta[..., None])[..., 0]
    return result


class Shares(NamedTuple):
    """How the choice of one visitor is shared out.

    Attributes:
        items: Probability of each item, (..., J); zero where it is not available.
        none: Probability of choosing nothing, (...); zero without an outside option.
        log_partition: ``log(1 + sum_j exp(u_j))`` over available items, (...); without the 1 if there is no outside.
    """

    items: FloatArray
    none: FloatArray
    log_partition: FloatArray


def shares(utility: FloatArray, available: BoolArray | None = None, *, outside: bool = True, axis: int = -1) -> Shares:
    """Probabilities of items with utilities (..., J), each exponential taken once; J may be another axis.

    >>> shares(np.array([0.0, 0.0, 1e4]), np.array([True, True, False])).items.round(3)
    array([0.333, 0.333, 0.   ])
    """
    masked = utility if available is None else np.where(available, utility, -np.inf)
    top = masked.max(axis=axis, initial=0.0 if outside else -np.inf)
    if not outside:
        top = np.where(np.isfinite(top), top, 0.0)  # nothing to choose from: log 0 below, not NaN
    items = np.exp(masked - np.expand_dims(top, axis))
    none = np.exp(-top) if outside else np.zeros(top.shape)
    total = items.sum(axis=axis) + none
    with np.errstate(divide="ignore"):
        log_partition = np.log(total) + top
    total = np.where(total == 0, 1.0, total)
    items /= np.expand_dims(total, axis)
    return Shares(items, none / total, log_partition)


def log_partition(utility: FloatArray, available: BoolArray | None = None, *, outside: bool = True) -> FloatArray:
    """``log(1 + sum_j exp(u_j))`` over available items, (..., J) -> (...); without the 1 if not ``outside``."""
    return shares(utility, available, outside=outside).log_partition


def probabilities(utility: FloatArray, available: BoolArray | None = None, *, outside: bool = True) -> FloatArray:
    """Probability of each item, (..., J). The outside option has what is missing to one."""
    return shares(utility, available, outside=outside).items


def log_likelihood(
    utility: FloatArray, choice: IntArray, available: BoolArray | None = None, *, outside: bool = True
) -> FloatArray:
    """Log probability of each choice (...): a position in 0..J-1, or -1 for the outside option.

    What cannot be chosen, an unavailable place or nothing where there is no outside option, has minus infinity.
    """
    possible = choice >= (-1 if outside else 0)
    if available is not None:
        offered = np.take_along_axis(available, np.maximum(choice, 0)[..., None], axis=-1)[..., 0]
        possible = possible & ((choice < 0) | offered)
    value = chosen_utility(utility, choice) - log_partition(utility, available, outside=outside)
    return np.where(possible, value, -np.inf)


def chosen_utility(utility: FloatArray, choice: IntArray) -> FloatArray:
    """Utility of the chosen place, (...); zero for the outside option."""
    picked = np.take_along_axis(utility, np.maximum(choice, 0)[..., None], axis=-1)[..., 0]
    return np.where(choice >= 0, picked, 0.0)


class Moments(NamedTuple):
    """Mean and spread of the features of one visitor's choice.

    Attributes:
        mean: ``xbar = sum_j p_j x_j``, (..., d).
        spread: (..., J + 1, d), the rows ``sqrt(p_j) (x_j - xbar)``, the outside option last.
    """

    mean: FloatArray
    spread: FloatArray


def moments(
    features: FloatArray, utility: FloatArray, available: BoolArray | None = None, *, outside: bool = True
) -> Moments:
    """Mean and spread of x over the choice of one visitor who has these utilities (..., J).

    The spread is centred before it is squared: ``spread' spread`` is then positive semidefinite in floating point too,
    and nothing cancels when features share a large offset.
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
    result: FloatArray = np.where((choice >= 0)[..., None], picked, 0.0)
    return result


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
    result: FloatArray = chosen_features(features, choice) - mean
    return result


def information(
    features: FloatArray, theta: FloatArray, available: BoolArray | None = None, *, outside: bool = True
) -> FloatArray:
    """Fisher information of each choice, ``sum p_j (x_j - xbar)(x_j - xbar)'`` with the outside option, (..., d, d)."""
    spread = moments(features, utilities(features, theta), available, outside=outside).spread
    result: FloatArray = np.swapaxes(spread, -1, -2) @ spread
    return result
