"""The objective-perturbed fit: sampled as shipped, and its cost integrated exactly."""

from __future__ import annotations

from functools import partial

import numpy as np

from quietshelf.model.types import FloatArray, IntArray
from quietshelf.privacy.release.certificate import DenseVisits
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.objective_perturbation import private_fit
from quietshelf.privacy.release.perturbation_curves import Perturbation
from quietshelf.privacy.statistics import ObservedChoice
from quietshelf.research.auditing.auditable import Auditable, Claim, ExactCost
from quietshelf.research.auditing.linear import sampled
from quietshelf.research.auditing.neighbours import Neighbours, search
from quietshelf.research.auditing.quadrature import Crowd, Densities, in_plane

ORDERS = (1.01, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0)
PLANE_ORDERS = (1.01, 2.0, 4.0, 8.0)
TRIES = 64
"""Pairs per step of a search."""


def fit_subject(name: str, claim: Claim, neighbours: Neighbours, perturbation: Perturbation) -> Auditable:
    """A private fit of the target alone, whom no other visitors hide."""
    places, dim = neighbours.first.rows.shape
    return Auditable(
        name=name,
        pair=f"{neighbours.words}; {places} items, d = {dim}",
        claim=claim,
        run=sampled(partial(fit_run, neighbours, perturbation)),
        exact=partial(fit_cost, neighbours, perturbation, claim.delta),
    )


def fit_run(
    neighbours: Neighbours, perturbation: Perturbation, secret: bool, source: NoiseSource, runs: int
) -> FloatArray:
    """The released theta."""
    target = neighbours.target(secret)
    rows = np.broadcast_to(target.rows, (runs, 1, *target.rows.shape))
    position = np.full((runs, 1), int(target.position))
    visits = DenseVisits(rows, position, None)
    return private_fit(visits, perturbation=perturbation, source=source, batch=0).theta


def fit_cost(neighbours: Neighbours, perturbation: Perturbation, delta: float) -> ExactCost:
    """The largest ratio of divergence to order, and the smallest epsilon; by quadrature, for d = 1 or 2."""
    x = np.stack([neighbours.first.rows, neighbours.second.rows])
    choice = np.array([int(neighbours.first.position), int(neighbours.second.position)])
    orders = ORDERS if x.shape[-1] == 1 else PLANE_ORDERS
    rho = max(float(_densities(x, choice, perturbation, order).divergence(order).max()) / order for order in orders)
    return ExactCost(rho, _densities(x, choice, perturbation, 1.0).epsilon(delta))


def worst_fit(perturbation: Perturbation, *, capacity: int, rng: np.random.Generator) -> Neighbours:
    """The costliest pair for d = 1 that a search finds, by the exact divergence of order 2."""
    sigma, ridge = perturbation

    def cost(first: ObservedChoice, second: ObservedChoice) -> FloatArray:
        x = np.stack([first.rows[..., 0], second.rows[..., 0]], axis=1)
        crowd = Crowd(x, np.stack([first.position, second.position], axis=1), np.zeros(len(x)))
        return crowd.on_grid(ridge, sigma, 2.0).divergence(2.0)

    return search(cost, capacity=capacity, dim=1, tries=TRIES, rng=rng, longest=1.0)


def _densities(x: FloatArray, choice: IntArray, perturbation: Perturbation, order: float) -> Densities:
    sigma, ridge = perturbation
    if x.shape[-1] == 2:
        return in_plane(x, choice, ridge=ridge, sigma=sigma, order=order)
    crowd = Crowd(x[None, :, :, 0], choice[None], np.zeros(1))
    return crowd.on_grid(ridge, sigma, order, finer=4.0)
