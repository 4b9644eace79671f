"""What a shelf is told once: the half that alters the guarantee, and the half that does not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from numpy.typing import ArrayLike

from quietshelf.choice.maps import feature_map
from quietshelf.release.geometry import unknown_curvature
from quietshelf.release.noise import DiscreteGaussian
from quietshelf.release.quiet import Learner, Quiet
from quietshelf.types import FloatArray, finite, require, whole

SERVED = ("quiet", "uniform")
"""Policies a shelf can serve. Both learn by the releases of `quiet`; `uniform` shows items at random all the same."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a shelf.

    Attributes:
        rho: The promise to one person for the shelf's lifetime, in zCDP.
        visits: How many visits of one person count, at most one a batch; above 1 every offer needs a person.
        patience: How many visitors are served between a batch's last one and its release; 0 means the next offer.
        silence: What an offer without answer contributes: as if nothing was chosen, or nothing at all.
        capacity: K, the most items shown.
        policy: How offers are made.
        feature_map: How visitor and item features make x; None if each offer brings x for every item.
        intercept: Whether the map keeps its 1.
        dim: d, where each offer brings x for every item.
        visitor_dim: Length of visitor features, where it is declared.
        ceiling: The most visitors in a batch.
        forgetting: How much each release makes older ones count less.
    """

    rho: float
    visits: int = 1
    patience: int = 0
    silence: Literal["no-choice", "zero"] = "no-choice"
    capacity: int
    policy: str = "quiet"
    feature_map: str | None = None
    intercept: bool = True
    dim: int | None = None
    visitor_dim: int | None = None
    ceiling: int | None = None
    forgetting: float = 1.0

    def __post_init__(self) -> None:
        self.learning(declared=True)  # checks rho and visits
        whole("patience", self.patience, low=0)
        whole("capacity", self.capacity)
        if self.dim is not None:
            whole("dim", self.dim)
        if self.feature_map is not None:
            feature_map(self.feature_map, intercept=self.intercept)
        if self.visitor_dim is not None:
            whole("visitor_dim", self.visitor_dim, low=0)
        require(self.policy in SERVED, f"policy must be one of {', '.join(SERVED)}", policy=self.policy)
        require(self.silence in ("no-choice", "zero"), "silence must be no-choice or zero", silence=self.silence)

    def learning(self, *, declared: bool) -> Quiet:
        """How the learner of this shelf learns."""
        unit: Literal["visit", "person"] = "person" if self.visits > 1 else "visit"
        return Quiet(
            rho=self.rho,
            visits=self.visits,
            unit=unit,
            declared=declared,
            ceiling=self.ceiling,
            forgetting=self.forgetting,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a file."""
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Public:
    """What was declared, not measured, about visitors and tastes; it shapes the noise, never the guarantee.

    Attributes:
        visitor_scale: Standard deviation of visitor features, one number or one each; None declares nothing.
        curvature: Guess of one visitor's curvature, (d, d), in place of one made from the catalogue.
        prior: Theta (d,) and its precision (d, d) to start from.
    """

    visitor_scale: FloatArray | None
    curvature: FloatArray | None
    prior: tuple[FloatArray, FloatArray] | None

    @classmethod
    def of(
        cls,
        *,
        visitor_scale: ArrayLike | None,
        curvature: ArrayLike | None,
        prior: tuple[ArrayLike, ArrayLike] | None,
    ) -> Public:
        """Checked as far as can be before the first offer tells the dimensions."""
        scale = None if visitor_scale is None else finite("visitor_scale", visitor_scale)
        require(scale is None or bool((scale > 0).all()), "visitor_scale must be positive", visitor_scale=visitor_scale)
        return cls(
            scale,
            None if curvature is None else finite("curvature", curvature, shape=(None, None)),
            None if prior is None else (finite("prior theta", prior[0]), finite("prior precision", prior[1])),
        )

    def check(self, settings: Settings, dim: int) -> None:
        """Refuse a curvature or a prior that no learner of this dimension could start from."""
        guess = unknown_curvature(dim) if self.curvature is None else self.curvature
        require(guess.shape == (dim, dim), f"curvature must have shape ({dim}, {dim})", shape=guess.shape)
        Learner.start(settings.learning(declared=True), guess, source=DiscreteGaussian(), prior=self.prior)
