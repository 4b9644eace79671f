"""A multinomial logit as a scikit-learn estimator: the exact fit, or the private one of docs/proofs.md, section 18."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from quietshelf.curation.prior_file import PriorFile
from quietshelf.data.logs.collinear import move_together
from quietshelf.data.logs.encoded import uses_visitor
from quietshelf.data.logs.files import EXTRA, pandas
from quietshelf.data.logs.ids import as_ids
from quietshelf.data.logs.searches import EncodedRounds
from quietshelf.model import choice
from quietshelf.model.choice.dense import checked
from quietshelf.model.choice.likelihood import shares, utilities
from quietshelf.model.choice.maps import feature_map as named
from quietshelf.model.types import BoolArray, FloatArray, IntArray, as_float, finite, integer, positive, require
from quietshelf.privacy.accounting import DELTA, Ledger, Promise
from quietshelf.privacy.release.geometry import scaled_curvature, unknown_curvature
from quietshelf.privacy.release.noise import DiscreteGaussian
from quietshelf.privacy.release.private_newton import PrivateTastes, first_rounds, private_newton
from quietshelf.privacy.statistics import ObservedChoice

try:
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.validation import check_is_fitted
except ModuleNotFoundError:
    raise ModuleNotFoundError(f"the estimator needs scikit-learn: {EXTRA}") from None


class ScalesNotDeclared(UserWarning):
    """A private fit was given no scales, and starts from a guess."""


class CollinearFeatures(UserWarning):
    """Features of an exact fit are collinear, so that their tastes cannot be told apart."""


COLLINEAR = "features are collinear, so their tastes cannot be told apart: {mixes}"
BLIND = (
    "no scales are declared, so the private fit has to guess how large features are, which costs accuracy (never "
    "privacy): declare scales={{{names}}} from public knowledge, never measured on these rounds"
)


class ChoiceModel(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Estimate tastes from choices: a visitor chooses item j with probability proportional to exp(x_j . coef).

    Choosing nothing has utility zero. With ``rho`` the fit is private: its noise comes from the operating system, and
    there is no ``random_state``, so two fits of the same data differ. Every fit on the same people costs again, also
    within a grid search or cross-validation, and costs add up; an estimator keeps no record of earlier fits
    (`quietshelf.accounting.together` adds up ledgers). ``score`` and ``predict`` on visitors' data are not private.

    Features are never centred or scaled by the data: a mean over the rounds would let one visitor move everybody's
    features, which the noise does not cover. Declare ``scales`` instead, and compute X from each round and public facts
    alone.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 5, 2)) * [40, 1] + [120, 0]
    >>> utility = np.pad((X - [120, 0]) @ [-0.02, 0.5], ((0, 0), (1, 0)))  # the first is choosing nothing
    >>> y = np.argmax(utility + rng.gumbel(size=utility.shape), axis=1) - 1
    >>> model = ChoiceModel(rho=1.0, features=["price", "rating"], scales={"price": (120, 40), "rating": 1}, capacity=5)
    >>> model.fit(X, y).feature_names_out_
    ['intercept', 'price', 'rating']
    >>> bool(np.abs(model.coef_ - [0.0, -0.8, 0.5]).max() < 0.2), round(model.privacy_.rho, 6)
    (True, 1.0)

    Args:
        rho: The budget of one fit, in zCDP; None fits exactly and promises nothing.
        features: Names of the columns of X; x0, x1, ... by default.
        scales: Declared spread, or (centre, spread), of every column: a mapping by name, or a sequence in their order.
            Coefficients are then per spread. Never measure them on the rounds that are fitted.
        visitor: Names of the columns that describe the visitor, equal in all places of a round.
        feature_map: How visitor and item columns make x: item, concat, outer or full.
        intercept: Whether x has a 1, the appeal of any item against choosing nothing.
        capacity: Declared number of items shown at once; shapes the noise of a private fit.
        ridge: Ridge penalty; exact fits only.
        delta: The delta that ``privacy_`` states epsilon for.

    Attributes:
        coef_: Tastes, (d,), in declared units.
        standard_errors_: Standard errors of ``coef_``; those of a private fit include the noise.
        feature_names_out_: Names of the coefficients.
        privacy_: What the fit promises and to whom, a `Promise`; None for an exact fit.
        ledger_: The fit's releases; None for an exact fit.
        classes_: The places of X, -1 for choosing nothing first: the columns of ``predict_proba``.
        n_features_in_: Columns of X.
    """

    coef_: FloatArray
    standard_errors_: FloatArray
    feature_names_out_: list[str]
    privacy_: Promise | None
    ledger_: Ledger | None
    _prior: PriorFile | None

    def __init__(
        self,
        *,
        rho: float | None = None,
        features: Sequence[str] | None = None,
        scales: Mapping[str, Any] | Sequence[Any] | None = None,
        visitor: Sequence[str] = (),
        feature_map: str = "concat",
        intercept: bool = True,
        capacity: int = 10,
        ridge: float = 0.0,
        delta: float = DELTA,
    ) -> None:
        self.rho = rho
        self.features = features
        self.scales = scales
        self.visitor = visitor
        self.feature_map = feature_map
        self.intercept = intercept
        self.capacity = capacity
        self.ridge = ridge
        self.delta = delta

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Fit the model; with ``rho``, this spends the budget.

        Args:
            X: The item in each place of each round, (n, J, columns); NaN in all columns if nothing was offered there.
            y: Place chosen, (n,), -1 for none.
            groups: Person ids, (n,), text or whole numbers. A private fit then counts the first round of each person
                and promises to persons; without ids it promises to each round. An exact fit counts all rounds. With
                `cross_val_score`, pass ``params={"groups": who}``.
        """
        require(self.rho is None or self.ridge == 0, "ridge is for exact fits", ridge=self.ridge, rho=self.rho)
        require(0 < self.delta < 1, "delta must be in (0, 1)", delta=self.delta)
        x, offered, names = self._rows(X)
        data = checked(x, y, offered, True)
        self.feature_names_out_ = self._map.names(*self._sides(names))
        if self.rho is None:
            self._fit_exactly(EncodedRounds(x, data.choice, offered))
        else:
            self._fit_privately(ObservedChoice(x, offered, data.choice), groups, names, positive("rho", self.rho))
        self.n_features_in_ = len(names)
        self.classes_ = np.arange(-1, x.shape[1])
        return self

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Probability of choosing nothing, then of each place, (n, 1 + J); zero where nothing is offered."""
        check_is_fitted(self)
        x, offered, _ = self._rows(X)
        share = shares(utilities(x, self.coef_), offered)
        return np.concatenate([share.none[:, None], share.items], axis=1)

    def predict(self, X: ArrayLike) -> IntArray:
        """The most likely choice of each round, (n,): a place, or -1 for none."""
        return np.asarray(self.predict_proba(X).argmax(axis=1) - 1)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Mean log-likelihood per round, at most 0. Computed from raw data: not private."""
        check_is_fitted(self)
        x, offered, _ = self._rows(X)
        data = checked(x, y, offered, True)
        return float(choice.log_likelihood(utilities(x, self.coef_), data.choice, offered).mean())

    def to_pandas(self) -> Any:
        """A DataFrame with a row per coefficient: estimate and standard_error."""
        check_is_fitted(self)
        columns = {"estimate": self.coef_, "standard_error": self.standard_errors_}
        return pandas().DataFrame(columns, index=pandas().Index(self.feature_names_out_, name="feature"))

    def plot(self, ax: Any = None, *, most: int = 30) -> Any:
        """Draw the coefficients ± 2 standard errors; returns the matplotlib axes. Needs the extra ``report``."""
        from quietshelf.report.interactive import plot_tastes

        check_is_fitted(self)
        return plot_tastes(self.feature_names_out_, self.coef_, self.standard_errors_, ax, most=most)

    def to_prior(self) -> PriorFile:
        """The result of a private fit, with its cost, for ``Shelf(prior=...)``; its ``save`` writes a file.

        An exact fit has none: its coefficients are visitors' data. ``Shelf(prior=(theta, precision))`` is for public
        knowledge only; it would not count what such coefficients cost the people they come from.
        """
        check_is_fitted(self)
        if self._prior is None:
            raise ValueError(f"a prior must come from a private fit: give rho, got rho={self.rho!r}")
        return self._prior

    def _fit_exactly(self, rounds: EncodedRounds) -> None:
        if self.ridge == 0 and (mixes := move_together(rounds, self.feature_names_out_)):
            warnings.warn(COLLINEAR.format(mixes="; ".join(mixes)), CollinearFeatures, stacklevel=3)
        found = choice.fit(*rounds, ridge=self.ridge)
        if not found.converged:
            warnings.warn("the fit did not converge: separable data? try ridge", ConvergenceWarning, stacklevel=3)
        self.coef_, self.standard_errors_ = found.theta, found.standard_errors
        self.ledger_, self.privacy_, self._prior = None, None, None

    def _fit_privately(self, shown: ObservedChoice, groups: ArrayLike | None, names: list[str], rho: float) -> None:
        if groups is not None:
            who = as_ids("groups", groups)
            require(who.shape == shown.position.shape, "groups must have one entry per round", shape=who.shape)
            counted = first_rounds(who)
            shown = ObservedChoice(shown.rows[counted], shown.offered[counted], shown.position[counted])
        if self.scales is None:
            hint = ", ".join(f"'{name}': spread" for name in names)
            warnings.warn(BLIND.format(names=hint), ScalesNotDeclared, stacklevel=3)
            guess = unknown_curvature(shown.rows.shape[-1])
        else:
            visitor, item = (np.ones(len(side)) for side in self._sides(names))
            size = integer("capacity", self.capacity)
            guess = scaled_curvature(self._map, visitor_scale=visitor, item_scale=item, capacity=size)
        found = private_newton(
            shown,
            rho=rho,
            curvature=guess,
            source=DiscreteGaussian(),
            unit="visit" if groups is None else "person",
            declared=self.scales is not None,
        )
        self.coef_, self.standard_errors_ = found.theta, found.standard_errors
        self._prior = self._as_prior(found, names)
        ledger = replace(found.ledger, budget=None)  # nothing refuses the next fit
        self.ledger_, self.privacy_ = ledger, ledger.promise(delta=self.delta)

    def _as_prior(self, found: PrivateTastes, names: list[str]) -> PriorFile:
        """The fit as a prior, with the names and units of the columns that the map uses."""
        visitor, item = self._sides(names)
        visitor = visitor if uses_visitor(self._map) else []
        units = zip(names, *(part.tolist() for part in self._units(names)), strict=True)
        scales = {name: (centre, spread) for name, centre, spread in units if name in {*visitor, *item}}
        return PriorFile.of(
            found,
            self._map,
            visitor_names=tuple(visitor),
            item_names=tuple(item),
            scales=None if self.scales is None else scales,
        )

    @property
    def _map(self) -> Any:
        return named(self.feature_map, intercept=self.intercept)

    def _names(self, given: FloatArray) -> list[str]:
        require(given.ndim == 3, "X must have shape (rounds, places, columns)", shape=given.shape)
        count = given.shape[-1]
        names = [f"x{place}" for place in range(count)] if self.features is None else list(self.features)
        require(len(names) == count, "features must name each column of X", features=names, columns=count)
        require(len(set(names)) == count, "features must have distinct names", features=names)
        return names

    def _sides(self, names: list[str]) -> tuple[list[str], list[str]]:
        """Names of the visitor columns and of the item columns."""
        unknown = [name for name in self.visitor if name not in names]
        require(not unknown, f"visitor must be among the columns {', '.join(names)}", unknown=unknown)
        return list(self.visitor), [name for name in names if name not in self.visitor]

    def _units(self, names: list[str]) -> tuple[FloatArray, FloatArray]:
        """Declared centre and spread of each column."""
        if self.scales is None:
            return np.zeros(len(names)), np.ones(len(names))
        given = self.scales if isinstance(self.scales, Mapping) else dict(zip(names, self.scales, strict=False))
        wrong = sorted(set(names) ^ set(given)) or len(self.scales) != len(names)
        require(not wrong, f"scales must declare each of {', '.join(names)}, and nothing else", scales=self.scales)
        pairs = [np.append(0.0, finite(f"scales[{name!r}]", given[name]))[-2:] for name in names]
        centre, spread = np.transpose(pairs)
        for name, value in zip(names, spread, strict=True):
            positive(f"scales[{name!r}]", value)
        return centre, spread

    def _rows(self, X: ArrayLike) -> tuple[FloatArray, BoolArray, list[str]]:
        """X of each place, (n, J, d), zero where empty; which places hold an item, (n, J); names of the columns."""
        given = as_float("X", X)
        names = self._names(given)
        offered: BoolArray = np.asarray(~np.isnan(given).all(axis=-1))
        bad = np.argwhere(~np.isfinite(given) & offered[..., None])
        if bad.size:
            at, place, column = bad[0].tolist()
            rule = "X must be finite, or NaN in all columns of a place that was not offered"
            require(False, rule, round=at, place=place, column=names[column], value=float(given[at, place, column]))
        centre, spread = self._units(names)
        scaled = (np.where(offered[..., None], given, centre) - centre) / spread
        visitor, item = ([names.index(name) for name in side] for side in self._sides(names))
        who = np.take_along_axis(scaled, offered.argmax(axis=1)[:, None, None], axis=1)[:, 0, visitor]
        moved = np.argwhere(((scaled[..., visitor] != who[:, None]) & offered[..., None]).any(axis=(1, 2)))
        require(not moved.size, "columns of the visitor must be equal in all places", round=moved[:1].ravel().tolist())
        x = self._map.dense(who, scaled[..., item])
        require(x.shape[-1] > 0, "X must have columns for this map", feature_map=self.feature_map)
        x[~offered] = 0.0
        return x, offered, names
