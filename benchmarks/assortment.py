"""The best assortment against a linear programme, a bare selection, and a Python loop."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, vstack

from benchmarks import duration, seconds, table
from quietshelf.model.assortment import best, items_for
from quietshelf.model.choice.features import Dense
from quietshelf.model.types import Context, FloatArray

HEAD = ("", "best", "the other way", "other / best", "best / other")


def main() -> None:
    """Print the comparisons, then what one call costs in a hot loop."""
    rng = np.random.default_rng(0)
    table("best assortment, revenues differ", HEAD, [_programme(rng), _selection(rng), _loop(rng)])
    head = ("worlds", "revenues differ", "revenues equal")
    table("items_for, N=100, K=10, a call", head, [_hot(rng, 30), _hot(rng, 100)])


def _programme(rng: np.random.Generator) -> tuple[str, ...]:
    weight, revenue = rng.lognormal(size=10_000), rng.uniform(size=10_000)
    fast = seconds(lambda: best(weight, revenue, capacity=10), number=10)
    slow = seconds(lambda: highs(weight, revenue, 10), runs=3)
    found = float(best(weight, revenue, capacity=10).expected_revenue)
    np.testing.assert_allclose(found, highs(weight, revenue, 10), rtol=1e-7)
    return _row("N=10^4, K=10: linear programme (HiGHS)", fast, slow)


def _selection(rng: np.random.Generator) -> tuple[str, ...]:
    weight, revenue = rng.lognormal(size=1_000_000), rng.uniform(size=1_000_000)
    fast = seconds(lambda: best(weight, revenue, capacity=10))
    return _row("N=10^6, K=10: np.argpartition(weight)", fast, seconds(lambda: np.argpartition(weight, -10)))


def _loop(rng: np.random.Generator) -> tuple[str, ...]:
    weight, revenue = rng.lognormal(size=(10_000, 20)), rng.uniform(size=(10_000, 20))
    problems = list(zip(weight, revenue, strict=True))
    one_by_one = np.array([best(w, r, capacity=5).items for w, r in problems])
    np.testing.assert_array_equal(best(weight, revenue, capacity=5).items, one_by_one)
    fast = seconds(lambda: best(weight, revenue, capacity=5))
    slow = seconds(lambda: [best(w, r, capacity=5) for w, r in problems], runs=2)
    return _row("10^4 problems of N=20, K=5: Python loop", fast, slow)


def _hot(rng: np.random.Generator, worlds: int) -> tuple[str, ...]:
    """Mean over twenty instances of the best of 50 rounds of five calls."""
    times = []
    for _ in range(20):
        utility, revenue = rng.normal(size=(worlds, 100)), rng.uniform(0.5, 1.5, (worlds, 100))
        contexts = [Context(Dense(utility[..., None]), r, 10) for r in (revenue, np.ones_like(revenue))]
        calls = [partial(items_for, context, utility, context.revenue) for context in contexts]
        times.append([seconds(call, number=5, runs=50) for call in calls])
    return str(worlds), *(duration(value) for value in np.mean(times, axis=0))


def highs(weight: FloatArray, revenue: FloatArray, capacity: int) -> float:
    """The Charnes-Cooper linear programme: x_i = y0 for items shown, y0 the chance of no choice; exact at a vertex."""
    items = len(weight)
    shown = hstack([eye_array(items), csr_array(-np.ones((items, 1)))])
    few = csr_array(np.append(np.ones(items), -float(capacity))[None])
    answer = linprog(  # type: ignore[call-overload]  # its stubs know no sparse matrices
        -np.append(weight * revenue, 0.0),
        A_ub=vstack([shown, few]),
        b_ub=np.zeros(items + 1),
        A_eq=np.append(weight, 1.0)[None],
        b_eq=[1.0],
        method="highs",
    )
    return -float(answer.fun)


def _row(name: str, fast: float, slow: float) -> tuple[str, ...]:
    return name, duration(fast), duration(slow), f"{slow / fast:.3g}", f"{fast / slow:.3g}"


if __name__ == "__main__":
    main()
