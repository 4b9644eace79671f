"""The attack of the paper's introduction, end to end: from all other screens and all releases, identify the target.

Whole policies with their curators run through `loop.run`. Variants differ in the attacker's question and view:

    identity    which of two visitors, as different as visitors can be
    membership  one of them, or a visitor who leaves no trace
    attribute   what an ordinary visitor bought: the first item shown, or nothing
    collusion   which of two, from screens alone: all others are accomplices, before and after
    outsider    which of two, but the others are unknown: drawn again in every run, only their screens are seen

The settings below were tuned for power by looking at attack results, including those of the default seed; scores and
thresholds are chosen on separate runs. A bound is strict only for a seed that played no part in the tuning
(docs/sharp-edges.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from quietshelf.curation.quiet_curator import QuietCurator
from quietshelf.model.types import Common, Curator, FloatArray, IntArray, Release, one_of
from quietshelf.privacy.release.dpmnl import DpmnlEpsilonDelta
from quietshelf.privacy.statistics import svec
from quietshelf.research.auditing.audit_world import AuditWorld, Scenario, Visitor
from quietshelf.research.auditing.auditable import Auditable, Claim
from quietshelf.research.environments import Synthetic
from quietshelf.research.loop import Contestant, Runner, SimulationContext, run
from quietshelf.research.loop.named import SPECS, MakeDpmnl, MakeQuiet, contestant
from quietshelf.research.loop.recording_curator import RecordingCurator

VARIANTS = ("identity", "membership", "attribute", "collusion", "outsider")
WORLD = Synthetic(items=8, capacity=4, dim=2, contexts="clipped")
PLACE, AFTER = 2, 8
"""The target's position, and the number of screens after the batch's release that the attacker sees."""
SHORT: dict[str, dict[str, Any]] = {
    "dpmnl": {"explore": 8, "fits": 1},
    "dpmnl-eps-delta": {"explore": 8, "fits": 1},
    "ucb-mnl": {"explore": 4},
    "greedy": {"explore": 4},
    "ts-mnl": {"explore": 4},
    "quiet": {"conversion": 0.2},
}
"""Settings that let policies learn within a short run, with the target in the first batch of `quiet`."""
SEED = 17
"""Seed of coins the attacker knows: with these every policy shows the item that distinguishes the targets."""


def attack(policy: str, variant: str, *, rho: float) -> Auditable:
    """One attack on one policy.

    Args:
        policy: A name that `loop.named` knows; policies without privacy promise nothing.
        variant: One of ``VARIANTS``.
        rho: The budget, if the policy is private.
    """
    one_of("variant", variant, VARIANTS)
    one_of("policy", policy, SPECS)
    attacked = contestant(policy, rho=rho if SPECS[policy].private else None, **SHORT.get(policy, {}))
    horizon = _horizon(attacked)
    return Auditable(
        name=f"{policy}, whole run",
        pair=WORDS[variant],
        claim=promised(policy, attacked, horizon, rho=rho),
        run=partial(views, attacked, variant, horizon),
    )


def promised(policy: str, attacked: Contestant, horizon: int, *, rho: float) -> Claim:
    """What a policy claims: its budget, the benchmark's own epsilon and delta, zero if it does not learn, or none."""
    if not SPECS[policy].private:
        return Claim(rho=math.inf if SPECS[policy].learns else 0.0)
    if isinstance(attacked.curator, MakeDpmnl) and isinstance(attacked.curator.config, DpmnlEpsilonDelta):
        epsilon, delta = attacked.curator.config.epsilon(horizon)
        return Claim(epsilon=epsilon, delta=delta)
    return Claim(rho=rho, gaussian=policy == "quiet")


WORDS = {
    "identity": "which of two opposite visitors",
    "membership": "a visitor, or one who leaves no trace",
    "attribute": "bought the first item shown, or nothing",
    "collusion": "which of two, from accomplices' screens alone",
    "outsider": "which of two, among unknown visitors",
}


def views(
    attacked: Contestant, variant: str, horizon: int, secret: bool, runs: int, rng: np.random.Generator
) -> FloatArray:
    """Everything the attacker sees of each run, (runs, features)."""
    first, second = targets(variant)
    others = unknown_visitors(horizon, runs, rng) if variant == "outsider" else scenario(variant, horizon)
    world = AuditWorld(others, first if secret else second, runs)
    setting = SimulationContext(world=WORLD, worlds=runs, horizon=horizon, tastes=partial(np.zeros, (runs, WORLD.dim)))
    notes = _Notes()
    curator = RecordingCurator(attacked.curator(setting, rng), notes)
    chance = rng if variant == "outsider" else Common(np.random.default_rng(SEED))  # coins the attacker knows
    for step in run(world, [Runner(attacked.label, attacked.policy, curator, chance)], horizon=horizon):
        if step.t >= horizon - AFTER:
            notes.screens.append(_incidence(step.assortment))
    return np.concatenate(notes.screens if variant == "collusion" else [*notes.releases, *notes.screens], axis=-1)


def targets(variant: str) -> tuple[Visitor, Visitor]:
    """The two visitors that the attacker must tell apart."""
    along = np.tile(np.array([2.0, 0.0]), (WORLD.items, 1))
    if variant == "membership":
        return Visitor(along, False), Visitor(np.zeros_like(along), False)
    if variant == "attribute":
        ordinary = next(_ordinary(1))
        return Visitor(ordinary, True), Visitor(ordinary, False)
    if variant == "outsider":  # what such a visitor is shown is unknown
        return Visitor(along, False), Visitor(-along, False)
    one = np.zeros_like(along)
    one[0, 0] = 1.0  # a unique item, shown to both and bought: no score is longer
    return Visitor(one, True), Visitor(-one, True)


def scenario(variant: str, horizon: int) -> Scenario:
    """The other visitors: ordinary ones, or accomplices, silent before the target and probing theta's side after."""
    draws = np.random.default_rng(SEED).random(horizon)
    if variant != "collusion":
        return Scenario(features=np.stack(list(_ordinary(horizon))), draws=draws, place=PLACE, capacity=WORLD.capacity)
    angles = np.linspace(0, 2 * np.pi, WORLD.items, endpoint=False)
    turned = angles + np.linspace(0, 0.5, horizon)[:, None]
    probes = np.stack([np.cos(turned), np.sin(turned)], axis=-1)
    probes[:PLACE] = 0.0
    return Scenario(features=probes, draws=np.full(horizon, 2.0), place=PLACE, capacity=WORLD.capacity)


def unknown_visitors(horizon: int, runs: int, rng: np.random.Generator) -> Scenario:
    """Other visitors, different in every run."""
    x = rng.standard_normal((horizon, runs, WORLD.items, WORLD.dim))
    x /= np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1.0)
    return Scenario(features=x, draws=rng.random((horizon, runs)), place=PLACE, capacity=WORLD.capacity)


@dataclass
class _Notes:
    """Releases and screens, as features of each run."""

    releases: list[FloatArray] = field(default_factory=list)
    screens: list[FloatArray] = field(default_factory=list)

    def __call__(self, curator: Curator, release: Release) -> None:
        """Note what is public after a round, including the noisy sums if the curator keeps them."""
        self.releases += [release.theta, svec(release.precision), release.count[..., None].astype(np.float64)]
        if isinstance(curator, QuietCurator) and curator.learner.records:
            self.releases.append(curator.learner.records[-1].score)


def _horizon(attacked: Contestant) -> int:
    """Long enough for the target's batch to be released and used."""
    if not isinstance(attacked.curator, MakeQuiet):
        return 24
    return attacked.curator.learning(WORLD).batch_size(WORLD.dim, None) + AFTER


def _incidence(assortment: IntArray) -> FloatArray:
    """Which items were on the screen, (runs, N)."""
    return np.asarray((assortment[..., None] == np.arange(WORLD.items)).any(axis=-2), dtype=np.float64)


def _ordinary(count: int) -> Iterator[FloatArray]:
    """Features of visitors drawn from the synthetic world, (N, d) each."""
    environment = WORLD.open([np.random.SeedSequence(SEED)])
    every = np.arange(WORLD.items)[None]
    for t in range(count):
        yield environment.context(t).features.rows(every)[0]
