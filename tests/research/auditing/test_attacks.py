"""End to end: without privacy the target is found; `quiet` and sound `dpmnl` stay under what they promise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.studies.size import FULL

from quietshelf.privacy.accounting.attackers import power_under_gaussian
from quietshelf.research.auditing import VARIANTS, Claim, attack, audit
from quietshelf.research.auditing.attacks import promised, scenario, targets, views
from quietshelf.research.loop.named import contestant

RUNS = 40_000 if FULL else 2000


@pytest.mark.study
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("policy", ["quiet", "dpmnl"])
def test_private_policy_stays_under_its_bound(policy: str, variant: str) -> None:
    """2000 parallel worlds (40,000 in the study) at rho = 1: no promise is refuted, no band lies above the curve."""
    found = audit(attack(policy, variant, rho=1.0), runs=RUNS, rng=np.random.default_rng(0), tests=10)
    assert not found.refuted
    if policy == "quiet":
        limit = power_under_gaussian(np.clip(found.roc.level_high, 1e-12, 1 - 1e-12), 1.0)
        assert (found.roc.power_low <= limit + 1e-9).all()


@pytest.mark.study
@pytest.mark.parametrize("policy", ["greedy", "ucb-mnl"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_attack_succeeds_without_privacy(policy: str, variant: str) -> None:
    """400 worlds: more than half of the targets found at 5 % false alarms, in every variant."""
    found = audit(attack(policy, variant, rho=1.0), runs=400, rng=np.random.default_rng(0), tests=10)
    assert found.claim.nothing
    at = np.flatnonzero(found.roc.level <= 0.05)
    assert found.roc.power[at].max() > 0.5
    assert found.rho > 1.0


def test_attack_on_quiet_is_not_blind() -> None:
    """2000 worlds at rho = 8: above half of the budget is seen to be lost, and not more than claimed."""
    found = audit(attack("quiet", "identity", rho=8.0), runs=2000, rng=np.random.default_rng(0))
    assert 4.0 < found.gaussian_rho <= 8.0


def test_a_quarter_of_the_budget_claimed_is_refuted_end_to_end() -> None:
    """A run of `quiet` at rho = 8 under the claim of a quarter of it: the whole-run attack says so."""
    boast = replace(attack("quiet", "identity", rho=8.0), claim=Claim(rho=2.0, gaussian=True))
    assert audit(boast, runs=1000, rng=np.random.default_rng(0)).refuted


def test_worlds_differ_in_the_target_alone() -> None:
    """Before anything is released both worlds look the same to the last bit: same others, same coins."""
    runner = contestant("quiet", rho=0.1)  # its first batch has 60 visitors
    first, second = (views(runner, "collusion", 10, secret, 3, np.random.default_rng(1)) for secret in (True, False))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("variant", VARIANTS)
def test_targets_are_two_and_scripts_have_one_place(variant: str) -> None:
    """The two targets differ; the scenario has as many visitors as rounds."""
    one, other = targets(variant)
    assert not np.array_equal(one.features, other.features) or one.buys != other.buys
    assert len(scenario(variant, 12).features) == 12


def test_benchmark_is_held_to_its_own_epsilon() -> None:
    """The (epsilon, delta) benchmark claims no rho."""
    claim = promised("dpmnl-eps-delta", contestant("dpmnl-eps-delta", rho=1.0), 24, rho=1.0)
    assert claim.rho == np.inf
    assert claim.delta == pytest.approx(1 / 24**2)
    assert 0 < claim.epsilon < np.inf


@pytest.mark.parametrize("policy", ["uniform", "oracle"])
def test_policies_that_learn_nothing_leak_nothing(policy: str) -> None:
    """Held to rho = 0: equal views in both worlds, in the variant that sees most."""
    found = audit(attack(policy, "identity", rho=1.0), runs=100, rng=np.random.default_rng(0))
    assert found.claim.rho == 0
    assert not found.refuted
    assert found.measured == 0


def test_unknown_variant_is_refused() -> None:
    """The rule, then the value."""
    with pytest.raises(ValueError, match=r"variant must be one of identity, .*, got variant='burglary'"):
        attack("quiet", "burglary", rho=1.0)
