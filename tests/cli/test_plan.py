"""Plans: what is said before a shop opens."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.cli.command import command
from tests.curation.priors import not_private, prior

from quietshelf.data.tables import Schema, category, number
from quietshelf.privacy.accounting import epsilon_of, rho_of
from quietshelf.research.environments import Synthetic
from quietshelf.research.experiments import planning
from quietshelf.research.experiments.planning import Wish, plan, sizes
from quietshelf.research.experiments.revenue import best_revenue
from quietshelf.research.loop import contestant, simulate

SHOP = ["--items", "12", "--capacity", "3", "--dim", "2", "--visitors", "400", "--workers", "1"]


def test_plan_prints_tables_and_writes_page_and_plot(tmp_path: Path) -> None:
    """Every question of the plan has its table; the page and the picture are written where they were asked for."""
    page, plot = tmp_path / "plan.html", tmp_path / "plan.svg"
    done = command("plan", *SHOP, "--epsilon", "2", "--returns", "3", "--report", str(page), "--plot", str(plot))
    assert done.returncode == 0, done.stderr
    for title in ("The promise", "What to expect", "More privacy, or less", "The person cap", "Noise"):
        assert title in done.stdout
        assert title in page.read_text(encoding="utf-8")
    assert "ε = 2 at δ = 1e-06" in done.stdout
    text = page.read_text(encoding="utf-8")
    assert re.search(r'<p class="headline pledge"><b>[\d.]+ ± [\d.]+ %</b> of the revenue without privacy', text)
    assert set(re.findall(r"ρ = ([\d.]*\d)", text)) == set(re.findall(r"ρ = ([\d.]*\d)", done.stdout))
    assert plot.read_text(encoding="utf-8").startswith("<?xml")


def test_plan_json_divides_the_budget_as_the_ledger_adds_it_up() -> None:
    """Two shelves get half of rho each; noise follows from it; a cap of v spends rho / v a release."""
    found = json.loads(command("plan", *SHOP, "--rho", "2", "--shelves", "2", "--json").stdout)
    assert found["rho_of_shelf"] == 1.0
    assert found["epsilon"] == pytest.approx(epsilon_of(2.0, 1e-6))
    assert found["noise"]["quiet"]["score"] == pytest.approx(2**0.5)
    assert found["first_release"] == 123  # 1.3 sqrt(d) / 0.03 visitors, twice that for rho = 1
    assert found["expected"]["cap 5"]["visits"] == 5
    assert {"quiet", "dpmnl", "no privacy", "random offers"} <= set(found["expected"])
    assert all(one["regret"]["half"] >= 0 for one in found["expected"].values())


def test_plan_refuses_two_wishes() -> None:
    """Epsilon and rho together contradict each other."""
    done = command("plan", "--epsilon", "1", "--rho", "1")
    assert done.returncode == 2
    assert "give epsilon or rho, not both" in done.stderr


def test_wished_variant_is_the_simulation_anybody_could_run() -> None:
    """The plan's figure for quiet is that of `simulate` at the same settings and seed."""
    wish = Wish(items=12, capacity=3, dim=2, visitors=300, rho=rho_of(3.0, 1e-6))
    found = plan(wish)
    horizon, replicates = sizes(wish)
    entrant = contestant("quiet", rho=wish.rho)
    result = simulate(wish.world, [entrant], horizon=horizon, replicates=replicates, seed=wish.seed)
    np.testing.assert_allclose(found.wished.final, result.regret[entrant.label][:, -1])
    assert found.wished.lost.mean < found.expected["uniform"].lost.mean


def test_capped_visits_count_for_nothing() -> None:
    """A curator that counts no visits learns nothing: its estimate stays noise."""
    made = planning.Variant(label="none", policy="quiet", quiet=Wish(rho=1e6).quiet(), counted=0.0).contestant(1.0)
    world = Synthetic(items=12, capacity=3, dim=2, contexts="clipped")
    lost = simulate(world, [made, "uniform", "greedy"], horizon=400, replicates=6, seed=0)
    final = {label: float(regret[:, -1].mean()) for label, regret in lost.regret.items()}
    assert final["none"] > 10 * final["greedy"]


def test_sizes_follow_the_shop_and_keep_the_work_bounded() -> None:
    """Larger shops are simulated for fewer visitors, never for fewer than four replicates, whatever is asked for."""
    small, large = sizes(Wish()), sizes(Wish(items=5000, dim=30, visitors=10**6))
    assert small == (10_000, 7)
    assert large[1] == planning.FEWEST
    assert large[0] < small[0]
    assert sizes(Wish(visitors=200)) == (200, planning.MOST)


def test_best_revenue_is_what_the_oracle_earns() -> None:
    """The worth of a visitor: with equal revenues 1 and one place it is the largest choice probability, by hand."""
    world = Synthetic(items=3, capacity=1, dim=1, theta=(2.0,), fixed=True)
    worth = best_revenue(world, replicates=2, seed=4)
    seeds = [np.random.SeedSequence(4, spawn_key=(place, 0)) for place in range(2)]
    features = world.open(seeds).context(0).features.rows(np.tile(np.arange(3), (2, 1)))[..., 0]
    weight = np.exp(2.0 * features.max(axis=1))
    np.testing.assert_allclose(worth, weight / (1 + weight))


def test_plan_takes_a_prior_and_adds_its_cost(tmp_path: Path) -> None:
    """Dimension from the file, rho of both, and what the head start is worth."""
    prior().save(tmp_path / "prior.json")
    shop = ["--items", "12", "--capacity", "3", "--visitors", "400", "--workers", "1", "--conversion", "0.2"]
    found = json.loads(command("plan", *shop, "--prior", str(tmp_path / "prior.json"), "--json").stdout)
    assert found["wish"]["dim"] == 3
    assert (found["rho_of_log"], found["rho_with_log"]) == (0.75, 1.75)
    assert found["epsilon"] == pytest.approx(epsilon_of(1.75, 1e-6))
    with_log, without = (found["expected"][name]["regret"]["mean"] for name in ("quiet", "without the log"))
    assert with_log < without
    assert any("a person in it who also visits is promised ρ = 1.75 in all" in line for line in found["advice"])
    call = ["plan", *shop, "--prior", str(tmp_path / "prior.json"), "--epsilon", "7"]
    kept = json.loads(command(*call, "--json").stdout)
    assert 6.999 < kept["epsilon"] <= 7.0
    assert kept["rho_of_shelf"] == pytest.approx(rho_of(7.0, 1e-6) - 0.75)
    assert "promise to a person who is in the log too" in command(*call).stdout


def test_a_sure_log_leaves_little_to_lose_and_a_vague_one_changes_little() -> None:
    """Errors of tastes are drawn to match the precision that the file claims."""
    size = {"items": 12, "capacity": 3, "dim": 3, "visitors": 300, "conversion": 0.2}
    lost = {}
    for name, precision in (("vague", 1e-4), ("sure", 1e4)):
        found = plan(Wish(**size, log=prior(precision=precision * np.eye(3))))  # type: ignore[arg-type]
        lost[name], lost["none"] = found.wished.regret.mean, found.expected[planning.WITHOUT_LOG].regret.mean
    assert lost["sure"] < 0.1 * lost["none"]
    assert lost["vague"] == pytest.approx(lost["none"], rel=0.5)


def test_plan_refuses_a_prior_that_does_not_fit(tmp_path: Path) -> None:
    """Another dimension, no units, no promise."""
    for given, arguments, rule in (
        (prior(), ["--dim", "5"], "dim must be that of the prior, 3, got dim=5"),
        (prior(scales=None), [], "the prior must be of a log with declared scales: fit the log again with --scales"),
        (prior(), ["--epsilon", "6"], "epsilon must be above"),
        (not_private(), [], "this prior is not private"),
    ):
        given.save(tmp_path / "prior.json")
        done = command("plan", "--prior", str(tmp_path / "prior.json"), *arguments)
        assert done.returncode == 2
        assert rule in done.stderr


def test_a_prior_of_a_schema_is_planned_in_standard_deviations() -> None:
    """A category of two levels has one of a half: its taste per standard deviation is half as large, and surer."""
    schema = Schema(items={"price": number(scale=40)}, visitors={"member": category(["no", "yes"])})
    given = prior(
        precision=np.eye(3),
        visitor_names=schema.visitor_names,
        item_names=("price",),
        scales=None,
        schema=schema.to_dict(),
    )
    np.testing.assert_allclose(np.diagonal(given.precision_in_units()), [1.0, 4.0, 1.0])
