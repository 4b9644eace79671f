"""DPMNL, the paper's policy: every quantity that its curator needs, computed before the first visitor.

`Dpmnl` is the paper's own algorithm, in zCDP; `DpmnlEpsilonDelta` is the (epsilon, delta) benchmark of its supplement.
Both make a `Plan`: how each fit is perturbed, how the Gram matrix is released, how far V_t is shifted, and how wide the
confidence is. ``calibration="paper"`` uses the constants as printed and states their proven cost beside the nominal
one; ``"sound"`` clips features to a public radius and costs what it states. Reference: docs/proofs.md, sections 8 to 15
and 17.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, get_args, get_origin, get_type_hints

from quietshelf.model.types import integer, one_of, positive, require
from quietshelf.privacy.accounting import Event, epsilon_classic, epsilon_text
from quietshelf.privacy.release import epsilon_delta, theory, toeplitz, tree
from quietshelf.privacy.release.noise import NoiseSource
from quietshelf.privacy.release.objective_perturbation import event as fit_event
from quietshelf.privacy.release.objective_perturbation import within
from quietshelf.privacy.release.perturbation_curves import Perturbation

Trigger = Literal["since-last", "literal", "doubling"]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The numbers that determine what the curator of DPMNL does.

    Attributes:
        perturbation: Noise and ridge of each fit.
        fit_price: Cost of each fit.
        continual: Releases the Gram sum after every visitor.
        shift: lambda; V_t is the noisy Gram sum plus 2 lambda I.
        radius: alpha_t of visitor t, counted from 1.
        fits: D_MLE, the most fits, including the one after exploration.
        explore: T0.
        trigger: What must have doubled before a refit: det V since the last fit or visitor, or the number of visitors.
        clip: Public radius to which features are clipped, and by which they are divided; None for no clipping.
        bounded: Whether features lie in the unit ball, by clipping or by declaration; others are then refused.
        budget: The most rho the ledger allows; None if the printed constants claim less than is proven.
    """

    perturbation: Perturbation
    fit_price: Event
    continual: tree.ContinualSum
    shift: float
    radius: Callable[[int], float]
    fits: int
    explore: int
    trigger: Trigger
    clip: float | None
    bounded: bool
    budget: float | None


class Parts(NamedTuple):
    """The parts of a plan in which the paper's policy and its benchmark differ.

    Attributes:
        perturbation: As in `Plan`.
        continual: As in `Plan`.
        radius: Makes the radius of a plan from ``shift``.
        nominal_rho: What the paper claims for each fit, if anything.
        budget: As in `Plan`.
    """

    perturbation: Perturbation
    continual: tree.ContinualSum
    radius: Callable[..., theory.Radius]
    nominal_rho: float | None
    budget: float | None


@dataclass(frozen=True, kw_only=True)
class Shared(ABC):
    """Settings common to the paper's policy and its benchmark; the first half affects the guarantee.

    Attributes:
        rho: The whole budget, in zCDP.
        share: Share of the budget for the fits; the Gram matrix gets the rest.
        fits: D_MLE, or "auto" for ceil(d log2(K T)).
        clip: Public radius of features under a sound calibration; printed constants do not clip.
        bounded: Declares that features lie in the unit ball; otherwise nothing is proven about printed constants.
        calibration: "paper" for the printed constants; the others are proven.
        explore: T0, visitors who are shown random assortments.
        trigger: "since-last"; "literal" as printed, which never fires (docs/proofs.md, section 15); or "doubling": at
            T0, 2 T0, 4 T0, ... visitors, regardless of the determinant.
        scale: c, the share of alpha_t that is used.
        kappa: The kappa of the paper's Assumption 2.
    """

    rho: float
    share: float = 0.9
    fits: int | Literal["auto"] = 10
    clip: float = 1.0
    bounded: bool = False
    calibration: str = "sound"

    explore: int = 500
    trigger: Trigger = "since-last"
    scale: float = 1e-4
    kappa: float = 1.0

    def __post_init__(self) -> None:
        positive("rho", self.rho)
        require(0 < self.share < 1, "share must be between 0 and 1", share=self.share)
        require(self.fits == "auto" or integer("fits", self.fits) > 0, "fits must be auto or a number", fits=self.fits)
        positive("clip", self.clip)
        integer("explore", self.explore)
        for name, kind in get_type_hints(type(self)).items():
            if get_origin(kind) is Literal:
                one_of(name, getattr(self, name), get_args(kind))
        positive("scale", self.scale, zero=True)
        positive("kappa", self.kappa)

    def most_fits(self, *, dim: int, capacity: int, horizon: int) -> int:
        """D_MLE."""
        if self.fits == "auto":
            return theory.fits_allowed(dim=dim, capacity=capacity, horizon=horizon)
        return self.fits

    def plan(self, *, dim: int, capacity: int, horizon: int, source: NoiseSource) -> Plan:
        """Work out the numbers for one shop; exploration never exceeds the horizon."""
        fits = self.most_fits(dim=dim, capacity=capacity, horizon=horizon)
        parts = self._parts(fits, dim=dim, capacity=capacity, horizon=horizon, source=source)
        paper = self.calibration == "paper"
        bounded = self.bounded or not paper
        shift = _shift(parts.continual, dim=dim, horizon=horizon, printed=paper)
        return Plan(
            perturbation=parts.perturbation,
            fit_price=fit_event(
                parts.perturbation,
                dim=dim,
                capacity=capacity,
                source=source,
                batch="history",
                bounded=bounded,
                nominal_rho=parts.nominal_rho,
            ),
            continual=parts.continual,
            shift=shift,
            radius=parts.radius(shift=shift),
            fits=fits,
            explore=min(self.explore, horizon),
            trigger=self.trigger,
            clip=None if paper else self.clip,
            bounded=bounded,
            budget=parts.budget,
        )

    @abstractmethod
    def _parts(self, fits: int, *, dim: int, capacity: int, horizon: int, source: NoiseSource) -> Parts:
        """Noise, prices and widths for ``fits`` fits."""


@dataclass(frozen=True, kw_only=True)
class Dpmnl(Shared):
    """The paper's policy.

    Attributes:
        calibration: "sound" (Theorem A), "mean-width" (bound B), or "paper" (as printed).
        continual: "tree", or under a sound calibration "toeplitz", with 3.4 times less noise at T = 10^4.
        split: q of the printed calibration.
    """

    calibration: Literal["sound", "mean-width", "paper"] = "sound"
    continual: Literal["tree", "toeplitz"] = "tree"
    split: float = 0.5

    def _parts(self, fits: int, *, dim: int, capacity: int, horizon: int, source: NoiseSource) -> Parts:
        rho_fits, rho_gram = self.share * self.rho, (1 - self.share) * self.rho
        sizes = {"dim": dim, "capacity": capacity, "horizon": horizon}
        paper = self.calibration == "paper"
        return Parts(
            perturbation=within(rho_fits / fits, dim, capacity, self.calibration),
            continual=self._continual(rho_gram, sizes, source),
            radius=partial(
                theory.radius, **sizes, rho=rho_fits, fits=fits, kappa=self.kappa, split=self.split, scale=self.scale
            ),
            nominal_rho=rho_fits / fits if paper else None,
            budget=None if paper or source.noiseless else self.rho,
        )

    def _continual(self, rho: float, sizes: dict[str, int], source: NoiseSource) -> tree.ContinualSum:
        if self.calibration == "paper":
            require(self.continual == "tree", "the printed algorithm has a tree", continual=self.continual)
            return tree.paper(rho, source=source, bounded=self.bounded, **sizes)
        if self.continual == "toeplitz":
            return toeplitz.Toeplitz(rho=rho, source=source, **sizes)
        return tree.sound(rho, source=source, **sizes)


@dataclass(frozen=True, kw_only=True)
class DpmnlEpsilonDelta(Shared):
    """The (epsilon, delta) benchmark: rho is converted at delta = 1/T², and the two parts share epsilon and delta.

    The ledger holds the proven rho of the noise, whatever epsilon was asked for.

    Attributes:
        calibration: "sound" (curves converted once, an exact Gaussian tree), "repaired" (the supplement's formulas
            corrected), or "paper" (as printed).
        conversion: "text", rho + 4 rho log T as printed in section 5.1, or "lemma", rho + 2 sqrt(rho log(1/delta)).
        printed_sigma: Under "paper", sigma of the "algorithm" (4 L) or of the "theorem" (half of it).
    """

    calibration: Literal["sound", "repaired", "paper"] = "sound"
    conversion: Literal["text", "lemma"] = "lemma"
    printed_sigma: Literal["algorithm", "theorem"] = "algorithm"

    def epsilon(self, horizon: int) -> tuple[float, float]:
        """The (epsilon, delta) that rho is converted to."""
        delta = 1.0 / max(2, horizon) ** 2
        return epsilon_text(self.rho, horizon) if self.conversion == "text" else epsilon_classic(self.rho, delta), delta

    def _parts(self, fits: int, *, dim: int, capacity: int, horizon: int, source: NoiseSource) -> Parts:
        epsilon, delta = self.epsilon(horizon)
        epsilon_fits, delta_fits = self.share * epsilon, self.share * delta
        sizes = {"dim": dim, "capacity": capacity, "horizon": horizon}
        law = self._law(epsilon - epsilon_fits, delta - delta_fits, **sizes)
        bounded = self.bounded or self.calibration != "paper"
        detail = f"(epsilon, delta) tree, {self.calibration}"
        perturbation = self._perturbation(epsilon_fits, delta_fits, fits=fits, dim=dim, capacity=capacity)
        return Parts(
            perturbation=perturbation,
            continual=tree.Tree(**sizes, law=law, source=source, bounded=bounded, detail=detail),
            radius=partial(
                theory.benchmark_radius,
                **sizes,
                epsilon=epsilon_delta.printed_share(epsilon_fits, delta_fits, fits).epsilon,
                noise=perturbation.sigma,
                kappa=self.kappa,
                scale=self.scale,
            ),
            nominal_rho=None,
            budget=None,
        )

    def _perturbation(self, epsilon: float, delta: float, *, fits: int, dim: int, capacity: int) -> Perturbation:
        found = epsilon_delta.calibrate_epsilon(
            epsilon, delta, fits=fits, dim=dim, capacity=capacity, calibration=self.calibration
        )
        theorem = self.calibration == "paper" and self.printed_sigma == "theorem"
        return Perturbation(found.sigma / 2, found.ridge) if theorem else found

    def _law(self, epsilon: float, delta: float, *, dim: int, capacity: int, horizon: int) -> tree.Law:
        if self.calibration == "paper":
            return tree.printed_law(epsilon, delta, capacity=capacity, horizon=horizon)
        if self.calibration == "repaired":
            return tree.repaired_law(epsilon, delta, capacity=capacity, horizon=horizon)
        return tree.fair_law(epsilon, delta, sensitivity=tree.sensitivity(capacity, dim), horizon=horizon)


def _shift(continual: tree.ContinualSum, *, dim: int, horizon: int, printed: bool) -> float:
    """Lambda as printed, or the tight one (docs/proofs.md, section 17)."""
    if printed:
        return theory.printed_shift(continual.diagonal, dim=dim, horizon=horizon)
    return theory.tight_shift(continual.widest, dim=dim, chance=1.0 / max(2, horizon) ** 2)
