"""One audit over several tests: the same findings on any number of processes, one verdict, plain words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quietshelf.research.auditing import Audit, run_audit, tasks, usual
from quietshelf.research.auditing.mechanisms import KNOWN_FALSE
from quietshelf.research.auditing.verdicts import near, sentence, summary, verdict, verdict_on_rates


@pytest.fixture(scope="module")
def found() -> Audit:
    """A sound tree, the printed one, and a policy without privacy."""
    return run_audit(tasks(["gram-tree", "gram-tree-paper"], ["ofu-mnl"], 1.0), runs=2000)


def test_findings_do_not_depend_on_the_number_of_processes() -> None:
    """Two workers give what one gives, in the same order; progress is reported to the end."""
    wanted, heard = tasks(["gram-tree", "gram-toeplitz"], [], 1.0), []
    one = run_audit(wanted, runs=400)
    two = run_audit(wanted, runs=400, workers=2, progress=lambda done, total: heard.append((done, total)))
    assert [finding.rho for finding in one.findings] == [finding.rho for finding in two.findings]
    assert [finding.name for finding in two.findings] == ["gram tree"] * 2 + ["gram toeplitz"] * 2
    assert heard[-1] == (4, 4)


def test_usual_audit_covers_mechanisms_and_policies() -> None:
    """Everything shipped as sound, and the two without privacy for comparison; thorough has all calibrations."""
    names = {task.name for task in usual(1.0, thorough=False)}
    assert {"shelf", "batch-pair", "gram-tree", "private-fit", "quiet", "dpmnl", "greedy", "ucb-mnl"} <= names
    more = {task.name for task in usual(1.0, thorough=True)}
    assert names < more
    assert not more & set(KNOWN_FALSE)


def test_one_refuted_claim_refutes_the_audit(found: Audit) -> None:
    """The printed tree, and only it."""
    assert found.refuted
    assert [verdict(finding) for finding in found.findings[:4]] == ["not refuted"] * 2 + ["REFUTED"] * 2
    assert {verdict(finding) for finding in found.findings[4:]} == {"no claim"}


def test_a_rate_above_the_limit_is_said_to_be_within_sampling_error(found: Audit) -> None:
    """What is not refuted never reads like a breach; what is refuted has no excuse."""
    finding = found.findings[0]
    *_, limit = near(finding)
    assert limit is not None
    lucky = replace(finding, roc=finding.roc._replace(power=np.full_like(finding.roc.power, (limit + 1) / 2)))
    unlucky = replace(finding, roc=finding.roc._replace(power=np.zeros_like(finding.roc.power)))
    assert verdict_on_rates(lucky) == "not refuted, the difference is within sampling error"
    assert "within sampling error" in sentence(lucky)
    assert verdict_on_rates(unlucky) == "not refuted"
    assert verdict_on_rates(found.findings[2]) == "REFUTED"


def test_words_say_what_was_found(found: Audit) -> None:
    """For a privacy officer: what is refuted by name, what the promise allows, what nothing limits."""
    first, *rest = summary(found)
    text = " ".join(rest)
    assert first.startswith("Refuted: gram tree, as printed in the paper.")
    assert "99.9 %" in text
    assert "compatible with the promise" in sentence(found.findings[0])
    assert "cannot be true" in sentence(found.findings[2])
    assert "nothing limits an attacker" in sentence(found.findings[4])


def test_unknown_names_are_refused() -> None:
    """Before anything runs."""
    with pytest.raises(ValueError, match=r"mechanism must be one of .*, got mechanism='magic'"):
        tasks(["magic"], [], 1.0)
    with pytest.raises(ValueError, match=r"policy must be one of .*, got policy='magic'"):
        tasks([], ["magic"], 1.0)
