"""The demonstration, made short: its page, its figures, its audit."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from quietshelf.demo import shop as demo
from quietshelf.model.types import NOTHING
from quietshelf.privacy.statistics import ObservedChoice, contribution, svec
from quietshelf.research.auditing import Claim, audit

SHORT = ["--horizon", "400", "--replicates", "2", "--visitors", "230", "--runs", "40", "--workers", "1", "--no-open"]


class Links(HTMLParser):
    """Everything a page would load from somewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("src", "href") and tag != "a"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, object], str, str]:
    """The JSON, the page and the talk of one run."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "quietshelf", "demo", "--out", str(folder), *SHORT, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), (folder / "report.html").read_text(encoding="utf-8"), done.stderr


def test_demo_json_has_every_policy_with_its_curve_and_proven_rho(run: tuple[dict[str, object], str, str]) -> None:
    """Five policies face the same visitors; the printed calibration states the proven cost beside the claimed one."""
    found = run[0]
    policies = {row["policy"]: row for row in found["policies"]}  # type: ignore[attr-defined]
    assert list(policies) == list(demo.LABELS.values())
    assert policies["no privacy"]["rho"] == "infinity"
    printed = policies[demo.LABELS["printed"]]
    assert printed["rho"] == "infinity"  # features lie outside the unit ball, for which its noise is made
    assert printed["claimed_rho"] > 0
    assert policies[demo.LABELS["quiet"]]["rho"] == pytest.approx(1.0)
    visitors = found["visitors"]
    assert all(len(row["curve"]["regret"]) == len(visitors) for row in policies.values())  # type: ignore[arg-type]


def test_demo_page_needs_nothing_from_elsewhere_and_tells_the_story(run: tuple[dict[str, object], str, str]) -> None:
    """One file: regret, price, promise, audit, what next; its path is printed, no browser is started."""
    _, page, talk = run
    links = Links()
    links.feed(page)
    assert links.found == []
    assert "@import" not in page
    assert "url(" not in page
    for heading in ("Revenue lost while learning", "The price of privacy", "What is promised", "audit", "What next"):
        assert heading in page
    assert "joint differential privacy is promised with rho = 1" in page
    assert re.search(r"report: .*report\.html", talk)


def test_audited_worlds_differ_in_the_target_only() -> None:
    """With the noise taken away the two worlds' sums differ by one visitor's contribution, within its bounds."""
    means = [np.mean(demo.shelf_runs(True, secret, 400, np.random.default_rng(0)), axis=0) for secret in (True, False)]
    score = np.linalg.norm(means[0][: demo.WORLD.dim] - means[1][: demo.WORLD.dim])
    # 400 runs each: the difference is known to 1.41 sqrt(2/400) = 0.1 along any direction; six times that
    assert score == pytest.approx(_moved_by_the_target(), abs=0.6)
    exact = [demo.exact_runs(secret, 3, np.random.default_rng(0)) for secret in (True, False)]
    assert np.ptp(exact[0], axis=0).max() == 0
    assert np.abs(exact[0] - exact[1]).max() > 1e-3
    assert svec(np.eye(demo.WORLD.dim)).size + demo.WORLD.dim == means[0].size


def _moved_by_the_target() -> float:
    """How far apart the scores are of those who buy the most telling product, shown alone, and who do not."""
    shelf = demo.new_shelf()
    shelf.offer()
    batch, rows = shelf.batches[0].frozen, np.array(demo.products()[[demo.most_telling()]])
    visitor = ObservedChoice(np.stack([rows, rows]), np.ones((2, 1), dtype=bool), np.array([0, NOTHING]))
    bought, left = contribution(visitor, batch.theta, batch.coordinates, batch.scales.bound).score
    return float(np.linalg.norm(bought - left))


def test_audit_of_the_demo_would_notice_a_broken_promise() -> None:
    """The attack on the most telling product refutes a claim of rho = 0.005 and not that of rho = 1.

    4,000 runs in each world. A sound claim is refuted with a chance below 0.001, here far below, since this pair costs
    about 0.25: means are 0.7 standard deviations apart where 0.005 allows 0.1.
    """
    subject = demo.subjects()[1]
    found = audit(subject, runs=4000, rng=np.random.default_rng(1))
    assert not found.refuted
    assert replace(found, claim=Claim(rho=0.005, gaussian=True)).refuted
