"""DPMNL as a researcher would write it: one world, round by round, with NumPy and scipy.optimize.

The paper's Algorithm 1 with the printed constants, the trigger relative to the last update, on the world of its section
5.1. Straightforward but not slow on purpose: vectorised over items, and the fit has its gradient.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize

from quietshelf.model.types import FloatArray, IntArray


class Tree:
    """Noisy prefix sums of Gram matrices."""

    def __init__(self, horizon: int, dim: int, variance: float, rng: np.random.Generator) -> None:
        levels = 1 + int(math.log2(horizon))
        self.exact, self.noisy = np.zeros((levels, dim, dim)), np.zeros((levels, dim, dim))
        self.dim, self.scale, self.rng, self.t = dim, math.sqrt(variance), rng, 0

    def add(self, gram: FloatArray) -> FloatArray:
        """Add a round and return the noisy sum of all."""
        self.t += 1
        level = (self.t & -self.t).bit_length() - 1
        self.exact[level] = self.exact[:level].sum(axis=0) + gram
        noise = np.triu(self.rng.normal(scale=self.scale, size=(self.dim, self.dim)))
        self.noisy[level] = self.exact[level] + noise + np.triu(noise, 1).T
        self.exact[:level] = self.noisy[:level] = 0.0
        used = [place for place in range(len(self.noisy)) if self.t >> place & 1]
        total: FloatArray = self.noisy[used].sum(axis=0)
        return total


def private_mle(
    rows: FloatArray, choice: IntArray, rho: float, start: FloatArray, rng: np.random.Generator, split: float = 0.5
) -> FloatArray:
    """Objective perturbation with the printed noise; rows (n, K, d), choice (n,), K for none."""
    count, places, dim = rows.shape
    rank = min(dim, places - 1)
    ridge = 4 / math.expm1((1 - split) * rho / rank)
    sigma = 2 * (math.sqrt(dim + 2 * split * rho) + math.sqrt(dim)) / (split * rho)
    b = rng.normal(scale=sigma, size=dim)
    padded = np.concatenate([rows, np.zeros((count, 1, dim))], axis=1)
    chosen = padded[np.arange(count), choice]

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        utility = padded @ theta
        top = utility.max(axis=1, keepdims=True)
        weight = np.exp(utility - top)
        total = weight.sum(axis=1, keepdims=True)
        loss = (np.log(total) + top).sum() - (chosen @ theta).sum()
        mean = np.einsum("nk,nkd->d", weight / total, padded)
        gradient = mean - chosen.sum(axis=0) + ridge * theta + b
        return float(loss + ridge / 2 * theta @ theta + b @ theta), gradient

    found: FloatArray = minimize(objective, start, jac=True, method="BFGS").x
    return found


def run(
    horizon: int, seed: int, *, rho: float = 1.0, share: float = 0.9, items: int = 100, capacity: int = 10, dim: int = 5
) -> tuple[float, int]:
    """Regret after ``horizon`` visitors, and the number of fits."""
    rng = np.random.default_rng(seed)
    explore, most_fits, c = 500, 10, 1e-4
    rho1, rho2 = share * rho, (1 - share) * rho
    truth = rng.uniform(size=dim)
    variance = capacity * (1 + int(math.log2(horizon))) / rho2
    tree = Tree(horizon, dim, variance, rng)
    shift = _shift(math.sqrt(variance * (1 + int(math.log2(horizon)))), dim, horizon)
    fits, mark, regret = 0, 0.0, 0.0
    theta: FloatArray = np.zeros(dim)
    V: FloatArray = 2 * shift * np.eye(dim)
    all_rows, all_choices = np.zeros((horizon, capacity, dim)), np.zeros(horizon, dtype=int)
    for t in range(1, horizon + 1):
        x = rng.normal(size=(items, dim))
        true_utility = x @ truth
        if t <= explore:
            shown = rng.permutation(items)[:capacity]
        else:
            width = np.sqrt(np.einsum("nd,de,ne->n", x, np.linalg.inv(V), x))
            shown = np.argsort(-(x @ theta + c * _alpha(t, dim, capacity, horizon, rho1, most_fits, shift) * width))
            shown = shown[:capacity]
        best = np.sort(true_utility)[-capacity:]
        weight = np.exp(true_utility[shown])
        sold, possible = weight.sum(), np.exp(best).sum()
        regret += float(possible / (1 + possible) - sold / (1 + sold))
        choice = rng.choice(capacity + 1, p=np.append(weight, 1.0) / (1 + sold))
        rows = x[shown]
        all_rows[t - 1], all_choices[t - 1] = rows, choice
        V = tree.add(rows.T @ rows) + 2 * shift * np.eye(dim)
        size = float(np.linalg.slogdet(V)[1])
        if t == explore or (t > explore and size > mark + math.log(2) and fits < most_fits):
            theta = private_mle(all_rows[:t], all_choices[:t], rho1 / most_fits, theta, rng)
            fits, mark = fits + 1, size
    return regret, fits


def _shift(deviation: float, dim: int, horizon: int) -> float:
    log_dim = math.log(dim)
    ratio = math.cbrt(log_dim / dim)
    third = 6 * (1 + ratio) * math.sqrt(log_dim / math.log1p(ratio))
    inner = 2 * math.sqrt(dim) + 2 * math.cbrt(math.sqrt(dim) * log_dim) + third
    return deviation * (inner + 2 * math.sqrt(4 * math.log(horizon)))


def _alpha(t: int, dim: int, capacity: int, horizon: int, rho: float, fits: int, shift: float) -> float:
    each, rank = rho / fits, min(dim, capacity - 1)
    choices = math.sqrt(dim / 2 * math.log1p(t / dim) + math.log(t))
    noise = 2 * (math.sqrt(dim + each) + math.sqrt(dim)) / (each / 2)
    spread = 2 * noise * math.sqrt(dim * math.log(horizon) / capacity)
    return choices + 4 / math.expm1(each / 2 / rank) + spread + math.sqrt(3 * shift)
