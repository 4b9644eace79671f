"""Contestants by the names that outsiders use: a policy, and the curator it comes with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from quietshelf.curation.quiet_curator import QuietCurator
from quietshelf.model.types import Curator, FloatArray, Random, Release, Round, one_of, positive, require
from quietshelf.policies import POLICIES
from quietshelf.privacy.accounting import Ledger
from quietshelf.privacy.release.constant import Constant
from quietshelf.privacy.release.dpmnl import Dpmnl, DpmnlEpsilonDelta
from quietshelf.privacy.release.dpmnl_curator import DpmnlCurator
from quietshelf.privacy.release.maximum_likelihood import ConfidenceWidth, MaximumLikelihood
from quietshelf.privacy.release.mirror_descent import MirrorDescent
from quietshelf.privacy.release.noise import Simulated
from quietshelf.privacy.release.quiet import Learner
from quietshelf.privacy.release.quiet_settings import Quiet
from quietshelf.research.loop.contest import Contestant, SimulationContext, World
from quietshelf.research.loop.declared import blind_outlook, declared_outlook

GEOMETRIES = ("declared", "unknown")
"""Of `quiet`: what the world declares, or nothing."""


def contestant(name: str, *, rho: float | None = None, label: str | None = None, **options: Any) -> Contestant:
    """A contestant by name.

    Args:
        name: One of the policies; the private ones need ``rho``.
        rho: Budget in zCDP.
        label: Its name in the rows; by default the policy's, with rho where there is one.
        **options: Settings of its curator (`PolicySpec`); ``geometry="unknown"`` declares nothing to `quiet`.

    >>> contestant("quiet", rho=0.5).label
    'quiet rho=0.5'
    >>> contestant("quiet")
    Traceback (most recent call last):
    ...
    ValueError: quiet needs rho, got rho=None
    >>> contestant("ofu-mnl", rigde=1.0)
    Traceback (most recent call last):
    ...
    ValueError: ofu-mnl takes the settings ridge, bound, step, radius, got unknown=['rigde']
    """
    one_of("policy", name, SPECS)
    spec = SPECS[name]
    unknown = sorted(set(options) - set(spec.settings))
    known = f"the settings {', '.join(spec.settings)}" if spec.settings else "no settings"
    require(not unknown, f"{name} takes {known}", unknown=unknown)
    require((rho is not None) == spec.private, f"{name} {'needs' if spec.private else 'takes no'} rho", rho=rho)
    if rho is not None:
        options = {"rho": positive("rho", rho), **options}
    text = name if rho is None else f"{name} rho={rho:g}"
    return Contestant(label or text, POLICIES[name], spec.make(**options))


@dataclass(frozen=True)
class MakeQuiet:
    """The curator of `quiet`, geometry from what the world declares.

    Attributes:
        config: How it learns.
        geometry: Whether the world's declaration is used.
        head_start: Precision of an earlier estimate that each world starts from, row by row: the world's tastes, and
            errors drawn to match. None to start from nothing.
    """

    config: Quiet
    geometry: str
    head_start: tuple[tuple[float, ...], ...] | None = None

    @classmethod
    def of(cls, *, geometry: str = "declared", **settings: Any) -> MakeQuiet:
        """Settings of `quiet`, and whether the world's declaration is used."""
        one_of("geometry", geometry, GEOMETRIES)
        return cls(Quiet(**settings), geometry)

    def __call__(self, setting: SimulationContext, rng: Random) -> Curator:
        """The curator for that many worlds."""
        source, lead, declared = Simulated(rng), (setting.worlds,), self.geometry == "declared"
        outlook = (declared_outlook if declared else blind_outlook)(setting, POLICIES["quiet"])
        config = self.learning(setting.world)
        start = partial(Learner.start, config, outlook, capacity=setting.capacity, source=source, lead=lead)
        learner = start()
        if self.head_start is not None:
            precision = np.array(self.head_start)
            drawn = rng.standard_normal(size=(*lead, len(precision), 1))
            errors = np.linalg.solve(np.linalg.cholesky(precision).T, drawn)[..., 0]
            learner = start(prior=learner.prior.informed(setting.theta + errors, precision))
        return QuietCurator(learner, source, outlook)

    def learning(self, world: World) -> Quiet:
        """How it learns there: with the item effects, and the conversion where none was given, that it declares."""
        if self.geometry != "declared":
            return self.config
        config = replace(self.config, item_effects=getattr(world, "item_effects", self.config.item_effects))
        return config if config.conversion else replace(config, conversion=getattr(world, "conversion", None))


@dataclass(frozen=True)
class MakeDpmnl:
    """The curator of the paper's policy or of its benchmark."""

    config: Dpmnl | DpmnlEpsilonDelta

    def __call__(self, setting: SimulationContext, rng: Random) -> Curator:
        """The curator for that many worlds."""
        source, sizes = Simulated(rng), {"dim": setting.dim, "capacity": setting.capacity}
        plan = self.config.plan(**sizes, horizon=setting.horizon, source=source)
        return DpmnlCurator(plan, source, **sizes, worlds=(setting.worlds,))


@dataclass(frozen=True)
class MakeMaximumLikelihood:
    """The exact estimate; ``scale`` is the share of the proven confidence width, None for no optimism."""

    scale: float | None
    options: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, scale: float | None, **defaults: Any) -> Callable[..., MakeMaximumLikelihood]:
        """A maker with these defaults."""
        return lambda *, scale=scale, **options: cls(scale, tuple({**defaults, **options}.items()))

    def __call__(self, setting: SimulationContext, rng: Random) -> Curator:  # noqa: ARG002 - an exact curator draws nothing
        """The curator for that many worlds."""
        radius = 0.0 if self.scale is None else ConfidenceWidth(dim=setting.dim, scale=self.scale)
        return MaximumLikelihood(
            setting.dim,
            setting.capacity,
            worlds=(setting.worlds,),
            radius=radius,
            horizon=setting.horizon,
            **dict(self.options),
        )


@dataclass(frozen=True)
class MakeMirrorDescent:
    """The online estimate of OFU-MNL+."""

    options: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, **options: Any) -> MakeMirrorDescent:
        """Options of the curator."""
        return cls(tuple(options.items()))

    def __call__(self, setting: SimulationContext, rng: Random) -> Curator:  # noqa: ARG002 - an exact curator draws nothing
        """The curator for that many worlds."""
        return MirrorDescent(setting.dim, setting.capacity, worlds=(setting.worlds,), **dict(self.options))


def make_nothing(setting: SimulationContext, rng: Random) -> Curator:  # noqa: ARG001 - nothing is drawn
    """A curator that learns nothing: theta = 0 for ever."""
    return Constant(_known(np.zeros((setting.worlds, setting.dim))))


class Oracle:
    """Knows the true tastes, also where they drift; for comparison only."""

    ledger = Ledger()

    def __init__(self, setting: SimulationContext) -> None:
        self._setting = setting

    @property
    def release(self) -> Release:
        """The truth of the visitor who comes next."""
        return _known(self._setting.theta)

    def observe(self, round: Round) -> Release:  # noqa: A002, ARG002 - nothing to learn
        """The truth again."""
        return self.release


def make_oracle(setting: SimulationContext, rng: Random) -> Curator:  # noqa: ARG001 - nothing is drawn
    """The curator of the oracle."""
    return Oracle(setting)


def _known(theta: FloatArray) -> Release:
    lead, dim = theta.shape[:-1], theta.shape[-1]
    zeros = np.zeros(lead)
    precision = np.broadcast_to(np.eye(dim), (*lead, dim, dim))
    return Release(theta, precision, zeros, zeros.astype(bool), zeros.astype(np.int64))


def _settings(takes: Callable[..., Any], *more: str, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """What a curator takes, but for what it learns from the world it serves."""
    of_the_world = ("dim", "capacity", "worlds", "horizon")
    own = (name for name in inspect.signature(takes).parameters if name not in (*of_the_world, *without))
    return (*own, *more)


@dataclass(frozen=True, kw_only=True)
class PolicySpec:
    """What there is to know of a policy by its name, beside how it chooses (`quietshelf.policies.POLICIES`).

    Attributes:
        make: From settings to what makes its curator.
        settings: Those that ``make`` takes: a misspelt one is refused by name, before any visitor comes.
        private: Whether it needs rho.
        learns: Whether it learns from visitors.
        keeps_rounds: Whether its curator keeps every round.
    """

    make: Callable[..., Callable[[SimulationContext, Random], Curator]]
    settings: tuple[str, ...] = ()
    private: bool = False
    learns: bool = True
    keeps_rounds: bool = True


_EXACT = _settings(MaximumLikelihood, "scale", without=("radius",))
SPECS: Mapping[str, PolicySpec] = MappingProxyType(
    {
        "quiet": PolicySpec(
            make=MakeQuiet.of,
            settings=_settings(Quiet, "geometry", without=("comparison",)),
            private=True,
            keeps_rounds=False,
        ),
        "dpmnl": PolicySpec(
            make=lambda **settings: MakeDpmnl(Dpmnl(**settings)), settings=_settings(Dpmnl), private=True
        ),
        "dpmnl-eps-delta": PolicySpec(
            make=lambda **settings: MakeDpmnl(DpmnlEpsilonDelta(**settings)),
            settings=_settings(DpmnlEpsilonDelta),
            private=True,
        ),
        "ucb-mnl": PolicySpec(make=MakeMaximumLikelihood.of(0.1), settings=_EXACT),
        "ts-mnl": PolicySpec(make=MakeMaximumLikelihood.of(0.1), settings=_EXACT),
        "ofu-mnl": PolicySpec(make=MakeMirrorDescent.of, settings=_settings(MirrorDescent), keeps_rounds=False),
        "greedy": PolicySpec(
            make=MakeMaximumLikelihood.of(None, schedule="intervals", growth=0.2, precision="information"),
            settings=_EXACT,
        ),
        "uniform": PolicySpec(make=lambda: make_nothing, learns=False, keeps_rounds=False),
        "oracle": PolicySpec(make=lambda: make_oracle, learns=False, keeps_rounds=False),
    }
)
"""The policies that can take part in a simulation, by name."""
