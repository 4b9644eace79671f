"""Plans of DPMNL and its benchmark: the numbers that settings amount to, and what they cost."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from quietshelf.privacy.accounting import epsilon_classic, epsilon_of, epsilon_text
from quietshelf.privacy.release.dpmnl import Dpmnl, DpmnlEpsilonDelta
from quietshelf.privacy.release.noise import DiscreteGaussian, Simulated

SOURCE = Simulated(np.random.default_rng(0))
SHOP: dict[str, Any] = {"dim": 3, "capacity": 4, "horizon": 400, "source": SOURCE}


def test_fits_auto_is_the_papers_order() -> None:
    """D_MLE = ceil(d log2(K T))."""
    plan = Dpmnl(rho=1.0, fits="auto").plan(dim=5, capacity=10, horizon=10_000, source=SOURCE)
    assert plan.fits == 84


def test_discrete_noise_is_refused_for_fits() -> None:
    """The proof of the fit needs a density."""
    with pytest.raises(ValueError, match="continuous noise"):
        Dpmnl(rho=1.0).plan(dim=2, capacity=2, horizon=100, source=DiscreteGaussian())


def test_benchmark_converts_rho_as_text_or_lemma() -> None:
    """Both conversions at delta = 1/T²; the text's epsilon is the larger at the plotted rho."""
    horizon = 10_000
    text, delta = DpmnlEpsilonDelta(rho=1.0, conversion="text").epsilon(horizon)
    lemma, _ = DpmnlEpsilonDelta(rho=1.0).epsilon(horizon)
    assert (text, lemma, delta) == (epsilon_text(1.0, horizon), epsilon_classic(1.0, 1e-8), 1e-8)
    assert text > lemma > epsilon_of(1.0, 1e-8)


def test_benchmark_ledger_holds_the_rho_of_its_noise() -> None:
    """Fair noise costs close to the rho it was converted from; printed noise, on bounded features, far less."""
    costs = {}
    for calibration in ("sound", "repaired", "paper"):
        settings: Any = {"calibration": calibration}
        config = DpmnlEpsilonDelta(rho=1.0, fits=5, bounded=True, **settings)
        plan = config.plan(**SHOP)
        costs[calibration] = plan.continual.event.rho + 5 * plan.fit_price.rho
    assert costs["paper"] < costs["sound"] / 10
    assert costs["sound"] < 1.2
    assert costs["repaired"] < math.inf


def test_benchmark_has_both_printed_sigmas() -> None:
    """The algorithm's sigma is twice the theorem's, at the same ridge."""
    made = {}
    for name in ("algorithm", "theorem"):
        settings: Any = {"printed_sigma": name}
        config = DpmnlEpsilonDelta(rho=1.0, calibration="paper", **settings)
        made[name] = config.plan(**SHOP).perturbation
    assert made["algorithm"].sigma == pytest.approx(2 * made["theorem"].sigma)
    assert made["algorithm"].ridge == made["theorem"].ridge


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rho": 0.0}, "rho must be positive and finite, got rho=0.0"),
        ({"share": 1.0}, "share must be between 0 and 1, got share=1.0"),
        ({"fits": 0}, "fits must be a whole number from 1 on, got fits=0"),
        ({"explore": 0}, "explore must be a whole number from 1 on, got explore=0"),
        ({"trigger": "now"}, "trigger must be one of since-last, literal, doubling, got trigger='now'"),
        ({"clip": -1.0}, "clip must be positive and finite, got clip=-1.0"),
    ],
)
def test_senseless_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    """The rule, then the value."""
    with pytest.raises(ValueError, match=re.escape(message)):
        Dpmnl(**{"rho": 1.0, **settings})


@pytest.mark.parametrize("settings", [Dpmnl, DpmnlEpsilonDelta])
def test_printed_constants_prove_nothing_of_features_as_they_come(settings: Any) -> None:
    """Neither the fits nor the Gram matrix have a finite price, unless features are declared to be in the unit ball."""
    loose = settings(rho=1.0, calibration="paper").plan(**SHOP)
    assert loose.fit_price.rho == loose.continual.event.rho == math.inf
    assert (loose.bounded, loose.clip) == (False, None)
    declared = settings(rho=1.0, calibration="paper", bounded=True).plan(**SHOP)
    assert math.isfinite(declared.fit_price.rho + declared.continual.event.rho)
    assert declared.bounded
