"""Post-processing: expectations corrected by noisy sums, and the estimate that all records together make likely."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from tests.privacy.release.learners import summed

from quietshelf.model.types import FloatArray
from quietshelf.privacy.release import records
from quietshelf.privacy.release.batch_pair import Noisy, Scales
from quietshelf.privacy.release.outlook import FACTORS
from quietshelf.privacy.release.prior import Prior
from quietshelf.privacy.release.records import (
    EIGENVALUE_FLOOR,
    FIT_DOUBT,
    NEAR,
    SHAPE_DOUBT,
    STEP,
    Estimate,
    Record,
    believed,
    blended,
    drowned,
    evidence,
    fits,
    rebuild,
    record,
    signal_noise,
)
from quietshelf.privacy.release.strength import STRENGTHS
from quietshelf.privacy.statistics import ObservedChoice, contribution, from_svec, svec

EXACT = Scales(score=1e-9, information=1e-9, bound=1.0)
HERE = np.asarray(FACTORS.index(1.0))


def symmetric(rng: np.random.Generator, *shape: int) -> FloatArray:
    root = rng.normal(size=shape)
    return np.asarray(root + np.swapaxes(root, -1, -2))


def made(seed: int, scales: Scales, dim: int = 3, size: int = 400, **parts: Any) -> Record:
    """Of a noisy sum around what was expected."""
    rng = np.random.default_rng(seed)
    information = size / dim * (np.eye(dim) + 0.1 * symmetric(rng, dim, dim))
    options: dict[str, Any] = {
        "theta": 0.3 * rng.normal(size=dim),
        "coordinates": np.eye(dim) + 0.3 * rng.normal(size=(dim, dim)),
        "expected": np.eye(dim)[None] / dim,
        "place": np.asarray(0),
        "spread": np.asarray(0.8),
        **parts,
    }
    return record(Noisy(rng.normal(size=dim), information), scales=scales, size=size, **options)


def flat_prior(dim: int, precision: float = 1e-9) -> Prior:
    return Prior(np.zeros(dim), precision * np.eye(dim), np.zeros((dim, dim)))


class TestBlended:
    """The expected sum, scaled and corrected."""

    def test_a_sum_without_noise_is_believed(self) -> None:
        """Whatever was expected, also in one dimension."""
        rng = np.random.default_rng(0)
        for dim in (1, 2, 5):
            heard = symmetric(rng, dim, dim) + 10 * np.eye(dim)
            found, kept = blended(heard, 7 * np.eye(dim), np.asarray(1e-9))
            np.testing.assert_allclose(found, heard, rtol=1e-9)
            assert dim == 1 or kept == pytest.approx(1.0)

    def test_a_drowned_sum_leaves_what_was_expected(self) -> None:
        """Noise a thousand times as large as the expectation says nothing."""
        rng = np.random.default_rng(1)
        expected = np.diag([5.0, 3.0, 1.0, 0.5])
        scale = 1e6
        kept = []
        for _ in range(200):
            noise = from_svec(scale * rng.normal(size=10), 4)
            found, share = blended(expected + noise, expected, np.asarray(scale))
            kept.append(float(share))
            if share == 0:
                np.testing.assert_allclose(found, expected, rtol=1e-4)
        assert np.mean(np.array(kept) == 0) > 0.4
        assert np.median(kept) < 0.2

    def test_the_scale_is_heard_before_the_shape(self) -> None:
        """A sum three times what was expected, in noise that drowns its single entries, scales the expectation."""
        rng = np.random.default_rng(2)
        expected = np.eye(20)
        scale = 0.3
        noise = from_svec(scale * rng.normal(size=210), 20)
        noise *= scale * np.sqrt(209) / np.linalg.norm(noise)  # just what is expected of noise
        found, kept = blended(3 * expected + noise, expected, np.asarray(scale))
        assert kept < 0.05
        np.testing.assert_allclose(np.diag(found), 3.0, rtol=0.1)

    @given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e-9, 1.0, 1e6]), st.sampled_from([1e-6, 1.0, 1e6]))
    def test_it_is_symmetric_and_between_both(self, seed: int, size: float, scale: float) -> None:
        """Also where nothing was expected; each world as if alone, to the bit."""
        rng = np.random.default_rng(seed)
        root = rng.normal(size=(2, 3, 3))
        expected = size * root @ np.swapaxes(root, -1, -2)
        expected = 0.5 * (expected + np.swapaxes(expected, -1, -2))
        heard = expected + from_svec(scale * rng.normal(size=(2, 6)), 3)
        found, kept = blended(heard, expected, np.full(2, scale))
        np.testing.assert_array_equal(found, np.swapaxes(found, -1, -2))
        assert np.isfinite(found).all()
        assert ((kept >= 0) & (kept <= 1)).all()
        for world in range(2):
            alone, share = blended(heard[world], expected[world], np.asarray(scale))
            np.testing.assert_array_equal(found[world], alone)
            assert kept[world] == share

    def test_nothing_expected_and_nothing_heard_is_nothing(self) -> None:
        """No 0/0."""
        found, _ = blended(np.zeros((2, 2)), np.zeros((2, 2)), np.asarray(1.0))
        np.testing.assert_array_equal(found, 0.0)

    def test_a_negative_scale_is_not_believed(self) -> None:
        """A sum that points the other way leaves a little of the expectation, never its opposite."""
        found, kept = blended(-0.5 * np.eye(10), np.eye(10), np.asarray(1.0))
        assert kept == 0
        assert np.linalg.eigvalsh(found)[0] > 0


class TestBelieved:
    """The factor by which declared scales may be wrong."""

    @pytest.mark.parametrize("place", range(len(FACTORS)))
    @pytest.mark.parametrize("scale", [1e-6, 0.5])
    def test_the_true_factor_is_found_where_there_is_little_noise(self, place: int, scale: float) -> None:
        """Scales wrong by ten are seen in the size of the information alone."""
        rng = np.random.default_rng(place)
        expected = 0.1 * np.multiply.outer(np.array(FACTORS), np.eye(3))
        heard = 400 * expected[place] + from_svec(scale * rng.normal(size=6), 3)
        item = record(
            Noisy(np.zeros(3), heard),
            theta=np.zeros(3),
            coordinates=np.eye(3),
            scales=Scales(1.0, scale, 1.0),
            size=400,
            expected=expected,
            place=HERE,
            spread=np.asarray(1.0),
        )
        assert believed([item], np.array(FACTORS)) == place
        np.testing.assert_array_equal(item.fit, fits(heard, 400 * expected, np.asarray(scale)))

    def test_fits_are_likelihoods(self) -> None:
        """Of a normal law around each expectation, whose doubt grows with it."""
        rng = np.random.default_rng(4)
        expected = np.multiply.outer(np.array(FACTORS), np.diag([3.0, 2.0, 1.0]))
        heard = from_svec(rng.normal(size=6), 3)
        found = fits(heard, expected, np.asarray(0.7))
        for place, mean in enumerate(expected):
            doubt = np.sqrt(0.7**2 + FIT_DOUBT**2 * (mean**2).sum() / 6)
            wanted = np.sum(norm.logpdf(svec(heard), svec(mean), doubt)) + 3 * np.log(2 * np.pi)
            assert found[place] == pytest.approx(wanted)

    def test_ties_go_to_one(self) -> None:
        """Without a record, or with such as say nothing of factors, or the same of all."""
        factors = np.array(FACTORS)
        silent = made(0, EXACT)._replace(fit=np.zeros(1))
        equal = silent._replace(fit=np.full(len(FACTORS), -7.0))
        for items in ([], [silent], [equal], [equal, silent, equal]):
            assert factors[believed(items, factors)] == 1.0

    def test_drowned_records_leave_it_at_one(self) -> None:
        """Noise alone does not make anybody doubt what was declared."""
        rng = np.random.default_rng(5)
        expected = 0.1 * np.multiply.outer(np.array(FACTORS), np.eye(3))
        items = [
            made(seed, Scales(1e6, 1e6, 1.0))._replace(
                fit=fits(from_svec(1e6 * rng.normal(size=6), 3), 400 * expected, np.asarray(1e6))
            )
            for seed in range(4)
        ]
        assert FACTORS[int(believed(items, np.array(FACTORS)))] == 1.0

    def test_each_world_believes_for_itself(self) -> None:
        """Two worlds, two factors; later records without a fit are left out."""
        fit = np.array([[-9.0, -50.0], [-9.0, -50.0], [-9.0, -50.0], [-9.0, -50.0], [-9.0, 0.0]])
        item = made(0, EXACT)._replace(fit=fit)
        later = item._replace(fit=np.zeros((1, 2)))
        assert believed([item, later], np.array(FACTORS)).tolist() == [2, 4]


class TestRecord:
    """What is kept of a release."""

    def test_information_is_that_of_the_factor_believed_in(self) -> None:
        """A drowned sum leaves the expectation of that factor, floored."""
        expected = np.multiply.outer(np.array(FACTORS), np.diag([0.2, 0.1, 0.0]))
        noise = Scales(1e6, 1e6, 1.0)
        for place in range(len(FACTORS)):
            item = made(0, noise, expected=expected, place=np.asarray(place))
            floor = EIGENVALUE_FLOOR * 400
            wanted = 400 * FACTORS[place] * np.array([0, 0.1, 0.2]) + np.array([floor, 0, 0])
            np.testing.assert_allclose(item.values, wanted, rtol=1e-5)
            assert item.kept == 0
        assert item.fit.shape == (len(FACTORS),)

    def test_eigenvalues_are_floored(self) -> None:
        """A sum that noise made negative is taken for very little."""
        item = made(0, EXACT, expected=np.zeros((1, 3, 3)))
        assert (item.values > 0).all()
        rng = np.random.default_rng(1)
        low = record(
            Noisy(np.zeros(3), -symmetric(rng, 3, 3) @ symmetric(rng, 3, 3)),
            theta=np.zeros(3),
            coordinates=np.eye(3),
            scales=EXACT,
            size=100,
            expected=np.eye(3)[None],
            place=np.asarray(0),
            spread=np.asarray(1.0),
        )
        assert low.values.min() == 100 * EIGENVALUE_FLOOR

    def test_drowned_counts_directions_below_the_score_noise(self) -> None:
        """Eigenvalues under sg² say nothing of their direction."""
        item = made(6, EXACT)
        assert drowned(item) == 0
        assert drowned(item._replace(scales=Scales(1e3, 1.0, 1.0))) == 3


def simulated(theta: FloatArray, at: FloatArray, size: int, rng: np.random.Generator, scales: Scales = EXACT) -> Record:
    """Exact sums of visitors who choose by a logit with these tastes, evaluated elsewhere."""
    dim = theta.size
    rows = rng.normal(size=(size, 3, dim)) / np.sqrt(dim)
    noisy = np.concatenate([rows @ theta, np.zeros((size, 1))], axis=1) + rng.gumbel(size=(size, 4))
    choice = noisy.argmax(1)
    seen = ObservedChoice(rows, np.ones((size, 3), bool), np.where(choice == 3, -1, choice))
    frame = 0.3 * np.eye(dim)
    total = summed(contribution(seen, at, frame, 10.0))
    information = from_svec(total.information, dim)
    return record(
        Noisy(total.score, information),
        theta=at,
        coordinates=frame,
        scales=scales,
        size=size,
        expected=information[None] / size,
        place=np.asarray(0),
        spread=np.asarray(1.0),
    )


def learned(theta: FloatArray, batches: int, size: int, **options: Any) -> Estimate:
    """The estimate after that many releases without noise, each evaluated at the last estimate."""
    rng, dim = np.random.default_rng(3), theta.size
    second, prior = np.eye(dim) / dim, Prior(np.zeros(dim), np.eye(dim), np.zeros((dim, dim)))
    estimate, items = Estimate(prior.theta, prior.precision), []
    for _ in range(batches):
        items.append(simulated(theta, estimate.theta, size, rng))
        estimate = rebuild(items, prior, second, estimate, **options)
    return estimate


def added_by(prior: Prior, item: Record) -> FloatArray:
    """The precision that the prior has in an estimate from one record, in one pass."""
    dim = item.theta.size
    second, current = np.eye(dim) / dim, Estimate(item.theta, 1e6 * np.eye(dim))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "REBUILDS", 1)
        found = rebuild([item], prior, second, current)
    return found.precision - evidence([item], second, current, 1.0).precision


class TestRebuild:
    """The estimate from all records."""

    def test_exact_releases_converge_to_the_truth(self) -> None:
        """Logit choices, exact scores, expected information: the error falls as more visitors come, as it should."""
        theta = np.array([1.0, -2.0, 0.5])
        few, many = learned(theta, 4, 200), learned(theta, 8, 4000)
        assert np.linalg.norm(many.theta - theta) < 0.1
        assert np.linalg.norm(many.theta - theta) < np.linalg.norm(few.theta - theta)

    @pytest.mark.parametrize("size", [300, 3000])
    def test_precision_is_an_honest_measure_of_the_error(self, size: int) -> None:
        """The squared error in units of the precision is about d; it is neither tiny nor far beyond."""
        theta = np.array([0.6, -0.8, 0.4, 0.0])
        found = learned(theta, 4, size)
        error = found.theta - theta
        assert 0.2 < error @ found.precision @ error < 16.0

    def test_one_exact_record_with_a_weak_prior_is_a_newton_step(self) -> None:
        """Without noise and prior the estimate solves H (theta - theta_k) = -g in the record's coordinates."""
        item = made(0, EXACT, size=10**6)
        prior = flat_prior(3)
        estimate = rebuild([item], prior, np.eye(3), Estimate(prior.theta, np.eye(3)), strengths=np.ones(1))
        h = item.vectors @ np.diag(item.values) @ item.vectors.T
        back = np.linalg.inv(item.coordinates).T
        step = np.linalg.solve(h, -item.score)
        np.testing.assert_allclose(back @ (estimate.theta - item.theta), step, rtol=1e-4, atol=1e-12)

    def test_rebuilding_follows_the_formulas_line_by_line(self) -> None:
        """A, b and theta computed once more, record by record, as in the definition."""
        items = [made(s, Scales(2.0, 3.0, 1.0)) for s in range(3)]
        prior = Prior(np.full(3, 0.1), np.diag([2.0, 3.0, 4.0]), np.zeros((3, 3)))
        second, gamma, d = np.diag([0.3, 0.2, 0.1]), 0.9, 3
        theta, A = prior.theta, prior.precision
        for _ in range(2):
            new_A, b = prior.precision.copy(), prior.precision @ prior.theta
            for age, r in enumerate(reversed(items)):
                Li = np.linalg.inv(r.coordinates)
                back = r.vectors.T @ Li.T
                dist = (back @ (theta - r.theta)) ** 2 + np.diag(back @ np.linalg.inv(A) @ back.T)
                s2 = 2.0**2 + (SHAPE_DOUBT * (1 - r.kept)) ** 2 * r.values * (r.values @ dist)
                s2 = s2 + (r.kept * 3.0) ** 2 * (d + 1) / (2 * d) * dist.sum()
                np.testing.assert_allclose(signal_noise(r, theta, np.linalg.inv(A)), s2, rtol=1e-9)
                change = items[-1].theta - r.theta
                far = np.sqrt(change @ second @ change)
                D = gamma**age * np.exp(-np.maximum(far - NEAR, 0.0)) * r.values / (0.8 * r.values + s2)
                H = r.vectors @ np.diag(r.values) @ r.vectors.T
                new_A += Li @ r.vectors @ np.diag(D * r.values) @ r.vectors.T @ Li.T
                b += Li @ r.vectors @ np.diag(D) @ r.vectors.T @ (H @ (Li.T @ r.theta) - r.score)
            A, theta = new_A, np.linalg.solve(new_A, b)
        start = Estimate(prior.theta, prior.precision)
        estimate = rebuild(items, prior, second, start, forgetting=gamma, strengths=np.ones(1))
        np.testing.assert_allclose(estimate.theta, theta, rtol=1e-9)
        np.testing.assert_allclose(estimate.precision, A, rtol=1e-9)

    def test_forgetting_makes_each_older_record_count_less(self) -> None:
        """Three equal records weigh 1 + g + g²; alone, age makes no difference."""
        item, start = made(1, Scales(2.0, 3.0, 1.0)), Estimate(np.zeros(3), np.eye(3))
        one = evidence([item], np.eye(3), start, 0.5)
        np.testing.assert_array_equal(one.precision, evidence([item], np.eye(3), start, 1.0).precision)
        three = evidence([item] * 3, np.eye(3), start, 0.5)
        np.testing.assert_allclose(three.precision, 1.75 * one.precision, rtol=1e-12)
        np.testing.assert_allclose(three.shift, 1.75 * one.shift, rtol=1e-12)

    def test_forgetting_follows_tastes_that_changed(self) -> None:
        """After tastes turn round, a learner that forgets is nearer to the new ones."""
        rng, dim = np.random.default_rng(8), 2
        old, new = np.array([1.0, 1.0]), np.array([-1.0, 1.0])
        prior, second = flat_prior(dim, 1.0), np.eye(dim) / dim
        items = [simulated(old, 0.5 * old, 500, rng) for _ in range(6)]
        items += [simulated(new, 0.5 * old, 500, rng) for _ in range(3)]
        start = Estimate(prior.theta, prior.precision)
        keep, fade = (rebuild(items, prior, second, start, forgetting=g) for g in (1.0, 0.5))
        assert np.linalg.norm(fade.theta - new) < 0.7 * np.linalg.norm(keep.theta - new)

    def test_records_evaluated_far_away_count_less(self) -> None:
        """Their curvature is another: e times less for each unit of utility beyond half a one."""
        item, start = made(2, Scales(2.0, 3.0, 1.0)), Estimate(np.zeros(3), np.eye(3))
        nothing = item._replace(values=np.full(3, 1e-12), score=np.zeros(3))
        for far, counts in ((0.0, 1.0), (NEAR, 1.0), (NEAR + 1.0, np.exp(-1.0))):
            last = nothing._replace(theta=item.theta + np.array([far, 0.0, 0.0]))
            found = evidence([item, last], np.eye(3), start, 1.0)
            usual = evidence([item, nothing], np.eye(3), start, 1.0)
            np.testing.assert_allclose(found.precision, counts * usual.precision, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize("strength", [1e3, 1e6])
    def test_a_release_moves_utilities_by_so_much_at_most(self, strength: float) -> None:
        """A wild score moves them by 1.5, as a root mean square, in its direction; a mild one all the way."""
        item = made(3, EXACT)
        wild = item._replace(score=strength * np.array([1.0, 2.0, 3.0]))
        second, prior = np.diag([4.0, 1.0, 0.5]), flat_prior(3)
        start = Estimate(prior.theta, np.eye(3))
        far = rebuild([wild], prior, second, start, strengths=np.ones(1)).theta - item.theta
        assert np.sqrt(far @ second @ far) == pytest.approx(STEP)
        mild = rebuild([item], prior, second, start, strengths=np.ones(1)).theta - item.theta
        assert np.sqrt(mild @ second @ mild) < STEP

    def test_strengths_are_read_from_the_evidence(self) -> None:
        """No signal pulls tastes together beyond the prior, strong ones let them go; little evidence leaves 1."""
        rng, dim = np.random.default_rng(9), 12
        prior = Prior(np.zeros(dim), np.eye(dim), np.zeros((dim, dim)))

        def chosen(size: float, count: int) -> float:
            theta = size * rng.normal(size=dim)
            added = added_by(prior, simulated(theta, theta, count, rng))
            np.testing.assert_allclose(added, np.eye(dim) * added[0, 0], rtol=1e-6, atol=1e-6 * added[0, 0])
            return float(1 / added[0, 0])

        assert chosen(0.0, 20_000) < 0.1
        assert 0.3 < chosen(1.0, 20_000) < 3.0
        assert chosen(5.0, 20_000) > 8.0
        assert chosen(0.0, 3) == pytest.approx(1.0, rel=1e-9)  # what is added is a difference, which rounds

    def test_the_level_is_not_stretched_with_tastes(self) -> None:
        """Weak tastes say nothing of how many choose: the precision of the level stays."""
        rng, dim = np.random.default_rng(10), 6
        level, tastes = np.diag([1.0, 0, 0, 0, 0, 0]), np.diag([0.0, 1, 1, 1, 1, 1])
        prior = Prior(np.zeros(dim), tastes, level)
        added = added_by(prior, simulated(np.zeros(dim), np.zeros(dim), 20_000, rng))
        assert added[0, 0] == pytest.approx(1.0, rel=1e-6)
        assert (np.diag(added)[1:] > 5.0).all()

    def test_a_given_prior_is_used_as_it_is(self) -> None:
        """With the one strength, 1, a drowned record leaves it alone, whatever the record says."""
        prior = Prior(np.array([1.0, -1.0, 2.0]), np.diag([5.0, 6.0, 7.0]), np.zeros((3, 3)))
        drowned_item = made(4, Scales(1e9, 1e9, 1.0))._replace(theta=prior.theta)
        start = Estimate(prior.theta, prior.precision)
        found = rebuild([drowned_item], prior, np.eye(3), start, strengths=np.ones(1))
        np.testing.assert_allclose(found.theta, prior.theta, rtol=1e-6)
        np.testing.assert_allclose(found.precision, prior.precision, rtol=1e-6, atol=1e-9)

    def test_each_world_is_rebuilt_as_if_alone(self) -> None:
        """To the bit, with other strengths and steps beside it."""
        worlds = [[made(10 * w + s, Scales(2.0, 3.0, 1.0)) for s in range(3)] for w in range(4)]
        for w, items in enumerate(worlds):
            items[1] = items[1]._replace(score=items[1].score * 10.0**w)
        arrays = ("theta", "coordinates", "score", "vectors", "values", "kept", "spread", "fit")

        def beside(place: int) -> Record:
            parts: dict[str, Any] = {name: np.stack([getattr(own[place], name) for own in worlds]) for name in arrays}
            return worlds[0][place]._replace(**parts)

        together = [beside(place) for place in range(3)]
        wide = np.broadcast_to(np.eye(3), (4, 3, 3))
        prior = Prior(np.zeros((4, 3)), wide, np.zeros((4, 3, 3)))
        found = rebuild(together, prior, 0.3 * wide, Estimate(prior.theta, prior.precision))
        for w, items in enumerate(worlds):
            own = Prior(np.zeros(3), np.eye(3), np.zeros((3, 3)))
            alone = rebuild(items, own, 0.3 * np.eye(3), Estimate(own.theta, own.precision))
            np.testing.assert_array_equal(found.theta[w], alone.theta)
            np.testing.assert_array_equal(found.precision[w], alone.precision)

    def test_strengths_have_one_in_their_middle(self) -> None:
        """What is most likely before any release is that tastes are as the prior says."""
        assert STRENGTHS[len(STRENGTHS) // 2] == 1.0
        np.testing.assert_allclose(STRENGTHS * STRENGTHS[::-1], 1.0)
