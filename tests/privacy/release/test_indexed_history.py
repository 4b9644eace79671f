"""Histories of numbers: the same curators, in a fraction of the memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.random import SeedSequence
from tests.studies.size import FULL

from quietshelf.model.choice import fit
from quietshelf.model.choice.features import Dense
from quietshelf.model.choice.maps import feature_map
from quietshelf.model.choice.tables import VisitorTable
from quietshelf.model.types import Context, Features, FloatArray, IntArray, Round, Streams
from quietshelf.privacy.release.certificate import DenseVisits
from quietshelf.privacy.release.history import contributing
from quietshelf.privacy.release.indexed_history import IndexedRounds, Memory, visits_of
from quietshelf.privacy.release.noise import Simulated
from quietshelf.privacy.release.objective_perturbation import private_fit, within
from quietshelf.privacy.statistics import clip
from quietshelf.research.environments import Hotels
from quietshelf.research.loop import Contestant, simulate
from quietshelf.research.loop.named import contestant


def table() -> VisitorTable:
    rng = np.random.default_rng(1)
    return VisitorTable(rng.normal(size=(9, 2)), rng.normal(size=(6, 3)), feature_map("full"), scale=1.3)


def some_rounds(made: VisitorTable, worlds: tuple[int, ...], count: int, *, dense: bool) -> list[Round]:
    """Random visitors and assortments, some with an empty place; as numbers of the table or with features in full."""
    rng = np.random.default_rng(2)
    found = []
    for _ in range(count):
        numbers = rng.integers(0, 9, worlds)
        items = rng.random((*worlds, 6)).argsort(axis=-1)[..., :3]
        items[..., 2] = np.where(rng.random(worlds) < 0.3, -1, items[..., 2])
        place = rng.integers(-1, 2, worlds)
        choice = np.where(place < 0, -1, np.take_along_axis(items, np.maximum(place, 0)[..., None], axis=-1)[..., 0])
        features: Features = made.drawn(numbers)
        if dense:
            features = Dense(made.feature_map.dense(made.visitors[numbers], made.catalogue) / made.scale)
        found.append(Round(Context(features, np.ones(6), 3), items, choice))
    return found


def remembered(rounds: list[Round], worlds: tuple[int, ...], radius: float | None, horizon: int | None) -> Memory:
    memory = Memory(worlds, 3, 12, horizon=horizon, clip=radius)
    for each in rounds:
        seen = contributing(each, worlds=worlds, capacity=3, dim=12)
        memory.append(seen if radius is None else seen._replace(rows=clip(seen.rows, radius)), each)
    return memory


@pytest.mark.parametrize("radius", [None, 0.8])
@pytest.mark.parametrize(("worlds", "horizon"), [((), None), ((4,), 100), ((2, 2), 7)])
def test_numbers_hold_what_features_hold(worlds: tuple[int, ...], horizon: int | None, radius: float | None) -> None:
    """Round by round the same features, choices and empty places, clipped or not, also beyond the room made first."""
    made, some = table(), np.arange(int(np.prod(worlds)))[::-1]
    numbers = remembered(some_rounds(made, worlds, 300, dense=False), worlds, radius, horizon)
    features = remembered(some_rounds(made, worlds, 300, dense=True), worlds, radius, horizon)
    assert len(numbers) == len(features) == 300
    kept = {int(w): rounds for group, rounds in numbers.parts(some) for w in group}
    for group, rounds in features.parts(some):
        visits = visits_of(rounds)
        assert isinstance(visits, DenseVisits)
        for place, world in enumerate(group):
            mine = visits_of(kept[int(world)])
            assert isinstance(mine, IndexedRounds)
            rows, position, offered = (np.concatenate(part, axis=1)[0] for part in zip(*mine.chunks(), strict=True))
            np.testing.assert_allclose(rows, visits.rows[place], atol=1e-14)
            np.testing.assert_array_equal(position, visits.position[place])
            assert visits.offered is not None
            np.testing.assert_array_equal(offered, visits.offered[place])
            longest = float(np.linalg.norm(rows, axis=-1).max())
            assert longest <= mine.longest <= longest * (1 + 1e-12)
            alone = fit(rows[None], position[None], offered[None], ridge=1.0)
            np.testing.assert_allclose(mine.fit(ridge=1.0).theta, alone.theta, atol=1e-9)


def test_a_history_has_one_table() -> None:
    """Visitors of another table, or of none, are refused before anything is kept of them."""
    memory = remembered(some_rounds(table(), (), 3, dense=False), (), None, None)
    for strange in (some_rounds(table(), (), 1, dense=False)[0], some_rounds(table(), (), 1, dense=True)[0]):
        seen = contributing(strange, worlds=(), capacity=3, dim=12)
        with pytest.raises(ValueError, match="must come from one table"):
            memory.append(seen, strange)
    assert len(memory) == 3
    assert list(Memory((), 3, 12, horizon=None).parts(np.array([0]))) == []


def test_a_private_fit_of_numbers_is_that_of_features() -> None:
    """The same noise gives the same theta, and the certificate holds for both."""
    made = table()
    options = {"perturbation": within(1.0, 12, 3), "batch": 0}
    found = []
    for dense in (False, True):
        memory = remembered(some_rounds(made, (), 200, dense=dense), (), 0.8, None)
        ((_, rounds),) = memory.parts(np.array([0]))
        source = Simulated(Streams([SeedSequence(3)]))
        found.append(private_fit(visits_of(rounds), source=source, **options))  # type: ignore[arg-type]
    np.testing.assert_allclose(found[0].theta, found[1].theta, atol=1e-9)
    assert found[0].event == found[1].event
    assert max(float(one.certificate.bound.max()) for one in found) < 1e-6


class Unindexed(Hotels):
    """The same hotels, whose features a curator must copy."""

    def features(self, numbers: IntArray) -> Dense:  # type: ignore[override]
        """In full."""
        return Dense(self.feature_map.dense(self.visitors[numbers], self.catalogue) / self.feature_scale)


def contestants() -> list[Contestant]:
    given: dict[str, object] = {"rho": 5.0, "explore": 60, "fits": 5}
    return [
        contestant("greedy"),
        contestant("ucb-mnl"),
        contestant("dpmnl", label="sound", **given),  # type: ignore[arg-type]
        contestant("dpmnl", label="paper", calibration="paper", **given),  # type: ignore[arg-type]
    ]


def test_curators_lose_the_same_with_numbers_as_with_features() -> None:
    """Exact and private curators in 3 worlds of 200 rounds: regret agrees to the last digits that rounding leaves."""
    rng = np.random.default_rng(4)
    options: dict[str, object] = {
        "visitors": rng.normal(size=(30, 2)),
        "catalogue": rng.normal(size=(8, 3)),
        "feature_map": feature_map("full"),
        "theta": rng.normal(size=12),
        "feature_scale": 3.0,
        "capacity": 3,
    }
    regret: list[Mapping[str, FloatArray]] = []
    for kind in (Hotels, Unindexed):
        world = kind(**options)  # type: ignore[arg-type]
        regret.append(simulate(world, contestants(), horizon=200, replicates=3, seed=5).regret)
    for label in regret[0]:
        np.testing.assert_allclose(regret[0][label], regret[1][label], rtol=1e-6)


PEAK = """
import resource, sys
import numpy as np
from numpy.random import SeedSequence
from quietshelf.model.choice.maps import feature_map
from quietshelf.research.environments import Hotels
from quietshelf.research.loop.contest import SimulationContext
from quietshelf.research.loop.named import contestant
from quietshelf.privacy.release.indexed_history import Memory, visits_of
from quietshelf.privacy.release.history import contributing
from quietshelf.privacy.release.noise import Simulated
from quietshelf.privacy.release.objective_perturbation import private_fit, within
from quietshelf.model.types import Round, Streams

resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
rng, horizon = np.random.default_rng(0), int(sys.argv[1])
world = Hotels(visitors=rng.normal(size=(4465, 18)), catalogue=rng.normal(size=(124, 10)),
               feature_map=feature_map("outer"), theta=rng.normal(size=180), feature_scale=20.0)
environment = world.open([SeedSequence(1)])
setting = SimulationContext(world=world, worlds=1, horizon=horizon, tastes=lambda: environment.theta)
curator = contestant("greedy").curator(setting, Streams([SeedSequence(2)]))
memory = Memory((1,), 10, 180, horizon=horizon, clip=1.0)
for t in range(horizon):
    context = environment.context(t)
    offered = rng.permutation(124)[None, :10]
    now = Round(context, offered, environment.choose(context, offered))
    curator.observe(now)
    memory.append(contributing(now, worlds=(1,), capacity=10, dim=180), now)
((_, rounds),) = memory.parts(np.array([0]))
found = private_fit(visits_of(rounds), perturbation=within(0.1, 180, 10), batch="history",
                       source=Simulated(Streams([SeedSequence(3)])))
assert found.certificate.bound.max() < 1e-6
assert curator.release.count[0] > 1
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))  # of this program, not its parent
print(1024 * int(peak.split()[1]))
"""


@pytest.mark.study
def test_a_hundred_thousand_rounds_at_d_180_fit_in_two_gigabytes() -> None:
    """K = 10 of 124 hotels: an exact curator's refits and a private fit, the address space held to 2 GB.

    In reduced form 3,000 rounds in 600 MB. Features alone would take 1.44 GB at full size, twice for two histories.
    """
    horizon, most = (100_000, 2 * 10**9) if FULL else (3_000, 600 * 10**6)
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", PEAK, str(horizon), str(most)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=one_thread)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < most
