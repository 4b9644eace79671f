"""Every example runs as it stands, made short by its argument, and shows what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(name: str, size: int) -> str:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLES / f"{name}.py", str(size)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def figures(text: str, pattern: str) -> dict[str, float]:
    return {name: float(value) for name, value in re.findall(pattern, text)}


def test_own_policy_learns() -> None:
    """One line a contestant; those that learn lose less than half of what chance loses."""
    regret = figures(run("own_policy", 1000), r"(?m)^(\w+) +([\d.]+) ±")
    assert set(regret) == {"coin", "greedy", "uniform"}
    assert max(regret["coin"], regret["greedy"]) < regret["uniform"] / 2


def test_web_shop_goes_on_after_closing() -> None:
    """Two days through the routes, one shelf that remembers the first: to visits, for nobody signs in."""
    said = run("web_shop", 200)
    assert re.findall(r"day (\d): \d+ % of 100 readers bought a book, (\d+) came", said) == [("1", "100"), ("2", "200")]
    assert "each visit, not each person" in said
    assert "rho = 1 (zCDP)" in said


def test_web_shop_can_be_served(tmp_path: Path) -> None:
    """By uvicorn: a module that reads no arguments and saves its shelf before anybody comes; no GET counts a visit."""
    code = (
        "import asyncio, sys; sys.argv = ['uvicorn', 'web_shop:app']; import web_shop\n"
        "async def opened():\n"
        "    async with web_shop.open_hours(web_shop.app): print(web_shop.app.state.saved.exists())\n"
        "asyncio.run(opened())\n"
        "print(*[route.methods for route in web_shop.app.routes if route.path == '/offer'])"
    )
    path = os.pathsep.join([str(ROOT / "src"), str(EXAMPLES)])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "True\n{'POST'}\n", done.stderr


def test_hotel_search_earns_more_than_chance() -> None:
    """After a few hundred travellers most of the commission is earned, and far more than by random offers."""
    share = figures(run("hotel_search", 300), r"(\w+) +[\d.]+ a traveller, +([\d.]+) %")
    assert share["quiet"] > share["random"] + 15


def test_news_clicks_survive_a_changing_catalogue() -> None:
    """Five days with new articles every night: on the last three, 15 % more readers click than on random articles.

    Of 900 readers; by chance alone the difference has a standard error of at most 1/sqrt(900), a fifth of that.
    """
    found = re.findall(r"day (\d): ([\d.]+) % of readers click, ([\d.]+) %", run("news_clicks", 1500))
    assert [day for day, _, _ in found] == ["1", "2", "3", "4", "5"]
    assert sum(float(learnt) - float(chance) for _, learnt, chance in found[2:]) / 3 > 15


def test_audit_of_an_own_policy_tells_right_from_wrong() -> None:
    """The forgotten sqrt(2) is found; the repaired version is not refuted."""
    said = run("audit_own_policy", 20_000)
    assert re.search(r"a mistake: .*: REFUTED", said)
    assert re.search(r"sensitivity sqrt\(2\): .*: not refuted", said)


def test_private_coefficients_come_near_the_truth() -> None:
    """Estimates of both tastes within six of their standard errors, noise counted (chance of failure below 1e-6)."""
    said = run("private_coefficients", 4000)
    for name, truth in (("price", -0.8), ("rating", 0.6)):
        line = re.search(rf"{name} +\S+ +\S+ +(\S+) +(\S+)", said)
        assert line is not None
        assert float(line[1]) == pytest.approx(truth, abs=6 * float(line[2]))
    assert "each person" in said
    assert "first visitor hotels [1, 3]" in said
    assert "promised rho = 2 at most" in said


def test_drifting_tastes_are_followed_by_those_who_forget() -> None:
    """A line per setting, mean and 90 % quantile of each shop; all learn, none is worse than half of random."""
    said = run("drifting_tastes", 200)
    lines = re.findall(r"(?m)^(max_batch=\S+ forgetting=\S+|ucb-mnl) +(.*)$", said)
    assert len(lines) == 7
    for _, cells in lines:
        shares = re.findall(r"([\d.]+) % \(([\d.]+) %\)", cells)
        assert len(shares) == 3
        assert all(0 < float(mean) < 50 for mean, _ in shares)


def test_every_example_is_tested() -> None:
    """A new example must have a test here."""
    here = Path(__file__).read_text(encoding="utf-8")
    assert all(f'run("{path.stem}"' in here for path in EXAMPLES.glob("*.py"))
