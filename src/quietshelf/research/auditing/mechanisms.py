"""Every mechanism and calibration, as shipped, with its worst-case neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

import numpy as np

from quietshelf.model.types import one_of
from quietshelf.privacy.accounting import DELTA, epsilon_classic
from quietshelf.privacy.release import batch_pair, private_newton, tree
from quietshelf.privacy.release.epsilon_delta import calibrate_epsilon, printed_theorem
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.objective_perturbation import within
from quietshelf.privacy.release.perturbation_paper import LIPSCHITZ, SMOOTHNESS
from quietshelf.privacy.release.toeplitz import Toeplitz
from quietshelf.privacy.release.tree import ContinualSum
from quietshelf.research.auditing import releases
from quietshelf.research.auditing.auditable import Auditable, Claim, ExactCost
from quietshelf.research.auditing.linear import Mechanism, exact_rho, sampled
from quietshelf.research.auditing.neighbours import (
    Neighbours,
    far_crowds,
    far_gradients,
    far_gram,
    far_information,
    far_pairs,
    far_scores,
    gram_cost,
    pair_cost,
    search,
)
from quietshelf.research.auditing.newton import newton_subject
from quietshelf.research.auditing.private_fits import fit_subject, worst_fit
from quietshelf.research.auditing.shelves import shelf_subject

DIM, CAPACITY, HORIZON = 2, 3, 8
EVEN = 4
"""Items for a worst-case pair that needs an even number."""
MANY = 50
"""Items at which the proof's worst-case pair for a batch costs nearly all of rho."""
SMALL = 0.25
"""Another bound B."""
EPSILON_CALIBRATIONS = ("sound", "repaired", "paper")
"""Calibrations of the (epsilon, delta) benchmark."""
TRIES = 1000
"""Pairs per step of a search."""


def linear(name: str, claim: Claim, neighbours: Neighbours, mechanism: Mechanism) -> Auditable:
    """A subject whose outputs are linear in Gaussian noise, so that its exact cost is known too."""
    return Auditable(
        name=name,
        pair=neighbours.words,
        claim=claim,
        run=sampled(mechanism),
        exact=lambda: ExactCost.gaussian(exact_rho(mechanism), claim.delta),
    )


def _gaussian(rho: float) -> Claim:
    return Claim(rho=rho, gaussian=True)


def _epsilon(rho: float) -> Claim:
    return Claim(epsilon=epsilon_classic(rho, DELTA))


def _batch_pairs(rho: float) -> list[Auditable]:
    pairs = far_scores(DIM), far_information(DIM), far_pairs(MANY, 3), _costliest_pair(CAPACITY, 3, batch_pair.BOUND)
    small = far_pairs(MANY, 3), _costliest_pair(CAPACITY, 3, SMALL)
    run = releases.batch
    return [
        *(linear("batch pair", _gaussian(rho), pair, partial(run, pair, rho)) for pair in pairs),
        *(linear("batch pair, small B", _gaussian(rho), pair, partial(run, pair, rho, bound=SMALL)) for pair in small),
    ]


def _comparisons(rho: float) -> list[Auditable]:
    bought = Neighbours(*far_scores(DIM)[:2], "bought the dearest item of its arm, or nothing")
    return [
        linear("comparison of two arms", _gaussian(rho), bought, partial(releases.comparison, rho)),
        linear("batch pair and comparison", _gaussian(rho), bought, partial(releases.both, rho)),
    ]


def _learners(rho: float) -> list[Auditable]:
    pair = far_scores(DIM)
    run = sampled(partial(releases.learner, pair, rho))
    return [Auditable(name="quiet, two batches", pair=pair.words, claim=_gaussian(rho), run=run)]


def _newtons(rho: float) -> list[Auditable]:
    pairs = far_crowds(EVEN, DIM), _costliest_pair(EVEN, DIM, private_newton.BOUND)
    return [newton_subject(pair, _gaussian(rho)) for pair in pairs]


def _costliest_pair(capacity: int, dim: int, bound: float) -> Neighbours:
    cost = partial(pair_cost, bound=bound)
    return search(cost, capacity=capacity, dim=dim, tries=TRIES, rng=_chance())


def _chance() -> np.random.Generator:
    return np.random.default_rng(releases.SEED)


def _grams(make: Callable[[float, NoiseSource], ContinualSum], name: str, rho: float) -> list[Auditable]:
    found = search(gram_cost, capacity=CAPACITY, dim=DIM, tries=TRIES, rng=_chance(), longest=1.0)
    run = partial(releases.continual, partial(make, rho))
    return [linear(name, _gaussian(rho), pair, partial(run, pair)) for pair in (far_gram(CAPACITY, DIM), found)]


def _tree(calibration: Literal["sound", "paper"], rho: float, source: NoiseSource) -> ContinualSum:
    make = tree.sound if calibration == "sound" else tree.paper
    return make(rho, horizon=HORIZON, dim=DIM, capacity=CAPACITY, source=source)


def _toeplitz(rho: float, source: NoiseSource) -> ContinualSum:
    return Toeplitz(rho=rho, horizon=HORIZON, dim=DIM, capacity=CAPACITY, source=source)


def _epsilon_grams(calibration: str, rho: float) -> list[Auditable]:
    pair, name = far_gram(CAPACITY, DIM), f"gram tree of the (ε, δ) benchmark, {calibration}"
    run = partial(releases.continual, partial(_epsilon_tree, calibration, rho), pair)
    return [linear(name, _epsilon(rho), pair, run)]


def _epsilon_tree(calibration: str, rho: float, source: NoiseSource) -> ContinualSum:
    epsilon = epsilon_classic(rho, DELTA)
    if calibration == "paper":
        law = tree.printed_law(epsilon, DELTA, capacity=CAPACITY, horizon=HORIZON)
    elif calibration == "repaired":
        law = tree.repaired_law(epsilon, DELTA, capacity=CAPACITY, horizon=HORIZON)
    else:
        law = tree.fair_law(epsilon, DELTA, sensitivity=tree.sensitivity(CAPACITY, DIM), horizon=HORIZON)
    return tree.Tree(horizon=HORIZON, dim=DIM, capacity=CAPACITY, law=law, source=source)


def _fits(calibration: Literal["sound", "mean-width", "paper"], rho: float) -> list[Auditable]:
    claim, name = Claim(rho=rho), f"private fit, {calibration}"
    known = [
        fit_subject(name, claim, far_gradients(capacity, dim), within(rho, dim, capacity, calibration))
        for dim, capacity in ((1, 2), (1, 30), (2, 3))
    ]
    noise = within(rho, 1, CAPACITY, calibration)
    found = worst_fit(noise, capacity=CAPACITY, rng=_chance())
    return [*known, fit_subject(name, claim, found, noise)]


def _epsilon_fits(calibration: Literal["sound", "repaired", "paper"], rho: float) -> list[Auditable]:
    claim = _epsilon(rho)
    found = calibrate_epsilon(claim.epsilon, DELTA, fits=1, dim=1, capacity=2, calibration=calibration)
    return [fit_subject(f"private fit of the (ε, δ) benchmark, {calibration}", claim, far_gradients(2, 1), found)]


def _theorem_fits(rho: float) -> list[Auditable]:
    claim = _epsilon(rho)
    found = printed_theorem(claim.epsilon, DELTA, lipschitz=LIPSCHITZ, smoothness=SMOOTHNESS, rank=1, dim=1)
    return [fit_subject("private fit of the (ε, δ) benchmark, theorem", claim, far_gradients(2, 1), found)]


MECHANISMS: Mapping[str, Callable[[float], list[Auditable]]] = {
    "batch-pair": _batch_pairs,
    "comparison": _comparisons,
    "learner": _learners,
    "shelf": lambda rho: [shelf_subject(rho)],
    "private-newton": _newtons,
    "gram-tree": partial(_grams, partial(_tree, "sound"), "gram tree"),
    "gram-toeplitz": partial(_grams, _toeplitz, "gram toeplitz"),
    "private-fit": partial(_fits, "sound"),
    "private-fit-mean-width": partial(_fits, "mean-width"),
    "private-fit-paper": partial(_fits, "paper"),
    "gram-tree-paper": partial(_grams, partial(_tree, "paper"), "gram tree, as printed in the paper"),
    **{f"gram-tree-eps-delta-{word}": partial(_epsilon_grams, word) for word in EPSILON_CALIBRATIONS},
    **{f"private-fit-eps-delta-{word}": partial(_epsilon_fits, word) for word in EPSILON_CALIBRATIONS},  # type: ignore[arg-type]
    "private-fit-eps-delta-theorem": _theorem_fits,
}
"""Subjects by the mechanism's name on the command line."""
USUAL = ("batch-pair", "comparison", "learner", "shelf", "private-newton", "gram-tree", "gram-toeplitz", "private-fit")
KNOWN_FALSE = ("gram-tree-paper",)
"""Shipped to reproduce the paper; costs more than the paper claims (docs/proofs.md, section 8)."""


def mechanism(name: str, rho: float) -> list[Auditable]:
    """The subjects of an audit of one mechanism.

    >>> [subject.pair for subject in mechanism("gram-tree", 1.0)]
    ['all items along one axis, or all along another', 'the worst pair found by search']
    """
    one_of("mechanism", name, MECHANISMS)
    return MECHANISMS[name](rho)
