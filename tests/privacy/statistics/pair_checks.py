"""What must hold of the bounded pair, as checks that the shipped code passes and planted faults fail."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import NamedTuple

import numpy as np

from quietshelf.model.choice import probabilities
from quietshelf.privacy.statistics import ObservedChoice, Pair, pair, svec

Contribution = Callable[..., Pair]
BOUNDS = (1e-6, 0.05, 0.5, 1.0, 7.0, 1e6)


def planted(module: ModuleType, old: str, new: str) -> ModuleType:
    """A shipped module with one piece of its source exchanged for another."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, old
    found = ModuleType(f"faulty {module.__name__}")
    exec(compile(source.replace(old, new), found.__name__, "exec"), found.__dict__)  # noqa: S102 - our own source
    return found


def faulty(old: str, new: str) -> Contribution:
    """The shipped `contribution` with one piece of its source exchanged for another."""
    found: Contribution = planted(pair, old, new).contribution
    return found


class Visitor(NamedTuple):
    """One visitor, and what is public."""

    shown: ObservedChoice
    theta: np.ndarray
    coordinates: np.ndarray


def visitor(rng: np.random.Generator, places: int, dim: int, size: float) -> ObservedChoice:
    """A visitor of any kind: features of any size and direction, some places empty, any answer."""
    rows = size * rng.normal(size=(places, dim)) * 10 ** rng.uniform(-3, 3, size=(places, 1))
    if rng.random() < 0.3:
        rows[:] = rows[0]
    if rng.random() < 0.3:
        rows += size * 1e3
    offered = rng.random(places) < 0.8
    rows[~offered] = 0.0
    position = rng.choice(np.append(np.flatnonzero(offered), -1))
    return ObservedChoice(rows, offered, np.asarray(position))


def public(rng: np.random.Generator, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """A released theta and coordinates, far from harmless."""
    return 3 * rng.normal(size=dim), rng.normal(size=(dim, dim)) * 10 ** rng.uniform(-2, 2)


def all_shown(rows: np.ndarray, position: int = -1) -> ObservedChoice:
    return ObservedChoice(np.asarray(rows, dtype=float), np.ones(len(rows), bool), np.asarray(position))


def in_units(one: Pair, bound: float) -> np.ndarray:
    """A pair as u = (score/(sqrt(2) C), svec(information)/B)."""
    return np.concatenate([one.score / math.sqrt(2.0), svec(one.information) / bound], axis=-1)


def distance(contribution: Contribution, one: Visitor, other: ObservedChoice, bound: float) -> float:
    """How far apart two visitors are in u, at the first one's theta and coordinates."""
    pairs = [contribution(shown, one.theta, one.coordinates, bound) for shown in (one.shown, other)]
    return float(np.linalg.norm(in_units(pairs[0], bound) - in_units(pairs[1], bound)))


def far_scores(long: float = 1e6) -> tuple[Visitor, ObservedChoice]:
    """Nothing bought though all but certain to buy: scores -C and C, and hardly any information."""
    one, other = (all_shown(np.array([[sign * long, 1.0]])) for sign in (1.0, -1.0))
    return Visitor(one, np.array([0.0, 60.0]), np.eye(2)), other


def far_information(long: float = 1e9) -> tuple[Visitor, ObservedChoice]:
    """One very long item along one axis or another: informations B e e', and hardly any score."""
    one, other = (all_shown(np.array([long * np.eye(2)[axis]])) for axis in (0, 1))
    return Visitor(one, np.zeros(2), np.eye(2)), other


def far_in_both(places: int = 4000) -> tuple[Visitor, ObservedChoice]:
    """Opposite scores of length C beside informations along two axes: at B = 1 each is half of it."""
    along, side = 1 + 1 / places, math.sqrt(1 - 1 / places**2) * np.where(np.arange(places) % 2, 1.0, -1.0)[:, None]
    axes = np.eye(3)
    one, other = along * axes[0] + side * axes[1], -along * axes[0] + side * axes[2]
    return Visitor(all_shown(one), np.zeros(3), np.eye(3)), all_shown(other)


def far_crowds(places: int) -> tuple[Visitor, ObservedChoice]:
    """Copies of an item or of its opposite, nothing bought: none, the farthest alternative, is the one chosen."""
    rows = np.tile([1.5, 0.0], (places, 1))
    return Visitor(all_shown(rows), np.zeros(2), np.eye(2)), all_shown(-rows)


def adversaries() -> Iterator[tuple[Visitor, ObservedChoice]]:
    """Neighbours that hurt most, some nearly as much as any can."""
    yield from (far_scores(), far_information(), far_in_both(50), far_crowds(1), far_crowds(30))
    yield from (far_information(long) for long in (1.0, 2.0, 4.0, 1e150))
    rng = np.random.default_rng(11)
    for size in (0.3, 1.0, 3.0, 1e4):
        rows = size * rng.normal(size=(4, 3))
        for choices in ((-1, -1), (0, -1), (2, 1)):
            yield Visitor(all_shown(rows, choices[0]), rng.normal(size=3), np.eye(3)), all_shown(-rows, choices[1])


def check_sensitivity(contribution: Contribution) -> None:
    """No neighbours are farther apart than sqrt(2), whatever B is."""
    for bound in BOUNDS:
        for one, other in adversaries():
            assert distance(contribution, one, other, bound) <= math.sqrt(2.0)


def check_joint_bound(contribution: Contribution) -> None:
    """The longest of all possible scores and the information of one visitor share a budget of one."""
    for bound in BOUNDS:
        for one, _ in adversaries():
            places = len(one.shown.rows)
            every = [
                contribution(one.shown._replace(position=np.asarray(j)), one.theta, one.coordinates, bound)
                for j in range(-1, min(places, 5))
            ]
            longest = max(float(np.linalg.norm(each.score)) for each in every)
            assert longest**2 + (float(np.linalg.norm(every[0].information)) / bound) ** 2 <= 1.0


def chances(rows: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """Of none and of every item."""
    p = probabilities(rows @ theta)
    return np.append(1 - p.sum(), p)


def possible(contribution: Contribution, rows: np.ndarray, theta: np.ndarray, frame: np.ndarray, bound: float) -> Pair:
    """The pairs of all possible choices, none first."""
    every = np.arange(-1, len(rows))
    same = ObservedChoice(np.tile(rows, (len(every), 1, 1)), np.ones((len(every), len(rows)), bool), every)
    return contribution(same, theta, frame, bound)


def check_mean_zero(contribution: Contribution) -> None:
    """Averaged over every possible choice with its probability, the score vanishes, to rounding."""
    rng = np.random.default_rng(2)
    for bound in (0.1, 1.0, 10.0):
        for size in (0.1, 1.0, 4.0):
            rows, theta = size * rng.normal(size=(5, 3)), rng.normal(size=3)
            scores = possible(contribution, rows, theta, np.diag([1.0, 2.0, 3.0]), bound).score
            np.testing.assert_allclose(chances(rows, theta) @ scores, 0.0, atol=1e-14)


def check_choice_blind(contribution: Contribution) -> None:
    """The information, weight included, is the same whatever was chosen."""
    rng = np.random.default_rng(3)
    for size in (0.5, 10.0):
        every = possible(contribution, size * rng.normal(size=(4, 2)), np.ones(2), np.eye(2), 0.7).information
        np.testing.assert_array_equal(every, np.broadcast_to(every[0], every.shape))


def check_derivative(contribution: Contribution, tolerance: float = 0.1) -> None:
    """Minus the information is how the mean score changes with the tastes that visitors have, up to the rest r."""
    rng, step = np.random.default_rng(4), 1e-5
    for size in (0.2, 1.0, 3.0):
        rows, theta, L = size * rng.normal(size=(6, 2)) + 0.7, rng.normal(size=2), np.array([[1.0, 0.3], [0.0, 0.6]])
        every, slope = possible(contribution, rows, theta, L, 1.0), np.zeros((2, 2))
        for place in range(2):  # a step in theta' = L^-T theta, so that utilities are z . theta'
            up, down = (chances(rows, theta + sign * step * L[place]) for sign in (1, -1))
            slope[:, place] = (up - down) @ every.score / (2 * step)
        np.testing.assert_allclose(-slope, every.information[0], atol=tolerance * np.abs(slope).max())
