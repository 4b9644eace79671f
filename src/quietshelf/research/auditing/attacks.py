"""The attack of the paper's introduction, end to end: every screen but the target's, all releases; who was the target?

Whole policies with their curators run through `loop.run`. Variants differ in what the attacker must tell and may see:

    identity    which of two visitors, as different as visitors can be
    membership  one of them, or a visitor who leaves no trace
    attribute   what an ordinary visitor bought: the first item shown, or nothing
    collusion   which of two, from screens alone: all others are accomplices, before and after
    outsider    which of two, but the others are strangers: drawn anew in every run, only their screens are known

Settings below were tuned for power by looking at what attacks found, the default seed among others; scores and
thresholds are chosen on runs that do not judge. A bound is strict for a seed without a part in that
(docs/sharp-edges.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from quietshelf.curation.parallel import QuietCurator
from quietshelf.model.types import Common, Curator, FloatArray, IntArray, Release, one_of
from quietshelf.privacy.release.dpmnl import DpmnlEpsilonDelta
from quietshelf.privacy.statistics import svec
from quietshelf.research.auditing.audit_world import AuditWorld, Scenario, Visitor
from quietshelf.research.auditing.auditable import Auditable, Claim
from quietshelf.research.environments import Synthetic
from quietshelf.research.loop import Contestant, Runner, SimulationContext, run
from quietshelf.research.loop.named import SPECS, MakeDpmnl, MakeQuiet, contestant
from quietshelf.research.loop.recording import RecordingCurator

VARIANTS = ("identity", "membership", "attribute", "collusion", "outsider")
WORLD = Synthetic(items=8, capacity=4, dim=2, contexts="clipped")
PLACE, AFTER = 2, 8
"""When the target comes, and how many screens after the release of their batch the attacker holds."""
SHORT: dict[str, dict[str, Any]] = {
    "dpmnl": {"explore": 8, "fits": 1},
    "dpmnl-eps-delta": {"explore": 8, "fits": 1},
    "ucb-mnl": {"explore": 4},
    "greedy": {"explore": 4},
    "ts-mnl": {"explore": 4},
    "quiet": {"conversion": 0.2},
}
"""Settings that let policies learn within a short run, the target in the first batch of `quiet`."""
SEED = 17
"""Of coins that the attacker holds: with these every policy shows the item that tells targets apart."""


def attack(policy: str, variant: str, *, rho: float) -> Auditable:
    """One attack on one policy.

    Args:
        policy: By the name that `loop.named` knows; those without privacy promise nothing.
        variant: One of ``VARIANTS``.
        rho: Budget of the private ones.
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
    """What a policy claims: its budget; for the benchmark its own epsilon and delta; zero for the blind; or none."""
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
    "outsider": "which of two, among strangers",
}


def views(
    attacked: Contestant, variant: str, horizon: int, secret: bool, runs: int, rng: np.random.Generator
) -> FloatArray:
    """All that the attacker sees of each run, (runs, features)."""
    first, second = targets(variant)
    others = strangers(horizon, runs, rng) if variant == "outsider" else scenario(variant, horizon)
    world = AuditWorld(others, first if secret else second, runs)
    setting = SimulationContext(world=WORLD, worlds=runs, horizon=horizon, tastes=partial(np.zeros, (runs, WORLD.dim)))
    notes = _Notes()
    curator = RecordingCurator(attacked.curator(setting, rng), notes)
    chance = rng if variant == "outsider" else Common(np.random.default_rng(SEED))  # the attacker holds these coins
    for step in run(world, [Runner(attacked.label, attacked.policy, curator, chance)], horizon=horizon):
        if step.t >= horizon - AFTER:
            notes.screens.append(_incidence(step.assortment))
    return np.concatenate(notes.screens if variant == "collusion" else [*notes.releases, *notes.screens], axis=-1)


def targets(variant: str) -> tuple[Visitor, Visitor]:
    """The two visitors between whom the attacker must tell."""
    along = np.tile(np.array([2.0, 0.0]), (WORLD.items, 1))
    if variant == "membership":
        return Visitor(along, False), Visitor(np.zeros_like(along), False)
    if variant == "attribute":
        ordinary = next(_ordinary(1))
        return Visitor(ordinary, True), Visitor(ordinary, False)
    if variant == "outsider":  # nobody knows what such a visitor is shown
        return Visitor(along, False), Visitor(-along, False)
    one = np.zeros_like(along)
    one[0, 0] = 1.0  # an item like no other, which is shown to both, and bought: no score is longer
    return Visitor(one, True), Visitor(-one, True)


def scenario(variant: str, horizon: int) -> Scenario:
    """Ordinary others; or accomplices: silent before, and after the target visitors whose screens show theta's side."""
    draws = np.random.default_rng(SEED).random(horizon)
    if variant != "collusion":
        return Scenario(features=np.stack(list(_ordinary(horizon))), draws=draws, place=PLACE, capacity=WORLD.capacity)
    angles = np.linspace(0, 2 * np.pi, WORLD.items, endpoint=False)
    probes = np.stack([_circle(angles + turn) for turn in np.linspace(0, 0.5, horizon)])
    probes[:PLACE] = 0.0
    return Scenario(features=probes, draws=np.full(horizon, 2.0), place=PLACE, capacity=WORLD.capacity)


def strangers(horizon: int, runs: int, rng: np.random.Generator) -> Scenario:
    """Others who are different people in every run."""
    x = rng.standard_normal((horizon, runs, WORLD.items, WORLD.dim))
    x /= np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1.0)
    return Scenario(features=x, draws=rng.random((horizon, runs)), place=PLACE, capacity=WORLD.capacity)


@dataclass
class _Notes:
    """Releases and screens, as features of each run."""

    releases: list[FloatArray] = field(default_factory=list)
    screens: list[FloatArray] = field(default_factory=list)

    def __call__(self, curator: Curator, release: Release) -> None:
        """What is public after a round; the noisy sums as well, where they are kept."""
        self.releases += [release.theta, svec(release.precision), release.count[..., None].astype(np.float64)]
        if isinstance(curator, QuietCurator) and curator.learner.records:
            self.releases.append(curator.learner.records[-1].score)


def _horizon(attacked: Contestant) -> int:
    """Long enough for the target to be released and used."""
    if not isinstance(attacked.curator, MakeQuiet):
        return 24
    return attacked.curator.learning(WORLD).batch_size(WORLD.dim, None) + AFTER


def _incidence(assortment: IntArray) -> FloatArray:
    """Which items were on the screen, (runs, N)."""
    return np.asarray((assortment[..., None] == np.arange(WORLD.items)).any(axis=-2), dtype=np.float64)


def _circle(angles: FloatArray) -> FloatArray:
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def _ordinary(count: int) -> Iterator[FloatArray]:
    """Features of visitors as the synthetic world draws them, (N, d) each."""
    environment = WORLD.open([np.random.SeedSequence(SEED)])
    every = np.arange(WORLD.items)[None]
    for t in range(count):
        yield environment.context(t).features.rows(every)[0]
