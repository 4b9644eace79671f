"""What every environment keeps to; a suite inherits it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.random import SeedSequence

from quietshelf.model.types import NOTHING, Context, Environment, FloatArray, IntArray, Release
from quietshelf.policies import Uniform
from quietshelf.research.environments import Shop, Synthetic


def random_offer(context: Context, rng: np.random.Generator) -> IntArray:
    batch, dim = context.revenue.shape[:-1], context.features.dim
    nothing = Release(
        theta=np.zeros((*batch, dim)),
        precision=np.broadcast_to(np.eye(dim), (*batch, dim, dim)),
        radius=np.zeros(batch),
        explore=np.ones(batch, dtype=bool),
        count=np.zeros(batch, dtype=np.int64),
    )
    return Uniform().offer(context, nothing, rng)


def revenue_of(utility: FloatArray, revenue: FloatArray, items: list[int]) -> float:
    weight = np.exp(utility[items])
    return float(weight @ revenue[items] / (1 + weight.sum()))


class EnvironmentContract:
    """The suite, for worlds with few enough items to try every assortment."""

    world: Synthetic | Shop

    def open(self, seeds: list[SeedSequence]) -> Environment:
        return self.world.open(seeds)

    def test_replicates_depend_on_their_own_seed_alone(self) -> None:
        """Five worlds side by side, or two of them: the same visitors, choices and regrets, to the bit."""
        seeds = SeedSequence(1).spawn(5)
        together, apart = self.open(seeds), self.open(seeds[3:])
        rng = np.random.default_rng(2)
        for t in range(12):
            many, few = together.context(t), apart.context(t)
            items = random_offer(many, rng)
            np.testing.assert_array_equal(many.revenue[3:], few.revenue)
            np.testing.assert_array_equal(many.features.rows(items)[3:], few.features.rows(items[3:]))
            for ask in ("choose", "regret"):
                full, part = getattr(together, ask)(many, items), getattr(apart, ask)(few, items[3:])
                assert full.shape == (5,)
                np.testing.assert_array_equal(full[3:], part)

    def test_equal_seeds_give_equal_worlds_and_others_differ(self) -> None:
        """The seed is all that a world is made of."""
        first, again, other = (self.open(SeedSequence(seed).spawn(3)) for seed in (3, 3, 4))
        x = [env.context(0).features.rows(np.arange(self.world.items)) for env in (first, again, other)]
        np.testing.assert_array_equal(x[0], x[1])
        assert (x[0] != x[2]).any()

    def test_choices_come_from_the_set_whatever_its_order(self) -> None:
        """What is picked was shown, or nothing; order, empty places and repeated questions change nothing."""
        environment, rng = self.open(SeedSequence(5).spawn(40)), np.random.default_rng(6)
        for t in range(20):
            context = environment.context(t)
            items = random_offer(context, rng)
            items[:, 0] = NOTHING
            choice = environment.choose(context, items)
            assert ((items == choice[:, None]).any(-1) | (choice == NOTHING)).all()
            np.testing.assert_array_equal(environment.choose(context, rng.permuted(items, axis=-1)), choice)
            np.testing.assert_array_equal(environment.choose(context, items[:, 1:]), choice)
            assert (environment.choose(context, np.full_like(items, NOTHING)) == NOTHING).all()

    def test_other_contestants_questions_do_not_disturb_a_world(self) -> None:
        """However many assortments are tried in a round, the next visitors are the same."""
        quiet, busy = (self.open(SeedSequence(7).spawn(3)) for _ in range(2))
        rng = np.random.default_rng(8)
        for t in range(5):
            one, other = quiet.context(t), busy.context(t)
            items = random_offer(one, rng)
            for _ in range(3):
                busy.choose(other, random_offer(other, rng))
                busy.regret(other, random_offer(other, rng))
            np.testing.assert_array_equal(quiet.choose(one, items), busy.choose(other, items))
            np.testing.assert_array_equal(quiet.regret(one, items), busy.regret(other, items))

    def test_regret_equals_enumeration(self) -> None:
        """Best of all allowed subsets less what was shown, summed item by item; at least zero, and zero at the best."""
        environment, rng = self.world.open(SeedSequence(9).spawn(3)), np.random.default_rng(10)
        sizes = range(self.world.capacity + 1)
        subsets = [list(s) for k in sizes for s in combinations(range(self.world.items), k)]
        for t in range(5):
            theta = environment.theta
            context = environment.context(t)
            utility = context.features.utility(theta)
            items = random_offer(context, rng)
            regret = environment.regret(context, items)
            assert (regret >= 0).all()
            for k in range(3):
                stock = np.ones(self.world.items, dtype=bool) if context.available is None else context.available[k]
                allowed = [subset for subset in subsets if stock[subset].all()]
                values = [revenue_of(utility[k], context.revenue[k], subset) for subset in allowed]
                value = revenue_of(utility[k], context.revenue[k], items[k][items[k] != NOTHING].tolist())
                assert regret[k] == pytest.approx(max(values) - value, abs=1e-12)
                best = np.full_like(items, NOTHING)
                chosen = allowed[int(np.argmax(values))]
                best[k, : len(chosen)] = chosen
                assert environment.regret(context, best)[k] == 0

    def test_only_the_open_round_answers(self) -> None:
        """Rounds come in order; an older context is refused."""
        environment = self.open(SeedSequence(11).spawn(2))
        first = environment.context(0)
        items = random_offer(first, np.random.default_rng(12))
        with pytest.raises(ValueError, match=r"one after the other: 1 is next, got t=2"):
            environment.context(2)
        environment.context(1)
        for ask in (environment.choose, environment.regret):
            with pytest.raises(ValueError, match="open round"):
                ask(first, items)

    def test_what_may_not_be_shown_is_refused(self) -> None:
        """Items that do not exist or are shown twice, and too many of them, have no regret worth the name."""
        environment = self.open(SeedSequence(13).spawn(2))
        context = environment.context(0)
        items = random_offer(context, np.random.default_rng(14))
        too_many = np.concatenate([items, np.full_like(items, NOTHING)], axis=-1)
        missing, twice = items.copy(), items.copy()
        missing[1, 0], twice[1, 0] = self.world.items, items[1, 1]
        for wrong, why in [(too_many, "at most capacity"), (missing, "items must be from -1"), (twice, "only once")]:
            with pytest.raises(ValueError, match=why):
                environment.choose(context, wrong)
