"""The exact cost of an objective-perturbed fit in one and two dimensions, by integrating its density.

The minimiser of ``sum of losses + ridge/2 |theta - c|² + b . theta`` is the point a at which F(a) = -b, F being the
gradient without b: its density is phi_sigma(F(a)) det DF(a) (docs/proofs.md, section 9).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from quietshelf.model.types import FloatArray, IntArray

PLANE_POINTS = 260
"""Grid points per side; halving the step changes divergences by less than 1e-6 at calibrated noise."""
EPSILON_HALVINGS = 50
LARGEST_EPSILON = 100.0


class Densities(NamedTuple):
    """Log-densities of the releases of two neighbours on a grid, (..., points), and the size of a cell."""

    first: FloatArray
    second: FloatArray
    cell: FloatArray

    def divergence(self, order: float) -> FloatArray:
        """The larger of the two Rényi divergences."""
        ways = ((self.first, self.second), (self.second, self.first))
        both = [log_integral(order * p + (1 - order) * q, self.cell) for p, q in ways]
        return np.asarray(np.max(both, axis=0) / (order - 1))

    def excess(self, epsilon: float) -> FloatArray:
        """The smallest delta at this epsilon, the larger of both directions."""
        p, q = np.exp(self.first), np.exp(self.second)
        both = [np.maximum(a - np.exp(epsilon) * b, 0.0).sum(-1) for a, b in ((p, q), (q, p))]
        return np.asarray(np.max(both, axis=0) * self.cell)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at which no instance exceeds delta; infinite above ``LARGEST_EPSILON``."""
        low, high = 0.0, LARGEST_EPSILON
        if float(self.excess(high).max()) > delta:
            return float("inf")
        for _ in range(EPSILON_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if float(self.excess(middle).max()) <= delta else (middle, high)
        return high


class Crowd(NamedTuple):
    """Instances side by side: features (instances, visitors, K) on a line; the last two visitors are the neighbours."""

    x: FloatArray
    choice: IntArray
    centre: FloatArray

    def on_grid(self, ridge: float, sigma: float, order: float, *, finer: float = 1.0) -> Densities:
        """The densities where ``p^order q^(1-order)`` has mass, in steps of a third of its width or less."""
        reach = (10 * sigma + 4 * order + 2 * self.x.shape[1]) / ridge
        points = int(finer * 6 * reach * (ridge + order + self.x.shape[1]) / sigma)
        a = self.centre[:, None] + np.linspace(-reach, reach, max(points, 1000))
        slope, curvature = choice_derivatives(self.x[..., None], self.choice[..., None], a[:, None, :])
        common = slope[:, :-2].sum(1) + ridge * (a - self.centre[:, None]), curvature[:, :-2].sum(1) + ridge
        first, second = ((common[0] + slope[:, i], common[1] + curvature[:, i]) for i in (-2, -1))
        return Densities(
            log_density(*first, sigma), log_density(*second, sigma), np.full(a.shape[0], a[0, 1] - a[0, 0])
        )


def log_density(slope: FloatArray, curvature: FloatArray, sigma: float) -> FloatArray:
    """Log-density of the minimiser on the line, from slope and curvature of its objective without noise."""
    return np.asarray(-0.5 * (slope / sigma) ** 2 - np.log(sigma * np.sqrt(2 * np.pi)) + np.log(curvature))


def choice_derivatives(x: FloatArray, choice: IntArray, a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Slope and curvature of visitors' losses on the line: x (..., K, 1), choice (..., 1), a (..., points)."""
    utility = x * a[..., None, :]
    top = np.maximum(utility.max(-2), 0.0)
    weight = np.exp(utility - top[..., None, :])
    total = weight.sum(-2) + np.exp(-top)
    mean, second = (weight * x).sum(-2) / total, (weight * x**2).sum(-2) / total
    chosen = np.where(choice >= 0, np.take_along_axis(x, np.maximum(choice, 0)[..., None], axis=-2)[..., 0], 0.0)
    return mean - chosen, second - mean**2


def in_plane(x: FloatArray, choice: IntArray, *, ridge: float, sigma: float, order: float) -> Densities:
    """Two dimensions: features x (visitors, K, 2), of whom the last two are the neighbours."""
    reach = (8 * sigma + 4 * order + 2 * len(x)) / ridge
    line = np.linspace(-reach, reach, PLANE_POINTS)
    theta = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    derivatives = [plane_derivatives(rows, int(picked), theta) for rows, picked in zip(x, choice, strict=True)]
    slope = ridge * theta + sum(one for one, _ in derivatives[:-2])
    hessian = ridge * np.eye(2) + sum(two for _, two in derivatives[:-2])
    both = []
    for one, two in derivatives[-2:]:
        determinant = np.linalg.det(hessian + two)
        both.append(-0.5 * ((slope + one) ** 2).sum(-1) / sigma**2 + np.log(determinant / (2 * np.pi * sigma**2)))
    return Densities(both[0], both[1], np.array((line[1] - line[0]) ** 2))


def plane_derivatives(x: FloatArray, choice: int, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gradient (points, 2) and Hessian (points, 2, 2) of one visitor's loss, features x (K, 2)."""
    weight = np.exp(theta @ x.T)
    p = weight / (1 + weight.sum(-1, keepdims=True))
    mean = p @ x
    hessian = np.einsum("pk,ki,kj->pij", p, x, x) - mean[:, :, None] * mean[:, None, :]
    return mean - (x[choice] if choice >= 0 else 0.0), hessian


def log_integral(values: FloatArray, cell: FloatArray) -> FloatArray:
    """The logarithm of the integral of exp(values) over the last axis."""
    top = values.max(-1)
    return np.asarray(np.log(np.exp(values - top[..., None]).sum(-1) * cell) + top)
