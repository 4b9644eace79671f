"""Validates user-supplied components: the world, each offer's shape, the first release and the first round.

Policies, curators and worlds may be anybody's. A wrong shape is refused where it is made, with the name of who made it,
not where it first happens to break a sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quietshelf.model.types import (
    NOTHING,
    Context,
    Environment,
    Features,
    FloatArray,
    IntArray,
    Policy,
    Random,
    Release,
    require,
)
from quietshelf.research.loop.contest import World


class CheckedPolicy:
    """A policy whose offers have the right shape."""

    def __init__(self, policy: Policy, label: str) -> None:
        self._policy, self._label = policy, label

    def offer(self, context: Context, release: Release, rng: Random) -> IntArray:
        """As the policy does."""
        made: Any = self._policy.offer(context, release, rng)
        lead, most = np.broadcast_shapes(release.explore.shape, context.revenue.shape[:-1]), context.capacity
        indices = isinstance(made, np.ndarray) and made.ndim > 0 and made.dtype.kind == "i"
        if not (indices and made.shape[:-1] == lead and made.shape[-1] <= most):
            wanted = ", ".join([*map(str, lead), f"at most {most}"])
            got = f"{made.dtype} {made.shape}" if isinstance(made, np.ndarray) else type(made).__name__
            rule = f"the offer of {self._label!r} must be an integer array of item indices, -1 for an empty place"
            raise ValueError(f"{rule}, of shape ({wanted}), got {got}")
        return np.asarray(made)


class CheckedEnvironment:
    """An environment whose first round is as its world declares."""

    def __init__(self, environment: Environment, world: World, worlds: int) -> None:
        self._environment, self._world, self._worlds, self._first = environment, world, worlds, True

    def context(self, t: int) -> Context:
        """As the environment does."""
        context = self._environment.context(t)
        self._first = t == 0
        if self._first:
            check_context(context, self._world, self._worlds)
        return context

    def choose(self, context: Context, assortment: IntArray) -> IntArray:
        """As the environment does."""
        choice = self._environment.choose(context, assortment)
        if self._first:
            shape = np.shape(choice)
            require(shape == assortment.shape[:-1], "choose must give one item index per world, or -1", shape=shape)
            stray = (choice != NOTHING) & ~(assortment == choice[..., None]).any(axis=-1)
            rule = "choose must give indices of items shown (not their places), or -1"
            first = tuple(np.argwhere(stray)[0]) if stray.any() else ()
            require(not stray.any(), rule, choice=int(choice[first].flat[0]), shown=assortment[first].tolist())
        return choice

    def regret(self, context: Context, assortment: IntArray) -> FloatArray:
        """As the environment does."""
        lost = self._environment.regret(context, assortment)
        if self._first:
            require(
                np.shape(lost) == assortment.shape[:-1], "regret must be one number per world", shape=np.shape(lost)
            )
            require(bool(np.isfinite(lost).all()), "regret must be finite", regret=lost)
        return lost


def check_world(world: object) -> None:
    """Refuse what describes no world: a class, or replicates that are open already."""
    lacking = [name for name in ("items", "dim", "capacity", "open") if not hasattr(world, name)]
    rule = "a world must be an object with items, dim, capacity and open(seeds), such as Synthetic(items=100)"
    require(not isinstance(world, type) and not lacking, rule, world=world, lacking=lacking)


def check_context(context: Context, world: World, worlds: int) -> None:
    """Refuse a visitor who does not fit the world's own description."""
    features = context.features
    rule = "features must answer utility, norm and rows: wrap an array in quietshelf.model.choice.features.Dense"
    require(isinstance(features, Features), rule, features=type(features).__name__)
    for name, found, declared in (
        ("items", features.items, world.items),
        ("dim", features.dim, world.dim),
        ("revenues", np.shape(context.revenue)[-1:], (world.items,)),
    ):
        require(found == declared, f"a visitor must have the {name} of the world, {declared}", **{name: found})
    most = world.capacity
    require(1 <= context.capacity <= most, f"capacity must be from 1 to the world's {most}", capacity=context.capacity)
    utility = features.utility(np.ones((worlds, world.dim)))
    wanted = (worlds, world.items)
    require(utility.shape == wanted, f"features must be those of {worlds} worlds, side by side", shape=utility.shape)
    require(bool(np.isfinite(utility).all()), "features must be finite", not_finite=int((~np.isfinite(utility)).sum()))


def check_release(label: str, release: Release, worlds: int, dim: int) -> None:
    """Refuse a first release that is not one of ``worlds`` worlds."""
    wanted = {"theta": (dim,), "precision": (dim, dim), "radius": (), "explore": (), "count": ()}
    for name, last in wanted.items():
        shape = np.shape(getattr(release, name))
        require(shape == (worlds, *last), f"{name} in the release of {label!r} must be {(worlds, *last)}", shape=shape)
